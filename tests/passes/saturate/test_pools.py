"""Pools behind convolutions: which kernels a graph becomes, and that they compute what it says."""

from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.kernel import DEVICES
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate import saturate_graph
from mgn.passes.saturate.layouts.choice import turn_images
from tests.passes.saturate.saturate_programs import body_names, kernels_of

H200 = DEVICES["nvidia-h200"]


def block(image: str, rest: str, result: str = "y") -> str:
    return f"""graph g(x: f32[{image}], w: f32[8, 3, 3, 3], b: f32[8]) {{
      c = relu(conv2d(x, w, b, padding = 1))
      {rest}
      return {result}
    }}"""


def fused(text: str, device: Any) -> list[bool]:
    """For each kernel with a product, whether it combines its results."""
    graph = next(graphs_of(mgn.parse(text).lower()))
    saturate_graph(graph, device)
    names = [set(body_names(kernel)) for kernel in kernels_of(graph)]
    return [bool(item & {"max_reduce", "sum"}) for item in names if "matmul" in item]


FUSED = {
    "largest": "y = max_pool2d(c, 2)",
    "means": "y = avg_pool2d(c, 2)",
    "lines": "y = max_pool2d(c, [2, 1])",
    "adaptive": "y = adaptive_max_pool2d(c, [6, 7])",
    "and more": "y = tanh(max_pool2d(c, 2) * 2.0)",
}
APART = {
    "overlapping": "y = max_pool2d(c, 3, stride = 2)",
    "dilated": "y = max_pool2d(c, 2, dilation = 2)",
    "padded": "y = max_pool2d(c, 2, padding = 1)",
    "partial": "y = max_pool2d(c[:, :, :11, :], 2, ceil_mode = true)",
}
SHARED = {
    "the image": ("y = c\n z = max_pool2d(c, 2)", "y, z"),
    "two pools": ("y = max_pool2d(c, 2)\n z = avg_pool2d(c, 3)", "y, z"),
}


@pytest.mark.parametrize("device", [DEVICES["cpu"], H200], ids=["cpu", "gpu"])
@pytest.mark.parametrize("rest", [pytest.param(text, id=name) for name, text in FUSED.items()])
def test_windows_side_by_side_are_combined_in_the_convolutions_kernel(
    rest: str, device: Any
) -> None:
    assert fused(block("1, 3, 12, 14", rest), device) == [True]


@pytest.mark.parametrize("device", [DEVICES["cpu"], H200], ids=["cpu", "gpu"])
@pytest.mark.parametrize("rest", [pytest.param(text, id=name) for name, text in APART.items()])
def test_other_windows_are_a_kernel_of_their_own(rest: str, device: Any) -> None:
    assert fused(block("1, 3, 12, 14", rest), device) == [False]


@pytest.mark.parametrize("target", ["opencl", "spirv"])
@pytest.mark.parametrize("image", ["1, 3, 12, 14", "2, 3, 13, 17"])
def test_all_of_them_have_the_values_of_the_interpreter(image: str, target: str) -> None:
    random = np.random.default_rng(5)
    shape = tuple(map(int, image.split(",")))
    values = {"x": shape, "w": (8, 3, 3, 3), "b": (8,)}
    arrays = {
        name: random.integers(-3, 4, size).astype(np.float32) for name, size in values.items()
    }
    same = [(text, "y") for text in (*FUSED.values(), *APART.values()) if "tanh" not in text]
    for rest, result in (*same, *SHARED.values()):
        if "adaptive" in rest and shape[2] % 2:
            continue
        program = mgn.parse(block(image, rest, result))
        found = mgn.compile(program, device="cpu", target=target)(**arrays)
        want = Interpreter().run(next(graphs_of(program.lower())), arrays)
        for name in want:
            np.testing.assert_allclose(found[name], want[name], rtol=1e-6, err_msg=rest)


NETWORK = """graph g(x: f32[2, 16, 13, 14], w: f32[32, 16, 3, 3], v: f32[16, 32, 3, 3]) {
  c = relu(conv2d(x, w, padding = 1))
  return y = conv2d(POOL, v, padding = 1)
}"""


@pytest.mark.parametrize(
    ("pool", "turns"),
    [
        ("max_pool2d(c, 2)", True),
        ("avg_pool2d(c, [2, 1])", True),
        ("max_pool2d(c, 2, stride = 3, padding = 1)", True),
        ("max_pool2d(c, 3, stride = 2)", False),
        ("max_pool2d(c, 2, dilation = 3)", False),
    ],
)
def test_channels_last_pass_windows_that_share_no_places(pool: str, turns: bool) -> None:
    graph = next(graphs_of(mgn.parse(NETWORK.replace("POOL", pool)).lower()))
    random = np.random.default_rng(3)
    shapes = {"x": (2, 16, 13, 14), "w": (32, 16, 3, 3), "v": (16, 32, 3, 3)}
    arrays = {
        name: random.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()
    }
    want = Interpreter().run(graph, arrays)["y"]
    assert turn_images(graph) == 2
    np.testing.assert_allclose(Interpreter().run(graph, arrays)["y"], want, rtol=1e-6)
    reductions = [op for op in graph.block.ops if op.name in ("mgn.max_reduce", "mgn.sum")]
    last = [op.results[0].type.get_shape()[-1] == 32 for op in reductions]  # type: ignore
    assert last == ([True] if turns else [])
