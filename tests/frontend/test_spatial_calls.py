"""Convolutions, pooling and resizing as the language spells them: what is taken, what is not."""

import pytest

import mgn
from mgn.diagnostics import DiagnosticsError
from tests.support.programs import parse

INPUTS = (
    "x: f32[1, 4, 6, 8], w: f32[6, 2, 3, 3], u: f32[4, 3, 3, 3], b: f32[6], line: f32[1, 4, 6], "
    "i: i32[1, 4, 6, 8]"
)

TAKEN: list[tuple[str, list[int]]] = [
    ("conv2d(x, w, groups = 2)", [1, 6, 4, 6]),
    ('conv2d(x, w, b, padding = "same", groups = 2)', [1, 6, 6, 8]),
    ('conv2d(x, w, stride = 2, padding = "same", groups = 2)', [1, 6, 3, 4]),
    ('conv2d(x, w, padding = "valid", groups = 2)', [1, 6, 4, 6]),
    ("conv2d(x, w, padding = [1, 0], groups = 2)", [1, 6, 6, 6]),
    ("conv2d(x, w, padding = [[0, 1], [2, 0]], groups = 2)", [1, 6, 5, 8]),
    ("conv_transpose2d(x, u, stride = 2, padding = 1, output_padding = 1)", [1, 3, 12, 16]),
    ('conv_transpose2d(x, u, stride = [2, 1], padding = "same")', [1, 3, 12, 8]),
    ("max_pool2d(x, 3, stride = 2, padding = 1)", [1, 4, 3, 4]),
    ("max_pool2d(x, [3, 2])", [1, 4, 2, 4]),
    ("max_pool2d(x, 4)", [1, 4, 1, 2]),
    ("max_pool2d(x, 4, ceil_mode = true)", [1, 4, 2, 2]),
    ("max_pool2d(i, 2)", [1, 4, 3, 4]),
    ("max_pool1d(line, 2)", [1, 4, 3]),
    ("global_avg_pool(x)", [1, 4, 1, 1]),
    ("adaptive_avg_pool2d(x, [4, 3])", [1, 4, 4, 3]),
    ("adaptive_max_pool2d(x, 5)", [1, 4, 5, 5]),
    ("upsample(x, 2)", [1, 4, 12, 16]),
    ('upsample(x, size = [7, 5], mode = "bilinear", align_corners = true)', [1, 4, 7, 5]),
    ("pixel_shuffle(x, 2)", [1, 1, 12, 16]),
    ("pixel_unshuffle(x, 2)", [1, 16, 3, 4]),
    ("instance_norm(x)", [1, 4, 6, 8]),
    ("windows(x, [2, 3], dilation = 2)", [1, 4, 4, 4, 2, 3]),
]


@pytest.mark.parametrize(("call", "shape"), TAKEN, ids=[call for call, _ in TAKEN])
def test_a_call_has_the_shape_that_pytorch_gives(call: str, shape: list[int]) -> None:
    module = mgn.parse(f"graph g({INPUTS}) {{ return y = {call} }}")
    text = str(module.lower())
    element = "i32" if "(i," in call else "f32"
    assert f'"y" : tensor<{"x".join(map(str, shape))}x{element}>' in text


REFUSED: list[tuple[str, str]] = [
    ("conv2d(x, w)", "conv2d: w must be [6, 4, …] for 4 channels in 1 groups, not [6, 2, 3, 3]"),
    ("conv2d(x, w, groups = 3)", "conv2d: 3 groups do not divide 4 channels into 6"),
    ("conv2d(line, w)", "conv2d: x must be [N, C, H, W], not [1, 4, 6]"),
    ("conv1d(line, w)", "conv1d: w must be of rank 3, not [6, 2, 3, 3]"),
    ("conv2d(x, w, line, groups = 2)", "conv2d: b must be [6], not [1, 4, 6]"),
    (
        "conv2d(x, w, dilation = 3, groups = 2)",
        "conv2d: a window that spans 7 does not fit an axis of 6",
    ),
    ("conv2d(x, w, stride = 0, groups = 2)", "conv2d: stride must be 1 or more, not 0"),
    (
        "conv2d(x, w, stride = [1, 2, 3], groups = 2)",
        "conv2d: stride [1, 2, 3] needs one number, or one for each of 2 axes",
    ),
    (
        'conv2d(x, w, padding = "full", groups = 2)',
        "conv2d(): 'padding' must be a number, a list of numbers or of [low, high] pairs, "
        '"same" or "valid"',
    ),
    (
        "conv2d(x, w, padding = -1, groups = 2)",
        "conv2d: padding must not be negative; use slice to crop",
    ),
    ("conv2d(i, w)", "conv2d: operands have different element types i32 and f32; use cast(i, f32)"),
    (
        "conv_transpose2d(x, u, output_padding = 1)",
        "conv_transpose2d: output_padding must be less than the stride or the dilation",
    ),
    (
        "conv_transpose2d(x, u, padding = 9)",
        "conv_transpose2d: the result would have axes of [-10, -8]",
    ),
    (
        "max_pool2d(x, 2, padding = 2)",
        "max_pool2d: padding [2, 2] holds a whole window, which spans 2",
    ),
    ("avg_pool2d(i, 2)", "avg_pool2d: operand 'x' must be float, not i32"),
    ("upsample(x)", "upsample: give either a scale or a size"),
    ("upsample(x, 2, size = 4)", "upsample: give either a scale or a size"),
    (
        'upsample(x, 2, mode = "cubic")',
        'upsample: mode must be "nearest" or "bilinear", not "cubic"',
    ),
    (
        'upsample(line, 2, mode = "bilinear")',
        'upsample: mode "bilinear" needs x [N, C, H, W], not [1, 4, 6]',
    ),
    ("pixel_shuffle(x, 3)", "pixel_shuffle: 4 channels are not a multiple of 3 · 3"),
    ("pixel_unshuffle(x, 4)", "pixel_unshuffle: 6 by 8 is not cut into squares of 4"),
    ("windows(x, 9)", "windows: a window that spans 9 does not fit an axis of 8"),
    (
        "windows(b, [1, 1])",
        "windows: windows of 2 axes need as many axes, not 1",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[call for call, _ in REFUSED])
def test_a_call_that_does_not_fit_is_an_error_at_its_place(call: str, message: str) -> None:
    with pytest.raises(DiagnosticsError) as caught:
        mgn.parse(f"graph g({INPUTS}) {{\n  y = {call}\n  return y\n}}", "t.mgn").lower()
    first = str(caught.value).splitlines()[0]
    assert first.removeprefix("t.mgn:2:7: error: ") in (message, message.replace("windows: ", ""))


def test_what_a_printed_call_says_reads_back_as_the_same_call() -> None:
    text = "graph g(x: f32[1, 4, 6, 8]) { return y = max_pool2d(x, 3, padding = 1) }"
    printed = str(mgn.parse(text).lower())
    assert "kernel = [3, 3], stride = [3, 3], padding = [[1, 1], [1, 1]]" in printed
    assert str(parse(printed)) == printed
