"""With exact rules alone, fused kernels give the bits of one kernel an operation, on one device."""

import os
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.passes.saturate import RuleClass, SaturateOptions
from mgn.runtime.devices import choose
from mgn.runtime.errors import DeviceError
from tests.passes.saturate.saturate_programs import random_graph, random_inputs
from tests.passes.saturate.saturate_zoo import SMALL
from tests.whole_programs.exact_programs import PROGRAMS, random_norms

EXACT = frozenset({RuleClass.EXACT})
DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")


def bits(graph: GraphOp, inputs: dict[str, np.ndarray], fuse: bool) -> dict[str, np.ndarray]:
    """The results of a graph with exact rules alone."""
    module = ModuleOp([graph.clone()])
    options = SaturateOptions(classes=EXACT, fuse=fuse)
    return mgn.compile(module, device=device(), saturation=options)(**inputs)


@cache
def device() -> str:
    """The device under test; the test is skipped, saying so, where there is none."""
    try:
        choose(DEVICE)
    except DeviceError:
        pytest.skip("no such OpenCL device: install the extra 'cpu', or set MGN_TEST_DEVICE")
    return DEVICE


def check(graph: GraphOp, inputs: dict[str, np.ndarray]) -> None:
    """Both choices of kernels give the same bits, but for the payloads of NaN."""
    fused, separate = (bits(graph, inputs, fuse) for fuse in (True, False))
    for name, one in fused.items():
        other = separate[name]
        assert one.dtype == other.dtype and one.shape == other.shape
        if one.dtype.kind == "f":
            nan = np.isnan(one)
            np.testing.assert_array_equal(nan, np.isnan(other), err_msg=name)
            one, other = one[~nan], other[~nan]
        differing = int((one.view(np.uint8) != other.view(np.uint8)).sum())
        assert not differing, f"{name}: {differing} bytes differ"


@pytest.mark.parametrize("build", SMALL.values(), ids=SMALL.keys())
def test_a_graph_of_the_zoo_keeps_its_bits(build: Callable[[], GraphOp]) -> None:
    graph = build()
    check(graph, random_inputs(graph))


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_program_that_tempts_a_template_keeps_its_bits(text: str) -> None:
    (graph,) = graphs_of(mgn.parse(text).lower())
    check(graph, random_inputs(graph, 1))


@pytest.mark.parametrize("seed", range(8))
def test_norms_after_one_another_keep_their_bits(seed: int) -> None:
    (graph,) = graphs_of(mgn.parse(random_norms(seed)).lower())
    check(graph, random_inputs(graph, seed))


@pytest.mark.parametrize("seed", range(300, 316))
def test_a_random_graph_keeps_its_bits(seed: int) -> None:
    graph = random_graph(seed, 18, "f16" if seed % 4 == 0 else "f32")
    check(graph, random_inputs(graph, seed))
