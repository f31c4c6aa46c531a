"""Dataclasses as plain data that JSON can hold, and back.

In: an instance of a class, or what `json.loads` gave and the class that it should be. Out: lists,
texts and numbers; or the instance, in which every field has been checked against the annotation of
its class. Annotations alone say which class is made: data cannot name one.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

MOST = 1 << 62
"""No whole number is larger."""

_Reader = Callable[[Any], Any]


class NotPlain(Exception):
    """Data that is not what was asked for."""


def plain(value: Any) -> Any:
    """A value as plain data: an instance as the list of its fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return [plain(getattr(value, item.name)) for item in fields(value)]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))  # pyright: ignore[reportUnknownArgumentType]
    if value is None or type(value) in (str, int, float, bool):
        return value
    raise NotPlain(f"{type(value).__name__} is no plain data")


def restored(kind: type, data: Any) -> Any:
    """The instance of a class that data stands for. NotPlain where it is none."""
    return _reader(kind)(data)


@cache
def _reader(kind: Any) -> _Reader:
    """What reads values of an annotation."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _instance_reader(kind)  # pyright: ignore[reportArgumentType]
    if origin is UnionType:
        (some,) = (item for item in arguments if item is not NoneType)
        read = _reader(some)
        return lambda data: None if data is None else read(data)
    if origin in (list, tuple) and arguments[1:] in ((), (...,)):
        read = _reader(arguments[0])
        return lambda data: origin(map(read, _of(list, data)))
    if origin is tuple:
        reads = [_reader(item) for item in arguments]
        return lambda data: tuple(read(item) for read, item in _paired(reads, data))
    if origin in (dict, Counter):
        read = _reader(arguments[1] if origin is dict else int)
        return lambda data: origin({name: read(item) for name, item in _of(dict, data).items()})
    if kind is int:
        return _whole_number
    return lambda data: _of(kind, data)


def _instance_reader(kind: type[Any]) -> _Reader:
    hints = get_type_hints(kind)
    reads = [_reader(hints[item.name]) for item in fields(kind)]
    return lambda data: kind(*(read(item) for read, item in _paired(reads, data)))


def _paired(reads: list[_Reader], data: Any) -> list[tuple[_Reader, Any]]:
    if len(_of(list, data)) != len(reads):
        raise NotPlain(f"{len(data)} values, not {len(reads)}")
    return list(zip(reads, data, strict=True))


def _of(kind: type, data: Any) -> Any:
    if type(data) is not kind:
        raise NotPlain(f"{type(data).__name__}, not {kind.__name__}")
    return data


def _whole_number(data: Any) -> int:
    if type(data) is not int or not -MOST < data < MOST:
        raise NotPlain("no whole number")
    return data
