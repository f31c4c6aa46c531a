"""Build kernels, or take them from the cache.

In: the signatures of kernels, each with OpenCL C or SPIR-V, and a device. Out: a built OpenCL
program for each of them, with how many came from the cache and how long it took; or a `BuildError`
with the driver's words.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from mgn.codegen.signature import KernelSignature
from mgn.runtime.cache import KernelCache, kernel_key
from mgn.runtime.devices import ComputeDevice, opencl
from mgn.runtime.errors import BuildError
from mgn.runtime.launching.joint_programs import joined, linked, together
from mgn.runtime.launching.ptx import GUARD, completed, needs_completion
from mgn.tasks import task

Binary = Callable[[], bytes]
"""Asks a driver for the binary of a program, for which some compile each kernel anew."""

_MESSAGE_LINES = 30
_JOINT = b"built together: "
"""What the cache has of a kernel that was built with others begins so; their key follows."""


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
    build, so that threads there only cost time; what the cache lacks is built there as one program.
    """
    start = time.perf_counter()
    signatures = list(kernels)
    sources = list(dict.fromkeys(signature.program for signature in signatures))
    builder = _Builder(device, context, cache, tuple(options))
    with task("build", f"building {len(sources)} kernels"):
        if device.kind == "cpu":
            built = builder.build_together(sources)
        elif len(sources) < 2:
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
) -> tuple[Any, Binary]:
    """A program of OpenCL C, completed in its PTX where it asks for that, and its binary."""
    cl = opencl()
    if not needs_completion(source):
        program = cl.Program(context, source).build(list(options), cache_dir=False)
        return program, lambda: program.binaries[0]
    program = cl.Program(context, source).build([*options, f"-D{GUARD}"], cache_dir=False)
    text = program.binaries[0].decode().rstrip("\0")
    binary = completed(source, text).encode() + b"\0"
    return cl.Program(context, [handle], [binary]).build(list(options)), lambda: binary


class _Builder:
    """Programs for a device, out of a cache or from the driver's compiler.

    Of kernels that were built together, the cache has one binary, and for each of them its key.
    """

    def __init__(
        self, device: ComputeDevice, context: Any, cache: KernelCache, options: tuple[str, ...]
    ) -> None:
        self._device = device
        self._context = context
        self._cache = cache
        self._options = options
        self._joint: dict[str, Any] = {}

    def build(self, source: str | bytes) -> tuple[Any, bool]:
        """The program of a source text or of SPIR-V, and whether the cache had it."""
        program = self._kept(self._key(source))
        return (self._built(source), False) if program is None else (program, True)

    def build_together(self, sources: Sequence[str | bytes]) -> list[tuple[Any, bool]]:
        """The same of many sources: what the cache lacks is one program where it can be."""
        kept = {source: self._kept(self._key(source)) for source in sources}
        missing = [source for source, program in kept.items() if program is None]
        built: dict[str | bytes, Any] = {}
        takes = (str, bytes) if self._device.accepts_spirv else (str,)
        for group in together([item for item in missing if type(item) in takes]):
            program = self._built_as_one(group)
            if program is not None:
                built.update(dict.fromkeys(group, program))
        for source in missing:
            if source not in built:
                built[source] = self._built(source)
        return [(kept[source] or built[source], source not in built) for source in sources]

    def _key(self, source: str | bytes) -> str:
        return kernel_key(source, self._options, self._device.identity)

    def _kept(self, key: str) -> Any | None:
        """The program that the cache has under a key, its own or one with others."""
        binary = self._cache.load(key)
        if binary is None:
            return None
        if not binary.startswith(_JOINT):
            return self._from_binary(key, binary)
        joint = binary.removeprefix(_JOINT).decode("ascii", "replace")
        if joint not in self._joint:
            whole = self._cache.load(joint)
            self._joint[joint] = None if whole is None else self._from_binary(joint, whole)
        if self._joint[joint] is None:
            self._cache.discard(key)
        return self._joint[joint]

    def _from_binary(self, key: str, binary: bytes) -> Any | None:
        """A program of what the cache has under a key, which forgets what the driver refuses."""
        cl = opencl()
        try:
            program = cl.Program(self._context, [self._device.handle], [binary])
            return program.build(list(self._options))
        except cl.Error:
            self._cache.discard(key)
            return None

    def _built(self, source: str | bytes) -> Any:
        program, binary = self._from_source(source)
        self._cache.store(self._key(source), binary)
        return program

    def _asked(self, binary: Binary) -> bytes:
        """A binary for the cache; empty where there is no cache."""
        return b"" if self._cache.folder is None else binary()

    def _built_as_one(self, sources: Sequence[str | bytes]) -> Any | None:
        """One program of all; None where the driver refuses that, and so perhaps one of them."""
        texts = [source for source in sources if isinstance(source, str)]
        try:
            if texts:
                program, binary = self._compiled(joined(texts))
            else:
                words = [source for source in sources if isinstance(source, bytes)]
                program = linked(self._context, words, self._options)
                binary = self._asked(lambda: program.binaries[0])
        except opencl().Error:
            return None
        keys = list(map(self._key, sources))
        joint = kernel_key("\n".join(keys), (), "joint")
        if self._cache.store(joint, binary):
            for key in keys:
                self._cache.store(key, _JOINT + joint.encode())
        return program

    def _compiled(self, source: str) -> tuple[Any, bytes]:
        handle = self._device.handle
        program, binary = build_source(self._context, handle, source, self._options)
        return program, self._asked(binary)

    def _from_source(self, source: str | bytes) -> tuple[Any, bytes]:
        cl = opencl()
        if isinstance(source, bytes) and not self._device.accepts_spirv:
            raise BuildError(f"{self._device.name} takes no SPIR-V: compile for OpenCL C")
        try:
            if isinstance(source, str):
                return self._compiled(source)
            program = cl.Program(self._context, source).build(list(self._options))
            return program, self._asked(lambda: program.binaries[0])
        except cl.Error as error:
            words = "\n".join(str(error).splitlines()[:_MESSAGE_LINES])
            raise BuildError(f"{self._device.name} refused a kernel:\n{words}") from None
