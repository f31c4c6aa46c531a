"""What kernels a graph gets does not depend on what the process has compiled before."""

from functools import cache

import pytest

import mgn
from mgn.dialects.kernel import DEVICES
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate import saturate_graph
from mgn.passes.saturate.memo import forget_choices

SIZES = (5, 8, 16, 33)


def convolutions(count: int = 16) -> str:
    """Many small towers of an image of some size: there are candidates by the hundred."""
    lines = ["graph g[S = 8](x: f32[1, 8, S, S]) {"]
    for n in range(count):
        lines += [f"param {name}{n}: f32[8, 8, 3, 3]" for name in "ab"]
        lines += [f"param c{n}: f32[16, 8, 1, 1]"]
        lines += [f"h{n} = relu(conv2d(x, a{n}, padding = 1))"]
        lines += [f"k{n} = relu(conv2d(h{n}, b{n}, padding = 1) + x)"]
    results = [f"y{n} = sum(conv2d(k{n}, c{n}), axis = [2, 3])" for n in range(count)]
    return "\n".join([*lines, f"return {', '.join(results)}", "}"])


def blocks(count: int = 6) -> str:
    """Norms, products and softmaxes, one behind the other, of some rows."""
    lines = ["graph g[S = 8](x: f32[S, 32]) {", "h0 = x"]
    for n in range(count):
        lines += [f"param w{n}: f32[32, 32]", f"param g{n}: f32[32]"]
        lines += [f"r{n} = rms_norm(h{n}, g{n})"]
        lines += [f"s{n} = softmax(r{n} @ r{n}.T) @ r{n}"]
        lines += [f"h{n + 1} = h{n} + silu(s{n} @ w{n})"]
    return "\n".join([*lines, f"return y = h{count}", "}"])


PROGRAMS = {"convolutions": convolutions(), "blocks": blocks()}


def kernels_of(name: str, size: int, device: str) -> tuple[str, float]:
    """The kernels that are chosen, and what they cost."""
    (graph,) = graphs_of(mgn.parse(PROGRAMS[name]).lower("g", {"S": size}))
    report = saturate_graph(graph, DEVICES[device])
    assert not report.budget_spent
    return str(graph), report.cost_after


@cache
def kernels_alone(name: str, size: int, device: str) -> tuple[str, float]:
    """The same in a process that has compiled nothing yet."""
    forget_choices()
    return kernels_of(name, size, device)


@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("order", [SIZES, SIZES[::-1], (16, 5, 33, 8)], ids=str)
def test_each_size_gets_the_same_kernels_whichever_came_before(
    order: tuple[int, ...], name: str, device: str
) -> None:
    alone = {size: kernels_alone(name, size, device) for size in order}
    forget_choices()
    assert {size: kernels_of(name, size, device) for size in order} == alone
