"""What `mgn-run --list-devices` prints.

In: the OpenCL devices of this machine. Out: a line for each, with its whole description where that
is asked for, field by field under the names that an overriding file uses; a DeviceError that names
the remedy where there is none.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from mgn.driver.quantities import bytes_text, seconds_text

if TYPE_CHECKING:
    from mgn.dialects.kernel.device import Device
    from mgn.runtime.devices import ComputeDevice


def _rates(rates: dict[str, float]) -> str:
    listing = ", ".join(f"{name} {rate / 1e9:.4g}" for name, rate in rates.items())
    return f"{listing} GFLOP/s" if rates else "none"


def _size(bytes: int) -> str:
    return bytes_text(bytes) if bytes else "unknown"


UNITS: dict[str, Callable[[Any], str]] = {
    "vector_bits": lambda bits: f"{bits} bits",
    "local_memory": bytes_text,
    "max_work_group_size": lambda items: f"{items} work-items",
    "sub_group_size": lambda items: f"{items} work-item{'' if items == 1 else 's'}",
    "global_memory": bytes_text,
    "bandwidth": lambda rate: f"{rate / 1e9:.4g} GB/s",
    "launch_cost": seconds_text,
    "rates": _rates,
    "matrix_rates": _rates,
    "cache": bytes_text,
    "cache_gain": lambda gain: f"{gain:.3g} times the bandwidth",
    "function_share": lambda share: f"{share:.3g} of the time in a chain",
    **dict.fromkeys(("l1_cache", "l2_cache", "l3_cache"), _size),
}
"""How fields of a description are written; the others as they are."""


def device_listing(verbose: bool, probe: bool = False) -> str:
    """The devices, one a line; the first column is a selector. `probe` measures them again."""
    from mgn.runtime.devices import choose, list_devices

    devices = list_devices()
    if not devices:
        choose("auto")
    lines: list[str] = []
    for device in devices:
        lines.append(str(device))
        if verbose or probe:
            lines.extend(f"     {line}" for line in _description(device, probe))
    return "\n".join(lines) + "\n"


def _description(device: "ComputeDevice", probe: bool) -> Iterator[str]:
    from mgn.api import describe_device
    from mgn.runtime.measurement.figures import FIGURES_VARIABLE, overrides

    given = overrides()
    yield from (
        f"{line}  (from {FIGURES_VARIABLE})" if name in given else line
        for name, line in description_lines(describe_device(device, probe))
    )


def description_lines(description: "Device") -> Iterator[tuple[str, str]]:
    """Every field of a description but its name: the field, and its line."""
    width = max(len(item.name) for item in fields(description)) + 2
    for item in fields(description):
        if item.name != "name":
            value = getattr(description, item.name)
            shown = UNITS.get(item.name, _plain)(value)
            yield item.name, f"{item.name:<{width}}{shown}"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {item:.4g}" for name, item in value.items()) or "none"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    return str(value)
