"""Candidates leave out nothing that can win."""

from collections.abc import Iterator

import pytest
from saturate_programs import CPU, build_graph, check_same, f32, random_graph
from xdsl.ir import SSAValue

from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.saturate import saturate_graph

GPU = DEVICES["nvidia-h200"]
BOTH = pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])


def column(b: Emitter, x: SSAValue, c: SSAValue) -> SSAValue:
    for _ in range(10):
        c = b.tanh(c)
    return b.add(x, c)


def decay(b: Emitter, x: SSAValue, dt: SSAValue, a: SSAValue) -> SSAValue:
    return b.mul(x, b.exp(b.mul(b.neg(b.call("softplus", dt)), b.exp(a))))


def log_of_softmax(b: Emitter, x: SSAValue) -> SSAValue:
    return b.log(b.call("softmax", x))


BROADCASTS = {
    "a column": (column, (4096, 4096), (4096, 1)),
    "a row": (column, (4096, 4096), (1, 4096)),
    "a decay": (decay, (4096, 4096), (4096, 1), (1,)),
    "a decay of two vectors": (decay, (4096, 4096), (4096, 1), (1, 4096)),
    "a logarithm of shares": (log_of_softmax, (4096, 4096)),
}


def broadcasting(name: str, most: int = 1 << 20) -> GraphOp:
    body, *shapes = BROADCASTS[name]
    return build_graph(body, *[f32(*[min(size, most) for size in shape]) for shape in shapes])


def programs() -> Iterator[tuple[str, GraphOp]]:
    """Those that broadcast, and random ones."""
    for name in BROADCASTS:
        yield name, broadcasting(name)
    for seed in range(30):
        yield f"random {seed}", random_graph(seed, 20)


@BOTH
def test_a_choice_never_costs_more_than_one_kernel_an_operation(device: Device) -> None:
    for name, graph in programs():
        report = saturate_graph(graph, device)
        assert report.cost_after <= report.cost_before * (1 + 1e-9), name


@BOTH
@pytest.mark.parametrize("name", ["a column", "a row"])
def test_what_is_dear_is_computed_before_a_matrix_broadcasts_it(name: str, device: Device) -> None:
    assert saturate_graph(broadcasting(name), device).kernel_count == 2


@pytest.mark.parametrize("name", BROADCASTS)
def test_what_a_matrix_broadcasts_keeps_its_values(name: str) -> None:
    before = broadcasting(name, 64)
    after = before.clone()
    saturate_graph(after, CPU)
    check_same(before, after)


def test_what_is_cheap_is_computed_on_the_way() -> None:
    """A launch costs more than to scale a column once for each element of a matrix."""
    graph = build_graph(lambda b, x, c: b.add(x, b.neg(c)), f32(512, 512), f32(512, 1))
    report = saturate_graph(graph, CPU)
    assert report.kernel_count == 1
    assert report.candidates == 1
