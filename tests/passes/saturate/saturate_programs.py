"""Graphs for the tests of `saturate`: from a function over the emitter, or drawn at random."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import GraphOp, ReturnOp
from mgn.dialects.types import element_of, tensor
from mgn.passes.saturate import SaturateOptions, SaturateReport, saturate_graph

Body = Callable[..., SSAValue | Sequence[SSAValue]]
CPU = DEVICES["cpu"]


def f32(*shape: int) -> TensorType:
    return tensor("f32", shape)


def build_graph(body: Body, *types: TensorType) -> GraphOp:
    """A graph whose inputs have these types; `body(emitter, *inputs)` gives what it returns."""
    block = Block(arg_types=types)
    returned = body(Emitter(block.add_op), *block.args)
    listing = [returned] if isinstance(returned, SSAValue) else list(returned)
    block.add_op(ReturnOp(listing))
    inputs = [f"x{index}" for index in range(len(types))]
    return GraphOp("g", inputs, [f"y{index}" for index in range(len(listing))], Region(block))


def random_inputs(graph: GraphOp, seed: int = 0) -> dict[str, np.ndarray]:
    """Values for the inputs, none of them zero or large."""
    rng = np.random.default_rng(seed)
    inputs: dict[str, np.ndarray] = {}
    for name, argument in zip(graph.input_names, graph.block.args, strict=True):
        assert isinstance(argument.type, TensorType)
        element, shape = element_of(argument.type), argument.type.get_shape()
        if element.is_float:
            sign = rng.choice([-1.0, 1.0], shape)
            inputs[name] = (rng.uniform(0.3, 1.7, shape) * sign).astype(element.dtype)
        else:
            inputs[name] = rng.integers(0, 4, shape).astype(element.dtype)
    return inputs


def check_same(before: GraphOp, after: GraphOp, seed: int = 0) -> None:
    """Both graphs compute the same, over the reals: all floats in f64."""
    inputs = random_inputs(before, seed)
    expected = Interpreter(wide=True).run(before, inputs)
    found = Interpreter(wide=True).run(after, inputs)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-9, err_msg=name)


def saturated(
    body: Body, *types: TensorType, device: Device = CPU, **options: Any
) -> tuple[GraphOp, SaturateReport]:
    """A graph after saturation, verified and compared with itself before."""
    before = build_graph(body, *types)
    before.verify()
    after = before.clone()
    report = saturate_graph(after, device, SaturateOptions(**options))
    after.verify()
    check_same(before, after)
    assert report.kernel_count == len(kernels_of(after))
    return after, report


def kernels_of(graph: GraphOp) -> list[FusedKernelOp]:
    return [op for op in graph.block.ops if isinstance(op, FusedKernelOp)]


def body_names(kernel: FusedKernelOp) -> list[str]:
    """The operations of a kernel's body, in order."""
    return [op.spec.name for op in kernel.block.ops if isinstance(op, TensorOp)]


def matrices_of(graph: GraphOp) -> list[TensorOp]:
    """The matrix products inside all kernels."""
    return [op for op in graph.walk() if isinstance(op, TensorOp) and op.spec.name == "matmul"]


UNARY = ("neg", "abs", "tanh", "sigmoid", "silu", "relu", "exp", "sin", "identity", "gelu")
BINARY = ("add", "sub", "mul", "max", "min", "div")
NORMS = ("softmax", "log_softmax", "layer_norm", "rms_norm")
REDUCTIONS = ("sum", "max_reduce", "mean", "min_reduce")
SHAPES = ((4, 6), (6, 4), (4, 1), (6,), (4, 4), (1, 6), ())


def random_graph(seed: int, operations: int = 14, element: str = "f32") -> GraphOp:
    """A typed graph over most kinds of operation, with sharing and several results."""
    rng = random.Random(seed)
    types = [tensor(element, rng.choice(SHAPES)) for _ in range(rng.randint(1, 4))]

    def body(b: Emitter, *inputs: SSAValue) -> list[SSAValue]:
        pool = list(inputs)
        for _ in range(operations):
            pool.append(random_step(b, rng, pool))
        count = rng.randint(1, 3)
        return [pool[-1], *rng.sample(pool, min(count, len(pool)) - 1)]

    return build_graph(body, *types)


def random_step(b: Emitter, rng: random.Random, pool: list[SSAValue]) -> SSAValue:
    """A value computed from some of a pool."""
    x = rng.choice(pool[-6:])
    shape = _shape(x)
    kind = rng.choice("uuubbbbbrrnmmtkcg")
    if kind == "u":
        return b.call(rng.choice(UNARY), b.tanh(x))
    if kind == "b":
        other: Any = rng.choice([*pool, 1.0, 0.0, 0.5, -1.0, 2.0])
        if isinstance(other, SSAValue) and not _broadcasts(shape, _shape(other)):
            other = x
        name = rng.choice(BINARY)
        if name == "div":
            other = b.add(b.abs(other), 0.5) if isinstance(other, SSAValue) else 2.0
        return b.call(name, *rng.sample([x, other], 2)) if name != "div" else b.div(x, other)
    if kind == "r" and shape:
        axis = rng.randrange(len(shape))
        return b.call(rng.choice(REDUCTIONS), x, axis=axis, keepdims=rng.random() < 0.5)
    if kind == "n" and shape:
        return b.call(rng.choice(NORMS), x)
    if kind == "m" and len(shape) == 2:
        partner = rng.choice(pool)
        if len(_shape(partner)) == 2 and _shape(partner)[1] == shape[1]:
            if rng.random() < 0.5:
                return b.matmul(x, partner, transpose_b=True)
            return b.matmul(x, b.transpose(partner, [1, 0]))
        return b.matmul(b.transpose(x, [1, 0]), x)
    if kind == "t" and len(shape) == 2:
        return b.transpose(x, [1, 0])
    if kind == "k" and shape:
        return b.slice(x, [0] * len(shape), [max(1, size - 1) for size in shape])
    if kind == "c" and shape:
        return b.concat([x, b.neg(x)], axis=0)
    if kind == "g" and len(shape) == 2:
        return b.reshape(x, [-1])
    return b.cumsum(x, axis=0) if shape else b.neg(x)


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())


def _broadcasts(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(left, right)
    except ValueError:
        return False
    return True
