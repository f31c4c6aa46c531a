"""Modelled prices of graphs on disk: what was priced before is not saturated again.

In: an xDSL module of one graph and the settings of a compilation. Out: the modelled seconds of a
run, as extraction has them.
"""

import math
import struct
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from mgn.dialects.kernel.device import Device
from mgn.driver.compilation import optimize_graph
from mgn.program_cache.cache import program_cache
from mgn.program_cache.key import NoKey, program_key

if TYPE_CHECKING:
    from mgn.passes.saturate import SaturateOptions

_FORM = struct.Struct("<d")


def price_or_recall(
    module: ModuleOp, device: Device, saturation: "SaturateOptions | None", precision: str
) -> float:
    """The price of a run. The module is used up."""
    cache = program_cache()
    settings = {"price": True, "device": device, "saturation": saturation, "precision": precision}
    try:
        key = program_key(module, settings) if cache is not None else None
    except NoKey:
        key = None
    kept = cache.load(key) if cache is not None and key is not None else None
    if kept is not None and len(kept) == _FORM.size:
        (price,) = _FORM.unpack(kept)
        if math.isfinite(price):
            return price
    report = optimize_graph(module, device, saturation=saturation, precision=precision)
    price = float(getattr(report.saturation, "cost_after", 0.0))
    if cache is not None and key is not None and report.is_settled:
        cache.store(key, _FORM.pack(price))
    return price
