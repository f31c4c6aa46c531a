"""Losses of a run beside PyTorch's, from the same weights on the same batches: what
`python -m benchmarks.training_curves` does with more networks and steps.
"""

import pytest

pytest.importorskip("torch")

from benchmarks.training import cases
from benchmarks.training.side_by_side import ADAMW, SGD, Kind
from benchmarks.training_curves import LIMIT, curves

STEPS = 12


@pytest.mark.parametrize("kind", [SGD, ADAMW], ids=lambda kind: kind.name)
def test_losses_are_those_of_pytorch(kind: Kind) -> None:
    case = next(item for item in cases.CURVES if item.name == "MLP")
    row = curves(case, kind, STEPS)
    assert row.apart < LIMIT / 10
    assert row.exact[-1] < row.exact[0]
    assert f"| MLP | {kind.name} | " in row.text and "| never |" in row.text


def test_another_optimiser_is_told_apart() -> None:
    """The comparison is not blind: another optimiser is told at once."""
    case = next(item for item in cases.CURVES if item.name == "MLP")
    other = Kind("other rate", ADAMW.ours, SGD.theirs)
    assert curves(case, other, STEPS).apart > LIMIT


@pytest.mark.parametrize("case", [*cases.CURVES, *cases.STEPS], ids=lambda case: case.name)
def test_batches_of_a_case_come_again_and_fit_its_inputs(case: cases.Case) -> None:
    inputs = {"x": ("f32", (3, 2)), **dict.fromkeys(case.below, ("i32", (4, 5)))}
    once, again = case.batch(inputs, 3), case.batch(inputs, 3)
    for name, (_, shape) in inputs.items():
        assert once[name].shape == shape
        assert (once[name] == again[name]).all()
    for name, bound in case.below.items():
        assert once[name].min() >= 0 and once[name].max() < bound
