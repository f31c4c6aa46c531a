"""What `torch.compile(model, backend="mgn", options={…})` may ask for.

In: the mapping that PyTorch hands on. Out: `Options`, or an MgnError that names what there is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from mgn.diagnostics import MgnError


@dataclass(frozen=True)
class Options:
    """`device` and `precision` are those of `mgn.compile`. `freeze` keeps parameters on the device
    between runs of inference, laid out as the kernels like them; one that is changed in place is
    set anew, but writes through `.data` are not seen. `sizes` bounds for how many sizes a graph
    with dynamic sizes is compiled. `share` has further sizes of a function searched among the
    operations that were chosen for its first.
    """

    device: str = "auto"
    precision: str = "f32"
    freeze: bool = False
    sizes: int = 8
    share: bool = True


def options_of(mode: str | None, given: Mapping[str, Any] | None) -> Options:
    """The options of a call of torch.compile. MgnError where one is not known."""
    if mode not in (None, "default"):
        raise MgnError(f"backend 'mgn' has no mode {mode!r:.80}; options={{…}} are its settings")
    known = {item.name: type(item.default) for item in fields(Options)}
    for name, value in (given or {}).items():
        if name not in known:
            raise MgnError(f"backend 'mgn' has no option {name!r:.80}; it has {', '.join(known)}")
        if type(value) is not known[name]:
            raise MgnError(f"option '{name}' is of type {known[name].__name__}, not {value!r:.80}")
    return Options(**dict(given or {}))
