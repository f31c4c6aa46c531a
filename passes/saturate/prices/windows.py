"""What it takes to read through windows that slide along axes, and through slices with steps.

In: the signature of a `windows` or a `slice`, a device. Out: multiply-adds in whose time an element
is found.

A vector of a CPU reads neighbours where the windows' places along the innermost axis are enough for
it, and each lane for itself where it goes on in the next row, as it does the more often the shorter
rows are. Both were measured on an AMD EPYC (AVX-512), 3 × 3 windows in padding.
"""

from math import gcd

from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.egraph.view import Signature

IN_LINE, BEYOND, STRIDED = 24.0, 160.0, 96.0
"""Of an element of a vector in one row, of one that goes on in the next, and of one in a row whose
neighbours are apart.
"""

APART = 40.0
"""Of an element of a vector that a slice takes from elements that are not neighbours."""

ON_GPU = 4.0
"""The same for a work-item of a GPU, whose whole numbers are for the most part computed once."""

BELOW = 12.0
"""How much longer it takes to compute what windows read than to compute it by itself: in the middle
of tests, for parts of vectors.
"""


def window_weight(signature: Signature, device: Device) -> float:
    """The weight of a `windows`, or of a `slice`, as that of an elementwise operation."""
    if signature.name == "slice":
        apart = device.is_cpu and max(signature.values["steps"][-1:], default=1) > 1
        return APART if apart else 0.0
    if not device.is_cpu:
        return ON_GPU
    axes = len(signature.values["sizes"])
    rows = signature.shape[-axes - 1]
    line = IN_LINE if signature.values["strides"][-1] == 1 else STRIDED
    lanes = max(device.vector_bits // 32, 1)
    if rows < lanes:
        return BEYOND
    crossing = min((lanes - gcd(rows, lanes)) / rows, 1.0)
    return line + (BEYOND - line) * crossing
