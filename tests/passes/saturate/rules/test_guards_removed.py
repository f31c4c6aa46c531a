"""Each test of a guard fails where the guard is taken away, or a row is too generous.

In: the tests of `test_saturate_guards.py`. A mutant is a change of the e-graph's rules, facts or
choices of the kind that other systems ship; the test that is named beside it has to notice.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.passes.saturate import search
from mgn.passes.saturate.candidates.candidates import CandidateSet
from mgn.passes.saturate.candidates.cuts import Traits
from mgn.passes.saturate.encoding.facts import Facts
from mgn.passes.saturate.extraction.extract import Extraction
from mgn.passes.saturate.extraction.selection import select
from mgn.passes.saturate.memo import forget_choices
from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.passes.saturate.rules.table import RULES
from tests.passes.saturate.rules import test_saturate_guards as guards

Mutant = Callable[[pytest.MonkeyPatch], None]


def with_row(left: str, right: str, when: str = "") -> Mutant:
    """A wrong row more."""
    row = Rule("wrong", left, right, RuleClass.EXACT, "none", when)
    row.check()
    return lambda patch: patch.setitem(RULES, row.name, row)


def changed(name: str, field: str, old: str, new: str) -> Mutant:
    """A row of the table with one text exchanged."""
    text = getattr(RULES[name], field)
    assert old in text
    row = replace(RULES[name], **{field: text.replace(old, new)})
    return lambda patch: patch.setitem(RULES, name, row)


def without_rows(*names: str) -> Mutant:
    def mutant(patch: pytest.MonkeyPatch) -> None:
        for name in names:
            patch.delitem(RULES, name)

    return mutant


def whatever_fits_is_fused(patch: pytest.MonkeyPatch) -> None:
    """Each value has a kernel of its own, which computes all that it can, users uncounted; first
    what others read.
    """

    def greedy(found: CandidateSet, *_: Any) -> Extraction:
        readers = Counter(key for item in found.candidates for key in {*item.inputs})
        wanted = Counter(found.outputs) + readers

        def size(number: int) -> tuple[bool, int, int]:
            item = found.candidates[number]
            left = sum(wanted[key] for key in item.inputs)
            return len(item.results) == 1, len(item.body), -left

        largest = {key: max(writers, key=size) for key, writers in found.writers.items()}
        return Extraction(select(found, largest), 0.0, 1, 1)

    patch.setattr(Traits, "stored", property(lambda self: True))
    patch.setattr(search, "extract_joined", lambda _, found, *rest: greedy(found, *rest))
    patch.setattr(search, "search_whole", lambda view, searched, *_: searched)


def attributes_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """E-nodes are their operation and operands; the first attributes stand for all."""
    node = Facts.node
    first: dict[Any, Any] = {}

    def forgetful(self: Facts, spec: Any, operands: Any, properties: Any, *rest: Any) -> int:
        key = (spec.name, tuple(operands), rest[0])
        return node(self, spec, operands, first.setdefault(key, properties), *rest)

    patch.setattr(Facts, "node", forgetful)


def literals_are_guessed(patch: pytest.MonkeyPatch) -> None:
    """A constant is the nearest number that a row names."""

    def nearest(self: Facts, value: float, element: Any) -> float:
        near = [item for item in self.literals if abs(item - value) < 0.01]
        return near[0] if near else value

    patch.setattr(Facts, "_literal", nearest)


def spelled_otherwise(name: str) -> Mutant:
    """The parts are those of another norm."""

    spelled = guards.SPELLINGS[name]

    def other(b: Emitter, x: SSAValue) -> SSAValue:
        return spelled(b, b.add(b.mul(x, x), x))

    return lambda patch: patch.setitem(guards.SPELLINGS, name, other)


REMOVED: dict[str, tuple[Callable[..., None], tuple[Any, ...], Mutant]] = {
    "bias sum": (
        guards.test_a_bias_sum_that_is_also_returned_is_written_and_not_computed_twice,
        (),
        whatever_fits_is_fused,
    ),
    "product beside its biased form": (
        guards.test_a_product_that_is_returned_beside_its_biased_form_is_computed_once,
        (),
        whatever_fits_is_fused,
    ),
    "product added to itself": (
        guards.test_a_product_added_to_itself_is_computed_once,
        (),
        with_row("add(x, x)", "x"),
    ),
    "silu times itself": (
        guards.test_a_silu_times_itself_is_not_taken_for_a_gate_of_another_value,
        (),
        changed("swiglu", "left", "y)", "silu(y))"),
    ),
    **{
        f"gate {second}": (
            guards.test_a_gate_product_with_a_second_user_is_computed_once,
            (second,),
            whatever_fits_is_fused,
        )
        for second in ("returned", "reduced", "product")
    },
    "column and full": (
        guards.test_a_column_and_a_full_factor_are_kept_apart,
        (),
        with_row("add(mul(x, y), z)", "add(mul(x, z), y)"),
    ),
    "folded gelu: its root": (
        guards.test_a_gelu_whose_constants_were_folded_away_stays_what_it_is,
        (),
        literals_are_guessed,
    ),
    "folded gelu: its half": (
        guards.test_a_gelu_whose_constants_were_folded_away_stays_what_it_is,
        (),
        changed("gelu", "left", "mul(x, 0.5)", "mul(x, y)"),
    ),
    "constant into a gelu": (
        guards.test_a_constant_folded_into_a_gelu_keeps_its_value,
        (),
        with_row("gelu(mul(x, c))", "mul(gelu(x), c)"),
    ),
    "stop_gradient": (
        guards.test_a_value_used_across_stop_gradient_is_one_value,
        (),
        whatever_fits_is_fused,
    ),
    "another epsilon": (
        guards.test_the_exported_parts_with_another_epsilon_are_another_value,
        (),
        with_row("rsqrt(add(x, c))", "rsqrt(add(x, 0.001))", "constant(c)"),
    ),
    "power in a gelu": (
        guards.test_a_gelu_with_a_power_is_recognised,
        (),
        without_rows("cube"),
    ),
}


def noticed(guard: Callable[..., None], arguments: tuple[Any, ...], mutant: Mutant) -> None:
    """The guard's test passes, and fails once the mutant is in place: by a comparison, or where it
    unpacks the one kernel that there should be.
    """
    forget_choices()
    guard(*arguments)
    try:
        with pytest.MonkeyPatch.context() as patch:
            mutant(patch)
            forget_choices()
            with pytest.raises((AssertionError, ValueError)):
                guard(*arguments)
    finally:
        forget_choices()


@pytest.mark.parametrize(("name", "first", "second"), guards.DIFFERING)
def test_attributes_are_what_keeps_values_apart(
    name: str, first: dict[str, object], second: dict[str, object]
) -> None:
    guard = guards.test_an_attribute_that_alone_differs_keeps_two_values_apart
    noticed(guard, (name, first, second), attributes_are_forgotten)


@pytest.mark.parametrize("name", guards.SPELLINGS)
def test_a_decomposition_is_what_joins_a_composite_and_its_parts(name: str) -> None:
    guard = guards.test_a_composite_and_its_exported_parts_are_one_value
    noticed(guard, (name,), spelled_otherwise(name))


@pytest.mark.parametrize("name", REMOVED)
def test_a_guard_s_test_fails_without_the_guard(name: str) -> None:
    noticed(*REMOVED[name])
