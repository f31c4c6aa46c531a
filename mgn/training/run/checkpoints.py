"""Checkpoints: all that a run needs to go on, in one safetensors file that is always whole.

In: arrays by name, and what else the run is. Out: a file whose arrays are a trainer's state, so
that `mgn-run --params` reads the parameters out of it; its metadata has a `Header` as JSON.

A file is written beside its place, flushed to the disk and renamed, and the folder is flushed: a
kill at any moment, or a loss of power, leaves the last whole one. With `keep = 3`, each checkpoint
has a file of its own too, `digits.step-120.safetensors`, and of these the last three stay. Only
files of the same run are replaced or deleted.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mgn.diagnostics import MgnError, argument_name, spelled
from mgn.runtime.checkpoints.training_file import (
    KEY,
    LENGTH_OF_HEADER,
    METADATA,
    metadata_of,
    run_of,
)
from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import DTYPES, nearest, shown, spelling
from mgn.runtime.safetensors_file import safetensors_entries
from mgn.runtime.weights import check_file

VERSION = 1
SUFFIX = ".safetensors"
_SHOWN = 8


@dataclass(frozen=True)
class Position:
    """Where a run is in its data: the next batch of an epoch, and where the run began."""

    epoch: int = 0
    batch: int = 0
    first_epoch: int = 0
    first_step: int = 0


@dataclass(frozen=True)
class Header:
    """What a checkpoint holds beside arrays."""

    run: str
    """A random name that all checkpoints of a run have."""
    step: int
    seed: int
    position: Position
    data: dict[str, int] = field(default_factory=dict)
    """What the batches must be to go on with: numbers of examples, the batch's size."""
    configuration: dict[str, Any] = field(default_factory=dict)
    best: float | None = None
    """The best evaluation so far, and how many came after it."""
    since_best: int = 0
    criterion: str | None = None
    """What `best` is of: the metric, or the loss; None in files that do not say so."""
    evaluated: bool = True
    """Whether the evaluation was done that is due at the step, if one is."""
    recent: list[float] = field(default_factory=list[float])
    """The losses of the last few steps."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory."""

    header: Header
    arrays: dict[str, np.ndarray]


class Checkpoints:
    """The files of one run. `replaced` is the run whose files make room for it."""

    def __init__(
        self, path: str | Path, run: str, keep: int = 1, replaced: str | None = None
    ) -> None:
        self.path = check_path(path)
        self.run = run
        self.keep = keep
        self.replaced = replaced

    def write(self, checkpoint: Checkpoint) -> None:
        """Puts a checkpoint in place, and deletes those of this run that are too many.

        MgnError where that cannot be, or a file is there that is not of this run; one in the place
        of the checkpoint's own name leaves it under the other.
        """
        data = encode(checkpoint)
        own = self.path.with_name(f"{self.path.stem}.step-{checkpoint.header.step}{SUFFIX}")
        try:
            self._refuse_foreign(self.path)
            if self.keep > 1 and self._is_own(own):
                write_durably(own, data, self.run)
                _link_durably(own, self.path, self.run)
            else:
                write_durably(self.path, data, self.run)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise MgnError(f"cannot write the checkpoint '{self.path}': {reason}") from None
        if self.keep > 1:
            self._refuse_foreign(own)
        self._delete_old()

    def mark_best(self) -> None:
        """Keeps what was written last as the best one too: `digits.best.safetensors`."""
        self.check_best()
        try:
            _link_durably(self.path, self.best, self.run)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise MgnError(f"cannot write the checkpoint '{self.best}': {reason}") from None

    @property
    def best(self) -> Path:
        """Where the best checkpoint is, if it is kept."""
        return self.path.with_name(f"{self.path.stem}.best{SUFFIX}")

    def check_best(self) -> None:
        """MgnError where a file that is not of this run is in the place of the best checkpoint."""
        self._refuse_foreign(self.best)

    def clean(self) -> None:
        """Deletes what a killed process of this run was writing."""
        for path in self.path.parent.glob(f"{_temporary_start(self.run)}*.tmp"):
            path.unlink(missing_ok=True)

    def kept(self, run: str) -> list[Path]:
        """The files of a run that have their step in the name, the oldest first."""
        pattern = re.compile(re.escape(self.path.stem) + r"\.step-(\d+)" + re.escape(SUFFIX))
        found: list[tuple[int, Path]] = []
        for path in self.path.parent.iterdir():
            match = pattern.fullmatch(path.name)
            if match and run_of(path) == run:
                found.append((int(match[1]), path))
        return [path for _, path in sorted(found)]

    def _delete_old(self) -> None:
        old = self.kept(self.run)[: -self.keep] if self.keep > 1 else []
        if self.replaced is not None:
            old += self.kept(self.replaced)
            old += [self.best] if run_of(self.best) == self.replaced else []
            self.replaced = None
        for path in old:
            path.unlink(missing_ok=True)

    def _is_own(self, path: Path) -> bool:
        """Whether a file is of this run, or may be replaced by it, or is not there."""
        return not path.exists() or run_of(path) in (self.run, self.replaced or self.run)

    def _refuse_foreign(self, path: Path) -> None:
        """MgnError where a file is there that is not of this run."""
        if not self._is_own(path):
            raise MgnError(f"'{path}' is there and not of this run: it is not replaced")


def begin_run(
    path: str | Path | None, resume: bool, overwrite: bool, keep: int
) -> tuple[Checkpoints | None, Checkpoint | None]:
    """The files of a run, and the checkpoint with which it goes on. MgnError where the path holds
    something that it is not to replace.
    """
    check_run(path, resume, overwrite)
    if path is None:
        return None, None
    place = check_path(path)
    if not place.exists():
        return Checkpoints(place, new_run(), keep), None
    if not resume:
        return Checkpoints(place, new_run(), keep, run_of(place)), None
    found = read_checkpoint(place)
    files = Checkpoints(place, found.header.run, keep)
    files.clean()
    return files, found


def check_run(path: str | Path | None, resume: bool, overwrite: bool) -> None:
    """MgnError where a run cannot begin or go on with a path; little of a file is read for it."""
    if path is None:
        if resume:
            where = spelled('save="FILE.safetensors"', "--save FILE.safetensors")
            raise MgnError(f"to resume, say where the checkpoint is: {where}")
        return
    place = check_path(path)
    if resume or not place.exists():
        return
    if run_of(place) is None:
        raise MgnError(f"'{path}' is there and is no checkpoint: it is not replaced")
    if not overwrite:
        raise MgnError(
            f"'{path}' is the checkpoint of another run; {argument_name('resume')} goes on with "
            f"it, and {argument_name('overwrite')} begins anew in its place"
        )


def check_path(path: str | Path) -> Path:
    """A path that a checkpoint can have. MgnError where it can not."""
    from mgn.modules.files import check_target

    if Path(path).suffix != SUFFIX:
        raise MgnError(f"a checkpoint is a file whose name ends in {SUFFIX}, not '{path}'")
    check_target(path)
    return Path(os.path.realpath(path))


def new_run() -> str:
    """A name for a run."""
    return secrets.token_hex(8)


def encode(checkpoint: Checkpoint) -> bytes:
    """A checkpoint as the content of a safetensors file."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in checkpoint.arrays.items()}
    fields = asdict(checkpoint.header) | {"version": VERSION}
    return save(arrays, {KEY: json.dumps(fields | {"digest": digest_of(fields, arrays)})})


def digest_of(fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """A digest of a header's fields, and of the names, types and values of arrays."""
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def read_checkpoint(path: str | Path) -> Checkpoint:
    """A checkpoint from its file. MgnError where it is none, or is damaged."""
    path = Path(path)
    try:
        check_file(path)
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MgnError(f"cannot read the checkpoint '{path}': {reason}") from None
    entries = safetensors_entries(data, path)
    arrays = {name: entry.read() for name, entry in entries.items()}
    fields = metadata_of(data[:LENGTH_OF_HEADER], data[LENGTH_OF_HEADER:])
    if fields is None:
        raise WeightsError(
            f"{path} holds arrays and is no checkpoint: parameters alone are where a new training "
            f"begins ({spelled('load_params', '--params')}), and do not say how to go on with one"
        )
    if fields.get("version") != VERSION:
        raise WeightsError(f"{path} is a checkpoint of another version of mgn")
    if fields.pop("digest", None) != digest_of(fields, arrays):
        raise WeightsError(f"{path} is damaged: it does not hold what was written")
    del fields["version"]
    try:
        header = Header(position=Position(**fields.pop("position")), **fields)
    except (KeyError, TypeError):
        raise WeightsError(f"{path} is a checkpoint of another version of mgn") from None
    return Checkpoint(header, arrays)


def check_names(names: Iterable[str]) -> None:
    """MgnError where a checkpoint of arrays of these names could not be read again."""
    if METADATA in names:
        raise MgnError(
            f"'{METADATA}' is no name that a safetensors file can have; give another one"
        )


def check_state(
    path: str | Path,
    found: Mapping[str, np.ndarray],
    wanted: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]],
) -> None:
    """WeightsError where the arrays of a checkpoint are not of the types that a trainer has."""
    faults: list[str] = []
    for name, type in wanted.items():
        said = _said(*type)
        if name not in found:
            hint = nearest(name, [other for other in found if other not in wanted])
            faults.append(f"{shown(name)} ({said}) is missing{hint}")
        elif (found[name].dtype, found[name].shape) != type:
            faults.append(
                f"{shown(name)} is {_said(found[name].dtype, found[name].shape)}, not {said}"
            )
    faults += [f"there is no {shown(name)} here" for name in found if name not in wanted]
    if faults:
        more = [f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        listed = "\n".join(f"  {fault}" for fault in [*faults[:_SHOWN], *more])
        raise WeightsError(f"{path} does not fit the program and its optimiser:\n{listed}")


_ELEMENTS = {dtype: name for name, dtype in DTYPES.items()}


def _said(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """A type as the language writes it."""
    return spelling(_ELEMENTS.get(dtype, str(dtype)), shape)


def write_durably(path: Path, data: bytes, run: str) -> None:
    """Puts a file in place in one step, after it has reached the disk."""
    temporary = path.parent / f"{_temporary_start(run)}{secrets.token_hex(4)}.tmp"
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def _link_durably(source: Path, path: Path, run: str) -> None:
    """Gives a file another name in one step; where a disk has no links, writes it again."""
    temporary = path.parent / f"{_temporary_start(run)}{secrets.token_hex(4)}.tmp"
    try:
        temporary.hardlink_to(source)
    except (OSError, NotImplementedError):
        write_durably(path, source.read_bytes(), run)
        return
    temporary.replace(path)
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Makes a renaming last; some systems do it by themselves, and open no folders."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _temporary_start(run: str) -> str:
    """How the files that a run is writing are called, as `TEMPORARY` of whole files has it."""
    return f".mgn-{run[:8]}"
