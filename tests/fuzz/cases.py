"""Programs with what they may give, alone and in groups that are compiled as one.

In: programs and generators. Out: `Case`s, which hold a program's sets of values, and `Group`s of
them, with one program for all; `Finding`s and `Counts`.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, graphs_of
from mgn.dialects.types import element_of
from mgn.driver.compilation import Compiled
from tests.fuzz.bounds import Bounds
from tests.fuzz.compare import other_bits, outside
from tests.fuzz.device import Job
from tests.fuzz.intervals import Array, Discrete, Values
from tests.fuzz.program import Program
from tests.fuzz.together import taken_apart, together
from tests.fuzz.variants import Variant

CORRECTLY_ROUNDED = frozenset(
    (
        "neg", "abs", "sign", "floor", "ceil", "round", "round_tf32", "logical_not", "identity",
        "stop_gradient", "isnan", "add", "sub", "mul", "max", "min", "logical_and", "logical_or",
        "eq", "ne", "lt", "le", "gt", "ge", "where", "cast", "relu", "leaky_relu", "clamp",
        "max_reduce", "min_reduce", "argmax", "argmin", "gather", "embedding", "take_along_axis",
        "dynamic_slice", "tril", "triu", "one_hot", "reshape", "transpose", "broadcast_to", "slice",
        "concat", "pad", "flip", "iota", "full", "expand_dims", "squeeze", "flatten", "stack",
        "split", "tile", "repeat", "dynamic_update_slice", "scatter", "sort", "argsort", "topk",
        "sort_runs", "sort_digits", "digit_counts", "place_digits",
    )
)  # fmt: skip
"""Operations whose results have the same bits on every device and in the interpreter."""


@dataclass(frozen=True)
class Finding:
    """What went wrong with a program, in which variant, and how it was run."""

    program: Program
    variant: Variant | None
    where: str
    what: str
    seed: str = ""


@dataclass
class Counts:
    """How much was tried. `programs` are those whose results were asked for something in at least
    one optimised module or run on the device.
    """

    drawn: int = 0
    programs: int = 0
    modules: int = 0
    runs: int = 0
    elements: int = 0
    claimed: int = 0

    def add(self, other: "Counts") -> None:
        """Adds what another process tried."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class Case:
    """A program with what it may give."""

    program: Program
    seed: str = ""
    declared: dict[str, Array] = field(default_factory=dict[str, Array])
    precise: dict[str, dict[str, Values]] = field(default_factory=dict[str, dict[str, Values]])
    judged: bool = False

    @cached_property
    def module(self) -> ModuleOp:
        """The program as it is written."""
        return self.program.build()

    @property
    def graph(self) -> GraphOp:
        """The graph of `module`."""
        return next(graphs_of(self.module))

    def evaluate(self) -> str | None:
        """Runs the program as it is written; what is wrong with that."""
        self.declared = Interpreter(self.program.parameters).run(self.graph, self.program.inputs)
        return outside(self.declared, self.sets_for("f32"), finite=False)

    @property
    def to_the_bit(self) -> bool:
        """Whether the interpreter's bits are the only right ones."""
        return self.program.names <= CORRECTLY_ROUNDED

    @cached_property
    def folds_functions(self) -> bool:
        """Whether a driver's compiler may compute a function itself, since an operand of it is
        made of constants: with other bits than the device where it reads that operand.
        """
        constants: set[SSAValue] = set()
        for op in self.graph.block.ops:
            known = [operand in constants for operand in op.operands]
            if isinstance(op, TensorOp) and op.spec.name not in CORRECTLY_ROUNDED and any(known):
                return True
            if isinstance(op, ConstantOp | TensorOp) and all(known):
                constants.update(op.results)
        return False

    @cached_property
    def has_floats(self) -> bool:
        """Whether any value of the program is a float, as far as its types say."""
        block = self.graph.block
        values = [result for op in block.ops for result in op.results]
        return any(element_of(value.type).is_float for value in (*block.args, *values))

    def sets_for(self, precision: str) -> dict[str, Values]:
        """What it may give where operands of products are rounded to a precision."""
        if precision not in self.precise:
            bounds = Bounds(self.program.parameters, precision)
            self.precise[precision] = bounds.run(self.graph, self.program.inputs)
        return self.precise[precision]

    def judge(self, variant: Variant, got: Mapping[str, Array]) -> str | None:
        """What is wrong with results of a variant."""
        if variant.rules == "fast":
            sets = {
                name: values
                for name, values in self.sets_for("f32").items()
                if isinstance(values, Discrete) and not self.has_floats
            }
            self.judged |= bool(sets)
            return outside(got, sets, finite=True)
        self.judged = True
        wrong = outside(got, self.sets_for(variant.precision), finite=not variant.is_exact)
        if not wrong and variant.is_exact and self.to_the_bit:
            wrong = other_bits(got, self.declared)
        return wrong

    def count(self, counts: Counts) -> None:
        """Counts the elements of the results, and those known well enough to find a fault."""
        for values in self.sets_for("f32").values():
            counts.elements += values.wild.size
            counts.claimed += _claimed(values)


@dataclass
class Group:
    """Cases that are compiled as one program, and the jobs of its variants. `compiled` has plans
    and modules by the words of a variant for OpenCL C.
    """

    cases: list[Case]
    rng: random.Random
    jobs: list[tuple[Variant, Job]] = field(default_factory=list[tuple[Variant, Job]])
    compiled: dict[str, tuple[Compiled, ModuleOp]] = field(
        default_factory=dict[str, tuple[Compiled, ModuleOp]]
    )

    @cached_property
    def program(self) -> Program:
        """The programs side by side."""
        return together([case.program for case in self.cases])

    @property
    def seed(self) -> str:
        """The seeds of the programs, of which all but the first are numbers."""
        first, *_, last = (self.cases[0].seed, "", self.cases[-1].seed)
        return first if first == last else f"{first}-{last.partition(':')[2]}"

    def judge(self, variant: Variant, got: Mapping[str, Array]) -> str | None:
        """What is wrong with the results of one of the programs."""
        results = taken_apart([case.program for case in self.cases], got)
        told = (case.judge(variant, part) for case, part in zip(self.cases, results, strict=True))
        return next((wrong for wrong in told if wrong), None)

    def other_bits(self, got: Mapping[str, Array], wanted: Mapping[str, Array]) -> str | None:
        """The first result whose bits are not those of another variant on the same device."""
        programs = [case.program for case in self.cases]
        pairs = zip(taken_apart(programs, got), taken_apart(programs, wanted), strict=True)
        told = (
            other_bits(*pair)
            for case, pair in zip(self.cases, pairs, strict=True)
            if not case.folds_functions
        )
        return next((wrong for wrong in told if wrong), None)

    def alone(self) -> list["Group"]:
        """Each case in a group of its own; none where it is already."""
        if len(self.cases) == 1:
            return []
        return [Group([case], random.Random(0)) for case in self.cases]


def _claimed(values: Values) -> int:
    """How many elements are known well enough to find a fault: to a thousandth, or as integers."""
    if isinstance(values, Discrete):
        return int((~values.unsure & ~values.wild).sum())
    with np.errstate(invalid="ignore"):
        narrow = values.hi - values.lo <= 1e-3 * values.magnitude + 1e-30
    return int((narrow & ~values.wild).sum())
