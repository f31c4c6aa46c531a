"""One case or more for each row of arithmetic: its body in IR and its reference on NumPy."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.codegen.opencl_references import (
    bits,
    ceil_divide,
    divide,
    erf,
    floor_divide,
    fused,
    integer_predicate,
    masked,
    maximum,
    minimum,
    power,
    predicate,
    remainder,
    saturate,
    shift,
)
from tests.support.opencl_fixture import DTYPES, FLOATS, INTEGERS
from tests.support.ulps import FUNCTION_ULPS

CASTS = "fptosi|fptoui|sitofp|uitofp|trunci|extsi|extui|index_cast"
COUNT = 256


@dataclass(frozen=True)
class Case:
    """`body` computes %r from %a, %b, … whose element types are `inputs`.

    In it {0}, {1}, … are the types of the operands and {r} the type of the result. `ulps` is the
    permitted distance to the reference, which is computed in float64.
    """

    body: str
    inputs: tuple[str, ...]
    result: str
    reference: Callable[..., Any]
    ulps: float = 0.0
    low: float = -np.inf
    high: float = np.inf
    lanes: tuple[int, ...] = (1, 4, 16)

    @property
    def operations(self) -> set[str]:
        return set(re.findall(r"\b(?:arith|math|vector|kernel)\.\w+", self.body))

    def __str__(self) -> str:
        return f"{self.body.split('= ')[-1].split(' %')[0]}-{'-'.join(self.inputs)}-{self.result}"


def samples(element: str, seed: int, low: float, high: float) -> np.ndarray:
    """Random values with the edge cases of the type among them."""
    generator = np.random.default_rng(seed)
    dtype = DTYPES[element]
    if element == "i1":
        return generator.integers(0, 2, COUNT).astype(np.bool_)
    if element in INTEGERS:
        limits = np.iinfo(dtype)
        edges = [0, 1, -1, 2, limits.max, limits.min, limits.max - 1, limits.min + 1]
        values = generator.integers(limits.min, limits.max, COUNT, dtype, endpoint=True)
        values[::3] = generator.integers(-9, 10, len(values[::3]))
    else:
        limits = ml_dtypes.finfo(dtype)
        tiny, large = float(limits.smallest_subnormal), float(limits.max)
        edges = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            np.nan,
            np.inf,
            -np.inf,
            tiny,
            -tiny,
            large,
            -large,
            0.5,
            2.5,
        ]
        edges += [-1.5, 3.5, float(limits.eps)]
        values = (generator.standard_normal(COUNT) * 4).astype(dtype)
    place = generator.permutation(COUNT)
    values[place[: 2 * len(edges)]] = np.array(edges * 2).astype(dtype)
    if element in FLOATS:
        with np.errstate(invalid="ignore"):
            wide = values.astype(np.float64)
            outside = ~((wide >= low) & (wide <= high)) & np.isfinite([low]).any()
        values[outside] = dtype((max(low, -4) + min(high, 4)) / 2)
    return values


def case_text(case: Case, lanes: int) -> str:
    def shaped(element: str) -> str:
        return element if lanes == 1 else f"vector<{lanes}x{element}>"

    names = "abcd"[: len(case.inputs)]
    arguments = [f"%p{n} : memref<{COUNT}x{e}>" for n, e in zip(names, case.inputs, strict=True)]
    arguments.append(f"%y : memref<{COUNT}x{case.result}>")
    access = ", ".join(["read"] * len(names) + ["write"])
    lines = [
        f"kernel.func @row({', '.join(arguments)}) access [{access}]"
        f" global [{COUNT // lanes}, 1, 1] local [1, 1, 1] {{",
        f"%g = kernel.global_id 0\n%w = arith.constant {lanes} : index",
        "%i = arith.muli %g, %w : index",
    ]
    for name, element in zip(names, case.inputs, strict=True):
        buffer = f"memref<{COUNT}x{element}>"
        if lanes == 1:
            lines.append(f"%{name} = memref.load %p{name}[%i] : {buffer}")
        else:
            lines.append(f"%{name} = vector.load %p{name}[%i] : {buffer}, {shaped(element)}")
    body = case.body
    if lanes > 1:
        body = re.sub(r"arith\.(cmp[if]|select)", r"kernel.\1", body)
        body = re.sub(rf"arith\.({CASTS}) (.*) to ", r"kernel.cast \1 \2 -> ", body)
    lines.append(body.format(*map(shaped, case.inputs), r=shaped(case.result), lanes=lanes))
    buffer = f"memref<{COUNT}x{case.result}>"
    if lanes == 1:
        lines.append(f"memref.store %r, %y[%i] : {buffer}")
    else:
        lines.append(f"vector.store %r, %y[%i] : {buffer}, {shaped(case.result)}")
    return "\n".join([*lines, "kernel.return\n}"])


def floats(
    operation: str, reference: Any, arity: int, ulps: float = 0.0, **more: Any
) -> list[Case]:
    names = ", ".join(f"%{name}" for name in "abc"[:arity])
    return [
        Case(f"%r = {operation} {names} : {{0}}", (e,) * arity, e, reference, ulps, **more)
        for e in FLOATS
    ]


def integers(operation: str, reference: Any, arity: int = 2, unsigned: bool = False) -> list[Case]:
    names = ", ".join(f"%{name}" for name in "ab"[:arity])

    def computed(*values: np.ndarray) -> np.ndarray:
        if not unsigned:
            return reference(*values)
        as_unsigned = [value.view(f"u{value.dtype}") for value in values]
        return reference(*as_unsigned).astype(as_unsigned[0].dtype).view(values[0].dtype)

    return [Case(f"%r = {operation} {names} : {{0}}", (e,) * arity, e, computed) for e in INTEGERS]


def off(function: str) -> float:
    """What OpenCL lets a function differ by, and the final rounding."""
    return FUNCTION_ULPS[function] + 1


UNARY: list[tuple[str, Any, float, float]] = [
    ("acos", np.arccos, -1, 1),
    ("acosh", np.arccosh, 1, 99),
    ("asin", np.arcsin, -1, 1),
    ("asinh", np.arcsinh, -np.inf, np.inf),
    ("atan", np.arctan, -np.inf, np.inf),
    ("atanh", np.arctanh, -0.99, 0.99),
    ("cbrt", np.cbrt, -np.inf, np.inf),
    ("cos", np.cos, -np.inf, np.inf),
    ("cosh", np.cosh, -np.inf, np.inf),
    ("erf", erf, -np.inf, np.inf),
    ("exp", np.exp, -np.inf, np.inf),
    ("exp2", np.exp2, -np.inf, np.inf),
    ("expm1", np.expm1, -np.inf, np.inf),
    ("log", np.log, -np.inf, np.inf),
    ("log10", np.log10, -np.inf, np.inf),
    ("log1p", np.log1p, -np.inf, np.inf),
    ("log2", np.log2, -np.inf, np.inf),
    ("rsqrt", lambda x: 1 / np.sqrt(x), -np.inf, np.inf),
    ("sin", np.sin, -np.inf, np.inf),
    ("sinh", np.sinh, -np.inf, np.inf),
    ("tan", np.tan, -np.inf, np.inf),
    ("tanh", np.tanh, -np.inf, np.inf),
]

CASES: list[Case] = [
    *floats("arith.addf", np.add, 2),
    *floats("arith.subf", np.subtract, 2),
    *floats("arith.mulf", np.multiply, 2),
    *floats("arith.divf", np.divide, 2),
    *floats("kernel.remf", np.fmod, 2),
    *floats("arith.negf", np.negative, 1),
    *floats("arith.maximumf", maximum, 2),
    *floats("arith.minimumf", minimum, 2),
    *floats("arith.maxnumf", np.fmax, 2, 0.5),
    *floats("arith.minnumf", np.fmin, 2, 0.5),
    *floats("math.absf", np.abs, 1),
    *floats("math.ceil", np.ceil, 1),
    *floats("math.floor", np.floor, 1),
    *floats("math.roundeven", np.round, 1),
    *floats(
        "math.round",
        lambda x: np.copysign(np.floor(np.abs(x) + (np.abs(x) % 1 >= 0.5) * 0.5), x),
        1,
    ),
    *floats("math.trunc", np.trunc, 1),
    *floats("math.copysign", np.copysign, 2),
    *floats("math.sqrt", np.sqrt, 1),
    *floats("math.fma", fused, 3, off("fma"), low=-64, high=64),
    *floats("math.powf", np.power, 2, off("pow"), low=0.0625, high=8),
    *floats("math.atan2", np.arctan2, 2, off("atan2")),
    *(
        case
        for name, f, low, high in UNARY
        for case in floats(f"math.{name}", f, 1, off(name), low=low, high=high)
    ),
    *(
        Case(
            "%n = arith.constant 3 : i32\n%r = math.fpowi %a, %n : f32, i32",
            ("f32",),
            "f32",
            lambda a: a**3,
            off("pown"),
            lanes=(1,),
        ),
    ),
    *integers("arith.addi", np.add),
    *integers("arith.subi", np.subtract),
    *integers("arith.muli", np.multiply),
    *integers("arith.divsi", divide),
    *integers("arith.divui", divide, unsigned=True),
    *integers("arith.remsi", remainder),
    *integers("arith.remui", remainder, unsigned=True),
    *integers("arith.floordivsi", floor_divide),
    *integers("arith.ceildivsi", ceil_divide),
    *integers("arith.ceildivui", ceil_divide, unsigned=True),
    *integers("arith.maxsi", np.maximum),
    *integers("arith.minsi", np.minimum),
    *integers("arith.maxui", np.maximum, unsigned=True),
    *integers("arith.minui", np.minimum, unsigned=True),
    *integers("arith.andi", np.bitwise_and),
    *integers("arith.ori", np.bitwise_or),
    *integers("arith.xori", np.bitwise_xor),
    *integers("math.absi", np.abs, 1),
    *integers("math.ctlz", bits(lambda x, n: n - x.bit_length()), 1),
    *integers("math.cttz", bits(lambda x, n: (x & -x).bit_length() - 1 if x else n), 1),
    *integers("math.ctpop", bits(lambda x, n: x.bit_count()), 1),
    *integers("math.ipowi", power),
    *(
        Case(
            f"%m = arith.constant {{m}}\n%n = arith.andi %b, %m : {{0}}\n"
            f"%r = arith.{name} %a, %n : {{0}}".replace("{m}", mask),
            (e, e),
            e,
            masked(shift(kind), width - 1),
            lanes=lanes,
        )
        for name, kind in (("shli", "left"), ("shrui", "unsigned"), ("shrsi", "signed"))
        for e, width in (("i64", 64), ("i32", 32), ("i16", 16), ("i8", 8))
        for lanes, mask in (
            ((1,), f"{width - 1} : {e}"),
            ((4,), f"dense<{width - 1}> : vector<4x{e}>"),
        )
    ),
    *(
        Case(
            f"%r = arith.cmpf {name}, %a, %b : {{0}}",
            (e, e),
            "i1",
            lambda a, b, name=name: predicate(name, a, b),
        )
        for e in FLOATS
        for name in (
            "false",
            "oeq",
            "ogt",
            "oge",
            "olt",
            "ole",
            "one",
            "ord",
            "ueq",
            "ugt",
            "uge",
            "ult",
            "ule",
            "une",
            "uno",
            "true",
        )
    ),
    *(
        Case(f"%r = arith.cmpi {name}, %a, %b : {{0}}", (e, e), "i1", integer_predicate(name))
        for e in (*INTEGERS, "i1")
        for name in ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
    ),
    *(
        Case(
            "%r = arith.select %a, %b, %c : {0}, {1}".replace("{0}, {1}", types),
            ("i1", e, e),
            e,
            np.where,
            lanes=lanes,
        )
        for e in (*FLOATS, *INTEGERS, "i1")
        for lanes, types in (((1, 4, 16), "{1}"),)
    ),
    *(
        Case(f"%r = arith.{name} %a, %b : {{0}}", ("i1", "i1"), "i1", reference)
        for name, reference in (
            ("andi", np.logical_and),
            ("ori", np.logical_or),
            ("xori", np.logical_xor),
        )
    ),
    *(
        Case(
            f"%r = arith.{name} %a : {{0}} to {{r}}", (source,), target, saturate(target, unsigned)
        )
        for name, unsigned in (("fptosi", False), ("fptoui", True))
        for source in FLOATS
        for target in INTEGERS
    ),
    *(
        Case(
            f"%r = arith.{name} %a : {{0}} to {{r}}",
            (source,),
            target,
            lambda a, unsigned=unsigned: a.view(f"u{a.dtype}") if unsigned else a,
        )
        for name, unsigned in (("sitofp", False), ("uitofp", True))
        for source in ("i32", "i16", "i8")
        for target in FLOATS
    ),
    *(
        Case("%r = arith.uitofp %a : {0} to {r}", ("i1",), e, lambda a: a.astype(float))
        for e in FLOATS
    ),
    *(
        Case("%r = arith.sitofp %a : {0} to {r}", ("i1",), e, lambda a: 0 - a.astype(float))
        for e in FLOATS
    ),
    *(
        Case("%r = arith.extf %a : {0} to {r}", (source,), target, lambda a: a)
        for source, target in (("f32", "f64"), ("f16", "f32"), ("bf16", "f32"), ("bf16", "f64"))
    ),
    *(
        Case("%r = arith.truncf %a : {0} to {r}", (source,), target, lambda a: a)
        for source, target in (("f64", "f32"), ("f32", "f16"), ("f32", "bf16"), ("f64", "f16"))
    ),
    *(
        Case(
            "%r = arith.trunci %a : {0} to {r}",
            (source,),
            target,
            lambda a, t=target: (a & 1).astype(bool) if t == "i1" else a.astype(DTYPES[t]),
        )
        for source, target in (
            ("i64", "i32"),
            ("i32", "i8"),
            ("i16", "i8"),
            ("i32", "i1"),
            ("i8", "i1"),
        )
    ),
    *(
        Case(
            "%r = arith.extsi %a : {0} to {r}",
            (source,),
            target,
            lambda a: -a.astype(np.int8) if a.dtype == np.bool_ else a,
        )
        for source, target in (
            ("i32", "i64"),
            ("i8", "i32"),
            ("i8", "i16"),
            ("i1", "i32"),
            ("i1", "i8"),
        )
    ),
    *(
        Case(
            "%r = arith.extui %a : {0} to {r}",
            (source,),
            target,
            lambda a: a.astype(np.int8) if a.dtype == np.bool_ else a.view(f"u{a.dtype}"),
        )
        for source, target in (
            ("i32", "i64"),
            ("i8", "i32"),
            ("i8", "i16"),
            ("i1", "i32"),
            ("i1", "i8"),
        )
    ),
    *(
        Case(
            "%r = arith.bitcast %a : {0} to {r}",
            (source,),
            target,
            lambda a, t=target: a.view(DTYPES[t]),
            low=-64,
            high=64,
        )
        for source, target in (
            ("f32", "i32"),
            ("i32", "f32"),
            ("f64", "i64"),
            ("f16", "i16"),
            ("bf16", "i16"),
            ("i16", "bf16"),
            ("i16", "f16"),
        )
    ),
    Case(
        "%n = arith.index_cast %a : {0} to index\n%r = arith.index_cast %n : index to {r}",
        ("i32",),
        "i64",
        lambda a: a,
        lanes=(1,),
    ),
    *(
        Case(
            "%c = arith.constant {m}\n%r = arith.maximumf %a, %c : {{0}}".replace(
                "{m}", text
            ).replace("{{0}}", "{0}"),
            (e,),
            e,
            lambda a: maximum(a, np.zeros_like(a)),
            lanes=(lanes,),
        )
        for e in FLOATS
        for lanes, text in ((1, f"0.0 : {e}"), (8, f"dense<0.0> : vector<8x{e}>"))
    ),
    *(
        Case(
            "%r = vector.fma %a, %b, %c : {0}",
            (e, e, e),
            e,
            fused,
            1,
            low=-64,
            high=64,
            lanes=(4, 16),
        )
        for e in FLOATS
    ),
]
