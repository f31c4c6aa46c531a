"""Modelled prices of graphs on disk: what was priced before is not priced again.

In: an xDSL module of one graph and the settings of a compilation. Out: the modelled seconds of a
run with a kernel for each operation. To find the kernels that are chosen takes ten times as long,
and what is asked is how the price grows with a size.
"""

import math
import struct

from xdsl.dialects.builtin import ModuleOp

from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.structure import graphs_of
from mgn.driver.pipelines import PIPELINES, find_pass, run_passes
from mgn.driver.precision import precision_options
from mgn.modules.dialect_table import make_context
from mgn.program_cache.cache import program_cache
from mgn.program_cache.key import NoKey, program_key

_FORM = struct.Struct("<d")


def price_or_recall(module: ModuleOp, device: Device, precision: str) -> float:
    """The price of a run. The module is used up."""
    cache = program_cache()
    settings = {"price": True, "device": device, "precision": precision}
    try:
        key = program_key(module, settings) if cache is not None else None
    except NoKey:
        key = None
    kept = cache.load(key) if cache is not None and key is not None else None
    if kept is not None and len(kept) == _FORM.size:
        (price,) = _FORM.unpack(kept)
        if math.isfinite(price):
            return price
    price = _price(module, device, precision)
    if cache is not None and key is not None:
        cache.store(key, _FORM.pack(price))
    return price


def _price(module: ModuleOp, device: Device, precision: str) -> float:
    """The price of a kernel for each operation that is left before kernels are chosen."""
    from mgn.passes.saturate.candidates.baseline import price_of_separate_kernels
    from mgn.passes.saturate.encoding.encode import encode_graph

    module.attributes["mgn.device"] = device.to_attribute()
    names = PIPELINES["inference"]
    options = precision_options(precision)
    passes = [find_pass(name)(**options.get(name, {})) for name in names[: names.index("saturate")]]
    run_passes(passes, module, make_context())
    (graph,) = graphs_of(module)
    return price_of_separate_kernels(encode_graph(graph, []), len(graph.overwritten), device)
