"""How many groups of a resident launch there are, and when a device has barriers at all."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mgn.codegen.signature import RESIDENT, KernelSignature
from mgn.runtime.devices import choose
from mgn.runtime.launching.residency import resident_size
from mgn.runtime.location import CACHE_VARIABLE
from mgn.runtime.measurement import barriers


@dataclass
class Handle:
    """A driver's device, as far as residency asks."""

    max_compute_units: int = 132
    extensions: str = "cl_nv_device_attribute_query"
    compute_capability_major_nv: int = 9


@dataclass
class FakeDevice:
    kind: str = "gpu"
    measured_identity: str = "a GPU"
    handle: Any = field(default_factory=Handle)


def launch(groups: int) -> KernelSignature:
    return KernelSignature("r", f"{RESIDENT}\n", (groups * 256, 1, 1), (256, 1, 1), ())


@pytest.mark.parametrize(
    ("kind", "useful", "groups"), [("gpu", 500, 132), ("gpu", 7, 7), ("cpu", 500, 1)]
)
def test_no_more_groups_are_launched_than_run_at_once(kind: str, useful: int, groups: int) -> None:
    device: Any = FakeDevice(kind)
    assert resident_size(launch(useful), device) == (groups * 256, 1, 1)


def test_a_device_is_tried_once_and_not_where_that_is_turned_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Any] = []

    def found(handle: Any) -> float:
        tried.append(handle)
        return 1.25e-6

    monkeypatch.setattr(barriers, "measured", found)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    device: Any = FakeDevice()
    monkeypatch.setenv(barriers.RESIDENT_VARIABLE, "off")
    assert barriers.barrier_seconds(device) == 0.0 and not tried
    monkeypatch.delenv(barriers.RESIDENT_VARIABLE)
    assert barriers.barrier_seconds(device) == barriers.barrier_seconds(device) == 1.25e-6
    assert len(tried) == 1
    assert barriers.barrier_seconds(device, again=True) == 1.25e-6 and len(tried) == 2


@pytest.mark.parametrize("handle", [Handle(extensions="cl_khr_fp64"), Handle(1, "", 9)])
def test_a_device_whose_groups_cannot_wait_has_no_barriers(handle: Handle) -> None:
    device: Any = FakeDevice(handle=handle)
    assert barriers.barrier_seconds(device) == 0.0


def test_an_old_compute_capability_has_none_and_a_cpu_neither() -> None:
    device: Any = FakeDevice(handle=Handle(compute_capability_major_nv=6))
    assert barriers.barrier_seconds(device) == 0.0
    assert barriers.barrier_seconds(choose("cpu")) == 0.0
