"""Parameters of block formats: packing, and programs that read them as they lie."""

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.block_formats import BLOCK_FORMATS, split_parts
from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.dialects.types import ELEMENT_TYPES
from mgn.driver.compilation import compile_graph
from mgn.driver.residency import residing
from mgn.modules.dialect_table import make_context
from mgn.passes.unpack_blocks import UnpackBlocks
from mgn.runtime.errors import InputError, WeightsError
from tests.conftest import Outcome, run_in_process
from tests.passes.lower_kernels.test_differential import draw
from tests.support.lower_fixture import (
    FORMS,
    Run,
    check_all,
    forms_of,
    fused_kernel,
    scheduled,
)
from tests.support.opencl_fixture import cl_queue  # noqa: F401

FORMATS = list(BLOCK_FORMATS)
EPSILON = 2.0**-23


def values_by_loops(packed: np.ndarray, format: str) -> np.ndarray:
    """What packed bytes stand for, read block by block as llama.cpp's structs say."""
    size = {"q8_0": 34, "q4_1": 20}[format]
    rows = packed.reshape(prod(packed.shape[:-1]), packed.shape[-1])
    found = np.zeros((len(rows), packed.shape[-1] // size * 32))
    for row, data in enumerate(rows):
        for start in range(0, len(data), size):
            block, at = data[start : start + size].tobytes(), start // size * 32
            scale = np.float64(np.frombuffer(block, "<f2", 1)[0])
            for n in range(32):
                if format == "q8_0":
                    code, low = np.frombuffer(block, "i1")[2 + n], 0.0
                else:
                    byte = block[4 + n % 16]
                    code = byte & 15 if n < 16 else byte >> 4
                    low = np.float64(np.frombuffer(block, "<f2", 2)[1])
                found[row, at + n] = scale * float(code) + low
    return found.reshape(*packed.shape[:-1], found.shape[-1])


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("shape", [(32,), (5, 64), (2, 3, 96), (0, 32), (3, 0), (1, 1, 32)])
def test_packed_values_are_those_of_the_blocks(format: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(len(shape)).standard_normal(shape, np.float32)
    packed = mgn.pack_blocks(values, format)
    assert packed.dtype == np.uint8
    assert packed.shape == BLOCK_FORMATS[format].packed_shape(shape)
    unpacked = mgn.unpack_blocks(packed, format)
    assert unpacked.dtype == np.float32
    np.testing.assert_allclose(unpacked, values_by_loops(packed, format), 1e-6, 1e-6)
    reach = np.abs(values).max(initial=0.0) * (2 if format == "q4_1" else 1)
    step = reach / {"q8_0": 127, "q4_1": 15}[format]
    assert np.abs(unpacked - values).max(initial=0.0) <= 0.51 * step + 1e-3 * reach


@pytest.mark.parametrize("format", FORMATS)
def test_the_interpreter_reads_packed_values_beside_gradients(format: str) -> None:
    text = f"""
        param w: {format}[3, 32]
        graph g(x: f32[2, 32]) {{ return d = grad(sum((x @ w.T) ** 2), x) }}
    """
    x, values = np.random.default_rng(0).standard_normal((5, 32), np.float32)[:2], np.eye(3, 32)
    packed = mgn.pack_blocks(values.astype(np.float32), format)
    (graph,) = graphs_of(mgn.parse(text).lower())
    w = values_by_loops(packed, format)
    found = Interpreter({"w": packed}, wide=True).run(graph, {"x": x})["d"]
    np.testing.assert_allclose(found, 2 * (x @ w.T) @ w, 1e-5, 1e-6)


def test_special_blocks_are_packed_or_refused() -> None:
    for format in FORMATS:
        zeros = np.zeros(32, np.float32)
        assert not mgn.unpack_blocks(mgn.pack_blocks(zeros, format), format).any()
        for bad in (np.inf, -np.inf, np.nan, 3e38):
            with pytest.raises(ValueError, match="not finite, or too large"):
                mgn.pack_blocks(np.where(np.arange(32) % 2, bad, 0.0), format)
        with pytest.raises(ValueError, match="the last axis of \\[31\\]"):
            mgn.pack_blocks(np.zeros(31, np.float32), format)
        with pytest.raises(ValueError, match="floats are packed, not int32"):
            mgn.pack_blocks(np.zeros(32, np.int32), format)
        with pytest.raises(ValueError, match="is not u8 whose last axis"):
            mgn.unpack_blocks(np.zeros(33, np.uint8), format)
    with pytest.raises(ValueError, match="unknown block format 'q9'"):
        mgn.pack_blocks(np.zeros(32, np.float32), "q9")


def program(format: str, rows: int) -> mgn.Module:
    """Products with a packed parameter, its rows by id, and itself."""
    return mgn.parse(
        f'param w: {format}[70, 64] as "a.w" = normal(std = 0.5)\n'
        f"graph g(x: f32[{rows}, 64], z: f32[{rows}, 70], ids: i32[5]) {{\n"
        "  return y = x @ w.T, e = embedding(ids, w), back = z @ w, s = sum(w), w\n}"
    )


def given(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    x, z = (rng.standard_normal((rows, size), np.float32) for size in (64, 70))
    return {"x": x, "z": z, "ids": np.array([0, 69, 3, 3, 17], np.int32)}


def check(found: dict[str, np.ndarray], inputs: dict[str, np.ndarray], w: np.ndarray) -> None:
    """Results against NumPy in f64, each sum within its own terms' rounding."""
    wide = w.astype(np.float64)
    x, z = (inputs[name].astype(np.float64) for name in ("x", "z"))
    for name, left, right in (("y", x, wide.T), ("back", z, wide)):
        bound = 2 * left.shape[-1] * EPSILON * (np.abs(left) @ np.abs(right))
        assert (np.abs(found[name] - left @ right) <= bound).all()
    assert abs(found["s"] - wide.sum()) <= 64 * EPSILON * np.abs(wide).sum()
    np.testing.assert_array_equal(found["e"], w[inputs["ids"]])
    np.testing.assert_array_equal(found["w"], w)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_programs_read_packed_parameters(format: str, rows: int) -> None:
    module, inputs = program(format, rows), given(rows)
    values = np.random.default_rng(7).standard_normal((70, 64), np.float32)
    packed = mgn.pack_blocks(values, format)
    exe = mgn.compile(module)
    exe.params["a.w"] = packed
    np.testing.assert_array_equal(exe.params["a.w"], packed)
    check(exe(**inputs), inputs, mgn.unpack_blocks(packed, format))
    exe.params["a.w"] = values[::-1]
    again = mgn.pack_blocks(values[::-1], format)
    np.testing.assert_array_equal(exe.params["a.w"], again)
    check(exe(**inputs), inputs, mgn.unpack_blocks(again, format))
    ir = module.lower("g")
    graph = next(graphs_of(ir))
    check(
        Interpreter({"a.w": packed}).run(graph, inputs), inputs, mgn.unpack_blocks(packed, format)
    )
    UnpackBlocks().apply(make_context(), ir)
    ir.verify()
    check(
        Interpreter({"a.w": packed}).run(graph, inputs), inputs, mgn.unpack_blocks(packed, format)
    )


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
def test_products_leave_no_unpacked_copy_in_memory(format: str, device: str) -> None:
    text = (
        f"graph g(x: f32[1, 1024], ids: i32[3]) {{ param w: {format}[2048, 1024] = zeros()\n"
        "  return y = x @ w.T, e = embedding(ids, w) }"
    )
    described = residing(DEVICES[device], "off")
    compiled = compile_graph(mgn.parse(text).lower("g"), described)
    assert compiled.plan.arena < 1 << 16
    assert sum(item.bytes for item in compiled.report.derived) <= 2 * 4 * 2048 * 1024 // 32
    assert [line.kind for line in compiled.report.kernels].count("contraction") == 1


def unpacked(
    format: str, n: int, k: int
) -> tuple[list[tuple[str, tuple[int, ...]]], Callable[..., Any]]:
    """The types of a packed tensor's parts, and its values as a kernel computes them."""
    parts = BLOCK_FORMATS[format].parts
    types = [(part.element, BLOCK_FORMATS[format].part_shape(part, (n, k))) for part in parts]

    def build(b: Any, x: Any, *fields: Any) -> Any:
        shaped = [
            b.cast(b.reshape(field, [n, k // 32, part.count]), ELEMENT_TYPES["f32"])
            for field, part in zip(fields, parts, strict=True)
        ]
        *_, values = shaped
        if format == "q4_1":
            high = b.floor(b.mul(values, 1 / 16))
            values = b.concat([b.sub(values, b.mul(high, 16)), high], axis=-1)
        values = b.mul(values, shaped[0])
        if format == "q4_1":
            values = b.add(values, shaped[1])
        return b.matmul(x, b.reshape(values, [n, k]), transpose_b=True)

    return types, build


def test_products_of_few_rows_unpack_on_the_way_in_every_form(cl_queue: Any) -> None:  # noqa: F811
    rng = np.random.default_rng(5)
    runs: list[Run] = []
    for format in FORMATS:
        for rows, n, k in ((1, 37, 96), (1, 200, 1056), (3, 8, 64), (2, 1, 32), (20, 33, 160)):
            types, build = unpacked(format, n, k)
            kernel = fused_kernel("contraction", [("f32", (rows, k)), *types], build)
            parts = split_parts(
                mgn.pack_blocks(rng.standard_normal((n, k), np.float32), format), format
            )
            assert (scheduled(kernel, FORMS["gpu"]).get("packed") == 1) == (rows < 5 and n > 1)
            arrays = [draw("f32", (rows, k), 1), *parts.values()]
            runs += forms_of(kernel, arrays, f"{format} {rows} {n} {k}")

    def near(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        depth = run.arrays[0].shape[-1]
        bound = 16.0 * EPSILON * depth * np.abs(run.arrays[0]).max()
        np.testing.assert_allclose(got[0], want[0], 0, bound, err_msg=run.what)

    check_all(cl_queue, runs, near)


@pytest.mark.parametrize("format", FORMATS)
def test_a_gpu_reads_scales_as_they_lie(format: str) -> None:
    """Two bytes for a block of codes: a copy in f32 would be more to read, and more to hold."""
    text = f"graph g(x: f32[1, 1024]) {{ param w: {format}[2048, 1024]\n return y = x @ w.T }}"
    report = mgn.optimize(mgn.parse(text), device="nvidia-h200").report
    assert [line.kind for line in report.kernels] == ["contraction"]


@pytest.mark.parametrize("format", FORMATS)
def test_packed_parameters_are_saved_loaded_and_packaged(format: str, tmp_path: Path) -> None:
    from mgn.commands.run import main

    source = tmp_path / "g.mgn"
    source.write_text(
        f'graph g(x: f32[2, 64]) {{ param w: {format}[7, 64] as "w"\n return y = x @ w.T }}'
    )
    exe = mgn.compile(mgn.parse_file(source))
    x = np.random.default_rng(1).standard_normal((2, 64), np.float32)
    with pytest.raises(InputError, match="1 parameter has no value: 'w'"):
        exe(x=x)
    values = np.random.default_rng(2).standard_normal((7, 64), np.float32)
    exe.params["w"] = values
    want = exe(x=x)["y"]
    exe.save_params(tmp_path / "packed.safetensors")
    np.savez(tmp_path / "floats.npz", w=values)
    np.savez(tmp_path / "in.npz", x=x)
    for name in ("packed.safetensors", "floats.npz"):
        other = mgn.compile(mgn.parse_file(source))
        assert other.load_params(tmp_path / name) == 0
        np.testing.assert_array_equal(other(x=x)["y"], want)
        weights, package = ("--params", str(tmp_path / name)), str(tmp_path / "g.mgnpkg")
        ran: Outcome = run_in_process(
            main, [str(source), *weights, "--emit=package", "-o", package]
        )
        assert ran.status == 0, ran.stderr
        assert "1 of 1 parameter embedded" in ran.stderr
        packaged = mgn.load_package(package)
        assert list(packaged.params) == ["w"]
        np.testing.assert_array_equal(packaged(x=x)["y"], want)
        out = tmp_path / "out.npz"
        inputs = ("--inputs", str(tmp_path / "in.npz"), "--outputs", str(out))
        assert run_in_process(main, [str(source), *weights, *inputs]).status == 0
        np.testing.assert_array_equal(np.load(out)["y"], want)


def test_what_does_not_fit_a_packed_parameter_is_said() -> None:
    exe = mgn.compile(mgn.parse("graph g() { param w: q8_0[2, 64]\n return y = sum(w) }"))
    size = "q8_0[2, 64]"
    for value, message in (
        (np.zeros((2, 67), np.uint8), rf"has shape \[2, 67\], not \[2, 68\] \({size[:4]}"),
        (np.zeros((2, 32), np.float32), r"has shape \[2, 32\], not \[2, 64\]"),
        (np.zeros((2, 64), np.int32), "has dtype int32, not np.uint8 of packed blocks, or floats"),
        (np.full((2, 64), np.nan, np.float32), "cannot be packed: .* not finite"),
    ):
        with pytest.raises(InputError, match=f"parameter 'w' {message}"):
            exe.params["w"] = value


def test_a_file_without_a_packed_parameter_names_it(tmp_path: Path) -> None:
    exe = mgn.compile(mgn.parse("graph g() { param w: q4_1[2, 64]\n return y = sum(w) }"))
    np.savez(tmp_path / "w.npz", w=np.zeros((2, 64), np.int8))
    with pytest.raises(WeightsError, match=r"'w' has dtype int8, not np.uint8"):
        exe.load_params(tmp_path / "w.npz")
    np.savez(tmp_path / "v.npz", v=np.zeros((2, 64), np.int8))
    with pytest.raises(WeightsError, match=r"'w' \(q4_1\[2, 64\]\) is missing"):
        exe.load_params(tmp_path / "v.npz")


def test_the_last_axis_of_a_packed_parameter_is_of_whole_blocks() -> None:
    for shape in ("[2, 33]", "[]", ""):
        with pytest.raises(mgn.DiagnosticsError, match="the last axis is of whole blocks, 32"):
            mgn.parse(f"param w: q8_0{shape}\ngraph g() {{ return y = w }}").lower("g")


def test_two_graphs_share_a_packed_parameter() -> None:
    module = mgn.parse(
        "param w: q8_0[4, 32] = ones()\n"
        "graph f(x: f32[32]) { return y = w @ x }\ngraph g() { return s = sum(w) }"
    )
    both = mgn.compile(module, graph=["f", "g"])
    assert abs(both["g"]()["s"] - 128) < 0.1
    both.params["w"] = np.full((4, 32), 2, np.float32)
    np.testing.assert_allclose(both["f"](x=np.ones(32, np.float32))["y"], np.full(4, 64), 0.01)
    assert list(both.params) == ["w"]
