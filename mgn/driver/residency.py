"""Whether launches are merged: the words of `resident=` and `--resident`.

In: a word and a device's description. Out: the description that a program is compiled for.
`MGN_RESIDENT=off` is `off` whatever the word, for described devices too.
"""

from typing import TYPE_CHECKING

from mgn.diagnostics import MgnError

if TYPE_CHECKING:
    from mgn.dialects.kernel.device import Device

RESIDENCIES = ("auto", "on", "off")
"""`auto` merges launches on GPUs where that is faster by the device's figures; `on` does so on CPUs
too; `off` merges none.
"""

OF_ONE_GROUP = 1e-7
"""What it takes a CPU to go on with the next stage: it has one group, which waits for none."""


def check_residency(resident: str) -> None:
    """MgnError for a word that is not known."""
    if resident not in RESIDENCIES:
        known = ", ".join(RESIDENCIES)
        raise MgnError(f"unknown residency '{resident}'; there are {known}")


def residing(device: "Device", resident: str) -> "Device":
    """The device as a program sees it. Where no launches are to be merged it has no barriers."""
    check_residency(resident)
    from mgn.runtime.measurement.barriers import merging_is_on

    if resident == "off" or not merging_is_on():
        return device.with_figures(barrier_cost=0.0)
    if resident == "on" and device.is_cpu and not device.barrier_cost:
        return device.with_figures(barrier_cost=OF_ONE_GROUP)
    return device
