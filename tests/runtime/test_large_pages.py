"""Large buffers of a CPU lie in large pages, and hold what any buffer holds."""

import numpy as np
import pytest

import mgn
from mgn.driver.compilation import Compiled
from mgn.runtime import memory
from mgn.runtime.devices import opencl
from mgn.runtime.large_pages import PAGE, has_large_pages, large_pages

pytestmark = pytest.mark.skipif(not has_large_pages(), reason="the system knows no large pages")


def test_they_are_zeros_that_begin_with_a_page() -> None:
    found = large_pages(PAGE + 5)
    assert found.ctypes.data % PAGE == 0
    assert found.shape == (PAGE + 5,) and not found.any()
    found[-1] = 1


def in_pages(exe: Compiled) -> list[bool]:
    flag = opencl().mem_flags.USE_HOST_PTR
    return [bool(buffer.flags & flag) for buffer in exe._executable._memory.buffers]  # type: ignore


@pytest.mark.parametrize("guarded", ["off", "on"])
def test_only_large_buffers_lie_there_and_compute_the_same(
    guarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGN_GUARD", guarded)
    text = "graph g(x: f32[1024, 513], y: f32[513]) { return z = x + y }"
    exe = mgn.compile(mgn.parse(text), device="cpu")
    x = np.random.default_rng(0).random((1024, 513), np.float32)
    np.testing.assert_array_equal(exe(x=x, y=x[0])["z"], x + x[0])
    assert set(in_pages(exe)) == {True, False}


def test_a_system_without_them_has_plain_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "has_large_pages", lambda: False)
    exe = mgn.compile(mgn.parse("graph g(x: f32[1024, 513]) { return z = -x }"), device="cpu")
    assert not any(in_pages(exe))
