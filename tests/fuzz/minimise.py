"""Cuts a program down to what a finding needs.

In: a finding, and how to try a program again. Out: the finding in a smaller program: fewer results,
steps and axes, smaller sizes, simpler values, fewer differences of the variant.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from tests.fuzz.cases import Finding
from tests.fuzz.program import Leaf, Operand, Program, Step
from tests.fuzz.together import outputs_of_parts
from tests.fuzz.trial import DeviceLost
from tests.fuzz.variants import PLAIN, Variant

Try = Callable[[Finding, Program], Finding | None]


def minimise(found: Finding, again: Try, seconds: float = 60.0) -> Finding:
    """The finding in the smallest program that was come by in this time, or before the device was
    lost to one.
    """
    end = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for change in (simpler_variants, smaller_programs):
            for candidate in change(found):
                if time.monotonic() > end:
                    return found
                try:
                    smaller = _tried(candidate, again)
                except DeviceLost:
                    return found
                if smaller is not None:
                    found, progress = replace(smaller, seed=found.seed), True
                    break
    return found


def _tried(candidate: Finding, again: Try) -> Finding | None:
    try:
        found = again(candidate, candidate.program)
    except DeviceLost:
        raise
    except Exception:  # a change that does not fit the program: no candidate
        return None
    return found if found is not None and _kind(found) == _kind(candidate) else None


def _kind(found: Finding) -> str:
    """The name of the error, where there was one."""
    name = found.what.partition(": ")[0]
    return name if name.isidentifier() else ""


def simpler_variants(found: Finding) -> Iterator[Finding]:
    """The finding's variant with one difference from the plain one fewer."""
    variant = found.variant
    if variant is None:
        return
    simpler: list[Variant] = [
        replace(variant, **{name: getattr(PLAIN, name)})
        for name in ("precision", "prepare", "target")
        if getattr(variant, name) != getattr(PLAIN, name)
    ]
    simpler += [
        replace(variant, figures=tuple(item for item in variant.figures if item is not left_out))
        for left_out in variant.figures
    ]
    for one in simpler:
        yield replace(found, variant=one)


def smaller_programs(found: Finding) -> Iterator[Finding]:
    """The finding with a program that is a little smaller, the largest cuts first."""
    program = found.program
    for made in (
        *_fewer_parts(program),
        *_fewer_results(program),
        *_cut_off(program),
        *_bypassed(program),
        *_smaller_sizes(program),
        *_simpler_values(program),
    ):
        yield replace(found, program=made.live())


def _fewer_parts(program: Program) -> Iterator[Program]:
    """One half of the programs that are compiled as one, or all but one of them."""
    parts = outputs_of_parts(program)
    half = len(parts) // 2
    halves = [parts[:half], parts[half:]] if half else []
    for kept in (*halves, *([p for p in parts if p is not one] for one in parts if half > 1)):
        yield replace(program, outputs=tuple(number for part in kept for number in part))


def _fewer_results(program: Program) -> Iterator[Program]:
    for number in program.outputs:
        if len(program.outputs) > 1:
            yield replace(program, outputs=(number,))


def _cut_off(program: Program) -> Iterator[Program]:
    """A step's operands as results, or a step's result as an input that has its value."""
    last = program.steps[-1:] if len(program.steps) > 1 else ()
    for step in last:
        kept = tuple(number for number in step.reads if _is_made(program, number))
        if kept and len(program.outputs) == 1:
            yield replace(program, outputs=kept[:1])
    values = _values_of(program)
    for step in program.steps[:-1]:
        leaves = [Leaf(number, "input", values[number]) for number in step.numbers]
        steps = tuple(item for item in program.steps if item is not step)
        yield replace(program, leaves=(*program.leaves, *leaves), steps=steps)


def _is_made(program: Program, number: int) -> bool:
    return any(number in step.numbers for step in program.steps)


def _values_of(program: Program) -> dict[int, np.ndarray]:
    """Every value of a program, by the interpreter."""
    numbers = tuple(number for step in program.steps for number in step.numbers)
    whole = replace(program, outputs=numbers)
    graph = next(graphs_of(whole.build()))
    results = Interpreter(program.parameters).run(graph, program.inputs)
    return dict(zip(numbers, results.values(), strict=True))


def _bypassed(program: Program) -> Iterator[Program]:
    """One of a step's operands in the place of its result."""
    for step in program.steps:
        for operand in dict.fromkeys(step.reads):
            if len(step.numbers) == 1:
                yield _renamed(program, step, step.numbers[0], operand)


def _renamed(program: Program, gone: Step, old: int, new: int) -> Program:
    def of(operand: Operand) -> Operand:
        if isinstance(operand, tuple):
            return tuple(new if number == old else number for number in operand)
        return new if not isinstance(operand, float) and operand == old else operand

    steps = tuple(
        replace(step, operands=tuple(map(of, step.operands)))
        for step in program.steps
        if step is not gone
    )
    outputs = tuple(new if number == old else number for number in program.outputs)
    return replace(program, steps=steps, outputs=outputs)


def _smaller_sizes(program: Program) -> Iterator[Program]:
    """All axes of one size made shorter, in leaves and in attributes."""
    sizes = {size for leaf in program.leaves for size in leaf.array.shape if size > 1}
    for size in sorted(sizes, reverse=True):
        for shorter in dict.fromkeys((1, 2, size // 2, size - 1)):
            if 0 < shorter < size:
                yield _resized(program, size, shorter)
    for leaf in program.leaves:
        for axis, size in enumerate(leaf.array.shape):
            if size > 1:
                part = np.take(leaf.array, range(size // 2), axis=axis)
                yield _with_array(program, leaf, part)


def _resized(program: Program, size: int, shorter: int) -> Program:
    def cut(array: np.ndarray) -> np.ndarray:
        return array[tuple(slice(shorter if n == size else n) for n in array.shape)].copy()

    def number(value: Any) -> Any:
        if isinstance(value, list):
            return [number(item) for item in value]
        return shorter if value == size and isinstance(value, int) else value

    leaves = tuple(replace(leaf, array=cut(leaf.array)) for leaf in program.leaves)
    steps = tuple(
        replace(step, attributes=tuple((name, number(value)) for name, value in step.attributes))
        for step in program.steps
    )
    return replace(program, leaves=leaves, steps=steps)


def _simpler_values(program: Program) -> Iterator[Program]:
    for leaf in program.leaves:
        if leaf.kind != "input":
            yield _with_leaf(program, leaf, replace(leaf, kind="input"))
        array = leaf.array
        if array.dtype.kind == "b" or not array.size:
            continue
        first = np.full_like(array, array.reshape(-1)[0])
        with np.errstate(all="ignore"):
            simple = array if array.dtype.kind in "iu" else np.round(array.astype(np.float64))
        for made in (np.zeros_like(array), np.ones_like(array), first, simple.astype(array.dtype)):
            if made.tobytes() != array.tobytes() and not _is_simple(array):
                yield _with_array(program, leaf, made)


def _is_simple(array: np.ndarray) -> bool:
    """Whether all elements are one small whole number, so that the cutting comes to an end."""
    wide = array.astype(np.float64)
    return bool((wide == wide.reshape(-1)[0]).all() and abs(wide.reshape(-1)[0]) in (0.0, 1.0))


def _with_array(program: Program, leaf: Leaf, array: np.ndarray) -> Program:
    return _with_leaf(program, leaf, replace(leaf, array=array))


def _with_leaf(program: Program, old: Leaf, new: Leaf) -> Program:
    return replace(program, leaves=tuple(new if leaf is old else leaf for leaf in program.leaves))
