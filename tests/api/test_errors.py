"""Every error of mgn is an `mgn.MgnError`: its classes, and what calls say of a wrong argument."""

import builtins
import inspect
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn import nn, ops
from mgn.dialects.mgn.user_operations import forget_operation, operation
from tests.conftest import ROOT

SOURCES = [
    path
    for folder in ("codegen", "dialects", "frontend", "mgn", "passes", "runtime")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
FAULT = re.compile(r"(Error|Exception|Fault)$")


CLASS = re.compile(r"^class (\w+)\(([^)]*)\):", re.MULTILINE)
CAUGHT = re.compile(r"^ +except ([^:]+):", re.MULTILINE)
RAISED = re.compile(r"^ +raise (\w+)", re.MULTILINE)


@cache
def texts() -> dict[str, str]:
    """The files of the package by their paths."""
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in SOURCES}


@cache
def classes() -> dict[str, set[str]]:
    """Every exception class of the package with its bases."""
    found = {
        name: set(re.findall(r"\w+", bases))
        for text in texts().values()
        for name, bases in CLASS.findall(text)
    }
    known = {name for name, bases in found.items() if any(map(FAULT.search, bases))}
    while more := {n for n, bases in found.items() if n not in known and bases & known}:
        known |= more
    return {name: bases for name, bases in found.items() if name in known}


def is_mgn_error(name: str) -> bool:
    if name == "MgnError":
        return True
    return name in classes() and any(map(is_mgn_error, classes()[name]))


def test_an_exception_class_is_an_mgn_error_or_is_caught_in_the_package() -> None:
    listed = " ".join(item for text in texts().values() for item in CAUGHT.findall(text))
    caught = set(re.findall(r"\w+", listed))
    assert {"MgnError", "WeightsError", "Hazard", "ShapeError"} <= classes().keys()
    loose = {name for name in classes() if not is_mgn_error(name)} - caught
    assert not loose


PASSED_ON = {
    ("mgn/nn.py", "NotImplementedError"),  # of a class that others fill in
    ("mgn/bench/torch_rows.py", "NotImplementedError"),  # a row leaves it to the decomposition
    ("mgn/bench/tinygrad_rows.py", "NotImplementedError"),
    ("mgn/commands/actions/expectations.py", "ValueError"),  # mgn-opt makes a diagnostic of it
    ("mgn/commands/actions/soft_end.py", "KeyboardInterrupt"),  # the user's
    ("mgn/training/run/metrics.py", "ValueError"),  # the metric's call is named there
    ("runtime/checkpoints/conversion.py", "OverflowError"),  # the array is named there
    ("runtime/whole_files.py", "OSError"),  # as the system raises it
    ("runtime/whole_files.py", "PermissionError"),
}
"""Built-in exceptions that callers in the package turn into messages."""


def test_the_outer_folders_raise_no_built_in_exceptions() -> None:
    found = {
        (name, raised)
        for name, text in texts().items()
        if name.startswith(("mgn/", "runtime/"))
        for raised in RAISED.findall(text)
        if raised in vars(builtins)
    }
    assert found == PASSED_ON


WRONG: tuple[Any, ...] = (
    *(None, 3, -1.5, "x", "\0", b"x", [], {}, object(), int, True, float("nan"), ["a", 3]),
    *({"a": "b"}, 10**30, lambda: 0, np.ones(3)),
)
PROGRAM = """
graph g[N = 4](x: f32[N, 4]) {
  param w: f32[4] = ones()
  return loss = sum(x * w)
}
"""


@cache
def module() -> mgn.Module:
    return mgn.parse(PROGRAM)


@cache
def exe() -> mgn.Executable:
    return mgn.compile(module(), device="cpu")


def built(value: Callable[[Any], Any]) -> None:
    with mgn.graph("g") as g:
        g.output(y=value(g.input("x", "f32[2, 2]")))


def declared(*given: Any, **more: Any) -> None:
    operation(*given, **more)(lambda b, x: b.abs(x))
    forget_operation(given[0])


CALLS: dict[str, Callable[[Any], object]] = {
    "parse": lambda v: mgn.parse(v),
    "parse_file": lambda v: mgn.parse_file(v),
    "load_package": lambda v: mgn.load_package(v),
    "lower": lambda v: module().lower(v),
    "lower.dims": lambda v: module().lower("g", v),
    "graph": lambda v: mgn.graph(v),
    "relu": lambda v: built(lambda x: ops.relu(v)),
    "add": lambda v: built(lambda x: ops.add(x, v)),
    "sum": lambda v: built(lambda x: ops.sum(x, axis=v)),
    "concat": lambda v: built(lambda x: ops.concat(v)),
    "grad": lambda v: built(lambda x: ops.grad(v, v)),
    "reshape": lambda v: built(lambda x: x.reshape(v)),
    "index": lambda v: built(lambda x: x[v]),
    "Linear": lambda v: built(lambda x: nn.Linear(v, v)(x)),
    "operation": lambda v: declared(v, ("x",)),
    "operands": lambda v: declared("own", v),
    "attribute": lambda v: declared("own", ("x",), own=v),
    "exe": lambda v: exe()(x=v),
    "exe.run": lambda v: exe().run(v),
    "exe.seed": lambda v: exe().seed(v),
    "exe.trace": lambda v: exe().trace(v),
    "exe.explain": lambda v: exe().explain(v),
    "exe.load_params": lambda v: exe().load_params(v),
    "exe.rename": lambda v: exe().load_params("nowhere", rename=v),
    "exe.save_params": lambda v: exe().save_params(v),
    "exe.params[]": lambda v: exe().params[v],
    "exe.params[]=": lambda v: exe().params.__setitem__(v, np.ones(4, np.float32)),
    "exe.params=": lambda v: exe().params.__setitem__("w", v),
    "exe.params.del": lambda v: exe().params.__delitem__(v),
    "exe.state[]": lambda v: exe().state[v],
    "exe.state[]=": lambda v: exe().state.__setitem__(v, 1),
    "exe.replay": lambda v: None if type(v) is int else exe().replay(times=v),
    "pack_blocks": lambda v: mgn.pack_blocks(v, v),
    "unpack_blocks": lambda v: mgn.unpack_blocks(v, v),
    "register_pass": lambda v: None if v is None else mgn.register_pass(v),
    "forget_pass": lambda v: mgn.forget_pass(v),
    "AdamW": lambda v: mgn.AdamW(lr=v),
    "Trainer.graph": lambda v: mgn.Trainer(module(), graph=v, device="nowhere"),
    "attributes of mgn": lambda v: getattr(mgn, f"no_{v!r}"),
    "attributes of ops": lambda v: getattr(ops, f"no_{v!r}"),
    **{
        f"optimize.{name}": lambda v, name=name: mgn.optimize(module(), **{name: v})
        for name in list(inspect.signature(mgn.optimize).parameters)[1:]
    },
    **{
        f"compile.{name}": lambda v, name=name: mgn.compile(
            module(), **{"device": "nowhere", name: v}
        )
        for name in list(inspect.signature(mgn.compile).parameters)[1:]
    },
}
"""Calls with one argument of any kind; a device that is not there ends those that would be long."""


@pytest.mark.parametrize("name", CALLS)
def test_a_call_says_what_is_wrong_by_an_error_of_mgn(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in WRONG:
        try:
            CALLS[name](value)
        except mgn.MgnError as error:
            assert str(error)


def test_a_wrong_type_is_still_a_type_error() -> None:
    with pytest.raises(TypeError, match="'text' takes the text of a program, not int"):
        mgn.parse(3)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        _ = mgn.nothing
    assert not hasattr(ops, "nothing")
