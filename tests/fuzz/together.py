"""Several programs as one: the disjoint parts of one graph, which is compiled once.

In: programs. Out: one program, in which their values have other numbers and whose outputs are
theirs, one program's after the other's; and the parts into which a program falls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from tests.fuzz.intervals import Array
from tests.fuzz.program import Operand, Program


def together(programs: Sequence[Program]) -> Program:
    """Programs side by side in one graph; one alone is itself."""
    if len(programs) == 1:
        return programs[0]
    sizes = [_end(program) for program in programs]
    shifted = list(map(_shifted, programs, accumulate(sizes, initial=0)))
    return Program(
        tuple(leaf for program in shifted for leaf in program.leaves),
        tuple(step for program in shifted for step in program.steps),
        tuple(number for program in shifted for number in program.outputs),
    )


def taken_apart(
    programs: Sequence[Program], results: Mapping[str, Array]
) -> list[dict[str, Array]]:
    """The results of each of the programs, by its own names, from those of all together."""
    firsts = accumulate((len(program.outputs) for program in programs), initial=0)
    return [
        {f"y{n}": results[f"y{first + n}"] for n in range(len(program.outputs))}
        for first, program in zip(firsts, programs, strict=False)
    ]


def outputs_of_parts(program: Program) -> list[tuple[int, ...]]:
    """The outputs of each part of a program that has no value in common with the others."""
    parts: list[set[int]] = []
    groups = [{*step.numbers, *step.reads} for step in program.steps]
    for group in [*groups, *({number} for number in program.outputs)]:
        met = [part for part in parts if part & group]
        parts = [part for part in parts if not part & group]
        parts.append(group.union(*met))
    outputs = [tuple(number for number in program.outputs if number in part) for part in parts]
    return [kept for kept in outputs if kept]


def _end(program: Program) -> int:
    numbers = [leaf.number for leaf in program.leaves]
    numbers += [number for step in program.steps for number in step.numbers]
    return max(numbers, default=-1) + 1


def _shifted(program: Program, first: int) -> Program:
    """The same with other numbers of its values: each is so much higher."""

    def of(operand: Operand) -> Operand:
        if isinstance(operand, tuple):
            return tuple(number + first for number in operand)
        return operand if isinstance(operand, float) else operand + first

    leaves = tuple(replace(leaf, number=leaf.number + first) for leaf in program.leaves)
    steps = tuple(
        replace(
            step,
            numbers=tuple(number + first for number in step.numbers),
            operands=tuple(map(of, step.operands)),
        )
        for step in program.steps
    )
    return Program(leaves, steps, tuple(number + first for number in program.outputs))
