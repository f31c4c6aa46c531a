"""A fixture under which kernels are chosen as for a large GPU, and run on any device."""

import json
from pathlib import Path
from typing import Any

import pytest

from mgn.dialects.kernel import DEVICES

H200 = DEVICES["nvidia-h200"]

FIGURES: dict[str, Any] = {
    "kind": "gpu", "compute_units": H200.compute_units, "bandwidth": H200.bandwidth,
    "launch_cost": H200.launch_cost, "rates": H200.rates, "cache_gain": 1.0,
}  # fmt: skip


@pytest.fixture
def large_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Has kernels chosen as for an H200."""
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(FIGURES))
    monkeypatch.setenv("MGN_DEVICE_FIGURES", str(path))
