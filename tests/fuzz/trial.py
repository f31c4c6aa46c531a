"""Tries programs in their variants and says which went wrong.

In: programs, and a `Runner` or None. Out: `Finding`s. Each program is checked in these ways:

- the reference interpreter, in the declared types, lies inside the program's error bounds;
- its modules, optimised for devices real and described, do so when they are interpreted; with exact
  rules alone, to the bit where every operation is correctly rounded;
- on the device, one kernel an operation, exact rules, default rules and one more variant do so;
  with exact rules, and the same text of kernels' target, to the bit as one kernel an operation.

Most programs of a batch are compiled as one, with the same variants; where that fails, each alone
is. Of `fast` rules nothing is asked but that integers which no float decides are right. Of default
rules nothing is asked where the written program itself makes infinities or NaN.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.frontend.print_mgn import print_mgn
from mgn.frontend.program import parse
from mgn.runtime.errors import GuardError
from tests.fuzz.cases import Case, Counts, Finding, Group
from tests.fuzz.device import Job, Runner
from tests.fuzz.intervals import Array
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

ALONE = 0.1
"""The share of programs that are compiled each for itself."""

LOWERED = 0.2
"""The share of optimised modules whose kernels are written out."""

TEXTS = 0.2
"""The share of programs whose text is read again."""


class DeviceLost(Exception):
    """A launch failed: what runs after it in this process says nothing."""


class Trials:
    """Tries batches of programs: `modules` of each group are interpreted; a `share` of the groups
    runs on the device, compiled in so many `ways`.
    """

    def __init__(
        self,
        runner: Runner | None,
        modules: int = 1,
        ways: int = 2,
        share: float = 1.0,
    ) -> None:
        self.runner, self.modules, self.ways, self.share = runner, modules, ways, share
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

    def batch(
        self,
        programs: Sequence[tuple[str, Program]],
        seed: str = "",
        variants: Sequence[Variant] = (),
    ) -> list[Finding]:
        """What is wrong with programs, each given with its seed. Variants of those that are
        compiled as one are drawn by the batch's, where none are given.
        """
        findings: list[Finding] = []
        cases: list[Case] = []
        for own, program in programs:
            self.counts.drawn += 1
            case = Case(program, own)
            found = self._interpret(case)
            if found is None:
                cases.append(case)
                rng = random.Random(f"{own} text")
                found = self._texts(case, rng) if rng.random() < TEXTS else None
            findings += [] if found is None else [found]
        groups = _grouped(cases, seed)
        for group in groups:
            findings += self._optimised(group)
        if self.runner is not None:
            on_device = [group for group in groups if group.rng.random() < self.share]
            findings += self._on_device(self.runner, on_device, variants)
        self.counts.programs += sum(case.judged for case in cases)
        return findings

    def again(self, found: Finding, program: Program) -> Finding | None:
        """The same kind of finding in another program, where it has it too. ShapeError where that
        is no program.
        """
        program.build()
        case = Case(program)
        text = found.where == "text"
        first = self._texts(case, random.Random(0)) if text else self._interpret(case)
        if first is not None or found.variant is None:
            return first if first is not None and first.where == found.where else None
        group = Group([case], random.Random(0))
        what, between, device = found.where.partition(" for ")
        if between:
            again = self.module_findings(group, found.variant, device, what == "kernels")
        else:
            assert self.runner is not None
            again = self._on_device(self.runner, [group], _with_reference(found.variant))
        return next((item for item in again if item.where == found.where), None)

    # ---- texts and the interpreter

    def _texts(self, case: Case, rng: random.Random) -> Finding | None:
        """Whether a program's text, and another one of it, give its module again."""
        module = case.module
        try:
            text = print_mgn(module)
            for spelled in (text, respelled(text, rng)):
                if not module.is_structurally_equivalent(parse(spelled).lower()):
                    what = f"another module from\n{spelled}"
                    return Finding(case.program, None, "text", what, case.seed)
        except Exception as error:
            return Finding(case.program, None, "text", _told(error), case.seed)
        return None

    def _interpret(self, case: Case) -> Finding | None:
        try:
            wrong = case.evaluate()
        except Exception as error:
            wrong = _told(error)
        if wrong:
            return Finding(case.program, None, "interpreter", wrong, case.seed)
        case.count(self.counts)
        return None

    def _optimised(self, group: Group) -> list[Finding]:
        """Checks of optimised modules, which need no device."""
        for _ in range(self.modules):
            variant = self._described(group.rng)
            device = group.rng.choice(described_devices())
            lower = group.rng.random() < LOWERED
            findings = self.module_findings(group, variant, device.name, lower)
            if findings:
                return findings
        return []

    def _described(self, rng: random.Random) -> Variant:
        rules = rng.choices(("exact", "default", "fast"), (4, 11, 1))[0]
        precision = rng.choice(("f32", "f32", "f32", "tf32", "bf16", "f16"))
        figures = random_figures(rng, False) if rng.random() < 0.3 else ()
        if rules == "exact":
            precision = "f32"
        return Variant(rules=rules, precision=precision, figures=figures)

    def module_findings(
        self, group: Group, variant: Variant, device: str, lower: bool
    ) -> list[Finding]:
        """What is wrong with a module optimised for a described device, and its written kernels."""
        program = group.program
        self.counts.modules += 1
        (description,) = [item for item in described_devices() if item.name == device]
        try:
            module = variant.optimise(program, description, lower)
            got = Interpreter(program.parameters).run(next(graphs_of(module)), program.inputs)
            wrong = group.judge(variant, got)
        except Exception as error:
            wrong = _told(error)
        if not wrong:
            return []
        alone = [
            finding
            for part in group.alone()
            for finding in self.module_findings(part, variant, device, lower)
        ]
        where = f"{'kernels' if lower else 'module'} for {device}"
        return alone or [Finding(program, variant, where, wrong, group.seed)]

    # ---- the device

    def _on_device(
        self, runner: Runner, groups: Sequence[Group], variants: Sequence[Variant] = ()
    ) -> list[Finding]:
        findings: list[Finding] = []
        jobs: list[Job] = []
        for group in groups:
            for variant in variants or self.variants(group.rng):
                try:
                    job = self._compiled(runner, group, variant)
                except Exception as error:
                    findings += self._apart(runner, group, variant, "compilation", _told(error))
                    continue
                group.jobs.append((variant, job))
                jobs.append(job)
        runner.build(jobs)
        for group in groups:
            findings += self._ran(runner, group)
        return findings

    def _compiled(self, runner: Runner, group: Group, variant: Variant) -> Job:
        """Variants that differ by their targets alone are compiled once."""
        way = str(replace(variant, target="opencl"))
        if way not in group.compiled:
            module = group.program.build()
            group.compiled[way] = variant.compile(module, runner.description), module
        compiled, module = group.compiled[way]
        description = variant.described(runner.description)
        return runner.job(compiled, module, description, variant.target, variant.is_exact)

    def _ran(self, runner: Runner, group: Group) -> list[Finding]:
        program = group.program
        separate: dict[str, dict[str, Array]] = {}
        for variant, job in group.jobs:
            self.counts.runs += 1
            try:
                if job.error is not None:
                    raise job.error
                got = runner.run(job, program.inputs, program.parameters)
                wrong = group.judge(variant, got)
                if not wrong and variant.is_exact and not variant.figures:
                    wrong = group.other_bits(got, separate.setdefault(variant.target, got))
            except Exception as error:
                wrong = _told(error)
                if job.error is None and not isinstance(error, GuardError):
                    raise DeviceLost(f"{variant}: {wrong}") from error
            if wrong:
                return self._apart(runner, group, variant, "device", wrong)
        return []

    def _apart(
        self, runner: Runner, group: Group, variant: Variant, where: str, wrong: str
    ) -> list[Finding]:
        """What went wrong with programs that were compiled as one: with each alone, or with all."""
        alone = self._on_device(runner, group.alone(), _with_reference(variant))
        return alone or [Finding(group.program, variant, where, wrong, group.seed)]


def _grouped(cases: Sequence[Case], seed: str) -> list[Group]:
    """Some cases alone, the others as one; a case has the same variants when it is tried again."""
    groups: list[Group] = []
    joined: list[Case] = []
    for case in cases:
        rng = random.Random(f"{case.seed} variants")
        if rng.random() < ALONE:
            groups.append(Group([case], rng))
        else:
            joined.append(case)
    if joined:
        groups.append(Group(joined, random.Random(f"{seed} variants")))
    return groups


def _with_reference(variant: Variant) -> list[Variant]:
    """A variant, after the one that it is compared with to the bit, where there is one."""
    if variant.is_exact and not variant.figures:
        return [replace(SEPARATE, target=variant.target), variant]
    return [variant]


def _told(error: Exception) -> str:
    """An error in one line."""
    text = str(error).strip() or type(error).__name__
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}"
