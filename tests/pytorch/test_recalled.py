"""What a process has compiled under `torch.compile`, the next one finds on disk, whatever else
either of them compiles before.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mgn.runtime.devices import choose
from mgn.runtime.location import FIGURES_VARIABLE
from mgn.runtime.measurement.figures import describe
from tests.conftest import ROOT

pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")


PROGRAM = """
import json, sys
import torch
from torch import nn
import mgn.torch
from mgn.torch import backend
torch.manual_seed(0)
layers = [item for _ in range(int(sys.argv[2])) for item in (nn.LayerNorm(6), nn.Linear(6, 6))]
network = nn.Sequential(*layers, nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 4))
compiled = torch.compile(network, backend="mgn")
for call in json.loads(sys.argv[1]):
    x = torch.randn(call[1], 6)
    if call[0] == "inference":
        with torch.no_grad():
            compiled(x)
    else:
        compiled(x).square().sum().backward()
reports = [part.executable.report for running in backend.built for part in running.parts]
print(json.dumps([[item.graph, item.recalled] for item in reports]))
"""


@pytest.fixture(autouse=True)
def measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device's figures are the same in all processes: those measured on a loaded machine are
    measured again after a while, and programs are chosen by them.
    """
    figures = describe(choose("auto"))
    fixed = {
        name: item
        for name, item in figures.items()
        if isinstance(item, dict) or (isinstance(item, float) and item > 0)
    }
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(fixed))
    monkeypatch.setenv(FIGURES_VARIABLE, str(path))


def recalled(
    calls: Sequence[tuple[str, int]], folder: Path, layers: int = 0
) -> list[tuple[str, bool]]:
    """The programs of a process that makes these calls, of so many rows, of a network with so many
    layers more: the name of each, and whether it was found on disk.
    """
    environment = {"MGN_PROGRAM_CACHE": "on", "MGN_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(calls), str(layers)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [(name, found) for name, found in json.loads(done.stdout.splitlines()[-1])]


def test_training_is_recalled_where_another_process_compiled_for_inference_before(
    tmp_path: Path,
) -> None:
    first = recalled([("inference", 5), ("training", 5)], tmp_path)
    assert [found for _, found in first] == [False, False, False]
    assert all(found for _, found in recalled([("training", 5)], tmp_path))
    assert all(found for _, found in recalled([("training", 5), ("inference", 5)], tmp_path))


def test_a_size_that_came_second_is_recalled_where_it_comes_first(tmp_path: Path) -> None:
    assert not any(found for _, found in recalled([("training", 5), ("training", 7)], tmp_path))
    assert all(found for _, found in recalled([("training", 7)], tmp_path))


def test_sizes_that_are_searched_by_the_first_are_recalled_behind_an_equal_one(
    tmp_path: Path,
) -> None:
    calls = [("inference", size) for size in (5, 7, 9)]
    assert not any(found for _, found in recalled(calls[:2], tmp_path, 40))
    found = recalled([calls[0], calls[2], calls[1]], tmp_path, 40)
    assert [was_found for _, was_found in found] == [True, False, True]
    assert not any(was_found for _, was_found in recalled([calls[1]], tmp_path, 40))
