"""What kernels without a heavy operation and without windows have to do: most of all candidates.

In: a legal body of that kind, its leaves and one result. Out: its `BodyWork`: what it reads and
computes, and how often it evaluates each value. A kernel that writes more values which it evaluates
as often anyway reads and computes the same, so the body is gone over once for all of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.mgn.operations.elements.masks import PICK
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import BodyNode
from mgn.passes.saturate.prices.forms import IN_ROW_SPACE, ONE_A_ROW, Form, Place
from mgn.passes.saturate.prices.operation_figures import Figures, figures_of

GATHER_READ = 1.25
"""How much longer an element takes that indices choose."""

MOST_LANES = 16
"""The most lanes of a CPU's vectors, all of which one value of a row takes the time of."""

ROW_END = 19.0
"""Multiply-adds of a whole vector in whose time a CPU goes from one walk along a row to the next:
lanes are combined, and all that follows waits. Measured on an AMD EPYC (AVX-512), rows of 64 to
512.
"""

WAITING = 0.8
"""How much dearer a function is for each one that waits for it, up to what it takes in a chain: the
core sees less far into the next elements. Measured there, chains of up to 10 of exp, log, tanh,
sigmoid and gelu.
"""

LOADED = 4.0
"""Multiply-adds in whose time a GPU's compute unit loads an element from its cache. A unit of an
NVIDIA H200 loads for 32 work-items at a time, and multiplies for 128 (NVIDIA's H100 white paper).
"""

PLAIN = (KernelKind.POINTWISE, KernelKind.REDUCTION)
"""Kinds of kernels without a heavy operation."""


@dataclass(frozen=True, slots=True)
class RowWork:
    """What values of rows take besides on a CPU where rows run along the innermost axis: vectors
    for one element, and the seconds of all ends of rows; lanes are 1 where there are none.
    """

    along: bool
    lanes: float
    ends: float

    @staticmethod
    def of(form: Form, device: Device) -> "RowWork":
        reduces = form.kind in IN_ROW_SPACE
        if not (device.is_cpu and reduces and len(form.shape) - 1 in form.axes):
            return NO_ROWS
        lanes = float(min(device.lanes(4), MOST_LANES))
        return RowWork(True, lanes, 2.0 * ROW_END * lanes * form.rows / device.rate("f32"))


NO_ROWS = RowWork(False, 1.0, 0.0)
"""Where no rows run along the innermost axis."""


@dataclass(frozen=True, slots=True)
class BodyWork:
    """The bytes that a body reads, its seconds of computing, evaluations of each value, and the
    seconds beside both.
    """

    read: float
    seconds: float
    times: Mapping[int, float]
    beside: float = 0.0

    def evaluates(self, name: int, signature: Signature, form: Form) -> bool:
        """Whether it evaluates a value as often as to write it."""
        return self.times.get(name, -1.0) >= space_of(signature, form.places[name], form)


def plain_work(
    body: Sequence[BodyNode],
    form: Form,
    results: Sequence[int],
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
) -> BodyWork | None:
    """What a body of a plain kind takes that writes `results`; None where it has windows."""
    own, reduces, places = id(device), form.kind is KernelKind.REDUCTION, form.places
    times: dict[int, float] = {}
    for name, number, _ in body:
        if name in results:
            times[name] = float(space_of(signatures[number], places[name], form))
    rows = float(form.rows) if reduces else math.inf
    walk = RowWork.of(form, device)
    leaves: dict[int, tuple[int, int]] = {}
    strided: dict[int, float] = {}
    scattered: set[int] = set()
    waiting: dict[int, int] = {}
    longest = max(1.0 / device.function_share, 1.0)
    seconds = 0.0
    for name, number, operands in reversed(body):
        signature = signatures[number]
        figures: Figures = signature.figures.get(own) or figures_of(signature, device)
        if figures.slides:
            return None
        evaluations = times.get(name, 0.0)
        if figures.steps is not None:
            seconds += figures.steps + walk.ends
        else:
            taken = evaluations * figures.element
            behind = waiting.get(name)
            if behind is not None:
                taken *= min(1.0 + WAITING * behind, longest)
            if walk.along and places[name] in ONE_A_ROW:
                taken *= walk.lanes
            seconds += taken
            if figures.function or behind is not None:
                behind = (behind or 0) + figures.function
                for operand in operands:
                    waiting[operand] = max(behind, waiting.get(operand, 0))
        factor = figures.strided[reduces]
        if strided:
            factor = max(factor, strided.get(name, 1.0))
        if figures.scatters:
            scattered.add(operands[0])
        demands = figures.demands
        if demands is None and not figures.alike:
            demands = demands_of(signature, evaluations, form)
        for place, operand in enumerate(operands):
            demand = evaluations if demands is None else demands[place]
            if demand > rows and places.get(operand) in ONE_A_ROW:
                demand = rows
            if demand > times.get(operand, -1.0):
                times[operand] = demand
            if factor > 1.0:
                strided[operand] = max(factor, strided.get(operand, 1.0))
            if operand in leaf_types:
                leaves[operand] = figures.operands[place]
    if reduces and not device.is_cpu:
        seconds = max(seconds, seconds_to_read_again(leaves, times, device))
    return BodyWork(bytes_read(leaves, times, strided, scattered), seconds, times)


def seconds_to_read_again(
    leaves: Mapping[int, tuple[int, int]], times: Mapping[int, float], device: Device
) -> float:
    """Seconds in which a GPU's compute units load the elements of leaves that are read more than
    once, as those of a sum of broadcast factors. Memory gives each of them once.
    """
    loads = sum([times[leaf] for leaf, (count, _) in leaves.items() if times[leaf] > count])
    return loads * LOADED * 2.0 / device.rate("f32")


def bytes_read(
    leaves: Mapping[int, tuple[int, int]],
    times: Mapping[int, float],
    strided: Mapping[int, float],
    scattered: set[int],
) -> float:
    """The bytes of leaves, given as elements and bytes of each: at most as many as are asked for,
    and so many more as it takes longer to read what is strided, or chosen by indices.
    """
    read = 0.0
    for leaf, (count, element_bytes) in leaves.items():
        factor = max(strided.get(leaf, 1.0), GATHER_READ if leaf in scattered else 1.0)
        read += min(times[leaf], count) * element_bytes * (factor if count > 1 else 1.0)
    return read


def space_of(signature: Signature, place: Place, form: Form) -> int:
    """How often a kernel evaluates a value to write it."""
    if form.kind in IN_ROW_SPACE and place in ONE_A_ROW:
        return form.rows
    return signature.size


def demands_of(signature: Signature, evaluations: float, form: Form) -> Sequence[float]:
    """How many times each operand is asked for an element, where that depends on the kernel."""
    sizes = signature.operand_sizes
    if signature.name in ("concat", "pad"):
        return [min(evaluations, float(size)) for size in sizes]
    if signature.name == PICK:
        condition, picked, _ = [
            evaluations if size > 1 else min(evaluations, 1.0) for size in sizes
        ]
        return [condition, picked, 0.0]
    if form.kind in IN_ROW_SPACE and signature.kind is Kind.ELEMENTWISE:
        return [evaluations if size > 1 else 1.0 for size in sizes]
    return [evaluations if size > 1 else min(evaluations, 1.0) for size in sizes]
