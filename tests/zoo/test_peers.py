"""Small models of the zoo beside those of torchvision and transformers, whose weights they load.

Full sizes: `python -m benchmarks.zoo`.
"""

import pytest

from benchmarks.zoo.entry import Entry
from benchmarks.zoo.table import ENTRIES


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_small_model_computes_what_its_peer_computes(entry: Entry) -> None:
    for package in ("torch", *entry.packages):
        pytest.importorskip(package)
    from benchmarks.zoo.trial import TOLERANCE, tried

    trial = tried(entry, small=True)
    assert trial.error <= TOLERANCE, trial.errors
    assert trial.unknown == []
