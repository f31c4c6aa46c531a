"""What it costs that a kernel's result is copied into a state behind all launches.

In: a candidate that may compute what a state is left with. Out: the seconds of the copy; nothing
for a kernel that writes a part of a state, which does so in place.
"""

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
    left = set(view.outputs[-view.left :]).intersection(candidate.results)
    moved = [2 * tensor_bytes(view.classes[key].type) for key in left]
    return sum(device.launch_cost + count / device.bandwidth for count in moved)
