"""The order of kernels that write in a state's place, or a part of a value: as late as may be.

In: the chosen kernels, in an order in which each value is there when it is read. Out: the same, in
which a kernel that writes a part stands behind those that read the value as it was, so that it can
write in place. Those whose results are left in states, and read by each other at most, stand behind
all: what a run does last it does only if all else has succeeded.
"""

from collections.abc import Sequence
from dataclasses import replace

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.forms import UPDATE
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet
from mgn.passes.saturate.candidates.commits import writes_in_place
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.selection import Selection


def delay_updates(view: View, found: CandidateSet, selection: Selection) -> Selection:
    """The selection with its kernels in that order."""
    order = list(selection.kernels)
    last = _last(view, found, order)
    for number in selection.kernels:
        kernel = found.candidates[number]
        if kernel.kind is not KernelKind.UPDATE or number in last:
            continue
        at = order.index(number)
        behind = [found.candidates[other] for other in order[at + 1 :]]
        users = [i for i, item in enumerate(behind) if set(kernel.results).intersection(item.reads)]
        whole = _updated(view, kernel)
        readers = [i for i, item in enumerate(behind) if whole in item.reads]
        steps = readers[-1] + 1 if readers else 0
        if steps and (not users or users[0] >= steps):
            order.insert(at + steps, order.pop(at))
    first = [number for number in order if number not in last]
    tail = [number for number in order if number in last]
    return replace(selection, kernels=[*first, *_behind_readers(view, found, tail)])


def _last(view: View, found: CandidateSet, order: Sequence[int]) -> set[int]:
    """The kernels that write in the place of states alone, and whose results are read by such
    kernels at most.
    """
    last, read = set[int](), set[int]()
    for number in reversed(order):
        kernel = found.candidates[number]
        in_place = all(writes_in_place(view, kernel, key) for key in kernel.results)
        if in_place and read.isdisjoint(kernel.results):
            last.add(number)
        else:
            read.update(kernel.reads)
    return last


def _behind_readers(view: View, found: CandidateSet, order: Sequence[int]) -> list[int]:
    """The last kernels, each behind those that read what it writes over, if it can be."""
    moved = list(order)
    for number in order:
        kernel, at = found.candidates[number], moved.index(number)
        behind = [{*found.candidates[other].reads} for other in moved[at + 1 :]]
        before = {view.found[key] for key in kernel.results}
        readers = [place for place, read in enumerate(behind) if not read.isdisjoint(before)]
        if readers and all(read.isdisjoint(kernel.results) for read in behind):
            moved.insert(at + 1 + readers[-1], moved.pop(at))
    return moved


def _updated(view: View, kernel: Candidate) -> int:
    """The class of which a kernel writes a part."""
    return next(
        operands[0]
        for _, number, operands in kernel.body
        if view.signatures[number].spec.name == UPDATE
    )
