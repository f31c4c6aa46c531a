"""What is timed of training: backward passes, updates, a whole step, and their peers in PyTorch.

In: sizes. Out: `TrainingCase`s: programs with their inputs, and functions that do the same by
PyTorch.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.contests import smollm2

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "smollm2.mgn"

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class TrainingCase:
    """A program with its inputs. `torch` gets PyTorch and the tensors; out: what is to be timed.

    Where `steps` is true, the program has an output `loss` and a run of it is a step of AdamW.
    `loss` is then what PyTorch says of the loss of the first step, given the parameters.
    """

    name: str
    program: str
    arrays: Arrays
    torch: Callable[[Any, Mapping[str, Any]], Callable[[], Any]]
    precision: str = "f32"
    steps: bool = False


def cases() -> Iterator[TrainingCase]:
    """All cases, the quick ones first."""
    yield attention("f32")
    yield attention("bf16")
    yield attention("f32", "tf32")
    yield attention("f32", "bf16")
    yield layer_norm()
    yield cross_entropy()
    yield updates()
    for rows, tokens, precisions in ((1, 128, ("f32", "tf32")), (8, 512, ("f32", "tf32", "bf16"))):
        yield from (smollm2_step(rows, tokens, precision) for precision in precisions)


def attention(element: str, precision: str = "f32") -> TrainingCase:
    """Causal attention of 4 × 2048 tokens and 16 heads of 64, forward and backward."""
    batch, tokens, heads, head = 4, 2048, 16, 64
    of = f"{element}[{batch}, {tokens}, {heads * head}]"
    program = f"""graph g(q: {of}, k: {of}, v: {of}, dy: {of}) {{
  y = attention(q, k, v, heads = {heads}, causal = true)
  dq, dk, dv = grad(sum(cast(y, f32) * cast(dy, f32)), [q, k, v])
  return y, dq, dk, dv
}}"""

    def torch_call(torch: Any, tensors: Mapping[str, Any]) -> Callable[[], Any]:
        q, k, v, dy = (
            tensors[name].view(batch, tokens, heads, head).transpose(1, 2).contiguous()
            for name in ("q", "k", "v", "dy")
        )
        of = [value.requires_grad_() for value in (q, k, v)]

        def call() -> Any:
            y = torch.nn.functional.scaled_dot_product_attention(*of, is_causal=True)
            found = (y, *torch.autograd.grad(y, of, dy))
            return [value.transpose(1, 2).reshape(batch, tokens, heads * head) for value in found]

        return call

    names, shape = ("q", "k", "v", "dy"), (batch, tokens, heads * head)
    name = f"attention, forward and backward, {element}"
    name += "" if precision == "f32" else f", precision {precision}"
    return TrainingCase(name, program, normal(names, shape, element), torch_call, precision)


def layer_norm() -> TrainingCase:
    """The backward pass of a norm of 16384 rows of 4096, with that of its parameters."""
    shape = (16384, 4096)
    program = """graph g(x: f32[16384, 4096], w: f32[4096], b: f32[4096], dy: f32[16384, 4096]) {
  dx, dw, db = grad(sum(layer_norm(x, w, b, eps = 1e-5) * dy), [x, w, b])
  return dx, dw, db
}"""

    def torch_call(torch: Any, tensors: Mapping[str, Any]) -> Callable[[], Any]:
        of = [tensors[name].requires_grad_() for name in ("x", "w", "b")]
        y = torch.nn.functional.layer_norm(of[0], (4096,), of[1], of[2], 1e-5)
        return lambda: torch.autograd.grad(y, of, tensors["dy"], retain_graph=True)

    arrays = {**normal(("x", "dy"), shape), **normal(("w", "b"), shape[1:])}
    return TrainingCase("layer_norm, backward, 16384x4096", program, arrays, torch_call)


def cross_entropy() -> TrainingCase:
    """The loss of 4096 rows of 49152 classes, with its gradient."""
    program = """graph g(x: f32[4096, 49152], labels: i32[4096]) {
  loss = cross_entropy(x, labels)
  dx = grad(loss, x)
  return loss, dx
}"""

    def torch_call(torch: Any, tensors: Mapping[str, Any]) -> Callable[[], Any]:
        x, labels = tensors["x"].requires_grad_(), tensors["labels"].long()

        def call() -> Any:
            loss = torch.nn.functional.cross_entropy(x, labels)
            return (loss, *torch.autograd.grad(loss, x))

        return call

    labels = np.random.default_rng(1).integers(0, 49152, 4096, np.int32)
    arrays = {**normal(("x",), (4096, 49152)), "labels": labels}
    return TrainingCase("cross entropy, both ways, 4096x49152", program, arrays, torch_call)


def updates(count: int = 135, side: int = 1000) -> TrainingCase:
    """AdamW of many parameters, whose gradients are inputs."""
    of = f"f32[{side}, {side}]"
    given = ", ".join(f"g{i}: {of}" for i in range(count))
    lines = [f"  param p{i}: {of} = normal(std = 0.1)" for i in range(count)]
    terms = " + ".join(f"sum(p{i} * g{i})" for i in range(count))
    program = "\n".join((f"graph g({given}) {{", *lines, f"  loss = {terms}", "  return loss", "}"))

    def torch_call(torch: Any, tensors: Mapping[str, Any]) -> Callable[[], Any]:
        trained = [tensors[f"p{i}"].requires_grad_() for i in range(count)]
        for i, parameter in enumerate(trained):
            parameter.grad = tensors[f"g{i}"]
        optimizer = torch.optim.AdamW(trained, lr=1e-3, fused=True)
        return optimizer.step

    name = f"AdamW, {count} parameters of {side}x{side}"
    names = [f"g{i}" for i in range(count)]
    return TrainingCase(name, program, normal(names, (side, side)), torch_call, steps=True)


def smollm2_loss(rows: int, tokens: int) -> str:
    """SmolLM2-135M with the loss of the next tokens, of so many rows unless `B` is given."""
    program = EXAMPLE.read_text(encoding="utf-8")
    for old, new in (
        ("[B = 1, S = 128]", f"[B = {rows}, S = {tokens}]"),
        ("(tokens: i32[B, S])", "(tokens: i32[B, S], labels: i32[B, S])"),
        ("  return logits\n", "  loss = cross_entropy(logits, labels)\n  return loss\n"),
    ):
        program = program.replace(old, new)
    return program


def smollm2_batch(rows: int, tokens: int, draw: np.random.Generator) -> Arrays:
    """Random tokens and labels for it."""
    size = (rows, tokens)
    return {name: draw.integers(0, 49152, size, np.int32) for name in ("tokens", "labels")}


def smollm2_step(rows: int, tokens: int, precision: str) -> TrainingCase:
    """A step of SmolLM2-135M: the loss of the next tokens, the gradients, AdamW."""
    program = smollm2_loss(rows, tokens)

    def torch_call(torch: Any, tensors: Mapping[str, Any]) -> Callable[[], Any]:
        weights = {name: tensors[name] for name in tensors if name not in ("tokens", "labels")}
        for value in weights.values():
            value.requires_grad_()
        ids, labels = tensors["tokens"].long(), tensors["labels"].long().flatten()
        optimizer = torch.optim.AdamW(weights.values(), lr=1e-3, fused=ids.is_cuda)

        def call() -> Any:
            optimizer.zero_grad()
            with torch.autocast(ids.device.type, torch.bfloat16, enabled=precision == "bf16"):
                logits = smollm2.forward(torch, weights, ids).flatten(0, -2)
                loss = torch.nn.functional.cross_entropy(logits.float(), labels)
            loss.backward()
            optimizer.step()
            return loss

        return call

    arrays = smollm2_batch(rows, tokens, np.random.default_rng(0))
    name = f"SmolLM2-135M, a step of {rows}x{tokens}, {precision}"
    return TrainingCase(name, program, arrays, torch_call, precision, steps=True)


def normal(names: Any, shape: tuple[int, ...], element: str = "f32") -> Arrays:
    """Arrays of normal numbers."""
    generator = np.random.default_rng(0)
    dtype = ml_dtypes.bfloat16 if element == "bf16" else np.float32
    return {name: generator.standard_normal(shape, np.float32).astype(dtype) for name in names}
