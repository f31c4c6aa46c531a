"""Large graphs for the e-graph: a decoder's inference, and its training written out.

In: sizes. Out: `GraphOp`s. The training step is forward, backward and AdamW as plain operations, by
a tape that emits the backward pass of each step of the forward pass.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp, ReadOp, ReturnOp
from mgn.dialects.types import tensor

TOKENS, HEADS, SIZE, HIDDEN = 64, 4, 32, 352
WIDTH = HEADS * SIZE
SHAPES: dict[str, tuple[int, ...]] = {
    "norm1": (WIDTH,),
    "norm2": (WIDTH,),
    "q": (WIDTH, WIDTH),
    "k": (WIDTH, WIDTH),
    "v": (WIDTH, WIDTH),
    "o": (WIDTH, WIDTH),
    "gate": (HIDDEN, WIDTH),
    "up": (HIDDEN, WIDTH),
    "down": (WIDTH, HIDDEN),
}
BIASES = ("q", "k", "v", "o", "gate", "up", "down")


def inference_graph(layers: int) -> GraphOp:
    """A decoder of composites, each layer with its own weights: about 45 operations a layer."""
    block, b = _start()
    x, cosine, sine, mask = block.args
    for layer in range(layers):
        weights = {name: read(b, f"{layer}.{name}", shape) for name, shape in SHAPES.items()}
        h = b.rms_norm(x, weights["norm1"])
        q, k, v = (_heads(b, b.linear(h, weights[name])) for name in "qkv")
        q, k = (_rotate(b, value, cosine, sine) for value in (q, k))
        scores = b.add(b.mul(b.matmul(q, k, transpose_b=True), SIZE**-0.5), mask)
        mixed = b.matmul(b.softmax(scores), v)
        x = b.add(x, b.linear(_joined(b, mixed), weights["o"]))
        h = b.rms_norm(x, weights["norm2"])
        gated = b.mul(b.silu(b.linear(h, weights["gate"])), b.linear(h, weights["up"]))
        x = b.add(x, b.linear(gated, weights["down"]))
    return _finish(block, [x])


def training_graph(layers: int) -> GraphOp:
    """One training step of a decoder: forward, backward, AdamW; over 400 operations a layer."""
    block, b = _start()
    x, cosine, sine, mask = block.args
    tape = Tape(b)
    parameters: list[SSAValue] = []
    for layer in range(layers):
        weights = {name: read(b, f"{layer}.{name}", shape) for name, shape in SHAPES.items()}
        biases = {name: read(b, f"{layer}.{name}.b", SHAPES[name][:1]) for name in BIASES}
        parameters += [*weights.values(), *biases.values()]
        x = tape.layer(x, weights, biases, cosine, sine, mask)
    tape.add_gradient(x, b.mul(x, 2.0 / (TOKENS * WIDTH)))
    tape.backward()
    return _finish(block, adamw(b, parameters, tape.gradients))


class Tape:
    """Emits operations and remembers how each one's gradient is emitted."""

    def __init__(self, b: Emitter) -> None:
        self.b = b
        self.steps: list[Callable[[], None]] = []
        self.gradients: dict[SSAValue, SSAValue] = {}

    def backward(self) -> None:
        """Emits the backward pass."""
        for step in reversed(self.steps):
            step()

    def add_gradient(self, value: SSAValue, gradient: SSAValue) -> None:
        known = self.gradients.get(value)
        self.gradients[value] = gradient if known is None else self.b.add(known, gradient)

    def layer(
        self,
        x: SSAValue,
        weights: dict[str, SSAValue],
        biases: dict[str, SSAValue],
        cosine: SSAValue,
        sine: SSAValue,
        mask: SSAValue,
    ) -> SSAValue:
        """One decoder layer."""
        h = self.norm(x, weights["norm1"])
        q, k, v = (self.heads(self.linear(h, weights[name], biases[name])) for name in "qkv")
        q, k = (self.rotate(value, cosine, sine) for value in (q, k))
        mixed = self.joined(self.attention(q, k, v, mask))
        x = self.sum(x, self.linear(mixed, weights["o"], biases["o"]))
        h = self.norm(x, weights["norm2"])
        gate = self.linear(h, weights["gate"], biases["gate"])
        up = self.linear(h, weights["up"], biases["up"])
        return self.sum(x, self.linear(self.gated(gate, up), weights["down"], biases["down"]))

    def sum(self, x: SSAValue, y: SSAValue) -> SSAValue:
        result = self.b.add(x, y)

        def step() -> None:
            for operand in (x, y):
                self.add_gradient(operand, self.gradients[result])

        self.steps.append(step)
        return result

    def linear(self, x: SSAValue, w: SSAValue, bias: SSAValue) -> SSAValue:
        b = self.b
        result = b.add(b.matmul(x, b.transpose(w, [1, 0])), bias)

        def step() -> None:
            gradient = self.gradients[result]
            self.add_gradient(bias, b.sum(gradient, axis=0))
            self.add_gradient(w, b.matmul(b.transpose(gradient, [1, 0]), x))
            self.add_gradient(x, b.matmul(gradient, w))

        self.steps.append(step)
        return result

    def norm(self, x: SSAValue, w: SSAValue) -> SSAValue:
        b = self.b
        square = b.mul(b.sum(b.mul(x, x), axis=1, keepdims=True), 1.0 / WIDTH)
        root = b.rsqrt(b.add(square, 1e-5))
        normal = b.mul(x, root)
        result = b.mul(normal, w)

        def step() -> None:
            gradient = self.gradients[result]
            self.add_gradient(w, b.sum(b.mul(gradient, normal), axis=0))
            inner = b.mul(gradient, w)
            along = b.mul(b.sum(b.mul(inner, normal), axis=1, keepdims=True), 1.0 / WIDTH)
            self.add_gradient(x, b.mul(b.sub(inner, b.mul(normal, along)), root))

        self.steps.append(step)
        return result

    def heads(self, x: SSAValue) -> SSAValue:
        result = _heads(self.b, x)
        self.steps.append(lambda: self.add_gradient(x, _joined(self.b, self.gradients[result])))
        return result

    def joined(self, x: SSAValue) -> SSAValue:
        result = _joined(self.b, x)
        self.steps.append(lambda: self.add_gradient(x, _heads(self.b, self.gradients[result])))
        return result

    def rotate(self, x: SSAValue, cosine: SSAValue, sine: SSAValue) -> SSAValue:
        b = self.b
        result = _rotate(b, x, cosine, sine)

        def step() -> None:
            gradient = self.gradients[result]
            self.add_gradient(x, _rotate(b, gradient, cosine, b.neg(sine)))

        self.steps.append(step)
        return result

    def attention(self, q: SSAValue, k: SSAValue, v: SSAValue, mask: SSAValue) -> SSAValue:
        b = self.b
        scores = b.add(b.mul(b.matmul(q, b.transpose(k, [0, 2, 1])), SIZE**-0.5), mask)
        shifted = b.exp(b.sub(scores, b.max_reduce(scores, axis=-1, keepdims=True)))
        share = b.div(shifted, b.sum(shifted, axis=-1, keepdims=True))
        result = b.matmul(share, v)

        def step() -> None:
            gradient = self.gradients[result]
            self.add_gradient(v, b.matmul(b.transpose(share, [0, 2, 1]), gradient))
            weighted = b.matmul(gradient, b.transpose(v, [0, 2, 1]))
            mean = b.sum(b.mul(weighted, share), axis=-1, keepdims=True)
            inner = b.mul(b.mul(share, b.sub(weighted, mean)), SIZE**-0.5)
            self.add_gradient(q, b.matmul(inner, k))
            self.add_gradient(k, b.matmul(b.transpose(inner, [0, 2, 1]), q))

        self.steps.append(step)
        return result

    def gated(self, gate: SSAValue, up: SSAValue) -> SSAValue:
        b = self.b
        sigmoid = b.recip(b.add(b.exp(b.neg(gate)), 1.0))
        active = b.mul(gate, sigmoid)
        result = b.mul(active, up)

        def step() -> None:
            gradient = self.gradients[result]
            self.add_gradient(up, b.mul(gradient, active))
            slope = b.mul(sigmoid, b.add(b.mul(gate, b.sub(1.0, sigmoid)), 1.0))
            self.add_gradient(gate, b.mul(b.mul(gradient, up), slope))

        self.steps.append(step)
        return result


def adamw(
    b: Emitter, parameters: Sequence[SSAValue], gradients: dict[SSAValue, SSAValue]
) -> list[SSAValue]:
    """New parameters and moments, with gradients clipped by their global norm."""
    total = b.constant(0.0, "f32")
    for parameter in parameters:
        gradient = gradients[parameter]
        total = b.add(total, b.sum(b.mul(gradient, gradient), axis=_axes(gradient)))
    clip = b.min(b.div(1.0, b.add(b.sqrt(total), 1e-6)), 1.0)
    results: list[SSAValue] = []
    for index, parameter in enumerate(parameters):
        shape = tuple(parameter.type.get_shape())  # pyright: ignore
        gradient = b.mul(gradients[parameter], clip)
        first, second = (read(b, f"{name}.{index}", shape) for name in ("first", "second"))
        first = b.add(b.mul(first, 0.9), b.mul(gradient, 0.1))
        second = b.add(b.mul(second, 0.95), b.mul(b.mul(gradient, gradient), 0.05))
        step = b.div(b.mul(first, 1.1), b.add(b.sqrt(b.mul(second, 1.2)), 1e-8))
        decayed = b.mul(parameter, 1.0 - 3e-5)
        results += [b.sub(decayed, b.mul(step, 3e-4)), first, second]
    return results


def _axes(value: SSAValue) -> list[int]:
    assert isinstance(value.type, TensorType)
    return list(range(len(value.type.get_shape())))


def _heads(b: Emitter, x: SSAValue) -> SSAValue:
    return b.transpose(b.reshape(x, [TOKENS, HEADS, SIZE]), [1, 0, 2])


def _joined(b: Emitter, x: SSAValue) -> SSAValue:
    return b.reshape(b.transpose(x, [1, 0, 2]), [TOKENS, WIDTH])


def _rotate(b: Emitter, x: SSAValue, cosine: SSAValue, sine: SSAValue) -> SSAValue:
    half = SIZE // 2
    low = b.slice(x, [0, 0, 0], [HEADS, TOKENS, half])
    high = b.slice(x, [0, 0, half], [HEADS, TOKENS, SIZE])
    return b.add(b.mul(x, cosine), b.mul(b.concat([b.neg(high), low], axis=2), sine))


def read(b: Emitter, name: str, shape: tuple[int, ...]) -> SSAValue:
    op = ReadOp(name, tensor("f32", shape))
    b.insert(op)
    return op.result


def _start() -> tuple[Block, Emitter]:
    shapes = ((TOKENS, WIDTH), (TOKENS, SIZE), (TOKENS, SIZE), (TOKENS, TOKENS))
    block = Block(arg_types=[tensor("f32", shape) for shape in shapes])
    return block, Emitter(block.add_op)


def _finish(block: Block, results: Sequence[SSAValue]) -> GraphOp:
    block.add_op(ReturnOp(list(results)))
    names = [f"y{index}" for index in range(len(results))]
    return GraphOp("g", ["x", "cosine", "sine", "mask"], names, Region(block))
