"""Tries programs in their variants and says which went wrong.

In: programs, and a `Runner` or None. Out: `Finding`s. Each program is checked in these ways:

- the reference interpreter, in the declared types, lies inside the program's error bounds;
- its modules, optimised for devices real and described, do so when they are interpreted; with exact
  rules alone, to the bit where every operation is correctly rounded;
- on the device, one kernel an operation, exact rules, default rules and one more variant do so;
  with exact rules, and the same text of kernels' target, to the bit as one kernel an operation.

Of `fast` rules nothing is asked but that integers which no float decides are right. Of default
rules nothing is asked where the written program itself makes infinities or NaN.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.frontend.print_mgn import print_mgn
from mgn.frontend.program import parse
from mgn.runtime.errors import GuardError
from tests.fuzz.bounds import Bounds
from tests.fuzz.compare import other_bits, outside
from tests.fuzz.device import Job, Runner
from tests.fuzz.intervals import Array, Discrete, Values
from tests.fuzz.program import Program
from tests.fuzz.spelling import respelled
from tests.fuzz.variants import (
    FUSED,
    PLAIN,
    SEPARATE,
    Variant,
    described_devices,
    other_variant,
    random_figures,
)

CORRECTLY_ROUNDED = frozenset(
    (
        "neg", "abs", "sign", "floor", "ceil", "round", "round_tf32", "logical_not", "identity",
        "stop_gradient", "isnan", "add", "sub", "mul", "max", "min", "logical_and", "logical_or",
        "eq", "ne", "lt", "le", "gt", "ge", "where", "cast", "relu", "leaky_relu", "clamp",
        "max_reduce", "min_reduce", "argmax", "argmin", "gather", "embedding", "take_along_axis",
        "dynamic_slice", "tril", "triu", "one_hot", "reshape", "transpose", "broadcast_to", "slice",
        "concat", "pad", "flip", "iota", "full", "expand_dims", "squeeze", "flatten", "stack",
        "split", "tile", "repeat",
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


class DeviceLost(Exception):
    """A launch failed: what runs after it in this process says nothing."""


@dataclass
class Counts:
    """How much was tried."""

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
    """A program with what it may give, and the jobs of its variants."""

    program: Program
    rng: random.Random
    sets: dict[str, Values] = field(default_factory=dict[str, Values])
    declared: dict[str, Array] = field(default_factory=dict[str, Array])
    jobs: list[tuple[Variant, Job]] = field(default_factory=list[tuple[Variant, Job]])
    precise: dict[str, dict[str, Values]] = field(default_factory=dict[str, dict[str, Values]])

    @property
    def to_the_bit(self) -> bool:
        """Whether the interpreter's bits are the only right ones."""
        return self.program.names <= CORRECTLY_ROUNDED

    def sets_for(self, variant: Variant) -> dict[str, Values]:
        """What it may give where operands of products are rounded to a precision."""
        if variant.precision == "f32":
            return self.sets
        if variant.precision not in self.precise:
            bounds = Bounds(self.program.parameters, variant.precision)
            self.precise[variant.precision] = bounds.run(_graph(self.program), self.program.inputs)
        return self.precise[variant.precision]


class Trials:
    """Tries batches of programs; `choose` says in which variants each is run on the device."""

    def __init__(
        self,
        runner: Runner | None,
        modules: int = 1,
        ways: int = 2,
    ) -> None:
        self.runner, self.modules, self.ways = runner, modules, ways
        self.counts = Counts()

    def variants(self, rng: random.Random) -> Sequence[Variant]:
        """The variants of a program on the device, by so many ways to compile: by default rules;
        by exact rules, beside one kernel an operation; and one of the others.
        """
        assert self.runner is not None
        other = other_variant(rng, self.runner.description, self.runner.takes_spirv)
        others = [other]
        if other.is_exact and not other.figures:
            others = [replace(SEPARATE, target=other.target), other]
        ways = [[PLAIN], [PLAIN], [SEPARATE, FUSED], others]
        rng.shuffle(ways)
        chosen = dict.fromkeys(str(variant) for way in ways[: self.ways] for variant in way)
        known = {str(variant): variant for way in ways for variant in way}
        return [known[name] for name in chosen]

    def batch(self, programs: Sequence[tuple[str, Program]]) -> list[Finding]:
        """What is wrong with programs, each given with its seed."""
        findings: list[Finding] = []
        cases: list[Case] = []
        for seed, program in programs:
            self.counts.programs += 1
            case = Case(program, random.Random(f"{seed} variants"))
            found = self._interpret(case)
            if found is None:
                cases.append(case)
                found = self._texts(case) if case.rng.random() < 0.2 else None
                found = found or self._optimised(case)
            if found is not None:
                findings.append(_with_seed(found, seed))
        seeds = {id(program): seed for seed, program in programs}
        if self.runner is not None:
            for found in self._on_device(self.runner, cases):
                findings.append(_with_seed(found, seeds[id(found.program)]))
        return findings

    def again(self, found: Finding, program: Program) -> Finding | None:
        """The same kind of finding in another program, where it has it too. ShapeError where that
        is no program.
        """
        program.build()
        case = Case(program, random.Random(0))
        first = self._texts(case) if found.where == "text" else self._interpret(case)
        if first is not None or found.variant is None:
            return first if first is not None and first.where == found.where else None
        what, between, device = found.where.partition(" for ")
        if between:
            return self.module_finding(case, found.variant, device, what == "kernels")
        assert self.runner is not None
        variants = [found.variant]
        if found.variant.is_exact and not found.variant.figures:
            variants = [replace(SEPARATE, target=found.variant.target), found.variant]
        again = self._on_device(self.runner, [case], variants)
        return next((item for item in again if item.where == found.where), None)

    # ---- texts and the interpreter

    def _texts(self, case: Case) -> Finding | None:
        """Whether a program's text, and another one of it, give its module again."""
        module = case.program.build()
        try:
            text = print_mgn(module)
            for spelled in (text, respelled(text, case.rng)):
                if not module.is_structurally_equivalent(parse(spelled).lower()):
                    return Finding(case.program, None, "text", f"another module from\n{spelled}")
        except Exception as error:
            return Finding(case.program, None, "text", _told(error))
        return None

    def _interpret(self, case: Case) -> Finding | None:
        program = case.program
        try:
            graph = _graph(program)
            case.declared = Interpreter(program.parameters).run(graph, program.inputs)
            case.sets = Bounds(program.parameters).run(graph, program.inputs)
        except Exception as error:
            return Finding(program, None, "interpreter", _told(error))
        for values in case.sets.values():
            self.counts.elements += values.wild.size
            self.counts.claimed += _claimed(values)
        wrong = outside(case.declared, case.sets, finite=False)
        return Finding(program, None, "interpreter", wrong) if wrong else None

    def _optimised(self, case: Case) -> Finding | None:
        """Checks of optimised modules, which need no device."""
        for _ in range(self.modules):
            variant = self._described(case.rng)
            device = case.rng.choice(described_devices())
            lower = case.rng.random() < 0.3
            found = self.module_finding(case, variant, device.name, lower)
            if found is not None:
                return found
        return None

    def _described(self, rng: random.Random) -> Variant:
        rules = rng.choice(("exact", "default", "default", "fast"))
        precision = rng.choice(("f32", "f32", "f32", "tf32", "bf16", "f16"))
        figures = random_figures(rng, False) if rng.random() < 0.3 else ()
        if rules == "exact":
            precision = "f32"
        return Variant(rules=rules, precision=precision, figures=figures)

    def module_finding(
        self, case: Case, variant: Variant, device: str, lower: bool
    ) -> Finding | None:
        """What is wrong with a module optimised for a described device, and its written kernels."""
        program = case.program
        self.counts.modules += 1
        (description,) = [item for item in described_devices() if item.name == device]
        try:
            module = variant.optimise(program, description, lower)
            got = Interpreter(program.parameters).run(next(graphs_of(module)), program.inputs)
            wrong = self._judged(case, variant, got)
        except Exception as error:
            wrong = _told(error)
        where = f"{'kernels' if lower else 'module'} for {device}"
        return Finding(program, variant, where, wrong) if wrong else None

    # ---- the device

    def _on_device(
        self, runner: Runner, cases: Sequence[Case], variants: Sequence[Variant] = ()
    ) -> list[Finding]:
        findings: list[Finding] = []
        jobs: list[Job] = []
        for case in cases:
            for variant in variants or self.variants(case.rng):
                try:
                    job = self._compiled(runner, case.program, variant)
                except Exception as error:
                    findings.append(Finding(case.program, variant, "compilation", _told(error)))
                    continue
                case.jobs.append((variant, job))
                jobs.append(job)
        runner.build(jobs)
        for case in cases:
            findings += self._ran(runner, case)
        return findings

    def _compiled(self, runner: Runner, program: Program, variant: Variant) -> Job:
        module = program.build()
        compiled = variant.compile(module, runner.description)
        description = variant.described(runner.description)
        return runner.job(compiled, module, description, variant.target, variant.is_exact)

    def _ran(self, runner: Runner, case: Case) -> list[Finding]:
        program = case.program
        separate: dict[str, dict[str, Array]] = {}
        findings: list[Finding] = []
        for variant, job in case.jobs:
            self.counts.runs += 1
            try:
                if job.error is not None:
                    raise job.error
                got = runner.run(job, program.inputs, program.parameters)
                wrong = self._judged(case, variant, got)
                if not wrong and variant.is_exact:
                    wrong = self._bits(variant, got, separate)
            except Exception as error:
                wrong = _told(error)
                if job.error is None and not isinstance(error, GuardError):
                    raise DeviceLost(f"{variant}: {wrong}") from error
            if wrong:
                findings.append(Finding(program, variant, "device", wrong))
                break
        return findings

    def _judged(self, case: Case, variant: Variant, got: Mapping[str, Array]) -> str | None:
        if variant.rules == "fast":
            sets = {
                name: values
                for name, values in case.sets.items()
                if isinstance(values, Discrete) and not _has_floats(case.program)
            }
            return outside(got, sets, finite=True)
        wrong = outside(got, case.sets_for(variant), finite=not variant.is_exact)
        if not wrong and variant.is_exact and case.to_the_bit:
            wrong = other_bits(got, case.declared)
        return wrong

    def _bits(
        self, variant: Variant, got: dict[str, Array], separate: dict[str, dict[str, Array]]
    ) -> str | None:
        """Exact rules against one kernel an operation, which is run first."""
        if variant.figures:
            return None
        return other_bits(got, separate.setdefault(variant.target, got))


def _graph(program: Program) -> GraphOp:
    return next(graphs_of(program.build()))


def _claimed(values: Values) -> int:
    """How many elements are known well enough to find a fault: to a thousandth, or as integers."""
    if isinstance(values, Discrete):
        return int((~values.unsure & ~values.wild).sum())
    with np.errstate(invalid="ignore"):
        narrow = values.hi - values.lo <= 1e-3 * values.magnitude + 1e-30
    return int((narrow & ~values.wild).sum())


def _has_floats(program: Program) -> bool:
    """Whether any value of the program is a float, as far as its types say."""
    from mgn.dialects.types import element_of

    graph = _graph(program)
    values = [result for op in graph.block.ops for result in op.results]
    return any(element_of(value.type).is_float for value in (*graph.block.args, *values))


def _told(error: Exception) -> str:
    """An error in one line."""
    text = str(error).strip() or type(error).__name__
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}"


def _with_seed(found: Finding, seed: str) -> Finding:
    return replace(found, seed=seed)
