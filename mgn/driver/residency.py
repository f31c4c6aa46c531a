"""Whether launches are merged: the words of `resident=` and `--resident`.

In: a word and a device's description. Out: the description that a program is compiled for.
"""

from typing import TYPE_CHECKING

from mgn.diagnostics import MgnError

if TYPE_CHECKING:
    from mgn.dialects.kernel.device import Device

RESIDENCIES = ("auto", "off")
"""`auto` merges launches where that is faster by the device's figures; `off` merges none."""


def check_residency(resident: str) -> None:
    """MgnError for a word that is not known."""
    if resident not in RESIDENCIES:
        known = ", ".join(RESIDENCIES)
        raise MgnError(f"unknown residency '{resident}'; there are {known}")


def residing(device: "Device", resident: str) -> "Device":
    """The device as a program sees it. Where no launches are to be merged it has no barriers."""
    check_residency(resident)
    return device.with_figures(barrier_cost=0.0) if resident == "off" else device
