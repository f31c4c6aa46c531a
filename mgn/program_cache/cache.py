"""Compiled graphs on disk: a program that was compiled before is not compiled again.

In: an xDSL module of one graph and the settings of a compilation. Out: its `Compiled` form, from
disk where the key of `mgn.program_cache.key` is found there, else compiled and kept, as
`mgn.program_cache.entry` says. A file that is damaged or says anything else is no entry.
`MGN_PROGRAM_CACHE=off` compiles every time.
"""

import time
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from mgn.codegen.launch_plan import BufferKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.states import StateOp, states_of
from mgn.dialects.mgn.structure import ParamOp, parameters_of
from mgn.driver.compilation import Compiled, compile_graph
from mgn.driver.pipelines import is_default
from mgn.program_cache.key import NoKey, plugin_digests, program_key
from mgn.program_cache.references import Reference, SearchSettings
from mgn.runtime.cache import KernelCache
from mgn.runtime.location import cache_folder
from mgn.runtime.switches import switched_on

if TYPE_CHECKING:
    from mgn.tuning.tuner import Tuner

VARIABLE = "MGN_PROGRAM_CACHE"
LIMIT = 256 << 20
"""Bytes that all entries may take, and eight times what one may."""


def compile_or_recall(
    module: ModuleOp,
    device: Device,
    tuner: "Tuner | None" = None,
    reference: Reference | None = None,
    **settings: Any,
) -> Compiled:
    """What `compile_graph` gives for these settings. The module is used up. Where there is a
    `reference`, kernels are looked for among the operations that are chosen there.

    Where schedules are to be searched for, the graph is compiled, and not kept: the schedules are.
    Neither is it where passes of the user's have a say.
    """
    start = time.perf_counter()
    own = settings.get("pipeline") is not None or not is_default()
    cache = None if own or (tuner is not None and tuner.searches) else program_cache()
    schedules = "" if tuner is None else tuner.store.state
    search = SearchSettings(device, settings.get("saturation"), settings.get("precision", "f32"))
    reference = None if own else reference
    try:
        whole = {"device": device, "schedules": schedules, **settings, "plugins": plugin_digests()}
        if reference is not None:
            whole["reference"] = reference.key(search)
        key = program_key(module, whole) if cache is not None else None
    except NoKey:
        key = None
    if cache is None or key is None:
        if reference is not None:
            settings["saturation"] = reference.options(search, cache)
        return compile_graph(module, device, tuner=tuner, **settings)
    found, states = parameters_of(module), states_of(module)
    recalled = _recalled(cache, key, found, states, device)
    if recalled is not None:
        recalled.report.recalled = True
        recalled.report.times = [("recall", time.perf_counter() - start)]
        return recalled
    declared = set(found)
    looked = time.perf_counter() - start
    if reference is not None:
        settings["saturation"] = reference.options(search, cache)
    found_reference = time.perf_counter() - start - looked
    compiled = compile_graph(module, device, tuner=tuner, **settings)
    compiled.report.times.insert(0, ("look up", looked))
    if reference is not None:
        compiled.report.times.insert(1, ("search at the reference", found_reference))
    if compiled.report.is_repeatable and declared.issuperset(compiled.parameters):
        _keep(cache, key, compiled)
    return compiled


def _recalled(
    cache: KernelCache,
    key: str,
    declared: dict[str, ParamOp],
    states: dict[str, StateOp],
    device: Device,
) -> Compiled | None:
    """What is kept under a key, if it is whole and fits what a module declares."""
    from mgn.program_cache.entry import entry_of

    data = cache.load(key)
    entry = None if data is None else entry_of(data, device)
    if entry is None or not declared.keys() >= set(entry.parameters):
        return None
    planned = {buffer.name for _, buffer in entry.plan.of_kind(BufferKind.STATE)}
    if not planned <= states.keys():
        return None
    parameters = {name: declared[name] for name in entry.parameters}
    return Compiled(entry.plan, entry.kernels, parameters, states, entry.report)


def _keep(cache: KernelCache, key: str, compiled: Compiled) -> None:
    """Writes an entry, unless it cannot be written, would not be read, or is too large."""
    from mgn.program_cache.entry import entry_bytes

    start = time.perf_counter()
    data = entry_bytes(compiled)
    if data is not None and len(data) <= LIMIT // 8:
        cache.store(key, data)
    compiled.report.times.append(("keep", time.perf_counter() - start))


def program_cache() -> KernelCache | None:
    """Where entries are; None where that is turned off."""
    folder = cache_folder()
    if not switched_on(VARIABLE, True) or folder is None:
        return None
    return KernelCache(folder / "programs", LIMIT)
