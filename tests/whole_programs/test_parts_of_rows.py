"""Parts of tensors that are read and written at places which a run tells, beside NumPy."""

from typing import Any

import numpy as np
import pytest

import mgn

SIZES = {
    # the whole, its part
    "rows with a rest": ((70, 53), (64, 37)),
    "rows of whole vectors": ((90, 64), (80, 32)),
    "whole rows": ((50, 45), (40, 45)),
    "short rows": ((300, 12), (290, 7)),
    "a long row": ((2, 4000), (1, 3333)),
    "blocks": ((6, 9, 40), (5, 9, 21)),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("target", ["opencl", "spirv"])
def test_a_part_is_written_and_read_where_it_begins(name: str, target: str) -> None:
    whole, part = SIZES[name]
    random = np.random.default_rng(3)
    x, src = (random.standard_normal(shape).astype(np.float32) for shape in (whole, part))
    text = f"""
graph g(x: f32{list(whole)}, src: f32{list(part)}, start: i32[{len(whole)}]) {{
  return y = dynamic_update_slice(x, src * 2.0, start), z = dynamic_slice(x, start, {list(part)})
}}"""
    executable = mgn.compile(mgn.parse(text), device="cpu", target=target)
    room = np.array(whole) - part
    for start in (room, 0 * room, room // 2, room + 5, room - 1000):
        found: dict[str, Any] = executable(x=x, src=src, start=start.astype(np.int32))
        first = np.clip(start, 0, room)
        place = tuple(slice(a, a + n) for a, n in zip(first, part, strict=True))
        want = x.copy()
        want[place] = src * 2.0
        np.testing.assert_array_equal(found["y"], want)
        np.testing.assert_array_equal(found["z"], x[place])
