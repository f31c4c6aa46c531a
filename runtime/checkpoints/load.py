"""Loads parameters from a checkpoint, whatever wrote it, under whatever names and float types.

In: a path, and what the parameters should be. Out: `LoadedParams`, which reads each value when it
is asked for; or one `WeightsError` that lists everything that does not fit, before one is read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mgn.runtime.checkpoints.conversion import check_dtype, converts, misfit, value_of
from mgn.runtime.checkpoints.opening import open_checkpoint
from mgn.runtime.checkpoints.renaming import Rename, prefix_hint, renamed
from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import nearest, shown, spelling
from mgn.runtime.stored_arrays import StoredArray
from mgn.runtime.weights import reading

_SHOWN = 12
_NAMED = 4

TensorTypes = Mapping[str, tuple[str, tuple[int, ...]]]
"""Names to elements and shapes."""


def named(names: Sequence[str]) -> str:
    """The first few of several names, for a message."""
    return ", ".join(map(shown, names[:_NAMED])) + (", …" if len(names) > _NAMED else "")


@dataclass(frozen=True)
class Conversion:
    """Parameters whose values have another type than the file has: `bf16 as f32`."""

    source: str
    target: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.source} as {self.target}: {len(self.names)} ({named(self.names)})"


@dataclass(frozen=True)
class LoadReport:
    """What was loaded: from where, how many parameters, how many of them by another name than the
    file has, which of the file's arrays were left over, and what was converted.
    """

    path: str
    parameters: int
    unused: tuple[str, ...]
    renamed: int = 0
    conversions: tuple[Conversion, ...] = ()

    @property
    def extra(self) -> int:
        """How many arrays were left over."""
        return len(self.unused)

    def __str__(self) -> str:
        said = f"{self.parameters} parameter{'s' * (self.parameters != 1)} from {self.path}"
        others = [f"{self.renamed} renamed"] if self.renamed else []
        lines = [", ".join([said, *others])]
        lines += [f"  not used: {self.extra} ({named(self.unused)})"] if self.unused else []
        return "\n".join([*lines, *(f"  {item}" for item in self.conversions)])


@dataclass(frozen=True)
class _Source:
    """What a parameter's value comes from."""

    stored: StoredArray
    element: str


@dataclass(frozen=True)
class LoadedParams(Mapping[str, np.ndarray]):
    """The values of the expected parameters by their names, each read anew for each look."""

    report: LoadReport
    _path: Path = field(repr=False)
    _sources: Mapping[str, _Source] = field(repr=False)
    _dtype: str | None = field(repr=False)

    @property
    def extra(self) -> int:
        """The arrays left over."""
        return self.report.extra

    def __getitem__(self, name: str) -> np.ndarray:
        source = self._sources[name]
        try:
            with reading(self._path):
                return value_of(source.stored, source.element, self._dtype)
        except OverflowError as error:
            raise WeightsError(f"{self._path}: {shown(name)} {error}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


def load_params(
    path: str | Path, expected: TensorTypes, rename: Rename = None, dtype: str | None = None
) -> LoadedParams:
    """The expected parameters (name to element and shape) from a checkpoint.

    `rename` says which names its arrays have here, `dtype` what floats are rounded to before they
    become those of the parameter. WeightsError names every parameter that is missing or has another
    shape, or a dtype that is not converted.
    """
    check_dtype(dtype)
    new_name = renamed(rename)
    entries = open_checkpoint(path)
    held: dict[str, list[str]] = {}
    for name in entries:
        held.setdefault(new_name(name), []).append(name)
    faults: list[str] = []
    sources: dict[str, _Source] = {}
    missing: list[str] = []
    for name, (element, shape) in expected.items():
        found = held.get(name, [])
        if not found:
            missing.append(name)
            foreign = [other for other in held if other not in expected]
            hint = nearest(name, foreign) if len(faults) < _SHOWN else ""
            faults.append(f"{shown(name)} ({spelling(element, shape)}) is missing{hint}")
        elif len(found) > 1:
            faults.append(f"{shown(name)} is the name of {' and of '.join(map(shown, found[:3]))}")
        elif fault := misfit(stored := entries[found[0]], element, shape):
            faults.append(f"{shown(name)} {fault}")
        else:
            sources[name] = _Source(stored, element)
    if faults:
        listed = "\n".join(f"  {fault}" for fault in faults[:_SHOWN])
        more = f"\n  and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        hint = prefix_hint(missing, held)
        said = f"{path} does not fit the {len(expected)} parameters"
        raise WeightsError(f"{said}:\n{listed}{more}" + (f"\n{hint}" if hint else ""))
    report = LoadReport(
        str(path),
        len(expected),
        tuple(item for name, found in held.items() if name not in expected for item in found),
        sum(held[name] != [name] for name in expected),
        _conversions(sources, dtype),
    )
    return LoadedParams(report, Path(path), sources, dtype)


def _conversions(sources: Mapping[str, _Source], dtype: str | None) -> tuple[Conversion, ...]:
    """What is converted, the most frequent first."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, source in sources.items():
        stored, element = source.stored, source.element
        if converts(stored, element, dtype):
            rounds = dtype is not None and dtype not in (stored.element, element)
            target = f"{dtype} as {element}" if rounds else element
            found.setdefault((stored.element, target), []).append(name)
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return tuple(Conversion(*types, tuple(names)) for types, names in ordered)
