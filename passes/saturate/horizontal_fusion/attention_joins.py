"""Kernels of attention and of its gradient that write what two kernels would compute alike.

In: a view and its candidates. Out: candidates of several results: an attention with the log-sum-exp
of its scores, and both parts of a gradient of keys and values.

Both are there twice before: as an attention, and as an `attention_lse` that computes the scores
again; as kernels of one gradient, of which one writes what follows the keys, and the other what
follows the values.
"""

from collections.abc import Iterator
from itertools import product

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.attention_bodies import ATTENTION_GRADIENT, TOTALS, widens
from mgn.dialects.kernel.device import Device
from mgn.dialects.types import element_of
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet
from mgn.passes.saturate.candidates.limits import NO_GAIN
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.egraph.view import Signature, View
from mgn.passes.saturate.horizontal_fusion.side_by_side import Merger, Placed, waits
from mgn.passes.saturate.prices.forms import PARTS, Place

JOINED = (KernelKind.ATTENTION, KernelKind.ATTENTION_GRADIENT)


def attention_joins(
    view: View, found: CandidateSet, device: Device, reach: Reach
) -> Iterator[Placed]:
    """Templates of several results, with their classes, that are cheaper than the kernels that
    they join.
    """
    merger = Merger(view, found, device, JOINED)
    for first, second in _pairs(view, found):
        template, classes = merger.merged(first, second)
        if template is None or waits(template, classes, reach):
            continue
        saves = template.price < first.price + second.price
        found.left_out[NO_GAIN] += not saves
        if saves:
            yield template, classes


def _pairs(view: View, found: CandidateSet) -> Iterator[tuple[Candidate, Candidate]]:
    """The candidates that may be one kernel."""
    attending: dict[int, list[Candidate]] = {}
    totals: dict[int, list[Candidate]] = {}
    parts: dict[int, tuple[list[Candidate], list[Candidate]]] = {}
    for candidate in found.candidates:
        if candidate.kind not in JOINED or candidate.template.arranged is not None:
            continue
        heavy, signature, queries = _heavy(view, candidate)
        if signature.name == "attention":
            attending.setdefault(_before_widening(view, queries), []).append(candidate)
        elif signature.name == TOTALS:
            totals.setdefault(_before_widening(view, queries), []).append(candidate)
        elif signature.name == ATTENTION_GRADIENT[2]:
            place = _place(candidate)
            if place in PARTS:
                both = parts.setdefault(heavy, ([], []))
                both[PARTS.index(place)].append(candidate)
    for queries, others in totals.items():
        yield from product(attending.get(queries, ()), others)
    for both in parts.values():
        yield from product(*both)


def _heavy(view: View, candidate: Candidate) -> tuple[int, Signature, int]:
    """The class of a candidate's heavy operation, what it is, and the class of its queries."""
    heavy = candidate.template.form.heavy
    number, operands = next(node[1:] for node in candidate.template.body if node[0] == heavy)
    assert heavy is not None
    return candidate.classes[heavy], view.signatures[number], candidate.classes[operands[0]]


def _place(candidate: Candidate) -> Place:
    """Where what a candidate writes lies."""
    return candidate.template.form.places[candidate.template.results[0]]


def _before_widening(view: View, key: int) -> int:
    """The class that a class of wide numbers is a cast of, or the class itself."""
    for member in view.classes[key].members:
        signature = view.signatures[member.signature]
        if signature.name == "cast":
            source = element_of(signature.operand_types[0]).name
            if widens(source, signature.element):
                return member.operands[0]
    return key
