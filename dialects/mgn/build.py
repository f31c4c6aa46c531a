"""Calls operations by name: what the language, the Python builder, decompositions and rewrites all
go through.

In: an operation's name with positional and keyword arguments, values or plain numbers, as in the
language. Out: the operation's result values, created through the emitter's insertion function.

    b = Emitter(block.add_op)
    y = b.softmax(b.mul(x, 0.5), axis=-1)
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any
from warnings import warn

import numpy as np
from ml_dtypes import finfo
from xdsl.dialects.builtin import LocationAttr, TensorType
from xdsl.ir import Operation, SSAValue

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.attributes import REQUIRED
from mgn.dialects.mgn.operation import (
    OPERATIONS,
    AttributeSpec,
    OperandSpec,
    OperationSpec,
    create_operation,
)
from mgn.dialects.mgn.states import ReadStateOp, WriteStateOp
from mgn.dialects.mgn.structure import ConstantOp
from mgn.dialects.places import text_place
from mgn.dialects.random_state import RANDOM_STATE as RANDOM_STATE
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, ElementType, element_of, tensor

RANDOM_TYPE = tensor("u32", (3,))


SYNONYMS = {
    "dim": "axis",
    "dims": "axis",
    "keepdim": "keepdims",
    "keep_dims": "keepdims",
    "dtype": "T",
    "bias": "b",
    "weight": "w",
    "kernel_size": "kernel",
    "num_groups": "groups",
    "num_classes": "classes",
    "scale_factor": "scale",
    "negative_slope": "slope",
    "index": "ids",
    "is_causal": "causal",
    "approximate": "approx",
}
"""What PyTorch and others call an argument, and what it is called here."""

OTHER_NAMES = {
    "absolute": "abs",
    "all": "min_reduce",
    "amax": "max_reduce",
    "amin": "min_reduce",
    "any": "max_reduce",
    "arange": "iota",
    "average": "mean",
    "avg_pool": "avg_pool2d",
    "binary_cross_entropy": "bce",
    "bmm": "matmul",
    "cat": "concat",
    "clip": "clamp",
    "conv": "conv2d",
    "conv2d_transpose": "conv_transpose2d",
    "divide": "div",
    "dot": "matmul",
    "expand": "broadcast_to",
    "expand_as": "broadcast_to",
    "full_like": "full",
    "hstack": "concat",
    "index_add": "scatter_add",
    "index_select": "gather",
    "interpolate": "upsample",
    "l1_loss": "l1",
    "logical_xor": "ne",
    "masked_fill": "where",
    "max_pool": "max_pool2d",
    "maximum": "max",
    "minimum": "min",
    "mm": "matmul",
    "moveaxis": "transpose",
    "mse_loss": "mse",
    "multinomial": "categorical",
    "multiply": "mul",
    "negative": "neg",
    "nll_loss": "nll",
    "ones": "full",
    "ones_like": "full",
    "permute": "transpose",
    "power": "pow",
    "put_along_axis": "scatter",
    "rand": "uniform",
    "randn": "normal",
    "range": "iota",
    "ravel": "flatten",
    "reciprocal": "recip",
    "remainder": "mod",
    "repeat_interleave": "repeat",
    "resize": "upsample",
    "rint": "round",
    "rotary_embedding": "rope",
    "scaled_dot_product_attention": "attention",
    "sdpa": "attention",
    "select": "where",
    "smooth_l1_loss": "huber",
    "square": "mul",
    "std": "var",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swish": "silu",
    "take": "gather",
    "true_divide": "div",
    "unsqueeze": "expand_dims",
    "view": "reshape",
    "vstack": "concat",
    "zeros": "full",
    "zeros_like": "full",
}
"""What PyTorch, NumPy and others call an operation, and what it, or the nearest, is called here."""


class CallError(MgnError, ValueError):
    """A call that does not fit the operation's signature."""


def suggestion(name: str, known: Sequence[str]) -> str:
    """`; did you mean 'x'?` for the known name of what others call so, or for the nearest one, in
    letters of any case; or nothing.
    """
    other = OTHER_NAMES.get(name.lower())
    if other in known:
        return f"; did you mean '{other}'?"
    spelled = {item.lower(): item for item in reversed(known)}
    near = difflib.get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    return f"; did you mean '{spelled[near[0]]}'?" if near else ""


@dataclass(frozen=True)
class BoundCall:
    """A call matched to its signature: operands as the spec groups them, and accepted attribute
    values.
    """

    spec: OperationSpec
    operands: list[Any]
    attributes: dict[str, Any]


def find_operation(name: str) -> OperationSpec:
    """The operation of that name. CallError, with a suggestion, where there is none."""
    if name not in OPERATIONS:
        raise CallError(f"unknown operation '{name}'{suggestion(name, list(OPERATIONS))}")
    return OPERATIONS[name]


def bind(spec: OperationSpec, args: Sequence[Any], kwargs: dict[str, Any]) -> BoundCall:
    """Matches arguments to a signature as Python would. Raises CallError.

    Operand positions keep what was given (values or numbers); attributes are checked and made
    canonical.
    """
    names = [item.name for item in spec.signature]
    given: dict[str, Any] = {}
    rest = list(args)
    for item in spec.signature:
        if not rest:
            break
        if isinstance(item, OperandSpec) and item.starred:
            given[item.name], rest = rest, []
        else:
            given[item.name] = rest.pop(0)
    if rest:
        first = spec.operands[0] if spec.operands else None
        hint = f"; write {spec.name}([a, b, …])" if first and first.variadic else ""
        most = f"takes at most {len(names)} arguments"
        raise CallError(f"{spec.name}() {most}, got {len(args)}{hint}")
    for name, value in kwargs.items():
        if name not in names:
            hint = suggestion(SYNONYMS.get(name, name), names) or _reduction(spec)
            raise CallError(f"{spec.name}() has no argument '{name}'{hint}")
        if name in given:
            raise CallError(f"{spec.name}() got two values for '{name}'")
        given[name] = value
    operands = [_bind_operand(spec, item, given) for item in spec.operands]
    missing = ""
    for item, value in zip(spec.operands, operands, strict=True):
        if value is None:
            missing = "" if item.neutral else item.name
        elif missing and item.optional:
            raise CallError(f"{spec.name}() needs '{missing}' where '{item.name}' is given")
    attributes = {item.name: _bind_attribute(spec, item, given) for item in spec.attributes}
    return BoundCall(spec, operands, attributes)


def _reduction(spec: OperationSpec) -> str:
    """A hint at the reduction that others call as this operation of two values: `max`, `min`."""
    name = f"{spec.name}_reduce"
    return f"; did you mean '{name}'?" if name in OPERATIONS else ""


def _bind_operand(spec: OperationSpec, item: OperandSpec, given: dict[str, Any]) -> Any:
    value = given.get(item.name, item.default)
    if value is None and not item.optional:
        raise CallError(f"{spec.name}() needs '{item.name}'{_reduction(spec)}")
    if not item.variadic:
        if isinstance(value, list | tuple | str):
            raise CallError(f"{spec.name}(): '{item.name}' must be a value")
        return value
    if item.bare and value is not None and not isinstance(value, list | tuple | str):
        return [value]
    if not isinstance(value, list | tuple) or not value:
        wanted = "a list of one value or more"
        raise CallError(f"{spec.name}(): '{item.name}' must be {wanted}")
    if item.starred and any(isinstance(part, list | tuple) for part in value):
        named = ", ".join([*(other.name for other in spec.attributes), "a", "b", "…"])
        raise CallError(
            f"{spec.name}() takes values, and no list of them; write {spec.name}({named})"
        )
    if any(part is None or isinstance(part, list | tuple | str) for part in value):
        raise CallError(f"{spec.name}(): '{item.name}' must be a list of values alone")
    return list(value)


def _bind_attribute(spec: OperationSpec, item: AttributeSpec, given: dict[str, Any]) -> Any:
    value = given.get(item.name, item.default)
    if value is REQUIRED:
        raise CallError(f"{spec.name}() needs '{item.name}'")
    if value is None and item.default is None:
        return None
    try:
        return item.kind.accept(value)
    except TypeError as error:
        raise CallError(f"{spec.name}(): '{item.name}' must be {error}") from error


_CAST_OTHER = "; use cast(x, f32) on the other operand"


def literal_array(value: float, element: ElementType, hint: str = "") -> np.ndarray:
    """A number as a scalar of an element type. ShapeError where it cannot be represented, with a
    hint at what takes a fraction.
    """
    if element.dtype is None:
        raise ShapeError(f"a literal cannot have type {element.name}")
    if isinstance(value, bool) and element.name != "bool":
        word = str(value).lower()
        raise ShapeError(f"{word} is not {_with_article(element)}; write {int(value)}")
    if element.is_float:
        try:
            with np.errstate(over="ignore"):
                return np.asarray(value, element.dtype)
        except OverflowError:
            raise ShapeError(f"{element.name} cannot hold an integer as large") from None
    if element.name == "bool":
        if value in (0, 1):
            return np.asarray(value, element.dtype)
        raise ShapeError(f"{_spelled(value)} is not a {element.name}")
    if value != value or value in (float("inf"), float("-inf")) or int(value) != value:
        raise ShapeError(f"{value!r} is not {_with_article(element)}{hint}")
    limits = np.iinfo(element.dtype)
    if not limits.min <= value <= limits.max:
        raise ShapeError(f"{_spelled(value)} does not fit {element.name}")
    return np.asarray(int(value), element.dtype)


def _with_article(element: ElementType) -> str:
    return f"{'a' if element.name.startswith(('b', 'u')) else 'an'} {element.name}"


def _spelled(value: float) -> str:
    """A number for a message, without a point where it is whole."""
    is_whole = not isinstance(value, bool) and value % 1 == 0
    return str(int(value)) if is_whole else repr(value)


class Draws:
    """The random numbers of one graph: the key that calls share, and the number of each call."""

    def __init__(self) -> None:
        self.sites = 0

    def bound(self, b: "Emitter", call: BoundCall) -> BoundCall:
        """A call with the run's key, and its own number, where it draws and was given no key."""
        drawn = [item.drawn for item in call.spec.operands]
        if not any(drawn) or call.operands[drawn.index(True)] is not None:
            return call
        op = ReadStateOp(RANDOM_STATE, RANDOM_TYPE)
        if b.location is not None:
            op.location = b.location
        b.insert(op)
        place = drawn.index(True)
        operands = [*call.operands[:place], op.result, *call.operands[place + 1 :]]
        self.sites += 1
        return BoundCall(call.spec, operands, {**call.attributes, "site": self.sites - 1})

    def finish(self, b: "Emitter") -> None:
        """Counts the run, at the end of a graph that draws."""
        if self.sites:
            op = ReadStateOp(RANDOM_STATE, RANDOM_TYPE)
            b.insert(op)
            counted = b.add(op.result, b.constant_array(np.array([0, 0, 1], np.uint32)))
            b.insert(WriteStateOp(RANDOM_STATE, counted))


class Emitter:
    """Creates operations and hands each to `insert`. `b.NAME(…)` is `b.call("NAME", …)`. `draws`
    are the random numbers of the graph that is built, if one is.

    Errors are CallError (the call does not fit the signature) and ShapeError (the types do not
    fit).
    """

    def __init__(
        self, insert: Callable[[Operation], Any], location: LocationAttr | None = None
    ) -> None:
        self.insert = insert
        self.location = location
        self.draws: Draws | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in OPERATIONS:
            known = [*OPERATIONS, *(item for item in dir(type(self)) if item[0] != "_")]
            raise AttributeError(f"there is no operation '{name}'{suggestion(name, known)}")

        def call(*args: Any, **kwargs: Any) -> Any:
            return self.call(name, *args, **kwargs)

        return call

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The result of an operation: one value, or a tuple where it has several."""
        results = self.emit(bind(find_operation(name), args, kwargs)).results
        return tuple(results) if OPERATIONS[name].several_results else results[0]

    def emit(self, call: BoundCall) -> Operation:
        """Creates the operation of a bound call, its numbers turned into constants."""
        if self.draws is not None:
            call = self.draws.bound(self, call)
        call = self._without_gaps(call)
        elements = self._literal_elements(call)
        operands: list[SSAValue] = []
        for item, value in zip(call.spec.operands, call.operands, strict=True):
            if value is None:
                continue
            for part in value if item.variadic else [value]:
                hint = "" if item.element else _CAST_OTHER
                operands.append(self._operand(part, elements[item.name], hint))
        op = create_operation(call.spec, operands, call.attributes, self.location)
        self.insert(op)
        return op

    def _without_gaps(self, call: BoundCall) -> BoundCall:
        """A call with neutral values for operands that are left out before one that is given."""
        operands = list(call.operands)
        last = max((n for n, value in enumerate(operands) if value is not None), default=0)
        if None not in operands[:last]:
            return call
        named = dict(zip((item.name for item in call.spec.operands), operands, strict=True))
        for place, item in enumerate(call.spec.operands[:last]):
            if operands[place] is None and item.neutral is not None:
                like = named[item.neutral.like]
                if isinstance(like, SSAValue) and isinstance(like.type, TensorType):
                    shape = item.neutral.shape_for(like.type.get_shape())
                    element = element_of(like.type).name
                    operands[place] = self.full(shape, item.neutral.value, T=element)
                else:
                    operands[place] = item.neutral.value
        return BoundCall(call.spec, operands, call.attributes)

    def constant(self, value: float, element: ElementType | str, hint: str = "") -> SSAValue:
        """A scalar constant of an element type; the hint is that of `literal_array`."""
        row = ELEMENT_TYPES[element] if isinstance(element, str) else element
        return self.constant_array(literal_array(value, row, hint))

    def constant_array(self, value: np.ndarray) -> SSAValue:
        """A constant tensor."""
        op = ConstantOp.from_array(value)
        if self.location is not None:
            op.location = self.location
        self.insert(op)
        return op.results[0]

    def _operand(self, value: Any, element: ElementType | None, hint: str) -> SSAValue:
        if isinstance(value, SSAValue):
            return value
        if isinstance(value, bool | int | float | np.number) and element is not None:
            number = value if isinstance(value, bool) else _plain(value)
            if self.draws is not None and not fits(number, element):
                warn(f"{_placed(self.location)}{overflow_text(number, element)}", stacklevel=2)
            return self.constant(number, element, hint)
        raise CallError(f"{value!r} is not a value")

    @staticmethod
    def _literal_elements(call: BoundCall) -> dict[str, ElementType | None]:
        """The element type that a number takes at each operand."""
        by_group: dict[str, ElementType] = {}
        numbers: dict[str, list[Any]] = {}
        for item, value in zip(call.spec.operands, call.operands, strict=True):
            for part in value if item.variadic and value is not None else [value]:
                if isinstance(part, SSAValue) and isinstance(part.type, TensorType):
                    by_group.setdefault(item.group, element_of(part.type))
                elif part is not None:
                    numbers.setdefault(item.group, []).append(part)
        for group, parts in numbers.items():
            if group not in by_group:
                by_group[group] = ELEMENT_TYPES[_default_element(parts)]
        return {
            item.name: ELEMENT_TYPES[item.element] if item.element else by_group.get(item.group)
            for item in call.spec.operands
        }


def fits(value: float, element: ElementType) -> bool:
    """Whether a finite number stays finite in a float type."""
    if not element.is_float or (isinstance(value, float) and not isfinite(value)):
        return True
    return bool(np.isfinite(literal_array(value, element)))


def overflow_text(value: float, element: ElementType) -> str:
    """What is said of a number that does not."""
    wider, infinite = "f64" if element.name == "f32" else "f32", "-inf" if value < 0 else "inf"
    largest = f"{float(finfo(element.dtype).max):.5g}"
    said = f"{value:g} is {infinite} in {element.name}, whose largest number is {largest}"
    return f"{said}; cast(x, {wider}) on the other operand keeps it"


def _placed(location: LocationAttr | None) -> str:
    """`file:line:column: ` of a place in a text, or nothing."""
    place = text_place(location)
    if place is None:
        return ""
    return f"{place.filename.data}:{place.line.data}:{place.column.data}: "


def _plain(value: Any) -> int | float:
    return value.item() if isinstance(value, np.number) else value


def _default_element(numbers: Sequence[Any]) -> str:
    if all(isinstance(number, bool) for number in numbers):
        return "bool"
    return "i32" if all(isinstance(number, int) for number in numbers) else "f32"
