"""Large buffers of a CPU lie in large pages, and hold what any buffer holds."""

import numpy as np
import pytest

import mgn
from mgn.runtime import host_blocks, memory
from mgn.runtime.large_pages import PAGE, has_large_pages, large_pages

pytestmark = pytest.mark.skipif(not has_large_pages(), reason="the system knows no large pages")


def test_they_are_zeros_that_begin_with_a_page() -> None:
    found = large_pages(PAGE + 5)
    assert found.ctypes.data % PAGE == 0
    assert found.shape == (PAGE + 5,) and not found.any()
    found[-1] = 1


@pytest.fixture
def in_pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what lies in large pages."""
    sizes: list[int] = []

    def noted(size: int) -> np.ndarray:
        sizes.append(size)
        return large_pages(size)

    monkeypatch.setattr(host_blocks, "large_pages", noted)
    return sizes


@pytest.mark.parametrize("guarded", ["off", "on"])
def test_only_large_buffers_lie_there_and_compute_the_same(
    guarded: str, in_pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGN_GUARD", guarded)
    text = "graph g(x: f32[1024, 513], y: f32[513]) { return z = x + y }"
    exe = mgn.compile(mgn.parse(text), device="cpu")
    x = np.random.default_rng(0).random((1024, 513), np.float32)
    np.testing.assert_array_equal(exe(x=x, y=x[0])["z"], x + x[0])
    assert len(in_pages) == 2 and min(in_pages) >= x.nbytes, "the input x, and the arena"


def test_a_system_without_them_has_other_memory(
    in_pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (memory, host_blocks):
        monkeypatch.setattr(file, "has_large_pages", lambda: False)
    exe = mgn.compile(mgn.parse("graph g(x: f32[1024, 513]) { return z = -x }"), device="cpu")
    assert exe(x=np.ones((1024, 513), np.float32))["z"].sum() == -1024 * 513
    assert not in_pages
