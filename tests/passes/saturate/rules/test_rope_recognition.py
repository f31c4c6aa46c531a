"""Rotary embedding written out, as exporters do, is recognised as the composite that it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.types import element_of, tensor
from mgn.passes.saturate import SaturateOptions, saturate_graph
from mgn.passes.saturate.egraph.engine import saturate_facts
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.rules.table import rules_of
from mgn.passes.saturate.saturate import literals_of
from mgn.passes.simplify import simplify_graph
from tests.passes.saturate.saturate_programs import CPU, build_graph, check_same, f32, kernels_of

B, S, H, D = 2, 64, 4, 16
ROWS = f32(B, S, H * D)
SPLIT = (B, S, H, D)
Turn = Callable[[Emitter, SSAValue], SSAValue]


def inverse(x: SSAValue, theta: float = 10000.0) -> np.ndarray:
    """Inverse frequencies as Hugging Face computes them, in the element type of the heads."""
    number = element_of(x.type).dtype.type
    return number(1.0) / number(theta) ** (np.arange(0, D, 2).astype(number) / number(D))


def angles(x: SSAValue, theta: float = 10000.0, rows: int = S) -> np.ndarray:
    frequency = inverse(x, theta)
    return np.arange(rows).astype(frequency.dtype)[:, None] * frequency


def tables(b: Emitter, angle: np.ndarray) -> tuple[SSAValue, SSAValue]:
    return b.constant_array(np.cos(angle)), b.constant_array(np.sin(angle))


def outward(b: Emitter, x: SSAValue) -> SSAValue:
    """`[B, S, H * D]` as `[B, H, S, D]`."""
    return b.transpose(b.reshape(x, SPLIT), [0, 2, 1, 3])


def inward(b: Emitter, x: SSAValue) -> SSAValue:
    return b.reshape(b.transpose(x, [0, 2, 1, 3]), [B, S, H * D])


def part(b: Emitter, x: SSAValue, start: int, stop: int, step: int = 1) -> SSAValue:
    """Some elements of the last axis."""
    shape = x.type.get_shape()  # pyright: ignore
    zeros, ones = [0] * (len(shape) - 1), [1] * (len(shape) - 1)
    return b.slice(x, [*zeros, start], [*shape[:-1], stop], [*ones, step])


def rotate_half(b: Emitter, x: SSAValue) -> SSAValue:
    return b.concat([b.neg(part(b, x, D // 2, D)), part(b, x, 0, D // 2)], axis=-1)


def by_halves(b: Emitter, x: SSAValue, cosine: SSAValue, sine: SSAValue) -> SSAValue:
    return b.add(b.mul(x, cosine), b.mul(rotate_half(b, x), sine))


def _computed_tables(b: Emitter, x: SSAValue) -> SSAValue:
    """Llama: angles by a product of positions and frequencies, both halves the same."""
    position = b.cast(b.iota((1, S, 1), axis=1, T="i32"), element_of(x.type))
    angle = b.matmul(position, b.reshape(b.constant_array(inverse(x)), [1, 1, D // 2]))
    both = b.concat([angle, angle], axis=-1)
    c, s = (b.reshape(table, [1, 1, S, D]) for table in (b.cos(both), b.sin(both)))
    return inward(b, by_halves(b, outward(b, x), c, s))


def _cached_tables(b: Emitter, x: SSAValue) -> SSAValue:
    """Tables kept as constants, rows of which are gathered by positions."""
    position = b.iota((S,), axis=0, T="i32")
    cached = tables(b, np.tile(angles(x, 500000.0, 2 * S), 2))
    rows = (b.embedding(position, table) for table in cached)
    return inward(b, by_halves(b, outward(b, x), *rows))


def _heads_inside(b: Emitter, x: SSAValue) -> SSAValue:
    """Heads after the positions, and halves turned one by one, as GPT-NeoX's kernels do."""
    heads = b.reshape(x, SPLIT)
    first, second = part(b, heads, 0, D // 2), part(b, heads, D // 2, D)
    c, s = tables(b, angles(x)[:, None])
    real = b.sub(b.mul(first, c), b.mul(second, s))
    other = b.add(b.mul(first, s), b.mul(second, c))
    return b.reshape(b.concat([real, other], axis=-1), [B, S, H * D])


def _every_two(b: Emitter, x: SSAValue) -> SSAValue:
    """GPT-J: even and odd elements, stacked again, beside tables that repeat each angle."""
    heads = b.reshape(x, SPLIT)
    c, s = (b.repeat(table, 2, axis=3) for table in tables(b, angles(x)[None, :, None]))
    turned = b.stack([b.neg(part(b, heads, 1, D, 2)), part(b, heads, 0, D, 2)], axis=-1)
    turned = b.flatten(turned, start=3)
    return b.reshape(b.add(b.mul(heads, c), b.mul(turned, s)), [B, S, H * D])


def _complex(b: Emitter, x: SSAValue) -> SSAValue:
    """Meta's Llama: pairs as complex numbers, written in real ones."""
    pairs = b.reshape(x, (B, S, H, D // 2, 2))
    real, other = (b.reshape(part(b, pairs, i, i + 1), (B, S, H, D // 2)) for i in (0, 1))
    c, s = tables(b, angles(x)[:, None])
    parts = [
        b.sub(b.mul(real, c), b.mul(other, s)),
        b.add(b.mul(real, s), b.mul(other, c)),
    ]
    return b.reshape(b.flatten(b.stack(parts, axis=-1), start=3), [B, S, H * D])


@dataclass(frozen=True)
class Spelling:
    """One way to write rope, and what of the composite's attributes is special."""

    body: Turn
    theta: float = 10000.0
    interleaved: bool = False


SPELLINGS = {
    "computed tables": Spelling(_computed_tables),
    "cached tables": Spelling(_cached_tables, 500000.0),
    "heads inside": Spelling(_heads_inside),
    "every two": Spelling(_every_two, interleaved=True),
    "complex": Spelling(_complex, interleaved=True),
}


def recognised(body: Turn) -> list[dict[str, Any]]:
    """The attributes of every rope on the graph's own input that is the graph's result."""
    graph = build_graph(body, ROWS)
    simplify_graph(graph)
    rules = rules_of()
    encoded = encode_graph(graph, literals_of(rules))
    result = saturate_facts(encoded.facts, rules, 60.0)
    assert result.saturated
    nodes = result.nodes[result.class_of[encoded.outputs[0]]]
    found = [node for node in nodes if node.name == "rope" and node.operands[0] in result.leaves]
    stored = [dict(result.facts.properties.things[node.attributes]) for node in found]
    return [
        {item.name: item.kind.decode(values[item.name]) for item in OPERATIONS["rope"].attributes}
        for values in stored
    ]


@pytest.mark.parametrize("name", SPELLINGS)
def test_rope_as_exporters_write_it_is_recognised(name: str) -> None:
    wanted = SPELLINGS[name]
    (values,) = recognised(wanted.body)
    assert values["head_dim"] == D
    assert values["theta"] == wanted.theta
    assert bool(values["interleaved"]) is wanted.interleaved


@pytest.mark.parametrize("device", [CPU, DEVICES["nvidia-h200"]], ids=lambda item: item.name)
@pytest.mark.parametrize("name", SPELLINGS)
def test_rope_as_exporters_write_it_costs_no_more_than_the_composite(
    name: str, device: Device
) -> None:
    spelling = SPELLINGS[name]

    def composite(b: Emitter, x: SSAValue) -> SSAValue:
        return b.rope(x, head_dim=D, theta=spelling.theta, interleaved=spelling.interleaved)

    graph = build_graph(spelling.body, ROWS)
    simplify_graph(graph)
    report = saturate_graph(graph, device, SaturateOptions(time_budget=60.0))
    wanted = saturate_graph(build_graph(composite, ROWS), device)
    assert report.cost_after <= wanted.cost_after * 1.01


@pytest.mark.parametrize("name", SPELLINGS)
def test_rope_as_exporters_write_it_computes_the_same_as_it_is_recognised(name: str) -> None:
    """In f64, whose tables are no coarser than the angles that the composite computes."""
    before = build_graph(SPELLINGS[name].body, tensor("f64", (B, S, H * D)))
    after = before.clone()
    simplify_graph(after)
    saturate_graph(after, CPU)
    after.verify()
    check_same(before, after)


def test_tables_that_the_caller_gives_are_read_by_the_one_kernel_that_turns() -> None:
    def body(b: Emitter, x: SSAValue, cosine: SSAValue, sine: SSAValue) -> SSAValue:
        return inward(b, by_halves(b, outward(b, x), cosine, sine))

    graph = build_graph(body, ROWS, f32(S, D), f32(S, D))
    saturate_graph(graph, CPU)
    (kernel,) = kernels_of(graph)
    assert kernel.kind.data == "pointwise"


def with_tables(
    cosines: Callable[[SSAValue], np.ndarray],
    sines: Callable[[SSAValue], np.ndarray],
    turn: Turn = rotate_half,
) -> Turn:
    """Rope by halves with these angles, or another turn by a quarter."""

    def body(b: Emitter, x: SSAValue) -> SSAValue:
        heads = outward(b, x)
        c, s = b.constant_array(np.cos(cosines(x))), b.constant_array(np.sin(sines(x)))
        return inward(b, b.add(b.mul(heads, c), b.mul(turn(b, heads), s)))

    return body


def both(x: SSAValue) -> np.ndarray:
    return np.tile(angles(x), 2)


def later(x: SSAValue) -> np.ndarray:
    return np.tile(angles(x, rows=S + 1)[1:], 2)


def of_pairs(x: SSAValue) -> np.ndarray:
    return np.repeat(angles(x), 2, axis=1)


def partly_slower(x: SSAValue) -> np.ndarray:
    """Long-context scaling: the slow pairs slower still."""
    slow = np.where(np.arange(D // 2) < 4, 1.0, 0.125).astype(np.float32)
    return np.tile(angles(x) * slow, 2)


def the_other_way(b: Emitter, x: SSAValue) -> SSAValue:
    return b.concat([part(b, x, D // 2, D), b.neg(part(b, x, 0, D // 2))], axis=-1)


def in_place(b: Emitter, x: SSAValue) -> SSAValue:
    return b.concat([b.neg(part(b, x, 0, D // 2)), part(b, x, D // 2, D)], axis=-1)


NEAR_MISSES = {
    "positions from 1": with_tables(later, later),
    "sines of another base": with_tables(both, lambda x: np.tile(angles(x, 500.0), 2)),
    "some pairs slower": with_tables(partly_slower, partly_slower),
    "angles of neighbours": with_tables(of_pairs, of_pairs),
    "turned the other way": with_tables(both, both, the_other_way),
    "halves in place": with_tables(both, both, in_place),
}


def test_what_the_near_misses_are_near_to_is_rope() -> None:
    assert recognised(with_tables(both, both))


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_is_nearly_rope_is_none(name: str) -> None:
    assert not recognised(NEAR_MISSES[name])
