"""Opens a checkpoint: one file of any kind, an index of several, or a folder that holds either.

In: a path. Out: `Checkpoint`, the arrays by name, of which none is read; or a WeightsError. Of the
files that an index names, only those are opened whose arrays are looked at.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, cast

from mgn.runtime.checkpoints.gguf_file import gguf_entries
from mgn.runtime.checkpoints.pytorch_file import pytorch_entries
from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import shown
from mgn.runtime.safetensors_file import mapped
from mgn.runtime.stored_arrays import StoredArray, clipped, named_once
from mgn.runtime.weights import check_file, file_path, read_npz, read_safetensors, reading

INDEX = ".index.json"
_MOST_INDEX = 1 << 27

IN_FOLDERS = (
    "model.safetensors",
    f"model.safetensors{INDEX}",
    "pytorch_model.bin",
    f"pytorch_model.bin{INDEX}",
)
"""What a folder of Hugging Face holds its parameters in, the first that is there."""

Entries = Mapping[str, StoredArray]


def _read_gguf(path: Path) -> dict[str, StoredArray]:
    return gguf_entries(mapped(path), path)


LONGEST_NAME = 255
"""The most bytes in the name of a file, of all systems."""

READERS: dict[str, Callable[[Path], dict[str, StoredArray]]] = {
    ".safetensors": read_safetensors,
    ".npz": read_npz,
    ".gguf": _read_gguf,
    ".pt": pytorch_entries,
    ".pth": pytorch_entries,
    ".bin": pytorch_entries,
}
"""Readers by the extension of a file."""


class Shards(Entries):
    """The arrays of the files that an index names, each opened when one of its arrays is."""

    def __init__(self, path: Path, files: Mapping[str, Path]) -> None:
        self._path = path
        self._files = files
        self._opened: dict[Path, Entries] = {}

    def __getitem__(self, name: str) -> StoredArray:
        file = self._files[name]
        if file not in self._opened:
            if not file.is_file():
                raise WeightsError(
                    f"{self._path}: {shown(name)} is to be in {file}, and there is no such file; "
                    "put all files that the index names beside it"
                )
            self._opened[file] = _read_file(file)
        if name not in self._opened[file]:
            raise WeightsError(f"{self._path}: {shown(name)} is to be in {file}, and is not")
        return self._opened[file][name]

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def open_checkpoint(path: str | Path) -> Entries:
    """The arrays of a checkpoint by name. WeightsError where it cannot be read."""
    path = file_path(path)
    with reading(path):
        if path.is_dir():
            path = _in_folder(path)
        return _read_index(path) if path.name.endswith(INDEX) else _read_file(path)


def _in_folder(folder: Path) -> Path:
    """The file of a folder that holds its parameters."""
    for name in IN_FOLDERS:
        if (folder / name).exists():
            return folder / name
    found = [item for item in sorted(folder.iterdir()) if item.suffix in (".safetensors", ".gguf")]
    if len(found) == 1:
        return found[0]
    names = ", ".join(shown(item.name) for item in found[:4])
    why = f"several: {names}; name one of them" if found else f"none of {', '.join(IN_FOLDERS)}"
    raise WeightsError(f"which file of parameters? {folder} has {why}")


def _read_file(path: Path) -> Entries:
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        kinds = ", ".join(READERS)
        raise WeightsError(f"{path}: parameters are read from {kinds} and *{INDEX} files")
    with reading(path):
        check_file(path)
        if path.is_dir():
            raise WeightsError(f"cannot read {path}: it is a directory")
        return reader(path)


def _read_index(path: Path) -> Entries:
    """The arrays that an index names. WeightsError where it names a file outside its folder."""
    check_file(path)
    if path.stat().st_size > _MOST_INDEX:
        raise WeightsError(f"{path} is larger than an index can be")
    try:
        content = json.loads(path.read_bytes(), object_pairs_hook=named_once(path, "the index"))
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{path} is no index: {clipped(error)}") from None
    listed = cast(Any, content.get("weight_map")) if isinstance(content, dict) else None
    if not isinstance(listed, dict):
        raise WeightsError(f"{path} is no index: it has no 'weight_map'")
    files: dict[str, Path] = {}
    for name, file in cast(dict[str, Any], listed).items():
        if not isinstance(file, str) or not _is_plain(file):
            raise WeightsError(
                f"{path}: {shown(name)} is to be in {shown(file)}, no file beside it"
            )
        files[name] = path.parent / file
    return Shards(path, files)


def _is_plain(file: str) -> bool:
    """Whether a name is one that a file in the same folder can have."""
    try:
        length = len(os.fsencode(file))
    except UnicodeEncodeError:
        return False
    is_one = PurePosixPath(file).name == file and "\\" not in file and "\0" not in file
    return is_one and 0 < length <= LONGEST_NAME
