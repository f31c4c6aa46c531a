"""What it costs that a kernel's result is copied into a state behind all launches.

In: a candidate that may compute what a state is left with. Out: the seconds of the copy; nothing
for a kernel that writes in the state's place: a part of the state, or all of it, once nobody else
reads what was there.
"""

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.types import tensor_bytes
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet
from mgn.passes.saturate.egraph.view import View


def charge_commits(view: View, found: CandidateSet, device: Device) -> None:
    """Adds the copies into states to the prices of the candidates that need them."""
    if view.left:
        for candidate in found.candidates:
            candidate.price += commit_seconds(view, candidate, device)


def commit_seconds(view: View, candidate: Candidate, device: Device) -> float:
    """What the copies of a candidate's results into states take."""
    if not view.left or candidate.kind is KernelKind.UPDATE:
        return 0.0
    left = set(view.found).intersection(candidate.results)
    if left == set(candidate.results):
        left = {key for key in left if not writes_in_place(view, candidate, key)}
    return sum(copy_seconds(view.classes[key].type, device) for key in left)


def copy_seconds(type: TensorType, device: Device) -> float:
    """What it takes to copy a value into a state."""
    return device.launch_cost + 2 * tensor_bytes(type) / device.bandwidth


def writes_in_place(view: View, candidate: Candidate, key: int) -> bool:
    """Whether a kernel, if it stands behind the others, may write a result in the place of the
    state that is left with it: it reads what was there element by element, if at all.
    """
    if key not in view.found or view.outputs.count(key) > 1:
        return False
    before = view.found[key]
    if candidate.kind in (KernelKind.UPDATE, KernelKind.POINTWISE):
        return True
    return before is None or before not in candidate.reads
