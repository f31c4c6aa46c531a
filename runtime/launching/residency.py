"""How many work-groups of a resident launch run at once.

In: the signature of a resident launch and a device. Out: the work-items to launch. A group waits
for all others, so none may be left to begin when another one ends: a compute unit takes one group,
whatever it needs, or the driver refuses the launch. On a CPU, whose driver may run one group after
another, there is one.
"""

from typing import TYPE_CHECKING

from mgn.codegen.signature import KernelSignature

if TYPE_CHECKING:
    from mgn.runtime.devices import ComputeDevice


def resident_groups(device: "ComputeDevice") -> int:
    """The work-groups that a device runs at once for sure."""
    return 1 if device.kind == "cpu" else int(device.handle.max_compute_units)


def resident_size(signature: KernelSignature, device: "ComputeDevice") -> tuple[int, int, int]:
    """The work-items of a resident launch: no more groups than have something to do."""
    useful = signature.global_size[0] // signature.local_size[0]
    return min(useful, resident_groups(device)) * signature.local_size[0], 1, 1
