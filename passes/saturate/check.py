"""The independent checker of an extraction, run on every compile.

In: a view, the kernels chosen, the cost claimed. Out: nothing, or an `ExtractionError` that says
what is wrong.

It shares no code with the search: it follows the kernels in their order and looks at what is in
memory.
"""

import math
from collections.abc import Hashable

from mgn.diagnostics import MgnError
from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.stabilising_maximum import MAXIMUM
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet
from mgn.passes.saturate.candidates.commits import commit_seconds
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.selection import Selection
from mgn.passes.saturate.prices.forms import classify
from mgn.passes.saturate.prices.kernel_facts import kernel_facts
from mgn.passes.saturate.prices.prices import PREPARED_RUNS, price_kernel
from mgn.passes.schedules.core.figures import MATRIX


class ExtractionError(MgnError, RuntimeError):
    """An extraction that does not compute the program, or not at its price."""


def check_selection(view: View, found: CandidateSet, selection: Selection, device: Device) -> None:
    """Raises ExtractionError unless the kernels compute all outputs at the cost claimed."""
    memory = {key for key, value in view.classes.items() if value.leaf is not None}
    if len(set(selection.kernels)) != len(selection.kernels):
        raise ExtractionError("a kernel is chosen twice")
    constant = {
        key
        for key, value in view.classes.items()
        if view.prepares and value.leaf is not None and value.leaf.prepares
    }
    total = 0.0
    prices: dict[Hashable, tuple[KernelKind | None, float]] = {}
    for number in selection.kernels:
        candidate = found.candidates[number]
        inside: set[int] = set()
        for name, signature, operands in candidate.body:
            for member in view.classes[name].members:
                if member.signature == signature and member.operands == operands:
                    break
            else:
                raise ExtractionError(f"kernel {number}: no such e-node in class {name}")
            for item in operands:
                if item not in memory and item not in inside:
                    raise ExtractionError(f"kernel {number}: needs {item}, not computed yet")
            inside.add(name)
        unwritten = [key for key in candidate.results if key not in inside]
        if unwritten:
            raise ExtractionError(f"kernel {number}: does not compute {unwritten[0]}")
        shape = _shape_of(candidate)
        if shape not in prices:
            prices[shape] = _kind_and_price(view, candidate, device)
        kind, price = prices[shape]
        if kind is not candidate.kind:
            raise ExtractionError(f"kernel {number}: the body is not a {candidate.kind} kernel")
        prepared = view.prepares and constant.issuperset(candidate.reads)
        total += price / PREPARED_RUNS if prepared else price
        total += commit_seconds(view, candidate, device)
        memory.update(candidate.results)
        if prepared:
            constant.update(candidate.results)
    for key in view.outputs:
        if key not in memory:
            raise ExtractionError(f"the output of class {key} is not computed")
    if not math.isclose(total, selection.cost, rel_tol=1e-9, abs_tol=1e-15):
        raise ExtractionError(f"the cost is {total}, not {selection.cost}")


def _shape_of(candidate: Candidate) -> Hashable:
    """A kernel but for the names of its values: what decides its kind and its price."""
    names: dict[int, int] = {}
    place = names.setdefault
    body = tuple(
        [
            (signature, tuple([place(item, len(names)) for item in (*operands, name)]))
            for name, signature, operands in candidate.body
        ]
    )
    results = tuple([names[key] for key in candidate.results])
    reads = tuple([names.get(key) for key in candidate.reads])
    return body, results, reads, candidate.template.facts


def _kind_and_price(
    view: View, candidate: Candidate, device: Device
) -> tuple[KernelKind | None, float]:
    form = classify(candidate.body, view.signatures)
    if form is None:
        return None, 0.0
    types = {key: view.classes[key].type for key in candidate.reads}
    facts, body = candidate.template.facts, candidate.body
    known = kernel_facts(body, form, candidate.results, types, view.signatures, device)
    for name, said in facts:
        if name in (MATRIX, MAXIMUM) and (name, said) not in known:
            raise ExtractionError(f"kernel {candidate.number}: it says {name} = {said}, falsely")
    price = price_kernel(body, form, candidate.results, types, view.signatures, device, facts)
    return form.kind, price
