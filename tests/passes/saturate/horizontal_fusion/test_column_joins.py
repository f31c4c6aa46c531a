"""Kernels of rows that also add up columns are chosen where they are cheaper, and are right."""

import numpy as np
import pytest

import mgn
from mgn.dialects.kernel import DEVICES, Device
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate import RuleClass, SaturateOptions

H200 = "nvidia-h200"

BACKWARD = {
    "layer_norm": "dx, dw, db = grad(sum(layer_norm(x, w, b, eps = 1e-5) * dy), [x, w, b])"
    "\n return dx, dw, db",
    "rms_norm": "dx, dw = grad(sum(rms_norm(x, w, eps = 1e-5) * dy), [x, w])\n return dx, dw",
    "softmax with a bias": "dx, db = grad(sum(softmax(x + b, axis = -1) * dy), [x, b])"
    "\n return dx, db",
    "gelu with a bias": "dx, db = grad(sum(gelu(x + b) * dy), [x, b])\n return dx, db",
    "gelu of scaled columns": "dx, dw, db = grad(sum(gelu(x * w + b) * dy), [x, w, b])"
    "\n return dx, dw, db",
    "a norm whose parameters are updated": "dx, dw, db = grad(sum(layer_norm(x, w, b) * dy),"
    " [x, w, b])\n return dx, nw = w - 0.1 * dw, nb = b - 0.1 * db",
    "sums both ways": "return rows = sum(x * dy, axis = -1), columns = sum(x, axis = 0) + w - b",
}


def program(name: str, rows: int, length: int, element: str = "f32") -> mgn.Module:
    of = f"{element}[{rows}, {length}]"
    line = f"{element}[{length}]"
    head = f"graph g(x: {of}, dy: {of}, w: {line}, b: {line})"
    return mgn.parse(f"{head} {{ {BACKWARD[name]} }}")


def kinds(
    module: mgn.Module, device: Device | str = H200, saturation: SaturateOptions | None = None
) -> list[str]:
    report = mgn.optimize(module, device=device, saturation=saturation).report
    return [str(kernel.kind) for kernel in report.kernels]


@pytest.mark.parametrize("name", BACKWARD)
@pytest.mark.parametrize("device", [H200, "cpu"])
def test_one_pass_over_rows_also_adds_up_columns(name: str, device: str) -> None:
    assert kinds(program(name, 16384, 4096), device) == ["row_blocks", "reduction"]


def test_rows_of_two_axes_and_halves_are_added_up_too() -> None:
    of, line = "bf16[32, 512, 1024]", "bf16[1024]"
    module = mgn.parse(
        f"graph g(x: {of}, dy: {of}, w: {line}) {{"
        " dx, dw = grad(sum(rms_norm(x, w, eps = 1e-5) * dy), [x, w])\n return dx, dw }"
    )
    assert kinds(module) == ["row_blocks", "reduction"]


def test_a_gradient_between_a_loss_and_a_bias_is_written_once() -> None:
    module = mgn.parse(
        "graph g(x: f32[16384, 4096], b: f32[4096], t: i32[16384]) {"
        " l = cross_entropy(x + b, t)\n dx, db = grad(l, [x, b])\n return l, dx, db }"
    )
    assert kinds(module).count("row_blocks") == 1


@pytest.mark.parametrize(("rows", "length"), [(128, 576), (16384, 65536), (4, 1 << 20)])
def test_few_rows_little_data_and_rows_too_long_for_registers_have_kernels_of_their_own(
    rows: int, length: int
) -> None:
    assert "row_blocks" not in kinds(program("layer_norm", rows, length))


def test_the_choice_is_the_same_where_what_repeats_is_worked_out_anew() -> None:
    module = program("layer_norm", 16384, 4096)
    anew = kinds(module, saturation=SaturateOptions(memoise=False))
    assert anew == kinds(module) == ["row_blocks", "reduction"]


def test_exact_rules_keep_the_order_of_sums() -> None:
    exact = SaturateOptions(classes=frozenset({RuleClass.EXACT}))
    found = kinds(program("layer_norm", 16384, 4096), saturation=exact)
    assert "row_blocks" not in found


def test_a_device_whose_groups_are_few_has_kernels_of_their_own() -> None:
    wide = DEVICES[H200].with_figures(name="wide", compute_units=4096)
    assert "row_blocks" not in kinds(program("layer_norm", 16384, 4096), wide)


SIZES = [(3001, 96), (2048, 129), (700, 515)]


@pytest.mark.parametrize("target", ["opencl", "spirv"])
@pytest.mark.parametrize("name", BACKWARD)
def test_what_is_chosen_agrees_with_the_interpreter(name: str, target: str) -> None:
    seen: set[str] = set()
    for rows, length in SIZES:
        module = program(name, rows, length)
        random, shapes = np.random.default_rng(rows), ((rows, length),) * 2 + ((length,),) * 2
        arrays = {
            key: random.standard_normal(shape).astype(np.float32)
            for key, shape in zip(("x", "dy", "w", "b"), shapes, strict=True)
        }
        wide = {key: array.astype(np.float64) for key, array in arrays.items()}
        (graph,) = graphs_of(module.lower())
        wanted = Interpreter(wide=True).run(graph, wide)
        executable = mgn.compile(module, device="cpu", target=target)
        found = executable(**arrays)
        seen.update(str(kernel.kind) for kernel in executable.report.kernels)
        for key, want in wanted.items():
            scale = max(float(np.max(np.abs(want))), 1e-30)
            assert np.max(np.abs(found[key] - want)) <= 1e-5 * scale, (rows, length, key)
    assert "row_blocks" in seen
