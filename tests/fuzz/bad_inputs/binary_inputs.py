"""The binary formats that mgn reads, for the driver of `driver.py`.

In: small files of each, broken by structure: checksums, digests and lengths mostly fit what they
stand for. Out: `TARGETS`. A file is read, and means what it says, or is refused with its name and,
where there is one, the place in it; what mgn keeps for itself is read or passed over in silence.
No OpenCL is needed: what a driver does with a binary of its own is not asked here.
"""

import io
import json
import os
import random
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import mgn
from mgn.diagnostics import DiagnosticsError, MgnError
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.runtime.checkpoints.gguf_file import gguf_entries
from mgn.runtime.errors import DeviceError, PackageError, WeightsError
from mgn.runtime.packages.format import CHECKED_FROM, HEADER_BYTES, TABLES, TABLES_AT
from mgn.runtime.packages.reader import read_package
from mgn.runtime.packages.writer import package_bytes
from mgn.runtime.safetensors_file import safetensors_entries
from mgn.runtime.stored_arrays import StoredArray
from mgn.runtime.weights import npz_entries, save_params
from tests.fuzz.bad_inputs.binary_mutations import broken_bytes, broken_data, broken_json, number
from tests.fuzz.bad_inputs.driver import Finding, Target, apart
from tests.runtime.checkpoints.gguf_writing import gguf_file, tensor, text

CPU = DEVICES["cpu"]
PROGRAMS = (
    "graph g(x: f32[4]) { return y = relu(x) }",
    'graph g(x: f32[3, 8], k: i32[3]) {\n  param w: f32[8, 8] as "a.weight" = normal(std = 0.5)\n'
    "  return y = softmax(x @ w.T * 2.5), z = sum(x, axis = 0), "
    "q = k + constant([1, 2, 3], T = i32)\n}",
)
FILE = Path("folder/file.bin")
ARRAYS = {
    "layers.0.w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "half": np.array([1.5, -2.25], np.float16),
    "scalar": np.array(3, np.int64),
    "mask": np.array([True, False, True]),
    "none": np.zeros((0, 3), np.float64),
}


def _expect(condition: bool, reason: str) -> None:
    if not condition:
        raise Finding(reason)


def _check_message(error: MgnError, place: str) -> None:
    text = str(error)
    _expect(place in text, f"a message without its place: {text[:300]}")
    _expect(len(text) < 2_000, f"a message of {len(text)} characters: {text[:300]}")
    plain = all(sign.isprintable() or sign == "\n" for sign in text)
    _expect(plain, f"a message that a terminal would act on: {text[:300]!r}")


# ---- files of arrays


def _safetensors() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.safetensors"
        save_params(path, ARRAYS)
        return [path.read_bytes()]


def _broken_safetensors(chance: random.Random, data: bytes) -> bytes:
    if chance.random() < 0.15:
        return broken_bytes(chance, data)
    end = 8 + int.from_bytes(data[:8], "little")
    header = broken_json(chance, data[8:end])
    body = data[end:] if chance.random() < 0.8 else broken_bytes(chance, data[end:])
    length = len(header) if chance.random() < 0.95 else number(chance) % (1 << 64)
    return length.to_bytes(8, "little") + header + body


def _check_arrays(read: Callable[[bytes], dict[str, StoredArray]], data: bytes) -> None:
    try:
        arrays = {name: entry.read() for name, entry in read(data).items()}
    except WeightsError as error:
        _check_message(error, str(FILE))
        return
    for name, array in arrays.items():
        _expect(type(name) is str and type(array) is np.ndarray, f"{name!r} is no array")
        _expect(not array.dtype.hasobject, f"{name!r} holds objects")
        array.tobytes()


def _check_safetensors(data: bytes) -> None:
    _check_arrays(lambda content: safetensors_entries(content, FILE), data)


def _gguf() -> list[bytes]:
    values = np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64)
    tensors = [tensor(f"w{type}", values, type) for type in (0, 1, 2, 3, 8, 30)]
    pairs = [("a", 8, text("llama")), ("b", 9, struct.pack("<IQ", 8, 2) + text("x") + text("y"))]
    return [gguf_file(tensors, pairs), gguf_file([("s", (), 26, bytes(4))], version=2)]


def _broken_gguf(chance: random.Random, data: bytes) -> bytes:
    end = min(len(data), 400)
    return broken_bytes(chance, data[:end]) + data[end:]


def _check_gguf(data: bytes) -> None:
    _check_arrays(lambda content: gguf_entries(content, FILE), data)


def _npz() -> list[bytes]:
    plain, packed = io.BytesIO(), io.BytesIO()
    np.savez(plain, allow_pickle=False, **ARRAYS)
    np.savez_compressed(packed, allow_pickle=False, **ARRAYS)
    return [plain.getvalue(), packed.getvalue()]


_HEADERS = (
    *(b"'|O'", b"'<f4'", b"'>f4'", b"'|b1'", b"'V2'", b"'V2147483647'", b"[('a', '<f8')]"),
    *(b"'(1000000000,)f8'", b"'M8[s]'", b"'S0'", b"'U1'", b"None", b"True", b"3", b"()", b"(-1,)"),
    *(b"(2, 6)", b"(4611686018427387904, 4)", b"(99999999999999999999,)", b"(0, 1 << 62)"),
    *(b"{'a': 1}", b"(" * 300, b"lambda: 0", b"'fortran_order'", b"(1," + b"1," * 70 + b")"),
)


def _broken_npy(chance: random.Random, data: bytes) -> bytes:
    """A member of an archive; the length of its header mostly fits."""
    if not data.startswith(b"\x93NUMPY") or chance.random() < 0.2:
        return broken_bytes(chance, data)
    end = 10 + int.from_bytes(data[8:10], "little")
    header = data[10:end]
    words = [b"'<f4'", b"'<f2'", b"'<i8'", b"'|b1'", b"False", b"(3, 4)", b"(2,)", b"(3,)", b"()"]
    found = [word for word in words if word in header]
    if found and chance.random() < 0.8:
        header = header.replace(chance.choice(found), chance.choice(_HEADERS))
    else:
        header = broken_bytes(chance, header)
    version = data[6:8] if chance.random() < 0.9 else bytes((chance.randrange(5), 0))
    return (
        b"\x93NUMPY" + version + (len(header) % 65536).to_bytes(2, "little") + header + data[end:]
    )


def _broken_npz(chance: random.Random, data: bytes) -> bytes:
    if chance.random() < 0.2:
        return broken_bytes(chance, data)
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        members = old.infolist()
        chosen = chance.randrange(len(members))
        for place, member in enumerate(members):
            content, name = old.read(member), member.filename
            if place == chosen:
                content = _broken_npy(chance, content)
                if chance.random() < 0.2:
                    name = chance.choice(("x", "../../x.npy", "/x.npy", "a\x1b.npy", ".npy", "x/"))
            entry = zipfile.ZipInfo(name)
            entry.compress_type = member.compress_type
            new.writestr(entry, content)
    return stream.getvalue()


def _check_npz(data: bytes) -> None:
    _check_arrays(lambda content: npz_entries(lambda: io.BytesIO(content), FILE), data)


# ---- packages


@cache
def _packages() -> list[bytes]:
    return apart(_made_packages)


def _made_packages() -> list[bytes]:
    from mgn.driver.packaging import package_graph

    return [package_bytes(package_graph(mgn.parse(text).lower("g"), CPU)) for text in PROGRAMS]


def repaired(data: bytearray) -> bytes:
    """A package with the size and the checksum that fit it."""
    if len(data) >= HEADER_BYTES:
        struct.pack_into("<Q", data, 16, len(data))
        struct.pack_into("<I", data, 12, zlib.crc32(memoryview(data)[CHECKED_FROM:]))
    return bytes(data)


def _broken_package(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        if chance.random() < 0.2:
            changed = bytearray(broken_bytes(chance, bytes(changed), most=1))
            continue
        table = chance.randrange(len(TABLES))
        entry = TABLES_AT + 16 * table
        wide, place = 8, entry + 8 * chance.randrange(2)
        if chance.random() < 0.8 and entry + 16 <= len(changed):
            start, rows = struct.unpack_from("<QQ", changed, entry)
            size = list(TABLES.values())[table].size
            place = start + chance.randrange(max(min(rows, 1 << 20), 1)) * size
            wide = min(chance.choice((4, 8)), size)
            place += chance.randrange(size // wide) * wide
        if place + wide <= len(changed):
            old = int.from_bytes(changed[place : place + wide], "little")
            value = old + chance.choice((-1, 1)) if chance.random() < 0.3 else number(chance)
            changed[place : place + wide] = (value % (1 << 8 * wide)).to_bytes(wide, "little")
    return repaired(changed) if chance.random() < 0.95 else bytes(changed)


def _check_package(data: bytes) -> None:
    try:
        package = read_package(data, str(FILE))
    except PackageError as error:
        _check_message(error, str(FILE))
        whole = "is no mgn package" in str(error) or "of the package format" in str(error)
        _expect(whole or f"at byte {error.offset}: " in str(error), f"no offset: {error}")
        return
    _expect(package_bytes(package) == data, "a package that is not what was read")


# ---- SPIR-V


@cache
def _spirv() -> list[bytes]:
    packages = map(read_package, _packages())
    kernels = [kernel for package in packages for kernel in package.kernels.values()]
    found = [kernel.spirv.il for kernel in kernels if kernel.spirv is not None]
    return [il for il in found if il is not None and len(il) < 6_000]


def _broken_spirv(chance: random.Random, data: bytes) -> bytes:
    """Words with some changed; the lengths of instructions mostly fit."""
    if chance.random() < 0.1:
        return broken_bytes(chance, data)
    words = list(struct.unpack(f"<{len(data) // 4}I", data))
    for _ in range(chance.choice((1, 1, 2, 4))):
        starts = _instructions(words)
        if not starts:
            break
        start = chance.choice(starts)
        length = max(words[start] >> 16, 1)
        match chance.randrange(8):
            case 0:
                del words[start : start + length]
            case 1:
                words[start:start] = words[start : start + length]
            case 2:
                other = chance.choice(starts)
                words[other:other] = words[start : start + length]
            case 3:
                words[start] = length << 16 | chance.randrange(420)
            case 4 if length < 0xFFFF:
                words.insert(start + length, chance.randrange(200))
                words[start] += 1 << 16
            case 5:
                words[chance.randrange(min(5, len(words)))] = number(chance) % (1 << 32)
            case _:
                place = start + chance.randrange(length)
                small = chance.random() < 0.7
                if place < len(words):
                    words[place] = chance.randrange(200) if small else number(chance) % (1 << 32)
    return struct.pack(f"<{len(words)}I", *words)


def _instructions(words: list[int]) -> list[int]:
    starts: list[int] = []
    place = 5
    while place < len(words):
        starts.append(place)
        place += max(words[place] >> 16, 1)
    return starts


def _check_spirv(data: bytes) -> None:
    from mgn.modules.mlir_text import InvalidModule, check_module
    from mgn.modules.spirv_module import read_spirv_module, spirv_words

    try:
        module = read_spirv_module(data, str(FILE))
    except DiagnosticsError as error:
        _check_message(error, f"{FILE}: error: SPIR-V at byte ")
        return
    try:
        check_module(module)
    except InvalidModule:
        return
    _expect(len(spirv_words(module)) == len(data), "words that are not what was read")


# ---- what mgn keeps for itself


@cache
def _entries() -> list[bytes]:
    return apart(_made_entries)


def _made_entries() -> list[bytes]:
    from mgn.driver.compilation import compile_graph
    from mgn.program_cache.entry import entry_bytes

    texts = [entry_bytes(compile_graph(mgn.parse(text).lower("g"), CPU)) for text in PROGRAMS]
    return [text for text in texts if text is not None]


def _broken_entry(chance: random.Random, data: bytes) -> bytes:
    if chance.random() < 0.1:
        return broken_bytes(chance, data)
    text = zlib.decompress(data)
    end = 8 + int.from_bytes(text[:8], "little")
    package, report = text[8:end], text[end:]
    if chance.random() < 0.5:
        package = _broken_package(chance, package)
    else:
        report = broken_json(chance, report)
    length = len(package) if chance.random() < 0.95 else number(chance) % (1 << 64)
    return zlib.compress(length.to_bytes(8, "little") + package + report, level=1)


def _check_entry(data: bytes) -> None:
    from mgn.driver.report import kernel_table
    from mgn.program_cache.entry import entry_of

    entry = entry_of(data, CPU)
    if entry is not None:
        str(entry.report)
        kernel_table(entry.report.kernels, [1e-6] * len(entry.plan.launches), CPU)


KEY = "ab" * 32


@cache
def _cache_folder() -> Path:
    """A folder of this process; a child that was forked makes its own."""
    return Path(tempfile.mkdtemp(prefix=f"mgn-fuzz-{os.getpid()}-"))


def _cached() -> list[bytes]:
    from mgn.runtime.cache import sealed

    return [sealed(KEY, b""), sealed(KEY, bytes(range(256)))]


def _check_cached(data: bytes) -> None:
    from mgn.runtime.cache import opened, sealed

    binary = opened(KEY, data)
    _expect(binary is None or sealed(KEY, binary) == data, "a binary that was not stored")


@cache
def _scheduled() -> Any:
    """A kernel with a schedule that can be tuned."""
    from xdsl.context import Context

    from mgn.dialects.fusion import FusedKernelOp
    from mgn.driver.pipelines import parse_passes, run_passes

    module = mgn.parse(PROGRAMS[1]).lower("g")
    run_passes(parse_passes("simplify,saturate,choose-schedules"), module, Context())
    return max(
        (op for op in module.walk() if isinstance(op, FusedKernelOp)),
        key=lambda op: 0 if op.schedule is None else len(op.schedule.values),
    )


def _schedules() -> list[bytes]:
    return apart(_made_schedules)


def _made_schedules() -> list[bytes]:
    return [b'{"tile_rows": 4, "tile_vectors": 2}', b'{"block_rows": 64, "lanes": 8}', b"{}"]


def _check_schedule(data: bytes) -> None:
    from mgn.dialects.kernel import DEVICES
    from mgn.passes.schedules.space import Space
    from mgn.tuning.store import fixed_of

    space = Space(_scheduled(), DEVICES["cpu"])
    found = fixed_of(data, space)
    if found is not None:
        _expect(space.complete(found) is not None, "numbers that no schedule has")


# ---- figures of devices


def _speeds() -> list[bytes]:
    best = {"f32": 4e11, "f64": 2e11, "copy": 2e10, "launches": 1e5, "copy 1048576": 6e10}
    return [json.dumps({"best": best, "second": best, "rounds": 2}).encode()]


def _check_speeds(data: bytes) -> None:
    from mgn.runtime.measurement.figures import speeds_of

    speeds = speeds_of(data)
    if speeds is None:
        return
    _expect(isinstance(speeds.agree, bool), "no answer")
    for kind in ("cpu", "gpu"):
        figures = speeds.figures(kind)
        numbers = [figures[name] for name in ("bandwidth", "launch_cost", "cache_gain")]
        numbers += [*figures["rates"].values(), *figures["matrix_rates"].values()]
        _expect(all(0.0 < item < float("inf") for item in numbers), f"a figure of {numbers}")


FIGURES: dict[str, Any] = {
    name: getattr(CPU, name) for name in CPU.__dataclass_fields__ if name != "rates"
} | {"rates": dict(CPU.rates)}


def _figures() -> list[bytes]:
    return [json.dumps(FIGURES).encode(), b'{"bandwidth": 123.0, "rates": {"f32": 1e9}}']


def _check_figures(data: bytes) -> None:
    from mgn.runtime.measurement import figures

    path = _cache_folder() / f"{os.getpid()}.json"
    path.write_bytes(data)
    held = os.environ.get(figures.FIGURES_VARIABLE)
    os.environ[figures.FIGURES_VARIABLE] = str(path)
    try:
        device = Device(**figures._with_overrides(FIGURES))  # pyright: ignore[reportPrivateUsage]
    except DeviceError as error:
        _check_message(error, figures.FIGURES_VARIABLE)
        return
    finally:
        if held is None:
            del os.environ[figures.FIGURES_VARIABLE]
        else:
            os.environ[figures.FIGURES_VARIABLE] = held
    if not device.problem():
        _expect(Device.from_attribute(device.to_attribute()) == device, "another description")


# ---- vendor files of OpenCL

VENDOR = b"/usr/lib/libOpenCL.so.1\n"


def _check_vendors(data: bytes) -> None:
    from mgn.runtime.icd import read_vendors

    folder = _cache_folder() / f"vendors-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    (folder / "a.icd").write_bytes(b"/usr/lib/libfirst.so\n")
    (folder / "b.icd").write_bytes(data)
    files = read_vendors(folder)
    _expect("a.icd" in files, "a vendor file is lost because of another")


def _broken_line(chance: random.Random, data: bytes) -> bytes:
    return broken_bytes(chance, data) * chance.choice((1, 1, 1, 10_000))


def _plain_json(chance: random.Random, data: bytes) -> bytes:
    changed = broken_data(chance, json.loads(data)) if chance.random() < 0.1 else None
    return broken_json(chance, data) if changed is None else json.dumps(changed).encode()


TARGETS = [
    Target("safetensors", _safetensors, _broken_safetensors, _check_safetensors, 8),
    Target("gguf", _gguf, _broken_gguf, _check_gguf, 6),
    Target("npz", _npz, _broken_npz, _check_npz, 6),
    Target("package", _packages, _broken_package, _check_package, 12),
    Target("spirv", _spirv, _broken_spirv, _check_spirv, 3),
    Target("program cache", _entries, _broken_entry, _check_entry, 6),
    Target("kernel cache", _cached, broken_bytes, _check_cached, 4),
    Target("tuned schedule", _schedules, _plain_json, _check_schedule, 4),
    Target("speeds", _speeds, _plain_json, _check_speeds, 4),
    Target("device figures", _figures, _plain_json, _check_figures, 3),
    Target("vendor file", lambda: [VENDOR], _broken_line, _check_vendors, 1),
]
