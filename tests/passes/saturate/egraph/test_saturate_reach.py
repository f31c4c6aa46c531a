"""Dependencies between classes: what labels decide and what is searched agree with a plain walk."""

import random

import pytest

from mgn.dialects.types import tensor
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.egraph.view import Member, ValueClass, View


def random_view(seed: int) -> View:
    """Classes in order, each with up to three e-nodes over earlier ones, near or far."""
    rng = random.Random(seed)
    type = tensor("f32", (2,))
    classes: dict[int, ValueClass] = {}
    keys = rng.sample(range(1000), rng.randint(2, 40))
    for place, key in enumerate(keys):
        near = keys[max(0, place - rng.choice((2, 40))) : place]
        members = [
            Member(0, tuple(rng.choices(near, k=rng.randint(1, 3))))
            for _ in range(rng.randint(0, 3) if near else 0)
        ]
        classes[key] = ValueClass(key, type, members)
    return View(classes, [keys[-1]], [])


def needed(view: View, key: int) -> set[int]:
    """A class and all that its e-nodes use."""
    found, pending = {key}, [key]
    while pending:
        for member in view.classes[pending.pop()].members:
            pending.extend(item for item in member.operands if item not in found)
            found.update(member.operands)
    return found


@pytest.mark.parametrize("seed", range(50))
def test_a_class_depends_on_what_its_e_nodes_use_directly_or_not(seed: int) -> None:
    view = random_view(seed)
    reach = Reach(view)
    for key in view.classes:
        expected = needed(view, key)
        assert {other for other in view.classes if reach.depends(key, other)} == expected
