"""What is kept on disk of a compiled graph, as bytes that hold plain data alone.

In: a `Compiled` graph, or bytes that anyone may have written. Out: bytes, or an `Entry`; None for
bytes that hold none. The plan and the kernels are a package without parameters, as
`mgn.runtime.packages.format` describes it, and are read with its checks. The report is JSON, whose
fields have the types that their classes say. Nothing is imported or called by a name in the bytes.

    all of it compressed by zlib: u64 bytes of the package, the package, the fields of `_Told`
"""

import json
import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any

from mgn.codegen.launch_plan import BufferKind, LaunchPlan
from mgn.codegen.signature import KernelSignature
from mgn.dialects.kernel.device import Device
from mgn.driver.compilation import Compiled
from mgn.driver.handed_over import HandedOver
from mgn.driver.report import (
    DerivedParameter,
    KernelLine,
    MemoryReport,
    MergedLaunch,
    OptimizeReport,
    TuningReport,
)
from mgn.passes.saturate.extraction.report import SaturateReport
from mgn.program_cache.plain_data import NotPlain, plain, restored
from mgn.runtime.block_parameters import whole_name
from mgn.runtime.errors import PackageError, RuntimeFault
from mgn.runtime.packages.format import Package, PackagedKernel
from mgn.runtime.packages.reader import read_package
from mgn.runtime.packages.writer import package_bytes

MOST_BYTES = 64 << 20
"""No entry is longer, before it is compressed."""

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class _Told:
    """What an entry says of a graph besides its plan and kernels; the device is the caller's."""

    parameters: tuple[str, ...]
    graph: str
    operations_before: int
    precision: str
    kernels: list[KernelLine]
    prepared: list[KernelLine]
    derived: list[DerivedParameter]
    merged: list[MergedLaunch]
    saturation: SaturateReport | None
    tuning: TuningReport | None
    memory: MemoryReport | None
    handed_over: list[HandedOver]
    distinct_kernels: int


@dataclass(frozen=True)
class Entry:
    """A compiled graph; its parameters are found in the module by name."""

    plan: LaunchPlan
    kernels: dict[str, KernelSignature]
    parameters: tuple[str, ...]
    report: OptimizeReport


def entry_bytes(compiled: Compiled) -> bytes | None:
    """The bytes of an entry; None where something has no place in one, or it is too long."""
    report = compiled.report
    kernels = {name: _packaged(kernel) for name, kernel in compiled.kernels.items()}
    told = _Told(
        tuple(compiled.parameters),
        *(report.graph, report.operations_before, report.precision),
        *(report.kernels, report.prepared, report.derived, report.merged),
        report.saturation if isinstance(report.saturation, SaturateReport) else None,
        *(report.tuning, report.memory, report.handed_over, report.distinct_kernels),
    )
    if told.saturation is not report.saturation:
        return None
    try:
        package = package_bytes(Package(compiled.plan, kernels, {}, ""))
        text = json.dumps(plain(told), separators=(",", ":"), ensure_ascii=False)
        data = _LENGTH.pack(len(package)) + package + text.encode()
    except (RuntimeFault, NotPlain, UnicodeEncodeError, struct.error):
        return None
    return zlib.compress(data, level=1) if len(data) <= MOST_BYTES else None


def entry_of(compressed: bytes, device: Device) -> Entry | None:
    """The entry that bytes hold, if they hold one, of a graph that was compiled for a device."""
    try:
        data = zlib.decompressobj().decompress(compressed, MOST_BYTES)
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + length
        package = read_package(data[_LENGTH.size : end])
        told: _Told = restored(_Told, json.loads(data[end:]))
    except (zlib.error, PackageError, NotPlain, struct.error, ValueError, RecursionError):
        return None
    budget = told.memory.budget if told.memory is not None else None
    plan = replace(package.plan, budget=0 if budget is None else budget.budget)
    names = [buffer.name for _, buffer in plan.of_kind(BufferKind.PARAM)]
    fits = (
        told.graph == plan.name
        and _names(told.kernels) == [step.kernel for step in plan.launches]
        and _names(told.prepared) == [step.kernel for step in plan.prepare]
        and {*map(whole_name, names)} <= set(told.parameters)
        and not package.parameters
    )
    return Entry(plan, _kernels(package), told.parameters, _report(told, device)) if fits else None


def _report(told: _Told, device: Device) -> OptimizeReport:
    report = OptimizeReport(told.graph, device, told.operations_before, told.precision)
    return replace(
        report,
        kernels=told.kernels,
        prepared=told.prepared,
        derived=told.derived,
        merged=told.merged,
        saturation=told.saturation,
        tuning=told.tuning,
        memory=told.memory,
        handed_over=told.handed_over,
        distinct_kernels=told.distinct_kernels,
    )


def _names(lines: list[KernelLine]) -> list[str]:
    return [line.name for line in lines]


def _packaged(kernel: KernelSignature) -> PackagedKernel:
    return PackagedKernel(kernel, None) if kernel.il is None else PackagedKernel(None, kernel)


def _kernels(package: Package) -> dict[str, Any]:
    return {name: kernel.launch for name, kernel in package.kernels.items()}
