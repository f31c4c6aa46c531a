"""Random fused bodies, one strategy a kind, in both forms on the CPU device.

Values are small integers held in f32 and every operation keeps them exact (additions, small
products, extrema, movement), so the device must give the interpreter's result to the bit.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.lower_fixture import check_all, forms_of, fused_kernel, same_values
from tests.support.opencl_fixture import cl_queue  # noqa: F401
from tests.support.spirv_fixture import also_as_optimised_spirv  # noqa: F401

SIZES = st.sampled_from([1, 2, 3, 7, 8, 16, 17, 33, 48])
EXAMPLES = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def grow(draw: Any, b: Any, value: Any, others: list[Any], steps: int, movement: bool) -> Any:
    """A value after random exact operations; its magnitude stays far below 2^24."""
    for _ in range(steps):
        shape = list(value.type.get_shape())
        rank = len(shape)
        choices = ["relu", "neg", "clamp", "add", "min", "where"]
        choices += (
            ["transpose", "flip", "pad", "slice", "concat", "merge", "rows"] if movement else []
        )
        choice = draw(st.sampled_from(choices))
        axis = draw(st.integers(0, rank - 1))
        if choice == "relu":
            value = b.relu(value)
        elif choice == "neg":
            value = b.neg(value)
        elif choice == "clamp":
            value = b.clamp(value, -20.0, 20.0)
        elif choice in ("add", "min"):
            other = draw(st.sampled_from([*others, value]))
            fits = list(other.type.get_shape()) == shape
            value = b.call(choice, value, other if fits else 3.0)
        elif choice == "where":
            value = b.where(b.lt(value, 1.0), b.add(value, 2.0), value)
        elif choice == "transpose":
            value = b.transpose(value, draw(st.permutations(range(rank))))
        elif choice == "flip":
            value = b.flip(value, axis=[axis])
        elif choice == "pad":
            sides = [[0, 0] for _ in shape]
            sides[axis] = [draw(st.sampled_from([0, 1, 5, 16])), draw(st.integers(0, 3))]
            value = b.pad(value, sides, 4.0)
        elif choice == "slice" and shape[axis] > 1:
            start = [draw(st.integers(0, shape[axis] - 1)) if n == axis else 0 for n in range(rank)]
            step = [draw(st.integers(1, 3)) if n == axis else 1 for n in range(rank)]
            value = b.slice(value, start, shape, step)
        elif choice == "concat" and shape[axis] < 40:
            value = b.concat([value, b.neg(value)], axis=axis)
        elif choice == "merge":
            value = b.reshape(value, [shape[0] * shape[1], *shape[2:]] if rank > 1 else [-1, 1])
        elif choice == "rows":
            value = b.reshape(value, [1, *shape])
    return value


def check(queue: Any, kind: str, types: list[Any], build: Any) -> None:
    kernel = fused_kernel(kind, types, build)
    random = np.random.default_rng(0)
    arrays = [random.integers(-5, 6, shape).astype(np.float32) for _, shape in types]
    check_all(queue, forms_of(kernel, arrays, str(kernel)), same_values)


@pytest.mark.usefixtures("also_as_optimised_spirv")
@given(data=st.data())
@EXAMPLES
def test_random_pointwise_bodies(data: Any, cl_queue: Any) -> None:  # noqa: F811
    shape = tuple(data.draw(st.lists(SIZES, min_size=1, max_size=3)))
    steps = data.draw(st.integers(1, 8))

    def build(b: Any, x: Any, y: Any) -> Any:
        value = grow(data.draw, b, x, [y], steps, movement=True)
        return b.neg(x) if value is x else value

    check(cl_queue, "pointwise", [("f32", shape)] * 2, build)


@pytest.mark.usefixtures("also_as_optimised_spirv")
@given(data=st.data())
@EXAMPLES
def test_random_reductions(data: Any, cl_queue: Any) -> None:  # noqa: F811
    shape = tuple(data.draw(st.lists(SIZES, min_size=1, max_size=3)))

    def build(b: Any, x: Any, y: Any) -> Any:
        value = grow(data.draw, b, x, [y], data.draw(st.integers(0, 4)), movement=True)
        rank = len(value.type.get_shape())
        axes = sorted(data.draw(st.sets(st.integers(0, rank - 1), min_size=1)))
        names = st.sampled_from(["sum", "max_reduce", "min_reduce"])
        first = b.call(data.draw(names), value, axis=axes, keepdims=True)
        centred = b.add(value, b.clamp(first, -9.0, 9.0))
        results = [centred, first][data.draw(st.integers(0, 1)) :]
        if data.draw(st.booleans()):
            second = b.call(data.draw(names), centred, axis=axes, keepdims=True)
            results.append(b.min(centred, second))
        return results

    check(cl_queue, "reduction", [("f32", shape)] * 2, build)


@pytest.mark.usefixtures("also_as_optimised_spirv")
@given(data=st.data())
@EXAMPLES
def test_random_contractions(data: Any, cl_queue: Any) -> None:  # noqa: F811
    rows, depth, columns = (data.draw(SIZES) for _ in range(3))
    batch = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    flip_a, flip_b = data.draw(st.booleans()), data.draw(st.booleans())
    left = (*batch, depth, rows) if flip_a else (*batch, rows, depth)
    right = (columns, depth) if flip_b else (depth, columns)
    before, after = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 5))

    def build(b: Any, x: Any, y: Any, bias: Any) -> Any:
        x = grow(data.draw, b, x, [], before, movement=False)
        product = b.matmul(x, y, transpose_a=flip_a, transpose_b=flip_b)
        return grow(data.draw, b, b.add(product, bias), [product], after, movement=False)

    check(cl_queue, "contraction", [("f32", left), ("f32", right), ("f32", (columns,))], build)


@pytest.mark.usefixtures("also_as_optimised_spirv")
@given(data=st.data())
@EXAMPLES
def test_random_scans(data: Any, cl_queue: Any) -> None:  # noqa: F811
    shape = tuple(data.draw(st.lists(SIZES, min_size=1, max_size=3)))

    def build(b: Any, x: Any, y: Any) -> Any:
        value = grow(data.draw, b, x, [y], data.draw(st.integers(0, 3)), movement=True)
        rank = len(value.type.get_shape())
        return b.relu(b.running_sum(value, axis=data.draw(st.integers(0, rank - 1))))

    check(cl_queue, "scan", [("f32", shape)] * 2, build)
