"""A part of what `python -m tests.fuzz --what inputs` does to binary files, in this process."""

import random
import warnings

import pytest

from tests.fuzz.bad_inputs.binary_inputs import TARGETS
from tests.fuzz.bad_inputs.driver import Target

MUTATIONS = 150


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_broken_file_is_read_as_it_says_or_refused_with_its_place(target: Target) -> None:
    chance = random.Random(16)
    corpus = target.corpus()
    assert corpus
    for data in corpus:
        target.check(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of headers by old versions of Python
        for _ in range(MUTATIONS):
            target.check(target.mutate(chance, chance.choice(corpus)))


def test_the_same_number_breaks_a_file_in_the_same_way() -> None:
    for target in TARGETS:
        data = target.corpus()[0]
        assert target.mutate(random.Random(3), data) == target.mutate(random.Random(3), data)
