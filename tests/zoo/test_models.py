"""The models of `examples/models/` at full size: they parse, verify, and have as many parameters as
were published; small ones compute on the device what the interpreter computes.
"""

import os
from math import prod

import numpy as np
import pytest

import mgn
from benchmarks.zoo.entry import MODELS, Entry
from benchmarks.zoo.table import ENTRIES
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.states import states_of
from mgn.dialects.mgn.structure import graphs_of, parameters_of
from mgn.modules.initialisers import initial_value
from mgn.modules.mlir_text import check_module

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")

RUNNING = ("running_mean", "running_var")
"""What batch norms keep, which nobody counts as parameters."""

PUBLISHED = {
    "mlp": 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10,
    "lenet": 61_706,
    "resnet18": 11_689_512,
    "gpt2": 124_439_808,
    "smollm2": 134_515_008,
    "qwen3": 596_049_920,
    "gemma2": 2_614_341_888,
    "whisper": 37_760_640,
    "unet": 859_520_964,
    "bert": 109_482_240,
    "vit": 86_567_656,
    "resnet50": 25_557_032,
    "mobilenet_v2": 3_504_872,
}

BY_NAME = {entry.name: entry for entry in ENTRIES}


def test_every_file_with_graphs_has_a_peer_and_a_published_number() -> None:
    files = {path.name for path in MODELS.glob("*.mgn") if "\ngraph " in path.read_text()}
    assert {entry.file for entry in ENTRIES} == files
    assert set(BY_NAME) == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_verifies_and_has_as_many_parameters_as_were_published(name: str) -> None:
    entry = BY_NAME[name]
    module = mgn.parse_file(entry.path).lower()
    check_module(module)
    shapes = {key: op.type.get_shape() for key, op in parameters_of(module).items()}
    trained = {key: shape for key, shape in shapes.items() if not key.endswith(RUNNING)}
    assert sum(map(prod, trained.values())) == PUBLISHED[name]
    assert {graph.sym_name.data for graph in graphs_of(module)} >= set(entry.graphs)


@pytest.mark.parametrize("name", ["gpt2", "qwen3"])
def test_a_small_decoder_writes_on_the_device_what_the_interpreter_writes(name: str) -> None:
    entry = BY_NAME[name]
    sizes = {**entry.sizes(small=True), "LAYERS": 1}
    program = mgn.parse_file(entry.path)
    exe = mgn.compile(program, ["prefill", "decode"], dims=sizes, device=DEVICE)
    dims = dict(zip(exe, program.dims_of(list(exe), sizes), strict=True))
    modules = {graph: program.lower(graph, dims[graph]) for graph in exe}
    states = {
        key: initial_value(op, 0) for ir in modules.values() for key, op in states_of(ir).items()
    }
    weights = weights_of(entry, sizes)
    exe.params.update(weights)
    interpreter = Interpreter(weights, wide=True, states=states)
    tokens = np.random.default_rng(0).integers(0, sizes["VOCAB"], (1, sizes["S"]), np.int32)
    given: dict[str, np.ndarray] = {"tokens": tokens}
    for graph in ("prefill", "decode", "decode"):
        found = exe[graph](**given)["logits"]
        (wanted,) = interpreter.run(next(iter(graphs_of(modules[graph]))), given).values()
        assert np.max(np.abs(found - wanted)) <= 2e-6 * np.max(np.abs(wanted))
        given = {"token": np.argmax(found, axis=-1).astype(np.int32)}


@pytest.mark.parametrize(("dims", "inner"), [({}, 128), ({"n_inner": 80}, 80)])
def test_gpt2_is_four_times_as_wide_inside_where_nothing_else_is_said(
    dims: dict[str, int], inner: int
) -> None:
    entry = BY_NAME["gpt2"]
    weights = weights_of(entry, {**entry.sizes(small=True), **dims})
    assert weights["transformer.h.0.mlp.c_fc.weight"].shape == (32, inner)


def weights_of(entry: Entry, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Random weights, those of norms and biases too."""
    program = mgn.parse_file(entry.path)
    dims = program.dims_of(entry.graphs, sizes)
    generator = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    for graph, own in zip(entry.graphs, dims, strict=True):
        for key, op in parameters_of(program.lower(graph, own)).items():
            if key not in found:
                draw = generator.standard_normal(op.type.get_shape(), dtype=np.float32) * 0.1
                found[key] = initial_value(op, 0) + draw
    return found
