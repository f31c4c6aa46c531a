"""Every elementwise operation on special values: zeros, infinities, nan, subnormals, ends of types.

A device gives the interpreter's bits where IEEE 754 says what they are, else it is as near as the
OpenCL C specification asks (section 7.4). All operations of a type are one program.
"""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mgn
from mgn.dialects.mgn import OPERATIONS
from mgn.dialects.mgn.attributes import REQUIRED
from mgn.dialects.mgn.operation import FLOATS, INTEGERS, Kind
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.saturate import RuleClass, SaturateOptions
from tests.support.programs import evaluate
from tests.support.ulps import FUNCTION_ULPS

Array = np.ndarray

COMPOSITE_ULPS: Mapping[str, float] = {
    "sigmoid": 8, "elu": 3, "softplus": 8, "silu": 8, "swiglu": 8,
}  # fmt: skip
ULPS: Mapping[str, float] = {**FUNCTION_ULPS, **COMPOSITE_ULPS, "sqrt": 0}
"""What a device may be off by, in units of the last place; NumPy is off by one more. A program asks
for square roots that are correctly rounded.
"""


CANCELLING = ("gelu", "geglu")
"""Their `1 + erf` loses its digits far below 0, where units of the result say nothing."""


def of_floats(count: int) -> tuple[str, ...]:
    """The elementwise operations of so many floats, which need nothing else."""
    return tuple(
        name
        for name, spec in OPERATIONS.items()
        if spec.kind is Kind.ELEMENTWISE
        and name not in CANCELLING
        and len(spec.operands) == count
        and all(operand.accepts & FLOATS for operand in spec.operands)
        and all(attribute.default is not REQUIRED for attribute in spec.attributes)
    )


UNARY, BINARY = of_floats(1), of_floats(2)
INTEGER_UNARY = ("neg", "abs", "sign", "relu", "clamp")
INTEGER_BINARY = tuple(n for n in BINARY if OPERATIONS[n].operands[0].accepts & INTEGERS)
TYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u32", "u16", "u8", "bool")


def special_floats(element: str) -> Array:
    dtype = ELEMENT_TYPES[element].dtype
    info = ml_dtypes.finfo(dtype)
    sizes = [info.smallest_subnormal, info.smallest_normal, info.max, info.eps, 1 + info.eps]
    sizes += [0, 1, 0.5, 1.5, 2.5, 2, 3, 7, 0.1, 0.3, 5.3, 88.8, 104, 127, 128, 255, 256, 129, 1e4]
    sizes += [2.0**15, 65535, 2.0**16, 2.0**24 - 1, 2.0**24 + 1, 2.0**31, 2.0**32, 2.0**63, 2.0**64]
    sizes += [1e30, 1e-30, np.inf]
    with np.errstate(over="ignore"):
        return np.array([*map(float, sizes), *(-float(x) for x in sizes), np.nan]).astype(dtype)


def special_integers(element: str) -> Array:
    dtype = ELEMENT_TYPES[element].dtype
    info = np.iinfo(dtype)
    numbers = {0, 1, 2, 3, 5, 7, 63, 100, info.max, info.max - 1, info.max // 2 + 1}
    numbers |= {info.min, info.min + 1, info.min // 2, -1, -2, -3, -7, -100}
    return np.array(sorted(n for n in numbers if info.min <= n <= info.max), dtype)


def devices_results(element: str, x: Array, names: tuple[tuple[str, ...], ...], target: str) -> Any:
    """What a device gives for operations of x, and of all pairs of its elements."""
    a, b = np.repeat(x, len(x)), np.tile(x, len(x))
    calls = {name: f"{name}(x)" for name in names[0]} | {name: f"{name}(a, b)" for name in names[1]}
    calls["clamp"] = "clamp(x, min = -1.0, max = 2.0)"
    if element.startswith("u"):
        calls["clamp"] = "clamp(x, min = 1.0, max = 2.0)"
    calls |= {f"as_{other}": f"cast(x, {other})" for other in TYPES if other != element}
    returned = ", ".join(f"r_{name} = {call}" for name, call in calls.items())
    text = f"""graph g(x: {element}[{len(x)}], a: {element}[{len(a)}], b: {element}[{len(a)}]) {{
                 return {returned} }}"""
    exact = SaturateOptions(classes=frozenset({RuleClass.EXACT}))
    found = mgn.compile(mgn.parse(text), target=target, saturation=exact)(x=x, a=a, b=b)
    return {name: found[f"r_{name}"] for name in calls}, (a, b)


def meaning(name: str, x: Array, pair: tuple[Array, Array], names: tuple[str, ...]) -> Array:
    if name.startswith("as_"):
        return evaluate("cast", x, name[3:])[0]
    if name == "clamp":
        least = 1.0 if x.dtype.kind == "u" else -1.0
        return evaluate("clamp", x, min=least, max=2.0)[0]
    return evaluate(name, *(pair if name in names else (x,)))[0]


def check(name: str, found: Array, wanted: Array, ulps: float) -> None:
    """The same bits, but for the payload of nan; or results that are so near."""
    assert found.dtype == wanted.dtype, name
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted, name)
        return
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(one), np.isnan(other), name)
    known = ~np.isnan(other)
    np.testing.assert_array_equal(np.signbit(one[known]), np.signbit(other[known]), name)
    finite = np.isfinite(one) & np.isfinite(other) & (one != other)
    unequal = known & ~finite & (one != other)
    assert not unequal.any(), (name, one[unequal], other[unequal])
    units = np.abs(one - other)[finite] / np.spacing(np.abs(wanted[finite])).astype(np.float64)
    most = float(np.max(units, initial=0.0))
    assert most <= ulps, f"{name}: off by {most} units in the last place"


@pytest.mark.parametrize(
    ("element", "target"),
    [("f32", "opencl"), ("f32", "spirv"), ("f64", "spirv"), ("f16", "opencl"), ("bf16", "spirv")],
)
def test_floats_have_the_interpreters_bits_or_are_near(element: str, target: str) -> None:
    x = special_floats(element)
    with np.errstate(all="ignore"):
        found, pair = devices_results(element, x, (UNARY, BINARY), target)
        for name, result in found.items():
            ulps = ULPS.get(name, 0)
            if element in ("f16", "bf16"):
                ulps = min(ulps, 1)
            check(name, result, meaning(name, x, pair, BINARY), ulps + (ulps > 0))


@pytest.mark.parametrize(
    ("element", "target"),
    [("i64", "opencl"), ("i32", "spirv"), ("i16", "opencl"), ("i8", "spirv"),
     ("u32", "opencl"), ("u16", "spirv"), ("u8", "opencl")],
)  # fmt: skip
def test_integers_wrap_around_and_truncate_as_in_the_interpreter(element: str, target: str) -> None:
    x = special_integers(element)
    with np.errstate(all="ignore"):
        found, pair = devices_results(element, x, (INTEGER_UNARY, INTEGER_BINARY), target)
        for name, result in found.items():
            check(name, result, meaning(name, x, pair, INTEGER_BINARY), 0)


NUMPY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "mod": np.mod,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "sign": np.sign, "abs": np.abs,
    "sqrt": np.sqrt, "lt": np.less, "ge": np.greater_equal, "pow": np.power,
}  # fmt: skip


@pytest.mark.parametrize("element", ["f64", "f32"])
@pytest.mark.parametrize("name", NUMPY)
def test_the_interpreter_gives_numpys_bits(name: str, element: str) -> None:
    x = special_floats(element)
    operands = (np.repeat(x, len(x)), np.tile(x, len(x))) if name in BINARY else (x,)
    with np.errstate(all="ignore"):
        check(name, evaluate(name, *operands)[0], NUMPY[name](*operands), 0)


def test_of_two_zeros_the_positive_one_is_larger() -> None:
    zeros, others = np.float32([0.0, -0.0, 0.0, -0.0]), np.float32([0.0, 0.0, -0.0, -0.0])
    (larger,), (smaller,) = evaluate("max", zeros, others), evaluate("min", zeros, others)
    np.testing.assert_array_equal(np.signbit(larger), [False, False, False, True])
    np.testing.assert_array_equal(np.signbit(smaller), [False, True, True, True])


@pytest.mark.parametrize("target", ["opencl", "spirv"])
def test_constant_zeros_are_ordered_as_others_are(target: str) -> None:
    text = "graph g(x: f32[4]) { return " + ", ".join(
        f"{name}{n} = {name}(x, {zero})"
        for name in ("max", "min")
        for n, zero in enumerate(("0.0", "-0.0"))
    )
    executable = mgn.compile(mgn.parse(text + " }"), device="cpu", target=target)
    found = executable(x=np.array([0.0, -0.0, np.nan, 1.0], np.float32))
    negative = {name: np.signbit(value[:2]).tolist() for name, value in found.items()}
    assert negative == {
        "max0": [False, False],
        "max1": [False, True],
        "min0": [False, True],
        "min1": [True, True],
    }
    assert all(np.isnan(value[2]) for value in found.values())


@pytest.mark.parametrize("target", ["opencl", "spirv"])
def test_multiples_of_tiny_divisors_leave_nothing(target: str) -> None:
    """Near the smallest normal number, drivers' `fmod` has given the divisor."""
    random = np.random.default_rng(0)
    y = random.integers(1, 0x01800000, 4096).astype(np.uint32).view(np.float32)
    y[::2] *= -1
    factors = (-4, -2, -1, 1, 2, 4)
    given = ", ".join(f"x{n}: f32[4096]" for n in range(len(factors)))
    results = ", ".join(f"y{n} = x{n} % y" for n in range(len(factors)))
    module = mgn.parse(f"graph g(y: f32[4096], {given}) {{ return {results} }}")
    executable = mgn.compile(module, device="cpu", target=target)
    found = executable(y=y, **{f"x{n}": y * np.float32(k) for n, k in enumerate(factors)})
    for value in found.values():
        np.testing.assert_array_equal(value, np.zeros_like(y))
        np.testing.assert_array_equal(np.signbit(value), y < 0)
