"""Products whose kernels reduce the rows that they multiply: norms before them, scales after."""

from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

import mgn
from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.kernel import DEVICES, Device
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate import SaturateOptions, saturate_graph
from mgn.passes.saturate.rules.rule import RuleClass
from mgn.passes.saturate.rules.table import DEFAULT_CLASSES, ROUNDING_CLASSES
from mgn.passes.schedules.product.product import ProductVariant
from tests.passes.lower_kernels.test_differential import draw
from tests.passes.saturate.saturate_programs import body_names, kernels_of
from tests.support.lower_fixture import (
    CPU,
    GPU_ON_CPU,
    expected,
    fused_kernel,
    lowered,
    run,
    scheduled,
)
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

H200 = DEVICES["nvidia-h200"]


def root_mean_square(b: Any, x: Any) -> Any:
    length = x.type.get_shape()[-1]
    squares = b.sum(b.mul(x, x), axis=-1, keepdims=True)
    return b.rsqrt(b.add(b.div(squares, float(length)), 1e-5))


def rms_before(b: Any, x: Any, s: Any, w: Any, z: Any) -> Any:
    normed = b.mul(b.mul(x, root_mean_square(b, x)), s)
    return b.add(b.matmul(normed, w, transpose_b=True), z)


def layer_before(b: Any, x: Any, s: Any, w: Any, z: Any) -> Any:
    length = float(x.type.get_shape()[-1])
    centred = b.sub(x, b.div(b.sum(x, axis=-1, keepdims=True), length))
    variance = b.div(b.sum(b.mul(centred, centred), axis=-1, keepdims=True), length)
    normed = b.mul(b.mul(centred, b.rsqrt(b.add(variance, 1e-5))), s)
    return b.add(b.matmul(normed, w, transpose_b=True), z)


def scaled_after(b: Any, x: Any, s: Any, w: Any, z: Any) -> Any:
    product = b.matmul(x, b.mul(w, s), transpose_b=True)
    return b.add(b.mul(product, root_mean_square(b, x)), z)


def largest_apart(b: Any, x: Any, s: Any, w: Any, z: Any) -> Any:
    """A number a row without an axis of one, which is given back that axis."""
    *outer, _ = x.type.get_shape()
    largest = b.reshape(b.max_reduce(b.abs(x), axis=-1, keepdims=False), [*outer, 1])
    return b.div(b.add(b.matmul(b.mul(x, s), w, transpose_b=True), z), b.add(largest, 1.0))


def gated(b: Any, x: Any, s: Any, w: Any, z: Any) -> Any:
    *outer, columns = z.type.get_shape()
    zeros, ones = [0] * len(outer), [1] * (len(outer) + 1)
    r = root_mean_square(b, x)
    product = b.matmul(x, w, transpose_b=True)
    gate = b.slice(product, [*zeros, 0], [*outer, columns // 2], ones)
    up = b.slice(product, [*zeros, columns // 2], [*outer, columns], ones)
    return b.mul(b.silu(b.mul(gate, r)), b.mul(up, r))


def scaled_beside(b: Any, x: Any, s: Any, w: Any, z: Any) -> Any:
    product = b.matmul(b.mul(x, s), w, transpose_b=True)
    return b.add(b.mul(product, root_mean_square(b, x)), z)


FORMS = (rms_before, layer_before, scaled_after, largest_apart, gated)
OF_FEW_ROWS = (rms_before, layer_before, scaled_beside, largest_apart)


def product_of(form: Any, rows: tuple[int, ...], columns: int, depth: int) -> FusedKernelOp:
    types = [
        ("f32", shape) for shape in ((*rows, depth), (depth,), (columns, depth), (*rows, columns))
    ]
    return fused_kernel("contraction", types, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [((5,), 2, 40), ((70,), 36, 96), ((2, 9), 10, 33)]
)
def test_rows_are_reduced_in_the_kernel_of_their_product(
    form: Any,
    rows: tuple[int, ...],
    columns: int,
    depth: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    kernel = product_of(form, rows, columns, depth)
    shapes = [argument.type.get_shape() for argument in kernel.block.args]  # type: ignore
    arrays = [draw("bf16", shape, n).astype(np.float32) for n, shape in enumerate(shapes)]
    (want,) = expected(kernel, arrays)
    (got,) = run(cl_queue, kernel, arrays, GPU_ON_CPU)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("turned", [False, True], ids=["rows of weights", "columns of weights"])
@pytest.mark.parametrize("form", OF_FEW_ROWS)
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [((1,), 70, 96), ((3,), 2, 41), ((2, 4), 33, 576), ((1, 2), 9, 7), ((2,), 3, 2052)],
)
def test_few_rows_are_reduced_by_each_group_of_their_product(
    form: Any,
    rows: tuple[int, ...],
    columns: int,
    depth: int,
    turned: bool,
    cl_queue: Any,  # noqa: F811
) -> None:
    weights = (depth, columns) if turned else (columns, depth)
    types = [("f32", shape) for shape in ((*rows, depth), (depth,), weights, (*rows, columns))]

    def body(b: Any, x: Any, s: Any, w: Any, z: Any) -> Any:
        return form(b, x, s, b.transpose(w, [1, 0]) if turned else w, z)

    kernel = fused_kernel("contraction", types, body)
    assert scheduled(kernel, GPU_ON_CPU)["variant"] == ProductVariant.FEW_ROWS
    arrays = [
        draw("bf16", shape, number).astype(np.float32) for number, (_, shape) in enumerate(types)
    ]
    (want,) = expected(kernel, arrays)
    (got,) = run(cl_queue, kernel, arrays, GPU_ON_CPU)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


@pytest.mark.parametrize("rows", [1, 64])
def test_a_cpu_has_no_template_for_it(rows: int) -> None:
    with pytest.raises(VerifyException, match="on a GPU only"):
        lowered(product_of(rms_before, (rows,), 128, 64), CPU)


def program(norm: str, rows: int, width: int, columns: int, operand: str = "{}") -> str:
    left, right = operand.format(norm), operand.format("w.T")
    return f"""graph g(x: f32[{rows}, {width}]) {{
      param s: f32[{width}]
      param b: f32[{width}]
      param w: f32[{columns}, {width}]
      return y = {left} @ {right}
    }}"""


def kinds_of(
    text: str, device: Device, classes: frozenset[RuleClass] = DEFAULT_CLASSES
) -> list[KernelKind]:
    """The kinds of the kernels of a run."""
    graph = next(graphs_of(mgn.parse(text).lower()))
    saturate_graph(graph, device, SaturateOptions(classes))
    of_runs = [op for op in kernels_of(graph) if {"matmul", "sum"} & set(body_names(op))]
    return [op.kernel_kind for op in of_runs]


@pytest.mark.parametrize("rows", [1, 4, 128])
@pytest.mark.parametrize("norm", ["rms_norm(x, s)", "layer_norm(x, s, b)"])
def test_a_norm_before_a_small_product_is_part_of_its_kernel(norm: str, rows: int) -> None:
    assert kinds_of(program(norm, rows, 576, 960), H200) == [KernelKind.CONTRACTION]


@pytest.mark.parametrize(
    ("sizes", "device"),
    [
        ((4096, 4096, 4096), H200),
        ((16, 3600, 4096), H200),
        ((1024, 576, 960), H200.with_figures(launch_cost=1e-7)),
        ((4, 576, 9600), H200.with_figures(launch_cost=1e-7)),
        ((128, 576, 960), CPU.with_figures(launch_cost=1.0)),
    ],
    ids=[
        "many columns to read rows for",
        "long rows",
        "cheap launches",
        "few rows and cheap launches",
        "a CPU",
    ],
)
def test_a_norm_is_a_kernel_of_its_own_where_that_is_cheaper_or_must_be(
    sizes: tuple[int, int, int], device: Device
) -> None:
    """Also where products are cut, and what a row is divided by comes after them."""
    graph = next(graphs_of(mgn.parse(program("rms_norm(x, s)", *sizes)).lower()))
    saturate_graph(graph, device, SaturateOptions(DEFAULT_CLASSES))
    bodies = [set(body_names(op)) for op in kernels_of(graph)]
    assert any("matmul" in names for names in bodies)
    assert [names >= {"matmul", "rsqrt"} for names in bodies] == [False] * len(bodies)
    assert sum("rsqrt" in names for names in bodies) == 1


def test_bits_that_count_keep_norms_and_products_apart() -> None:
    exact = frozenset({RuleClass.EXACT})
    kinds = kinds_of(program("rms_norm(x, s)", 128, 576, 960), H200, exact)
    assert KernelKind.REDUCTION in kinds and KernelKind.CONTRACTION in kinds


def test_a_precision_may_round_what_a_norm_is_made_of() -> None:
    """The rows are too long to be kept in local memory, where they could be rounded as a whole."""
    text = program("rms_norm(x, s)", 128, 1536, 1536, "round_tf32({})")
    assert KernelKind.REDUCTION in kinds_of(text, H200)
    assert kinds_of(text, H200, ROUNDING_CLASSES) == [KernelKind.CONTRACTION]


@pytest.mark.parametrize("precision", ["f32", "tf32"])
def test_a_compiled_program_computes_its_norm_to_the_precision(precision: str) -> None:
    text = program("rms_norm(x, s)", 9, 32, 8)
    rng = np.random.default_rng(3)
    x, s, w = (rng.standard_normal(shape, np.float32) for shape in ((9, 32), (32,), (8, 32)))
    executable = mgn.compile(mgn.parse(text), precision=precision)
    for name, value in {"s": s, "w": w}.items():
        executable.params[name] = value
    wide, scaled = x.astype(np.float64), s.astype(np.float64)
    normed = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-5) * scaled
    bound = 2.0**-20 if precision == "f32" else 2.0**-10
    most = bound * (np.abs(normed) @ np.abs(w.T.astype(np.float64)))
    assert (np.abs(executable(x=x)["y"] - normed @ w.T) <= most).all()


def sums(b: Any, x: Any, keepdims: bool = True) -> Any:
    return b.sum(x, axis=1, keepdims=keepdims)


def scaled(b: Any, x: Any, y: Any, factors: Any) -> Any:
    return b.mul(b.matmul(x, y, transpose_b=True), factors)


@pytest.mark.parametrize(
    ("why", "shapes", "build"),
    [
        (
            "must reduce rows",
            ((16, 8), (12, 8)),
            lambda b, x, y: scaled(b, x, y, sums(b, y, False)),
        ),
        ("has no rows to reduce", ((16, 8), (1, 8)), lambda b, x, y: scaled(b, x, y, sums(b, x))),
        (
            "has no rows to reduce",
            ((8, 16), (12, 8)),
            lambda b, x, y: b.matmul(b.mul(x, sums(b, x)), y, transpose_a=True, transpose_b=True),
        ),
        (
            "cannot depend on rows",
            ((16, 16), (16, 16)),
            lambda b, x, y: b.matmul(y, b.mul(x, sums(b, x))),
        ),
        (
            "leaves the rows",
            ((16, 8), (16, 8)),
            lambda b, x, y: scaled(b, x, y, sums(b, x, keepdims=False)),
        ),
        (
            "rows of one length",
            ((16, 8), (12, 8)),
            lambda b, x, y: b.mul(
                scaled(b, x, y, sums(b, x)), sums(b, b.slice(x, [0, 0], [16, 4], [1, 1]))
            ),
        ),
    ],
    ids=["rows of the right", "a column", "turned", "in the right", "as columns", "two lengths"],
)
def test_other_reductions_beside_products_are_refused(why: str, shapes: Any, build: Any) -> None:
    with pytest.raises(VerifyException, match=why):
        fused_kernel("contraction", [("f32", shape) for shape in shapes], build)
