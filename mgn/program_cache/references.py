"""The size of a range that its other sizes are searched by, and what was chosen there.

In: what lowers a graph at that size, the reference, and the settings of a compilation. Out: a
digest of all that the choice there depends on, and the operations chosen, from memory or disk where
they were found before. The reference is a function of the range: so what a size is compiled to does
not depend on what was compiled before.
"""

import json
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.structure import graphs_of
from mgn.driver.pipelines import PIPELINES, find_pass, run_passes
from mgn.driver.precision import precision_options
from mgn.modules.dialect_table import make_context
from mgn.program_cache.key import NoKey, plugin_digests, program_key
from mgn.program_cache.plain_data import NotPlain, plain, restored
from mgn.runtime.cache import KernelCache

if TYPE_CHECKING:
    from mgn.passes.saturate import SaturateOptions
    from mgn.passes.saturate.sharing.chosen import ChosenOperations

MOST_KEPT = 8
"""References whose operations are kept in memory: those that were used last."""

MOST_BYTES = 64 << 20
"""No entry on disk is longer, before it is compressed."""

_kept: "OrderedDict[str, ChosenOperations | None]" = OrderedDict()
_lock = Lock()


@dataclass(frozen=True)
class SearchSettings:
    """What a choice of operations depends on besides the graph."""

    device: Device
    saturation: "SaturateOptions | None"
    precision: str


class Reference:
    """The graph at the size that others are searched by; each call of `lower` gives a fresh one."""

    def __init__(self, lower: Callable[[], ModuleOp]) -> None:
        self.lower = lower
        self._keys: dict[str, str | None] = {}
        self._small: dict[str, bool] = {}

    def is_small(self, settings: SearchSettings) -> bool:
        """Whether the graph has so few operations that each size is searched whole."""
        from mgn.passes.saturate.choose_operations import is_small

        said = repr(settings)
        if said not in self._small:
            module = self.lower()
            _run_to_search(module, settings)
            (graph,) = graphs_of(module)
            self._small[said] = is_small(graph)
        return self._small[said]

    def key(self, settings: SearchSettings) -> str | None:
        """A digest of all that the choice depends on; None where that cannot be told."""
        said = repr(settings)
        if said not in self._keys:
            try:
                whole = {"reference": settings, "plugins": plugin_digests()}
                self._keys[said] = program_key(self.lower(), whole)
            except NoKey:
                self._keys[said] = None
        return self._keys[said]

    def options(self, settings: SearchSettings, cache: KernelCache | None) -> "SaturateOptions":
        """The options for another size: they have the operations chosen here, if any were."""
        from mgn.passes.saturate import SaturateOptions

        options = settings.saturation or SaturateOptions()
        return replace(options, reference=self._operations(settings, cache))

    def _operations(
        self, settings: SearchSettings, cache: KernelCache | None
    ) -> "ChosenOperations | None":
        key = self.key(settings)
        if key is None:
            return _search(self.lower(), settings)
        with _lock:
            if key in _kept:
                _kept.move_to_end(key)
                return _kept[key]
        found = None if cache is None else _recalled(cache, key)
        if found is None:
            found = _search(self.lower(), settings)
            if cache is not None and found is not None:
                text = json.dumps(plain(found), separators=(",", ":"))
                cache.store(key, zlib.compress(text.encode(), level=1))
        with _lock:
            _kept[key] = found
            while len(_kept) > MOST_KEPT:
                _kept.popitem(last=False)
        return found


def forget_references() -> None:
    """Drops what is kept in memory."""
    with _lock:
        _kept.clear()


def _recalled(cache: KernelCache, key: str) -> "ChosenOperations | None":
    """What is kept on disk under a key, if it is whole."""
    from mgn.passes.saturate.sharing.chosen import ChosenOperations

    data = cache.load(key)
    if data is None:
        return None
    try:
        text = zlib.decompressobj().decompress(data, MOST_BYTES).decode()
        return restored(ChosenOperations, json.loads(text))
    except (zlib.error, NotPlain, ValueError, RecursionError):
        return None


def _search(module: ModuleOp, settings: SearchSettings) -> "ChosenOperations | None":
    """The operations chosen for a module, which is used up; None where each size is searched
    whole.
    """
    from mgn.passes.saturate import Saturate
    from mgn.passes.saturate.choose_operations import choose_operations

    _run_to_search(module, settings)
    return choose_operations(module, Saturate.of(settings.saturation))


def _run_to_search(module: ModuleOp, settings: SearchSettings) -> None:
    """Runs the passes that come before the search."""
    module.attributes["mgn.device"] = settings.device.to_attribute()
    names = PIPELINES["inference"]
    options = precision_options(settings.precision)
    passes = [find_pass(name)(**options.get(name, {})) for name in names[: names.index("saturate")]]
    run_passes(passes, module, make_context())
