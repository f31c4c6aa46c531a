"""The order of kernels that write a part of a value: as late as may be.

In: the chosen kernels, in an order in which each value is there when it is read. Out: the same, in
which a kernel that writes a part stands behind those that read the value as it was, so that it can
write in place. One whose result is left in a state, and read by no kernel, stands behind all: what
a run does last it does only if all else has succeeded.
"""

from dataclasses import replace

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.forms import UPDATE
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.selection import Selection


def delay_updates(view: View, found: CandidateSet, selection: Selection) -> Selection:
    """The selection with its kernels in that order."""
    order = list(selection.kernels)
    left = set(view.outputs[-view.left :]) if view.left else set[int]()
    for number in selection.kernels:
        kernel = found.candidates[number]
        if kernel.kind is not KernelKind.UPDATE:
            continue
        at = order.index(number)
        behind = [found.candidates[other] for other in order[at + 1 :]]
        users = [i for i, item in enumerate(behind) if set(kernel.results).intersection(item.reads)]
        whole = _updated(view, kernel)
        readers = [i for i, item in enumerate(behind) if whole in item.reads]
        steps = readers[-1] + 1 if readers else 0
        if not users and left.issuperset(kernel.results):
            steps = len(behind)
        if steps and (not users or users[0] >= steps):
            order.insert(at + steps, order.pop(at))
    return replace(selection, kernels=order)


def _updated(view: View, kernel: Candidate) -> int:
    """The class of which a kernel writes a part."""
    return next(
        operands[0]
        for _, number, operands in kernel.body
        if view.signatures[number].spec.name == UPDATE
    )
