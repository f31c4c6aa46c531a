"""The table of ONNX operators: each with its domain, its versions, and the function that emits it.

In: `define`, called by the files of `operators/`. Out: `find`, which gives the row of an operator
in a version of its domain.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call

Values = SSAValue | Sequence[SSAValue] | None
Function = Callable[[Call], Any]


@dataclass(frozen=True)
class Operator:
    """One operator from one version on, up to the next row of its name. A function of None says
    that ONNX had it in these versions, and has it no more.
    """

    domain: str
    name: str
    since: int
    function: Function

    @property
    def summary(self) -> str:
        """What its function says of it."""
        return (self.function.__doc__ or "").strip().split("\n")[0]


OPERATORS: dict[tuple[str, str], list[Operator]] = {}
"""The rows by domain and name, the oldest first."""


def define(*names: str, since: int = 1, domain: str = "") -> Callable[[Function], Function]:
    """Enters a function for operators of these names from a version on."""

    def enter(function: Function) -> Function:
        for name in names:
            rows = OPERATORS.setdefault((domain, name), [])
            rows.append(Operator(domain, name, since, function))
            rows.sort(key=lambda row: row.since)
        return function

    return enter


def find(domain: str, name: str, version: int) -> Operator | None:
    """The row of an operator in a version of its domain."""
    rows = OPERATORS.get((domain, name), [])
    place = bisect_right([row.since for row in rows], version)
    return rows[place - 1] if place else None
