"""Graphs with their images' channels last: the same values, and fewer copies on matrix units."""

from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.kernel import DEVICES
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import graphs_of, parameters_of
from mgn.passes.convert_precision import ConvertPrecision
from mgn.passes.saturate.layouts.choice import turn_images
from tests.support.programs import context

NETWORK = """
fn normed(x, n: str) {
  param g: f32[x.shape[1]] as "{n}.g" = ones()
  param b: f32[x.shape[1]] as "{n}.b" = zeros()
  param m: f32[x.shape[1]] as "{n}.m" = zeros()
  param v: f32[x.shape[1]] as "{n}.v" = ones()
  return batch_norm(x, g, b, m, v)
}
fn filtered(x, n: str, out: int, size: int, step: int = 1, apart: int = 1) {
  param w: f32[out, x.shape[1], size, size] as "{n}.w" = he_normal()
  return conv2d(x, w, stride = step, padding = size / 2 * apart, dilation = apart)
}
graph g[B = 1](x: f32[B, 3, 18, 14]) {
  h = max_pool2d(relu(normed(filtered(x, "stem", 32, 7, 2), "0")), 3, stride = 2, padding = 1)
  for i in 0..2 {
    y = silu(normed(filtered(h, "{i}.a", 48, 1), "{i}.a"))
    y = gelu(normed(filtered(y, "{i}.b", 48, 3), "{i}.b"))
    y = normed(filtered(y, "{i}.c", 32, 1), "{i}.c")
    h = relu(h + y)
  }
  d = normed(filtered(h, "down", 64, 1, 2), "down")
  return y = flatten(global_avg_pool(d), start = 1), h = h
}
"""


def one(text: str) -> str:
    return f"graph g(x: f32[2, 16, 9, 7], v: f32[16], u: f32[2, 24]) {{\n{text}\n}}"


CONVOLVED = """
  param w: f32[24, 16, {size}] = he_normal()
  c = conv2d(x, w{how})
"""

PROGRAMS = {
    "a network": NETWORK,
    "a network of several images": NETWORK.replace("B = 1", "B = 3"),
    "strides, dilation and uneven padding": one(
        CONVOLVED.format(
            size="3, 2", how=", stride = [2, 1], padding = [[0, 2], [1, 0]], dilation = [1, 2]"
        )
        + "  return y = c"
    ),
    "a slice of places and of channels": one(
        CONVOLVED.format(size="1, 1", how="") + "  return y = exp(c)[:, 3:20, ::2, 1:]"
    ),
    "padding around, an image beside, and numbers for each image": one(
        CONVOLVED.format(size="3, 3", how=", padding = 1")
        + "  h = concat([c * reshape(u, [2, 24, 1, 1]), x], axis = 1)\n"
        + "  return y = pad(h, [[0, 0], [0, 1], [2, 0], [0, 0]], 1.5)"
    ),
    "reductions of all places, of channels, and of some places": one(
        CONVOLVED.format(size="3, 3", how="")
        + "  return a = max_reduce(c, axis = [2, 3]), b = sum(c, axis = 1), d = mean(c, axis = 3)"
    ),
    "numbers of each row of places": one(
        CONVOLVED.format(size="3, 3", how=", padding = 1")
        + "  return y = c * reshape(v, [16, 1])[:9] - 2.5"
    ),
    "groups and depthwise ones between": one(
        CONVOLVED.format(size="3, 3", how=", padding = 1")
        + "  param k: f32[24, 1, 3, 3] = he_normal()\n"
        + "  param l: f32[12, 8, 1, 1] = he_normal()\n"
        + "  return y = conv2d(relu(conv2d(c, k, groups = 24)), l, groups = 3)"
    ),
    "groups and each channel normalised": one(
        CONVOLVED.format(size="3, 3", how=", padding = 1")
        + "  param g: f32[24] = ones()\n"
        + "  h = silu(group_norm(c, g, g, groups = 6))\n"
        + "  return y = conv2d(h, w[:, :8, :1, :1], groups = 3)"
        + ", z = instance_norm(h, g) + group_norm(c, groups = 2)"
    ),
    "three axes of places": """graph g(x: f32[1, 16, 4, 5, 6]) {
  param w: f32[16, 16, 2, 1, 3] = he_normal()
  c = conv3d(x, w, padding = [[1, 0], [0, 0], [1, 1]], stride = [1, 2, 1])
  return y = tanh(c) + x[:, :, :, :3, :]
}""",
    "a value of a condition, and a clamp": one(
        CONVOLVED.format(size="3, 3", how=", padding = 1")
        + "  return y = clamp(where(c > 0.0, c, leaky_relu(c, slope = 0.1)), -1.0, 2.0)"
    ),
}


def turned_values(text: str, precision: str) -> tuple[Any, Any]:
    """What a graph computes in f64, with its channels first and last."""
    module = mgn.parse(text).lower("g", {})
    ConvertPrecision(precision).apply(context(), module)
    (graph,) = graphs_of(module)
    rng = np.random.default_rng(3)
    inputs = {
        name: rng.standard_normal(value.type.get_shape())  # type: ignore
        for name, value in graph.named_inputs
    }
    parameters = {
        name: rng.uniform(0.5, 1.5, op.type.get_shape())
        for name, op in parameters_of(module).items()
    }
    interpreter = Interpreter(parameters, wide=True)
    before = interpreter.run(graph, inputs)
    assert turn_images(graph) > 0
    module.verify()
    return before, interpreter.run(graph, inputs)


@pytest.mark.parametrize(
    ("name", "precision"),
    [*((name, "f32") for name in PROGRAMS), ("a network", "tf32"), ("a network", "bf16")],
)
def test_channels_last_compute_the_same(name: str, precision: str) -> None:
    before, after = turned_values(PROGRAMS[name], precision)
    for key, wanted in before.items():
        np.testing.assert_allclose(after[key], wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_of_half_precision_stay(name: str) -> None:
    """Each rounding is where it was: values differ by the order of sums alone."""
    text = PROGRAMS[name].replace("f32[", "bf16[")
    before, after = turned_values(text, "f32")
    for key, wanted in before.items():
        np.testing.assert_allclose(after[key], wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


def optimized(text: str, device: Any = "nvidia-h200", **options: Any) -> Any:
    return mgn.optimize(mgn.parse(text), device=device, **options).report


BLOCK = NETWORK.replace("18, 14]", "112, 112]")


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_a_network_on_a_gpu_has_its_channels_last(precision: str) -> None:
    report = optimized(BLOCK, precision=precision, dims={"B": 8})
    first, last = report.saturation.layouts.values()
    assert last == report.saturation.cost_after < first


def test_images_of_few_places_have_their_channels_last_in_f32_too() -> None:
    """Tiles of 14 x 14 places are no whole ones; those of all images together are."""
    report = optimized(
        """graph g(x: f32[32, 256, 14, 14]) {
  param w: f32[256, 256, 3, 3]
  return y = relu(conv2d(x, w, padding = 1))
}"""
    )
    first, last = report.saturation.layouts.values()
    assert last == report.saturation.cost_after < first


def test_images_are_copied_where_they_come_in_and_go_out_alone() -> None:
    """The stem keeps its three channels first."""
    report = optimized(BLOCK, precision="bf16", dims={"B": 8})
    plain = [item.operations for item in report.kernels if item.kind == "pointwise"]
    assert sum("transpose" in operations for operations in plain) <= 2


def test_graphs_without_convolutions_have_no_choice() -> None:
    text = "graph g(x: f32[64, 64]) { return y = x @ x }"
    assert not optimized(text).saturation.layouts
    assert not optimized(text, "cpu").saturation.layouts


SHORT_VECTORS = DEVICES["cpu"].with_figures(
    vector_bits=256, rates={"f32": 2e11, "f64": 1e11}, l2_cache=512 * 1024
)
"""A CPU whose vectors have eight numbers."""

DEEP = """graph g(x: f32[1, 256, 14, 14]) {
  param v: f32[64, 256, 1, 1]
  param w: f32[256, 64, 3, 3]
  param s: f32[64]
  h = relu(batch_norm(conv2d(x, v), s, s, s, s))
  return y = relu(conv2d(h, w, padding = 1))
}"""


def test_a_cpu_has_its_channels_last_where_weights_are_panels() -> None:
    report = optimized(DEEP, SHORT_VECTORS)
    first, last = report.saturation.layouts.values()
    assert last == report.saturation.cost_after < first
    assert report.saturation.fired["normalised-product-of-places"] > 0
    assert report.saturation.arrangements["right operand in panels of 256 × 16"] == 1


def test_a_cpu_keeps_channels_first_where_planes_are_copied() -> None:
    """A copy of a plane would read each element far from the one before."""
    text = """graph g(x: f32[1, 32, 56, 56]) {
  param u: f32[32, 1, 3, 3]
  param v: f32[32, 32, 1, 1]
  return y = conv2d(conv2d(conv2d(x, v), u, padding = 1, groups = 32), v)
}"""
    saturation = optimized(text, SHORT_VECTORS).saturation
    first, last = saturation.layouts.values()
    assert saturation.cost_after == first < last


def test_a_cpu_reads_windows_of_channels_where_it_multiplies() -> None:
    """They lie side by side there, are found at once, and are not written before."""
    text = """graph g(x: f32[1, 256, 13, 13]) {
  param v: f32[256, 256, 3, 3]
  for i in 0..4 { x = relu(conv2d(x, v, padding = 1)) }
  return y = x
}"""
    report = optimized(text, "cpu")
    first, last = report.saturation.layouts.values()
    assert report.saturation.cost_after == last < first
    windows = [line.kind for line in report.kernels if "windows" in line.operations]
    assert windows == ["contraction"] * 4


@pytest.mark.parametrize(
    "image, weights, how, kernels",
    [
        ("f16[1, 64, 64, 64]", "f16[8, 64, 3, 3]", "padding = 1", "copy product copy"),
        ("f32[1, 64, 64, 64]", "f32[64, 64, 8, 8]", "stride = 8", "copy product"),
        ("f32[1, 64, 64, 64]", "f32[64, 64, 3, 3]", "stride = 3", "product"),
    ],
    ids=["half precision", "windows side by side", "long strides"],
)
def test_a_cpu_packs_no_windows_of_channels_whose_planes_are_apart(
    image: str, weights: str, how: str, kernels: str
) -> None:
    """Each element of a vector would be found by itself, all of them in one set of the cache."""
    text = f"graph g(x: {image}, w: {weights}) {{ return y = conv2d(x, w, {how}) }}"
    names = {"pointwise": "copy", "contraction": "product"}
    found = [names[line.kind] for line in optimized(text, "cpu").kernels]
    assert found == kernels.split()


def test_a_cpu_keeps_channels_first_that_fill_no_vectors() -> None:
    """Neighbours of a window's channels then belong to other elements."""
    text = """graph g(x: f32[1, 100, 14, 14]) {
  param v: f32[100, 100, 3, 3]
  return y = conv2d(relu(conv2d(x, v, padding = 1)), v, padding = 1)
}"""
    saturation = optimized(text, "cpu").saturation
    first, last = saturation.layouts.values()
    assert saturation.cost_after == first < last


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_cpu_computes_the_same_with_channels_last(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the other layout costs."""
    from mgn.passes.saturate import saturate

    def last(graph: Any, choose: Any, settle: Any) -> Any:
        assert turn_images(graph) > 0
        return settle(graph)

    monkeypatch.setattr(saturate, "with_best_layout", last)
    rng = np.random.default_rng(5)
    module = mgn.parse(PROGRAMS[name])
    executable = mgn.compile(module, device="cpu")
    for key in executable.params.without_value:
        executable.params.initialise(key)
    inputs = {
        key: rng.standard_normal(type.shape).astype(np.float32)
        for key, type in executable.inputs.items()
    }
    parameters = {key: executable.params[key] for key in executable.params}
    found = executable(**inputs)
    (graph,) = graphs_of(module.lower("g", {}))
    wanted = Interpreter(parameters, wide=True).run(graph, inputs)
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=2e-5, atol=2e-5 * np.abs(value).max())


def test_channels_stay_first_where_that_costs_less() -> None:
    text = (
        "graph g(x: f32[1, 16, 8, 8]) {\n param w: f32[16, 16, 1, 1]\n return y = conv2d(x, w)\n}"
    )
    saturation = optimized(text, precision="bf16").saturation
    first, last = saturation.layouts.values()
    assert saturation.cost_after == first <= last


def test_exact_rules_leave_images_as_they_are() -> None:
    from mgn.passes.saturate import SaturateOptions
    from mgn.passes.saturate.rules.rule import RuleClass

    exact = SaturateOptions(classes=frozenset({RuleClass.EXACT}))
    assert not optimized(BLOCK, precision="bf16", saturation=exact).saturation.layouts


def test_the_kernel_that_writes_an_image_rounds_it_for_the_next_convolution() -> None:
    """So the unit copies windows past the registers, and nobody writes windows."""
    text = """
graph g(x: f32[32, 256, 28, 28]) {
  param u: f32[256, 256, 1, 1]
  param v: f32[256, 256, 3, 3]
  param w: f32[256, 256, 1, 1]
  h = relu(conv2d(x, u))
  h = relu(conv2d(h, v, padding = 1))
  return y = global_avg_pool(conv2d(h, w))
}
"""
    found = mgn.optimize(mgn.parse(text), device="nvidia-h200", precision="tf32").report.kernels
    products = [kernel.operations for kernel in found if "matmul" in kernel.operations]
    last = [[name for name in operations if name != "reshape"][-1] for operations in products]
    assert [name == "round_tf32" for name in last] == [True, True, False]
    assert ["windows" in operations for operations in products] == [False, True, False]
    others = [kernel.operations for kernel in found if "matmul" not in kernel.operations]
    assert not any("windows" in operations for operations in others)


BARE = """
fn filtered(x, n: str, out: int, size: int, groups: int = 1) {
  param w: f32[out, x.shape[1] / groups, size, size] as "{n}.w" = he_normal()
  return conv2d(x, w, padding = size / 2, groups = groups)
}
graph g(x: f32[1, 16, SIDE, SIDE]) {
  h = filtered(x, "first", 24, 1)
  for i in 0..3 {
    y = filtered(clamp(filtered(h, "{i}.a", 96, 1), 0.0, 6.0), "{i}.b", 96, 3, 96)
    y = filtered(clamp(y, 0.0, 6.0), "{i}.c", 24, 1)
    h = h + y
  }
  return y = filtered(filtered(filtered(h, "before", 32, 3), "last", 64, 1), "end", 8, 1)
}
"""
"""Convolutions that read the results of others as they are, as exporters write them whose norms
are part of the weights.
"""


@pytest.mark.parametrize("precision", ["f32", "tf32", "bf16"])
def test_convolutions_one_behind_another_are_turned_whatever_rounds_between(
    precision: str,
) -> None:
    before, after = turned_values(BARE.replace("SIDE", "6"), precision)
    np.testing.assert_allclose(after["y"], before["y"], rtol=1e-9, atol=1e-9)
    module = mgn.parse(BARE.replace("SIDE", "6")).lower("g", {})
    ConvertPrecision(precision).apply(context(), module)
    (graph,) = graphs_of(module)
    assert turn_images(graph) > 0
    operations = (op for op in graph.block.ops if isinstance(op, TensorOp))
    products = [op for op in operations if op.spec.name == "matmul"]
    assert products and all(op.values["transpose_b"] for op in products)
