"""What `mgn-run --list-devices` prints.

In: the OpenCL devices of this machine. Out: a line for each, with its figures where they are asked
for; a DeviceError that names the remedy where there is none.
"""

from typing import TYPE_CHECKING

from mgn.report import bytes_text, seconds_text

if TYPE_CHECKING:
    from mgn.runtime.devices import ComputeDevice


def device_listing(verbose: bool) -> str:
    """The devices, one a line; the first column is a selector."""
    from mgn.runtime.devices import choose, list_devices

    devices = list_devices()
    if not devices:
        choose("auto")
    lines: list[str] = []
    for device in devices:
        lines.append(str(device))
        if verbose:
            lines.extend(f"     {line}" for line in _figures(device))
    return "\n".join(lines) + "\n"


def _figures(device: "ComputeDevice") -> list[str]:
    from mgn.api import describe_device

    figures = describe_device(device)
    rates = ", ".join(f"{name} {rate / 1e9:.0f}" for name, rate in figures.rates.items())
    return [
        f"{figures.compute_units} compute units, vectors of {figures.vector_bits} bits, "
        f"sub-groups of {figures.sub_group_size}, work-groups up to {figures.max_work_group_size}",
        f"memory {bytes_text(figures.global_memory)}, local {bytes_text(figures.local_memory)}, "
        f"{figures.bandwidth / 1e9:.1f} GB/s",
        f"GFLOP/s: {rates}; launch {seconds_text(figures.launch_cost)}",
    ]
