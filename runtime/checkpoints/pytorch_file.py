"""Files that `torch.save` wrote: tensors by name, in dictionaries that may be nested.

In: a `.pt`, `.pth` or `.bin` file. Out: its tensors by name, those of a dictionary in another with
the names of both and a dot between; or a WeightsError. PyTorch reads it, with `weights_only=True`:
of what a pickle can do it does no more than make tensors.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import DTYPES, shown
from mgn.runtime.stored_arrays import FLOATS_OF_8_BITS, StoredArray, clipped, plain_bools, unread
from mgn.version import DISTRIBUTION

_MOST_NESTED = 8
_ARCHIVE = b"PK\x03\x04"
_NAMED = re.compile(r"GLOBAL ([\w.]+)")

_DTYPES = {dtype.name: dtype for dtype in (*DTYPES.values(), *FLOATS_OF_8_BITS.values())}
"""Dtypes by their names, which NumPy and PyTorch share."""


def pytorch_entries(path: Path) -> dict[str, StoredArray]:
    """The tensors of a file that `torch.save` wrote. An archive is mapped into memory."""
    try:
        torch: Any = import_module("torch")
    except ImportError:
        raise WeightsError(
            f"{path} is read by PyTorch, which is not installed: "
            f"python -m pip install '{DISTRIBUTION}[torch]' brings it"
        ) from None
    with path.open("rb") as file:
        is_archive = file.read(len(_ARCHIVE)) == _ARCHIVE
    try:
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive)
    except (OSError, MemoryError):
        raise
    except UnpicklingError as error:
        raise WeightsError(_refused(path, str(error))) from None
    except Exception as error:  # pickle and PyTorch raise what they come upon
        said = f"{type(error).__name__}: {error}"
        raise WeightsError(f"{path} is no whole file of tensors: {clipped(said)}") from None
    found: dict[str, StoredArray] = {}
    for name, tensor in _tensors(held, "", path):
        if name in found:
            raise WeightsError(f"{path} holds {shown(name)} twice")
        found[name] = _stored(tensor)
    return found


def _refused(path: Path, said: str) -> str:
    """What is said of a pickle that makes other things; PyTorch's advice is to let it do so."""
    name = _NAMED.search(said)
    what = f" ({clipped(name[1])})" if name else ""
    return (
        f"{path} holds what is no tensor{what}, and is not loaded, as it could run any program; "
        "save tensors alone, as torch.save(module.state_dict(), path) or safetensors do"
    )


def _tensors(held: Any, prefix: str, path: Path, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors of a dictionary by their names; whatever else it holds is passed over."""
    if not isinstance(held, Mapping) or depth > _MOST_NESTED:
        if not depth:
            raise WeightsError(f"{path} holds {type(held).__name__}, not tensors by name")
        return
    for key, value in held.items():
        if not isinstance(key, str):
            continue
        if isinstance(value, Mapping):
            yield from _tensors(value, f"{prefix}{key}.", path, depth + 1)
        elif hasattr(value, "untyped_storage"):
            yield f"{prefix}{key}", value


def _stored(tensor: Any) -> StoredArray:
    torch: Any = import_module("torch")
    name = str(tensor.dtype).removeprefix("torch.")
    dtype = _DTYPES.get(name) if tensor.layout is torch.strided else None
    if tensor.is_meta:
        return StoredArray(unread(f"{name} without values"), (0,), lambda: np.empty(0))
    if dtype is None or tensor.is_quantized:
        return StoredArray(unread(name), (0,), lambda: np.empty(0))

    def read() -> np.ndarray:
        plain = tensor.detach().resolve_neg().contiguous()
        words = plain.reshape(-1).view(torch.uint8).numpy()
        return plain_bools(words.view(dtype).reshape(tuple(plain.shape)))

    return StoredArray(dtype, tuple(tensor.shape), read)
