"""Copies that an arrangement reads, made at once of what they are made of: weights are scaled and
packed by one kernel.

In: a view and its candidates. Out: candidates that write copies of what parameters alone decide,
and compute it besides.
"""

from collections.abc import Iterator, Mapping, Sequence

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet, Template
from mgn.passes.saturate.candidates.priced_bodies import body_order, leaves_of
from mgn.passes.saturate.candidates.repetition import table
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.prices.bodies import BodyNode, renamed
from mgn.passes.saturate.prices.forms import classify
from mgn.passes.saturate.prices.prices import price_kernel, price_per_run

Placed = tuple[Template, tuple[int, ...]]


def prepared_copies(view: View, found: CandidateSet, device: Device) -> Iterator[Placed]:
    """Templates of copies that read parameters in place of what is computed from them, with their
    classes.
    """
    made: dict[object, tuple[Template | None]] = table(found.memoise)
    for copy in [item for item in found.candidates if _is_copy(item, view, found)]:
        sources = [_plainest(key, found) for key in copy.inputs]
        parts = [copy, *(item for item in sources if item is not None)]
        if len(parts) == 1:
            continue
        nodes = {node[0]: node for item in parts for node in item.body}
        names: dict[int, int] = {}
        places = tuple(
            (node[1], tuple([names.setdefault(item, len(names)) for item in (node[0], *node[2])]))
            for node in nodes.values()
        )
        lying = tuple(
            [(view.classes[item].leaf is None, view.classes[item].inline) for item in names]
        )
        key = copy.template.facts, places, lying
        known = made.get(key)
        if known is None:
            known = made[key] = (_template(view, device, parts, nodes, names),)
        if known[0] is not None:
            yield known[0], tuple(names)


def _is_copy(candidate: Candidate, view: View, found: CandidateSet) -> bool:
    """Whether a kernel only copies what other kernels compute, once for all runs."""
    if candidate.kind is not KernelKind.POINTWISE or not candidate.inputs:
        return False
    (result, *others) = candidate.results
    return result in found.handed and not others and view.classes[result].prepared


def _plainest(key: int, found: CandidateSet) -> Candidate | None:
    """The pointwise kernel that writes a class alone, best from what lies in memory, and of these
    the cheapest; a copy for another kernel is none.
    """
    writers = [found.candidates[number] for number in found.writers[key]]
    plain = [
        item
        for item in writers
        if item.kind is KernelKind.POINTWISE and len(item.results) == 1 and not item.template.facts
    ]
    return min(plain, key=lambda item: (len(item.inputs), item.price, item.number), default=None)


def _template(
    view: View,
    device: Device,
    parts: Sequence[Candidate],
    nodes: Mapping[int, BodyNode],
    names: Mapping[int, int],
) -> Template | None:
    """The kernel of all parts over these names; None where there is none, or a dearer one."""
    copy, classes = parts[0], view.classes
    ordered = body_order(nodes, copy.results)
    if ordered is None:
        return None
    body = renamed(ordered, names)
    form = classify(body, view.signatures)
    if form is None:
        return None
    reads = [item for item in leaves_of(ordered) if not classes[item].inline]
    types = {names[item]: classes[item].type for item in reads}
    results = tuple(names[item] for item in copy.results)
    facts, signatures = copy.template.facts, view.signatures
    price = price_kernel(body, form, results, types, signatures, device, facts)
    price = price_per_run(price, True)
    if price >= sum(part.price for part in parts):
        return None
    inputs = tuple(names[item] for item in reads if classes[item].leaf is None)
    return Template(body, form, results, tuple(types), inputs, price, facts)
