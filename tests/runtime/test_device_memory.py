"""Where views lie: in slices of one arena, or on a GPU apart where slices would overlap."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mgn.codegen.launch_plan import BufferKind, BufferPlan, LaunchPlan
from mgn.runtime import memory
from mgn.runtime.devices import choose, opencl
from mgn.runtime.memory import DeviceMemory

PAGE = 4096
ONE = PAGE // 4
"""Numbers of f32 in a page."""


def planned(*views: tuple[int, int]) -> LaunchPlan:
    """Views of so many pages, from a page on."""
    buffers = tuple(
        BufferPlan(BufferKind.VIEW, f"v{n}", "f32", (pages * ONE,), page * PAGE)
        for n, (page, pages) in enumerate(views)
    )
    return LaunchPlan("g", max(page + pages for page, pages in views) * PAGE, buffers, (), ())


OVERLAPPING = planned((0, 1), (0, 2), (1, 2), (0, 1))
SIDE_BY_SIDE = planned((0, 1), (1, 2), (0, 1))


def memory_of(plan: LaunchPlan, kind: str) -> DeviceMemory:
    device = replace(choose("auto"), kind=kind)
    context = opencl().Context([device.handle])
    return DeviceMemory(plan, device, context, opencl().CommandQueue(context))


def written_and_read(found: DeviceMemory, target: int, source: int, size: int) -> np.ndarray:
    """What a buffer holds after another one was written, where both held zeros."""
    for number in (source, target):
        found.upload(number, np.zeros(size, np.float32)).wait()
    found.upload(target, np.ones(size, np.float32)).wait()
    content = np.empty(size, np.float32)
    found.download(source, content).wait()
    return content


@pytest.mark.parametrize(("kind", "shared"), [("cpu", True), ("gpu", False)])
def test_places_that_overlap_are_apart_on_a_gpu(kind: str, shared: bool) -> None:
    found = memory_of(OVERLAPPING, kind)
    assert written_and_read(found, 0, 1, ONE).all() == shared
    assert written_and_read(found, 0, 3, ONE).all(), "the same place is one buffer"
    assert found.allocated == (3 if shared else 5) * PAGE


def test_places_side_by_side_are_slices_of_the_arena() -> None:
    assert memory_of(SIDE_BY_SIDE, "gpu").allocated == 3 * PAGE


def test_places_overlap_where_they_would_take_too_much(monkeypatch: Any) -> None:
    monkeypatch.setattr(memory, "APART_SHARE", 1 << 40)
    found = memory_of(OVERLAPPING, "gpu")
    assert written_and_read(found, 0, 1, ONE).all()
    assert found.allocated == 3 * PAGE
