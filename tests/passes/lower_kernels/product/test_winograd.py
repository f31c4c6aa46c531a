"""Convolutions of transformed tiles: 16 products for four places, and what they round."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.utils.exceptions import VerifyException

import mgn
from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel import DEVICES
from mgn.passes.arrangements.kernel_pieces import KernelPieces
from mgn.passes.arrangements.transformed_filters import TransformedFilters
from mgn.passes.saturate import RuleClass, SaturateOptions
from mgn.passes.saturate import saturate as saturation
from mgn.passes.saturate.layouts.choice import turn_images
from mgn.passes.saturate.rules.table import DEFAULT_CLASSES
from tests.support.lower_fixture import CPU, fused_kernel, run
from tests.support.opencl_fixture import cl_queue  # noqa: F401

Pads = tuple[tuple[int, int], tuple[int, int]]

SHORT_VECTORS = DEVICES["cpu"].with_figures(
    vector_bits=256, rates={"f32": 2e11, "f64": 1e11}, l2_cache=512 * 1024
)
"""A CPU whose vectors have eight numbers."""

ELEMENTS = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1.0]])
FILTERS = np.array([[1, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 1.0]])
RESULTS = np.array([[1, 0.5, 0.5, 0], [0, 0.5, -0.5, -1]])
"""The transforms of an axis, as matrices."""

SPREADING = DEFAULT_CLASSES | {RuleClass.SPREADS}
OPTIONS = SaturateOptions(classes=SPREADING)

UNIT = {"f32": 2.0**-24, "f64": 2.0**-53}


def convolution(
    image: tuple[int, int, int, int], filters: int, pads: Pads, element: str = "f32"
) -> FusedKernelOp:
    """A convolution of an image with its channels last, with what follows it."""
    number, height, width, channels = image
    (top, bottom), (left, right) = pads
    rows, columns = height + top + bottom - 2, width + left + right - 2
    shape = (number, rows, columns, filters)

    def build(b: Any, x: Any, w: Any, shift: Any, other: Any) -> Any:
        padded = b.pad(x, [[0, 0], [top, bottom], [left, right], [0, 0]], 0.0)
        found = b.windows(b.transpose(padded, [0, 3, 1, 2]), [3, 3], [1, 1], [1, 1])
        found = b.transpose(found, [0, 2, 3, 4, 5, 1])
        found = b.reshape(found, [number * rows * columns, 9 * channels])
        y = b.reshape(b.matmul(found, w, transpose_b=True), shape)
        return b.relu(b.add(b.add(y, shift), other))

    types = [(element, image), (element, (filters, 9 * channels))]
    return fused_kernel("contraction", [*types, (element, (filters,)), (element, shape)], build)


def transformed(fused: FusedKernelOp, columns: int) -> list[FusedKernelOp]:
    """The kernels that transform the filters, and multiply."""
    pieces = KernelPieces(fused)
    TransformedFilters(columns).write(pieces)
    made = pieces.replace()
    for kernel in made:
        kernel.verify()
    return made


def by_tiles(x: np.ndarray, w: np.ndarray, pads: Pads, sizes: bool) -> np.ndarray:
    """The convolution by the transforms, in f64; of `sizes`, what all their terms come to."""
    kept = np.abs if sizes else np.asarray
    b, g, a = kept(ELEMENTS), kept(FILTERS), kept(RESULTS)
    (top, bottom), (left, right) = pads
    rows, columns = (x.shape[1] + top + bottom - 2, x.shape[2] + left + right - 2)
    more = ((0, 0), (top, bottom + rows % 2), (left, right + columns % 2), (0, 0))
    padded = np.pad(kept(x).astype(np.float64), more)
    u = np.einsum("iy,jx,oyxc->ijoc", g, g, kept(w).astype(np.float64))
    whole = np.zeros((x.shape[0], rows + rows % 2, columns + columns % 2, w.shape[0]))
    for y in range(0, rows, 2):
        for z in range(0, columns, 2):
            v = np.einsum("iy,jx,nyxc->ijnc", b, b, padded[:, y : y + 4, z : z + 4])
            m = np.einsum("ijnc,ijoc->ijno", v, u)
            whole[:, y : y + 2, z : z + 2] = np.einsum("yi,xj,ijno->nyxo", a, a, m)
    return whole[:, :rows, :columns]


def direct(x: np.ndarray, w: np.ndarray, pads: Pads) -> np.ndarray:
    """The convolution by its definition, in f64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), *pads, (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.einsum("nhwcyx,oyxc->nhwo", views, w.astype(np.float64))


def bound(x: np.ndarray, w: np.ndarray, pads: Pads, unit: float) -> np.ndarray:
    """What results may be off by. Elements are rounded twice, filters four times, sums once for
    each channel, results four times.
    """
    return (x.shape[3] + 11) * unit * by_tiles(x, w, pads, True)


def test_tiles_come_to_what_windows_come_to() -> None:
    random = np.random.default_rng(0)
    x, w = random.standard_normal((2, 5, 4, 3)), random.standard_normal((2, 3, 3, 3))
    pads = ((1, 0), (1, 1))
    np.testing.assert_allclose(by_tiles(x, w, pads, False), direct(x, w, pads), atol=1e-12)


SIDES = ((0, 0), (1, 1), (0, 1), (2, 1))


@given(data=st.data())
@settings(deadline=None, max_examples=8, suppress_health_check=list(HealthCheck))
def test_results_are_off_by_what_transforms_round(data: Any, cl_queue: Any) -> None:  # noqa: F811
    """Of odd sizes, several images, uneven padding, small and large magnitudes side by side."""
    element = data.draw(st.sampled_from(["f32", "f32", "f64"]))
    lanes = CPU.lanes(4 if element == "f32" else 8)
    pads = tuple(data.draw(st.sampled_from(SIDES)) for _ in range(2))
    sides = [data.draw(st.integers(max(1, 3 - sum(pad)), 9)) for pad in pads]
    channels, filters = (part * data.draw(st.integers(1, 3)) for part in (lanes, 2 * lanes))
    image = (data.draw(st.integers(1, 2)), *sides, channels)
    fused = convolution(image, filters, pads, element)  # type: ignore
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    dtype = np.dtype({"f32": "float32", "f64": "float64"}[element])
    shapes = [value.type.get_shape() for value in fused.block.args]  # type: ignore
    x, w, shift, other = (random.standard_normal(shape).astype(dtype) for shape in shapes)
    most = data.draw(st.sampled_from([1, 10]))
    x *= np.exp2(random.integers(1 - most, most, x.shape)).astype(dtype)
    pack, multiply = transformed(fused, 2 * lanes)
    (packed,) = run(cl_queue, pack, [w], CPU)
    local = data.draw(st.sampled_from([256 * 1024, 16 * 1024 * dtype.itemsize]))
    (found,) = run(cl_queue, multiply, [x, shift, other, packed], CPU, local_memory=local)
    rows = w.reshape(filters, 3, 3, channels)
    want = direct(x, rows, pads) + shift + other
    slack = bound(x, rows, pads, UNIT[element])
    slack += 4 * UNIT[element] * (np.abs(want) + np.abs(shift) + np.abs(other))
    assert np.all(np.abs(found - np.maximum(want, 0)) <= slack)


NETWORK = """graph g(x: f32[1, 64, 14, 13]) {
  param v: f32[64, 64, 1, 1] = he_normal()
  param w: f32[64, 64, 3, 3] = he_normal()
  param s: f32[64] = ones()
  h = relu(batch_norm(conv2d(x, v), s, s, s, s))
  return y = relu(batch_norm(conv2d(h, w, padding = 1), s, s, s, s) + h)
}"""

WORDS = "filters transformed"


def arrangements(device: Any, classes: frozenset[RuleClass], text: str = NETWORK) -> list[str]:
    options = SaturateOptions(classes=classes)
    optimised = mgn.optimize(mgn.parse(text), device=device, saturation=options)
    report: Any = optimised.report.saturation
    return [name for name in report.arrangements if WORDS in name]


@pytest.fixture
def channels_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images have their channels last, whatever the other layout costs."""

    def last(graph: Any, choose: Any, settle: Any) -> Any:
        assert turn_images(graph) > 0
        return settle(graph)

    monkeypatch.setattr(saturation, "with_best_layout", last)


@pytest.mark.usefixtures("channels_last")
def test_errors_spread_only_where_that_is_allowed() -> None:
    """By default each result has the error of its own terms."""
    assert len(arrangements(SHORT_VECTORS, SPREADING)) == 1
    assert not arrangements(SHORT_VECTORS, DEFAULT_CLASSES)
    assert not arrangements(SHORT_VECTORS, frozenset({RuleClass.EXACT}))


@pytest.mark.usefixtures("channels_last")
@pytest.mark.parametrize(
    "filters, how, tiled",
    [
        ("64, 64, 3, 3", "", True),
        ("64, 64, 3, 3", ", dilation = 2", False),
        ("64, 64, 3, 3", ", stride = 2", False),
        ("64, 32, 3, 3", ", groups = 2", False),
        ("64, 64, 5, 3", "", False),
        ("60, 64, 3, 3", "", False),
    ],
    ids=["plain", "apart", "every second place", "groups", "larger", "filters that fill no panels"],
)
def test_other_convolutions_have_no_tiles(filters: str, how: str, tiled: bool) -> None:
    text = f"""graph g(x: f32[1, 64, 14, 13]) {{
  param v: f32[64, 64, 1, 1]
  param w: f32[{filters}]
  return y = conv2d(relu(conv2d(x, v)), w, padding = 1{how})
}}"""
    assert bool(arrangements(SHORT_VECTORS, SPREADING, text)) is tiled


def test_gpus_multiply_all_elements() -> None:
    assert not arrangements("nvidia-h200", SPREADING)


@pytest.mark.usefixtures("channels_last")
@pytest.mark.parametrize("target", ["opencl", "spirv"])
def test_both_targets_compute_the_same(target: str) -> None:
    """A network with a norm in the filters and a residual after them."""
    executable = mgn.compile(mgn.parse(NETWORK), device="cpu", target=target, saturation=OPTIONS)
    for name in executable.params.without_value:
        executable.params.initialise(name)
    values = {name: np.asarray(executable.params[name], np.float64) for name in executable.params}
    x = np.random.default_rng(3).standard_normal((1, 64, 14, 13)).astype(np.float32)
    found = executable(x=x)["y"]
    assert WORDS in str(executable.report)

    def normed(value: np.ndarray) -> np.ndarray:
        return (value - 1) / np.sqrt(1 + 1e-5) + 1

    v, w = values["v"][:, :, 0, 0], values["w"].transpose(0, 2, 3, 1)
    h = np.maximum(normed(np.einsum("nchw,oc->nhwo", x.astype(np.float64), v)), 0)
    pads = ((1, 1), (1, 1))
    want = np.maximum(normed(direct(h, w, pads)) + h, 0)
    unit = UNIT["f32"]
    off = 72 * unit * (np.einsum("nchw,oc->nhwo", np.abs(x), np.abs(v)) + 3)
    slack = bound(h + off, w, pads, unit) + direct(off, np.abs(w), pads) + off
    error = np.abs(found.transpose(0, 2, 3, 1) - want)
    assert np.all(error <= slack + 8 * unit * (want + 3))


def test_what_a_kernel_says_of_its_filters_is_so() -> None:
    fused = convolution((1, 6, 6, 16), 32, ((1, 1), (1, 1)))
    fused.arranged = ScheduleAttr.of(right="transformed")
    with pytest.raises(VerifyException, match="transformed ones in memory"):
        fused.verify()
