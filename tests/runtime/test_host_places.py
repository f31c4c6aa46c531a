"""Large arrays on a CPU: kernels read and write them where the host has them."""

import resource
from functools import cache
from typing import Any

import numpy as np
import pytest

import mgn
from mgn import api
from mgn.runtime.errors import RuntimeFault
from mgn.runtime.large_pages import large_pages
from mgn.runtime.launching import host_places, results
from mgn.runtime.launching.host_places import HostPlaces
from tests.whole_programs.test_failing_runs import failing_after
from tests.whole_programs.test_states import DEVICE

PROGRAMS = {
    "one kernel": "graph g(x: f32[6, 5], z: f32[5]) { return y = x * 2 + z }",
    "several": """graph g(x: f32[6, 5], z: f32[5]) {
      h = softmax(x @ x.T)
      return y = h @ x + z, s = sum(h), h
    }""",
    "copies": "graph g(x: f32[6, 5], z: f32[5]) { return y = x, z, again = x, w = x + z }",
    "derived": """graph g(x: f32[6, 5], z: f32[5]) {
      param a: f32[5, 5] = normal(std = 0.2)
      return y = x @ tanh(a @ a), a, e = exp(a), w = z * 2
    }""",
    "states": """graph g(x: f32[6, 5], z: f32[5]) {
      state k: f32[6, 5]
      state n: i32
      before = k + x
      k <- dynamic_update_slice(k, expand_dims(z, 0), [n, 0])
      n <- n + 1
      return y = k @ x.T, before, k
    }""",
    "parts": """graph g(x: f32[6, 5], z: f32[5]) {
      y = dynamic_update_slice(x, expand_dims(z, 0), [2, 0])
      t = exp(x)
      return y, w = dynamic_update_slice(t, expand_dims(z, 0), [3, 0]), t = tanh(t)
    }""",
    "checked": """graph g(x: f32[6, 5], z: f32[5]) {
      return y = cross_entropy(x, argmax(x + z, axis = 1), check = true), w = x - z
    }""",
}


def aligned(array: np.ndarray) -> np.ndarray:
    """The same values at the beginning of a page."""
    place = large_pages(array.nbytes).view(array.dtype).reshape(array.shape)
    place[...] = array
    return place


def drawn(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shapes = {"x": (6, 5), "z": (5,)}
    return {name: random.standard_normal(s).astype(np.float32) for name, s in shapes.items()}


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """No array is too small to be taken as it lies, and results lie at pages. The device is
    described once: programs that are compared have the same kernels.
    """
    monkeypatch.setattr(api, "describe_device", cache(api.describe_device))
    monkeypatch.setattr(host_places, "LEAST_BYTES", 1)
    monkeypatch.setattr(host_places, "BYTES_PER_LAUNCH", 0)
    monkeypatch.setattr(results, "PAGE", 1)
    monkeypatch.setenv("MGN_GUARD", "off")


def places_of(exe: mgn.Executable) -> HostPlaces:
    """What an executable may take where it lies. Skips on a device that is no CPU."""
    places = exe._executable._places  # pyright: ignore[reportPrivateUsage]
    if places is None:
        pytest.skip("the device is no CPU")
    return places


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_have_the_bits_of_a_run_that_copies(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = mgn.parse(PROGRAMS[name])
    direct = mgn.compile(module, device=DEVICE)
    assert places_of(direct).inputs | places_of(direct).outputs
    kept: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = []
    copying = mgn.compile(module, device=DEVICE)
    for seed in range(4):
        inputs = {key: aligned(array) for key, array in drawn(seed).items()}
        for array in inputs.values():
            array.flags.writeable = False
        with monkeypatch.context() as patched:
            patched.setattr(host_places, "fits", lambda array: False)
            wanted = copying(**inputs)
        kept.append((wanted, direct(**inputs)))
        for key, array in drawn(seed).items():
            np.testing.assert_array_equal(inputs[key], array)
    for wanted, found in kept:
        for key, array in wanted.items():
            np.testing.assert_array_equal(found[key], array, err_msg=key)
            assert found[key].flags.writeable


@pytest.mark.usefixtures("eager")
def test_results_are_inputs_of_the_next_run_and_stay_as_they_are() -> None:
    exe = mgn.compile(mgn.parse(PROGRAMS["one kernel"]), device=DEVICE)
    assert len(places_of(exe).inputs) == 2 and len(places_of(exe).outputs) == 1
    x, z = np.ones((6, 5), np.float32), np.ones(5, np.float32)
    seen = [x]
    for _ in range(4):
        seen.append(exe(x=seen[-1], z=z)["y"])
    assert [array[0, 0] for array in seen] == [1, 3, 7, 15, 31]


@pytest.mark.usefixtures("eager")
def test_other_runs_find_the_buffers_again_also_after_a_failure() -> None:
    exe = mgn.compile(mgn.parse(PROGRAMS["several"]), device=DEVICE)
    places_of(exe)
    inputs = {key: aligned(array) for key, array in drawn(1).items()}
    wanted = exe(**inputs)
    with failing_after(1), pytest.raises(RuntimeFault, match="the driver refused"):
        exe(**inputs)
    for other in (0, 2):
        found: Any = exe.run_on_device(**drawn(other))
        exe(**inputs)
        again = exe.run_on_device(**drawn(other))
        timed = exe.run(drawn(other), profile=True)
        for key, array in timed.items():
            np.testing.assert_array_equal(found[key].numpy(), array)
            np.testing.assert_array_equal(again[key].numpy(), array)
    for key, array in exe(**inputs).items():
        np.testing.assert_array_equal(array, wanted[key])


@pytest.mark.usefixtures("eager")
def test_of_inputs_that_share_memory_one_is_copied() -> None:
    text = "graph g(a: f32[4, 16], b: f32[16], c: f32[4, 16]) { return y = a + b * 10 + c * 100 }"
    exe = mgn.compile(mgn.parse(text), device=DEVICE)
    x = aligned(np.arange(64, dtype=np.float32).reshape(4, 16))
    others = dict.fromkeys(places_of(exe).inputs, x)
    results = dict.fromkeys(places_of(exe).outputs, x)
    assert len(others) == 3 and len(places_of(exe).without_copy(others, results)) == 1
    np.testing.assert_array_equal(exe(a=x, b=x[1], c=x)["y"], x + x[1] * 10 + x * 100)


def test_large_arrays_of_numpy_are_taken_and_small_unaligned_and_strided_ones_copied() -> None:
    assert host_places.fits(np.ones((1024, 1024), np.float32))
    large = large_pages(4 << 20).view(np.float32).reshape(1024, 1024)
    assert host_places.fits(large)
    assert not host_places.fits(large[:64])
    assert not host_places.fits(large.reshape(-1)[1:]) and host_places.fits(large.reshape(-1)[4:])
    read_only = large.reshape(-1).view()
    read_only.flags.writeable = False
    assert host_places.fits(read_only) and host_places.fits(read_only[32:])
    assert not host_places.fits(read_only[16:])
    assert not host_places.fits(large.T) and not host_places.fits(large[:, :512])
    assert host_places.fits(large[512:]) and not host_places.fits(3)


@pytest.mark.usefixtures("eager")
@pytest.mark.skipif(not hasattr(resource, "RUSAGE_THREAD"), reason="counts pages as Linux does")
def test_an_input_of_numpy_is_read_where_it_lies() -> None:
    text = "graph g(a: f32[4096, 1024]) { return y = sum(a, axis=[0, 1]) }"
    exe = mgn.compile(mgn.parse(text), device=DEVICE)
    whole = large_pages((16 << 20) + 4096)
    exe(a=whole[: 16 << 20].view(np.float32).reshape(4096, 1024))
    for place in (16, 48, 64, 128, 192):
        x = whole[place : place + (16 << 20)].view(np.float32).reshape(4096, 1024)
        x[:] = place + 1
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        found = exe(a=x)["y"]
        touched = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        assert found == x.size * (place + 1)
        assert touched < x.nbytes / 4096 / 4, place
