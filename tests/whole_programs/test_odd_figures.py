"""Odd figures of a device: programs that are right, or an error that names the figure."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

import mgn
from mgn.diagnostics import MgnError
from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel import DEVICES, DeviceAttr
from mgn.dialects.kernel.device import FIGURES
from mgn.modules.verification import verify_whole
from mgn.passes.lower_kernels import lower_kernel
from mgn.passes.schedules.choose import schedule_for
from mgn.runtime.errors import RuntimeFault

PROGRAM = """
graph g(x: f32[33, 100], w: f32[100, 40], q: f32[1, 24, 32], k: f32[1, 40, 32]) {
  return p = gelu(x @ w), s = softmax(x), t = x.T, c = sum(x, axis = 0), all = sum(x),
    m = argmax(x), v = cumsum(x, axis = 1), a = attention(q, k, k, heads = 2, causal = true)
}
"""


def arrays() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0).standard_normal
    shapes = {"x": (33, 100), "w": (100, 40), "q": (1, 24, 32), "k": (1, 40, 32)}
    return {name: draw(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def figures(tmp_path: Path, monkeypatch: Any) -> Any:
    """Writes the file that MGN_DEVICE_FIGURES names."""
    path = tmp_path / "figures.json"
    monkeypatch.setenv("MGN_DEVICE_FIGURES", str(path))
    return lambda values: path.write_text(json.dumps(values))


GPU = {"kind": "gpu"}

ODD: list[dict[str, Any]] = [
    GPU | {"max_work_group_size": 32},
    GPU | {"max_work_group_size": 48, "local_memory": 5000},
    GPU | {"max_work_group_size": 100, "vector_bits": 4096, "compute_units": 10**6},
    {"l1_cache": 1, "l2_cache": 1, "cache": 1, "compute_units": 10**6, "local_memory": 1},
    {"l2_cache": 2**62, "max_work_group_size": 1, "bandwidth": 1.0, "launch_cost": 1e-30},
]
"""Figures with which everything is computed, on a CPU or in the forms for GPUs."""


def test_programs_for_odd_figures_are_right(figures: Any) -> None:
    module, inputs = mgn.parse(PROGRAM), arrays()
    figures({})
    expected = mgn.compile(module, device="cpu")(**inputs)
    for odd in ODD:
        figures(odd)
        out = mgn.compile(module, device="cpu", target="opencl")(**inputs)
        for name, want in expected.items():
            np.testing.assert_allclose(out[name], want, 1e-4, 1e-4, err_msg=f"{name} of {odd}")


REFUSED: list[tuple[Any, str]] = [
    (GPU | {"max_work_group_size": 31}, "max_work_group_size must be at least 32 on a GPU"),
    (GPU | {"local_memory": 4095}, "local_memory must be at least 4096 on a GPU"),
    (GPU | {"vendor": "nvidia", "sub_group_size": 16}, "sub_group_size must be 32 on NVIDIA's"),
    (GPU | {"matrix_unit": "mma", "max_work_group_size": 64}, "max_work_group_size must be at"),
    ({"bandwidth": 1e300}, "bandwidth must be a number from 1 to 1e+40"),
    ({"bandwidth": 5e-324}, "bandwidth must be a number from 1 to 1e+40"),
    ({"bandwidth": float("nan")}, "bandwidth must be a number above 0"),
    ({"cache_gain": 1e9}, "cache_gain must be a number from"),
    ({"rates": {"f32": 1e-3}}, "rates.f32 must be a number from"),
    ({"compute_units": 2**40}, "compute_units must be a whole number from 1"),
    ({"compute_units": 0}, "compute_units must be a whole number above 0"),
    ({"compute_units": -3}, "compute_units must be a whole number above 0"),
    ({"compute_units": "two"}, "compute_units must be a whole number above 0"),
    ({"compute_units": 1.5}, "compute_units must be a whole number above 0"),
    ({"sub_group_size": 24}, "sub_group_size is one of"),
    ({"global_memory": 2**70}, "global_memory must be a whole number from"),
    ({"local_memory": None}, "local_memory must be a whole number above 0"),
    ({"localmemory": 1}, "no figure 'localmemory'"),
]


@pytest.mark.parametrize(("odd", "message"), REFUSED)
def test_a_figure_that_no_device_has_is_refused_by_its_name(
    figures: Any, odd: Any, message: str
) -> None:
    figures(odd)
    with pytest.raises((MgnError, RuntimeFault)) as raised:
        mgn.compile(mgn.parse("graph g(x: f32[4]) { return y = relu(x) }"), device="cpu")
    assert message in str(raised.value)


def test_random_sound_figures_of_gpus_give_kernels() -> None:
    draw = random.Random(0)
    choices: dict[str, tuple[Any, ...]] = {
        "compute_units": (1, 7, 10**6),
        "local_memory": (4096, 6000, 49152, 10**9),
        "max_work_group_size": (32, 33, 48, 100, 256, 300, 2048),
        "vector_bits": (32, 128, 4096),
        "vendor": ("nvidia", "amd", "other"),
        "matrix_unit": ("none", "mma", "wgmma"),
        "launch_cost": (0.0, 1e-5, 1.0),
        "bandwidth": (1.0, 1e12, 1e40),
        "cache": (0, 1, 2**62),
    }
    module, compiled = mgn.parse(PROGRAM), 0
    while compiled < 8:
        drawn = {
            name: draw.choice(values) for name, values in choices.items() if draw.random() < 0.6
        }
        device = DEVICES["nvidia-h200"].with_figures(**drawn)
        if not device.problem():
            for item in mgn.optimize(module, device=device).module.walk():
                if isinstance(item, FusedKernelOp):
                    entries = schedule_for(item, device).values
                    verify_whole(lower_kernel(item, "kernel", entries))
            compiled += 1


def test_a_description_in_the_ir_is_verified() -> None:
    entries = dict(DEVICES["cpu"].to_attribute().description.data)
    assert entries.keys() == FIGURES.keys()
    of = type(DEVICES["cpu"].to_attribute().description)
    without = {name: value for name, value in entries.items() if name != "compute_units"}
    with pytest.raises(VerifyException, match="lacks 'compute_units'"):
        DeviceAttr(of(without))
    with pytest.raises(VerifyException, match="no figure 'colour'"):
        DeviceAttr(of({**entries, "colour": entries["name"]}))
    with pytest.raises(VerifyException, match="compute_units must be a whole number"):
        DeviceAttr(of({**entries, "compute_units": entries["name"]}))
