"""Compiled graphs on disk: a program that was compiled before is not compiled again.

In: an xDSL module of one graph and the settings of a compilation. Out: its `Compiled` form, from
disk where the key of `mgn.program_key` is found there, else compiled and kept. What is kept are
plain values: the plan, the kernels' signatures and the report. A file that is damaged or names
anything else is no entry. `MGN_PROGRAM_CACHE=off` compiles every time.
"""

import io
import pickle
import time
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from mgn.codegen.launch_plan import LaunchPlan
from mgn.codegen.signature import KernelSignature
from mgn.compilation import Compiled, compile_graph
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.structure import parameters_of
from mgn.program_key import NoKey, program_key
from mgn.report import OptimizeReport
from mgn.runtime.cache import KernelCache
from mgn.runtime.location import cache_folder
from mgn.runtime.switches import switched_on

if TYPE_CHECKING:
    from mgn.tuning.tuner import Tuner

VARIABLE = "MGN_PROGRAM_CACHE"
LIMIT = 256 << 20
"""Bytes that all entries may take, and eight times what one may."""

_ARRAYS = {
    ("collections", "Counter"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
}
"""What an entry may name besides mgn's own plain classes."""


@dataclass(frozen=True)
class _Entry:
    """What is kept of a `Compiled` graph; its parameters are found in the module by name."""

    plan: LaunchPlan
    kernels: dict[str, KernelSignature]
    parameters: tuple[str, ...]
    report: OptimizeReport


def compile_or_recall(
    module: ModuleOp, device: Device, tuner: "Tuner | None" = None, **settings: Any
) -> Compiled:
    """What `compile_graph` gives for these settings. The module is used up.

    Where schedules are to be searched for, the graph is compiled, and not kept: the schedules are.
    """
    start = time.perf_counter()
    cache = _cache() if tuner is None or not tuner.searches else None
    schedules = "" if tuner is None else tuner.store.state
    try:
        whole = {"device": device, "schedules": schedules, **settings}
        key = program_key(module, whole) if cache is not None else None
    except NoKey:
        key = None
    if cache is None or key is None:
        return compile_graph(module, device, tuner=tuner, **settings)
    entry = _unpacked(cache.load(key))
    if entry is not None:
        declared = parameters_of(module)
        parameters = {name: declared[name] for name in entry.parameters}
        entry.report.recalled = True
        entry.report.times = [("recall", time.perf_counter() - start)]
        return Compiled(entry.plan, entry.kernels, parameters, entry.report)
    declared = set(parameters_of(module))
    looked = time.perf_counter() - start
    compiled = compile_graph(module, device, tuner=tuner, **settings)
    compiled.report.times.insert(0, ("look up", looked))
    if compiled.report.is_settled and declared.issuperset(compiled.parameters):
        _keep(cache, key, compiled)
    return compiled


def _keep(cache: KernelCache, key: str, compiled: Compiled) -> None:
    """Writes an entry, unless it cannot be written, would not be read, or is too large."""
    start = time.perf_counter()
    names = tuple(compiled.parameters)
    entry = _Entry(compiled.plan, compiled.kernels, names, compiled.report)
    try:
        data = pickle.dumps(entry, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
        return
    if len(data) <= LIMIT // 8:
        cache.store(key, data)
    compiled.report.times.append(("keep", time.perf_counter() - start))


def _cache() -> KernelCache | None:
    """Where entries are; None where that is turned off."""
    folder = cache_folder()
    if not switched_on(VARIABLE, True) or folder is None:
        return None
    return KernelCache(folder / "programs", LIMIT)


def _unpacked(data: bytes | None) -> _Entry | None:
    """The entry that bytes hold, if they hold one."""
    if data is None:
        return None
    try:
        entry = _Unpickler(io.BytesIO(data)).load()
    except Exception:  # whatever is wrong with a file, the graph can be compiled
        return None
    return entry if isinstance(entry, _Entry) else None


class _Unpickler(pickle.Unpickler):
    """Makes mgn's plain classes and arrays, and nothing that could act."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        found = super().find_class(module_name, global_name)
        if (module_name, global_name) in _ARRAYS or _is_plain(module_name, found):
            return found
        raise pickle.UnpicklingError(f"{module_name}.{global_name} has no place in an entry")


def _is_plain(module_name: str, found: object) -> bool:
    """Whether it is a class of mgn whose making only sets fields."""
    return (
        module_name.startswith("mgn.")
        and isinstance(found, type)
        and (is_dataclass(found) or issubclass(found, Enum))
    )
