"""How a parameter is filled before training: `normal(0.0, 0.02)`.

In: the name of an initialiser and its numbers. Out: an attribute of `mgn.param`, and a check that
it can fill a tensor of the parameter's type.
"""

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, StringAttr, TensorType, f64
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.mgn.attributes import FLOAT
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import Family, element_of

INITIALISERS: dict[str, tuple[tuple[str, float | None], ...]] = {
    "zeros": (),
    "ones": (),
    "constant": (("v", None),),
    "uniform": (("low", 0.0), ("high", 1.0)),
    "normal": (("mean", 0.0), ("std", 1.0)),
    "glorot_uniform": (),
    "glorot_normal": (),
    "he_uniform": (),
    "he_normal": (),
}
"""Initialisers by name: their arguments with defaults (None: required)."""


@irdl_attr_definition
class InitialiserAttr(ParametrizedAttribute):
    """How a parameter is filled before training: `#mgn.init<normal(0.0, 0.02)>`."""

    name = "mgn.init"
    function: StringAttr = param_def()
    arguments: ArrayAttr[FloatAttr] = param_def()

    @staticmethod
    def of(function: str, *arguments: float) -> "InitialiserAttr":
        return InitialiserAttr(
            StringAttr(function), ArrayAttr([FloatAttr(value, f64) for value in arguments])
        )

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(item.value.data for item in self.arguments)

    @property
    def text(self) -> str:
        """Its call, by which two are compared: a nan is another one each time."""
        return f"{self.function.data}({', '.join(map(repr, self.values))})"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return cls.parse_call(parser).parameters

    @classmethod
    def parse_call(cls, parser: AttrParser) -> "InitialiserAttr":
        """Reads `normal(0.0, 0.02)`."""
        function = parser.parse_identifier("an initialiser")
        values = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: FLOAT.parse(parser)
        )
        return cls.of(function, *values)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self.print_call(printer)

    def print_call(self, printer: Printer) -> None:
        printer.print_string(f"{self.function.data}(")
        printer.print_list(self.values, lambda value: FLOAT.print(printer, value))
        printer.print_string(")")

    def verify(self) -> None:
        if self.function.data not in INITIALISERS:
            raise VerifyException(f"unknown initialiser '{self.function.data}'")
        wanted = len(INITIALISERS[self.function.data])
        if len(self.arguments) != wanted:
            raise VerifyException(
                f"initialiser {self.function.data} takes {wanted} arguments, "
                f"not {len(self.arguments)}"
            )


def check_initialiser(initialiser: InitialiserAttr, type: TensorType) -> None:
    """ShapeError where an initialiser cannot fill a tensor of a type."""
    function, values = initialiser.function.data, initialiser.values
    if function == "constant":
        _check_constant(values[0], type)
    elif not all(map(math.isfinite, values)):
        listing = " and ".join(f"{value:g}" for value in values)
        raise ShapeError(f"{function}() takes finite numbers, not {listing}")
    elif function == "uniform" and not values[0] <= values[1]:
        raise ShapeError(f"uniform() takes low <= high, not {values[0]:g} and {values[1]:g}")
    elif function == "normal" and not values[1] >= 0:
        raise ShapeError(f"normal() takes a std of at least 0, not {values[1]:g}")


def _check_constant(value: float, type: TensorType) -> None:
    row = element_of(type)
    if row.dtype is None or row.is_float:
        return
    if not value.is_integer():
        raise ShapeError(f"constant({value:g}) is not an {row.name}")
    low, high = (0, 1) if row.family is Family.BOOL else _limits(row.dtype)
    if not low <= int(value) <= high:
        raise ShapeError(f"constant({int(value)}) does not fit {row.name}")


def _limits(dtype: np.dtype) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)
