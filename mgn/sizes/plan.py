"""Which program runs which size of a dimension.

In: a graph with a dimension that has a range, and what a size's program costs. Out: `SizePlan`: the
sizes that programs are compiled for, and for each size of a run a `Way`: the program, what it is
told, and the shapes; or why the size has a program of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType

from mgn.codegen.launch_plan import BufferKind, BufferPlan
from mgn.diagnostics import MgnError
from mgn.dialects.mgn.states import states_of
from mgn.dialects.mgn.structure import GraphOp, graphs_of, parameters_of
from mgn.dialects.shapes import Shape
from mgn.dialects.types import element_of
from mgn.driver.report import seconds_text
from mgn.runtime.errors import InputError
from mgn.runtime.host_arrays import shown
from mgn.sizes.choose import anchors, choose, price_line
from mgn.sizes.compare import Site, compare
from mgn.sizes.lengthen import Told, told_of
from mgn.sizes.ranges import Sizes

if TYPE_CHECKING:
    from mgn.program_cache.references import Reference

Lower = Callable[[int], ModuleOp]
"""A fresh module of the graph for a size."""

Pricer = Callable[[ModuleOp], float]
"""The modelled seconds of a run of a module of one graph, which is used up."""

MOST_REASONS = 8
"""Sizes with a program of their own that a report explains."""


@dataclass(frozen=True)
class Way:
    """How a size runs: in the program for `bucket`, told this; or with none in one of its own, and
    why. The shapes are those of the inputs and results at the size.
    """

    bucket: int | None
    told: Mapping[str, np.ndarray]
    inputs: Sequence[BufferPlan]
    outputs: Mapping[str, Shape]
    problem: str | None = None


@dataclass
class SizePlan:
    """The sizes of a dimension, and the programs that run them.

    `buckets` are the sizes that programs are compiled for; none where results depend on padding at
    all sizes, for which `problem` has the reason. `prices` are the modelled seconds that they were
    chosen by, at some sizes; `searched` is the graph at the `reference`, once it was asked for.
    """

    dimension: str
    sizes: Sizes
    lower: Lower
    axes: Mapping[str, int]
    told: tuple[Told, ...] = ()
    buckets: tuple[int, ...] = ()
    prices: Mapping[int, float] = field(default_factory=dict[int, float])
    problem: str | None = None
    searched: "Reference | None" = None
    _graphs: dict[int, GraphOp] = field(default_factory=dict[int, GraphOp], repr=False)
    _ways: dict[int, Way] = field(default_factory=dict[int, Way], repr=False)

    @property
    def first(self) -> int:
        """The size whose program is compiled at once: for the run that is expected first, or the
        least.
        """
        wanted = self.sizes.first
        if wanted is None:
            return self.buckets[0] if self.buckets else self.sizes.values[0]
        bucket = self.way(wanted).bucket
        return wanted if bucket is None else bucket

    @property
    def reference(self) -> int | None:
        """The bucket by whose operations the others are searched: the middle one, whichever is
        compiled first. None where there are no buckets.
        """
        return self.buckets[len(self.buckets) // 2] if self.buckets else None

    @property
    def told_names(self) -> frozenset[str]:
        """The inputs of the programs that callers do not give."""
        return frozenset(item.name for item in self.told)

    def size_of(self, shapes: Mapping[str, Sequence[int]]) -> int:
        """The size that the inputs of a run have. InputError where it is none of the range, or they
        do not agree.
        """
        found: dict[str, int] = {}
        for name, axis in self.axes.items():
            if name in shapes and axis < len(shapes[name]):
                found[name] = shapes[name][axis]
        if not found:
            (name, *_) = self.axes
            raise InputError(f"input {shown(name)} is missing, or has too few axes")
        (first, size), *others = found.items()
        for name, other in others:
            if other != size:
                raise InputError(
                    f"inputs {shown(first)} and {shown(name)} disagree on {self.dimension}: "
                    f"{size} and {other}"
                )
        if size not in self.sizes.values:
            raise InputError(
                f"input {shown(first)} has {self.dimension} = {size}, and the program was compiled "
                f"for {self.dimension} = {self.sizes.text}: compile it for a range with {size}"
            )
        return size

    def way(self, size: int) -> Way:
        """How a size runs."""
        if size not in self._ways:
            self._ways[size] = self._way(size)
        return self._ways[size]

    def _way(self, size: int) -> Way:
        graph = _graph(self.lower, size)
        inputs = [
            BufferPlan(BufferKind.INPUT, name, element_of(value.type).name, _shape(value.type))
            for name, value in graph.named_inputs
        ]
        outputs = {name: _shape(value.type) for name, value in graph.named_results}
        own = Way(None, {}, inputs, outputs, self.problem)
        bucket = next((item for item in self.buckets if item >= size), None)
        if bucket is None:
            return own
        if bucket not in self._graphs:
            self._graphs[bucket] = _graph(self.lower, bucket)
        problem = self._problem(self._graphs[bucket], graph)
        if problem is not None:
            return replace(own, problem=problem)
        told = {item.name: item.given(self._graphs[bucket], graph) for item in self.told}
        return Way(bucket, told, inputs, outputs)

    def is_like(self, largest: GraphOp, size: int) -> bool:
        """Whether the program for a size is told what that for the largest is told."""
        return self._problem(largest, _graph(self.lower, size)) is None

    def _problem(self, long: GraphOp, short: GraphOp) -> str | None:
        """Why the program for a longer size, which is told of the size, does not do for a shorter;
        None where it does.
        """
        found = compare(long, short)
        if found.problem is not None:
            return found.problem
        known = found.sites <= frozenset(site for item in self.told for site in item.sites)
        if not known or any(item.value(short) is None for item in self.told):
            return "the program differs otherwise than at other sizes"
        return None

    def __str__(self) -> str:
        """The programs, what they were chosen by, and the sizes that have their own."""
        name, lines = self.dimension, list[str]()
        if self.buckets:
            listed = ", ".join(map(str, self.buckets))
            lines.append(f"{name} = {self.sizes.text} in programs for {name} = {listed}")
            seconds = price_line(self.buckets, self.prices)
            prices = ", ".join(
                f"{seconds_text(price)} at {size}"
                for size, price in zip(self.buckets, seconds, strict=True)
            )
            lines.append(
                f"  modelled {prices}; chosen for sizes that are as likely in each factor of two"
            )
        else:
            lines.append(f"{name} = {self.sizes.text}, each size in a program of its own")
            lines.append(f"  since padding would count: {self.problem}")
        own = {size: way for size, way in self._ways.items() if way.bucket is None}
        if self.buckets:
            lines += [
                f"  {name} = {size} in a program of its own: {own[size].problem}"
                for size in sorted(own)[:MOST_REASONS]
            ]
        return "\n".join(lines)


def plan_sizes(lower: Lower, dimension: str, sizes: Sizes, most: int, price: Pricer) -> SizePlan:
    """The plan for a graph, whose other dimensions are bound. MgnError where no input has the
    dimension among its sizes.
    """
    values = sizes.values
    largest = _graph(lower, values[-1])
    some = {values[0], values[len(values) // 2]}
    probes = {size: _graph(lower, size) for size in some}
    for graph in probes.values():
        _check_held(dimension, largest, graph)
    axes = _axes(dimension, values[-1], largest, probes)
    plan = SizePlan(dimension, sizes, lower, axes)
    found = {size: compare(largest, graph) for size, graph in probes.items()}
    alike = [size for size, item in found.items() if item.problem is None]
    if not alike:
        plan.problem = found[max(found)].problem
        return plan
    told_sites = frozenset[Site]().union(*[found[size].sites for size in alike])
    plan.told = told_of(dimension, told_sites, [largest, *[probes[size] for size in alike]])
    plan.prices = {size: price(lower(size)) for size in anchors(values)}
    kept = [size for size in values if size not in probes or size in alike]
    chosen = choose(kept, plan.prices, most)
    plan.buckets = tuple(
        size for size in chosen if size == values[-1] or plan.is_like(largest, size)
    )
    return plan


def _axes(
    dimension: str, size: int, largest: GraphOp, probes: Mapping[int, GraphOp]
) -> dict[str, int]:
    """For each input that has the dimension as a size, the first axis that is that one."""
    shapes = {size: largest, **probes}
    found: dict[str, int] = {}
    for number, (name, value) in enumerate(largest.named_inputs):
        for axis in range(len(_shape(value.type))):
            others = {at: _shape(graph.block.args[number].type) for at, graph in shapes.items()}
            if all(len(shape) > axis and shape[axis] == at for at, shape in others.items()):
                found[name] = axis
                break
    if not found:
        raise MgnError(
            f"no input of graph '{largest.sym_name.data}' has '{dimension}' as the size of an "
            "axis, so a run does not say it: give the dimension one size"
        )
    return found


def _check_held(dimension: str, long: GraphOp, short: GraphOp) -> None:
    """MgnError where a parameter or a state has the dimension in its shape: all sizes share it."""
    for kind, held_by in (("parameter", parameters_of), ("state", states_of)):
        shorter = held_by(_module_of(short))
        for name, held in held_by(_module_of(long)).items():
            if name in shorter and shorter[name].type != held.type:
                raise MgnError(
                    f"{kind} {shown(name)} has another shape at other sizes of '{dimension}', and "
                    "all sizes share it: give the dimension one size"
                )


def _module_of(graph: GraphOp) -> ModuleOp:
    module = graph.parent_op()
    assert isinstance(module, ModuleOp)
    return module


def _graph(lower: Lower, size: int) -> GraphOp:
    """The graph for a size. It stays in its module, which declares what it reads."""
    return next(graphs_of(lower(size)))


def _shape(type: object) -> Shape:
    assert isinstance(type, TensorType)
    return tuple(type.get_shape())
