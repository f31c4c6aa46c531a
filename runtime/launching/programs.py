"""Build kernels, or take them from the cache.

In: the signatures of kernels, each with OpenCL C or SPIR-V, and a device. Out: a built OpenCL
program for each of them, with how many came from the cache and how long it took; or a `BuildError`
with the driver's words.
"""

import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from mgn.codegen.signature import KernelSignature
from mgn.runtime.cache import KernelCache, kernel_key
from mgn.runtime.devices import ComputeDevice, opencl
from mgn.runtime.errors import BuildError
from mgn.runtime.launching.ptx import GUARD, completed, needs_completion
from mgn.tasks import task

_MESSAGE_LINES = 30


@dataclass(frozen=True)
class BuiltKernels:
    """Programs by kernel name, and what it took to get them."""

    programs: dict[str, Any]
    from_cache: int
    seconds: float


def build_kernels(
    kernels: Iterable[KernelSignature],
    device: ComputeDevice,
    context: Any,
    cache: KernelCache,
    options: Sequence[str] = (),
) -> BuiltKernels:
    """Build every kernel once; equal programs share one.

    A GPU's driver builds in several threads at once. The CPU driver takes a lock for the whole of a
    build, so that threads there only cost time.
    """
    start = time.perf_counter()
    signatures = list(kernels)
    sources = list(dict.fromkeys(signature.program for signature in signatures))
    builder = _Builder(device, context, cache, tuple(options))
    with task("build", f"building {len(sources)} kernels"):
        if device.kind == "cpu" or len(sources) < 2:
            built = [builder.build(source) for source in sources]
        else:
            with ThreadPoolExecutor(min(os.cpu_count() or 1, len(sources), 16)) as pool:
                built = list(pool.map(builder.build, sources))
    by_source = dict(zip(sources, built, strict=True))
    return BuiltKernels(
        programs={item.name: by_source[item.program][0] for item in signatures},
        from_cache=sum(from_cache for _, from_cache in built),
        seconds=time.perf_counter() - start,
    )


def build_source(
    context: Any, handle: Any, source: str, options: Sequence[str]
) -> tuple[Any, bytes]:
    """A program of OpenCL C, completed in its PTX where it asks for that, and its binary."""
    cl = opencl()
    if not needs_completion(source):
        program = cl.Program(context, source).build(list(options), cache_dir=False)
        return program, program.binaries[0]
    program = cl.Program(context, source).build([*options, f"-D{GUARD}"], cache_dir=False)
    text = program.binaries[0].decode().rstrip("\0")
    binary = completed(source, text).encode() + b"\0"
    return cl.Program(context, [handle], [binary]).build(list(options)), binary


class _Builder:
    def __init__(
        self, device: ComputeDevice, context: Any, cache: KernelCache, options: tuple[str, ...]
    ) -> None:
        self._device = device
        self._context = context
        self._cache = cache
        self._options = options

    def build(self, source: str | bytes) -> tuple[Any, bool]:
        """The program of a source text or of SPIR-V, and whether the cache had it."""
        key = kernel_key(source, self._options, self._device.identity)
        binary = self._cache.load(key)
        if binary is not None:
            program = self._from_binary(binary)
            if program is not None:
                return program, True
            self._cache.discard(key)
        program, binary = self._from_source(source)
        self._cache.store(key, binary)
        return program, False

    def _from_binary(self, binary: bytes) -> Any | None:
        cl = opencl()
        try:
            program = cl.Program(self._context, [self._device.handle], [binary])
            return program.build(list(self._options))
        except cl.Error:
            return None

    def _from_source(self, source: str | bytes) -> tuple[Any, bytes]:
        cl = opencl()
        if isinstance(source, bytes) and not self._device.accepts_spirv:
            raise BuildError(f"{self._device.name} takes no SPIR-V: compile for OpenCL C")
        try:
            if isinstance(source, str):
                return build_source(self._context, self._device.handle, source, self._options)
            program = cl.Program(self._context, source).build(list(self._options))
            return program, program.binaries[0]
        except cl.Error as error:
            words = "\n".join(str(error).splitlines()[:_MESSAGE_LINES])
            raise BuildError(f"{self._device.name} refused a kernel:\n{words}") from None
