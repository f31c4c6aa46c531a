"""Every kernel of a small graph, and the least that a choice of them costs: what the candidates and
the extraction of `saturate` are compared with.

In: a view of elementwise operations, movement and reductions, and a device. Out: kernels, and
seconds. Only what is no kernel is left out, and what reads no value in common. Nothing of the way
in which `saturate` finds candidates is used: no cuts, no ranks, no limits.

`python -m tests.passes.saturate.candidates.exhaustive_kernels --operations 12 --seeds 0 40`
compares choices at length.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

from xdsl.ir import SSAValue

from benchmarks.graphs.small_graphs import BINARY, UNARY, broadcasts, shape_of, small_graph
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.saturate import RuleClass, SaturateOptions, saturate_graph
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies, body_order, leaves_of
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.report import PROVED
from mgn.passes.saturate.prices.bodies import Body, BodyNode
from mgn.passes.saturate.prices.prices import price_per_run
from mgn.passes.saturate.saturate import saturated_view
from tests.passes.saturate.saturate_programs import build_graph, f32

MOST = 60_000
"""Bodies above which a graph is not enumerated."""


FEW_RULES = frozenset({RuleClass.FAST})
"""So that an enumeration has the program's operations and little else."""

BY_ITSELF = SaturateOptions(classes=FEW_RULES)
AT_LENGTH = SaturateOptions(
    classes=FEW_RULES,
    extract_budget=60.0,
    limits=CutLimits(whole=True, kernels=1_000_000, likely=250_000),
)
"""Limits that graphs of twelve operations do not reach."""


class TooMany(Exception):
    """A graph of more kernels than a test has time for."""


@dataclass(frozen=True)
class Kernel:
    """A kernel: what it writes and reads, besides what lies in memory anyway, and its price."""

    results: frozenset[int]
    inputs: frozenset[int]
    price: float


class Enumeration:
    """All kernels of a view; with `joined`, also those of roots side by side."""

    def __init__(self, view: View, device: Device, joined: bool = True) -> None:
        self.view, self.joined = view, joined
        self.reach = Reach(view)
        self.priced = PricedBodies(view.signatures, device)
        self.bodies: dict[int, list[frozenset[BodyNode]]] = {}
        self.place = {key: place for place, key in enumerate(view.classes)}

    def kernels(self) -> list[Kernel]:
        """The kernels of one root, of interior results besides, and of several roots."""
        found: dict[tuple[frozenset[int], frozenset[int]], Kernel] = {}
        bodies: dict[frozenset[BodyNode], None] = {}
        for value in self.view.classes.values():
            self.bodies[value.key] = list(self._bodies(value.key))
            bodies.update(dict.fromkeys(self.bodies[value.key]))
        if self.joined:
            bodies.update(dict.fromkeys(self._side_by_side(list(bodies))))
        for body in bodies:
            for kernel in self._of(body):
                key = kernel.results, kernel.inputs
                if key not in found or kernel.price < found[key].price:
                    found[key] = kernel
        return list(found.values())

    def _bodies(self, key: int) -> Iterator[frozenset[BodyNode]]:
        """The bodies with one root that compute a class, each operand read or computed inside."""
        value, seen = self.view.classes[key], set[frozenset[BodyNode]]()
        if value.leaf is not None:
            return
        for member in value.members:
            node = (key, member.signature, member.operands)
            operands = list(dict.fromkeys(member.operands))
            for chosen in product(*([frozenset(), *self.bodies[item]] for item in operands)):
                body = frozenset({node}).union(*chosen)
                if body in seen or len({name for name, _, _ in body}) < len(body):
                    continue
                seen.add(body)
                if len(seen) > MOST:
                    raise TooMany
                if self._legal(body):
                    yield body

    def _side_by_side(self, bodies: list[frozenset[BodyNode]]) -> Iterator[frozenset[BodyNode]]:
        """The bodies of several roots, each of which reads what another one reads or computes."""
        seen, last = set(bodies), list(bodies)
        while last:
            new: list[frozenset[BodyNode]] = []
            for first, second in product(last, bodies):
                body = first | second
                if body in seen or len({name for name, _, _ in body}) < len(body):
                    continue
                seen.add(body)
                if len(seen) > MOST:
                    raise TooMany
                if not _mentioned(first).isdisjoint(_mentioned(second)) and self._legal(body):
                    new.append(body)
                    yield body
            last = new

    def _legal(self, body: frozenset[BodyNode]) -> bool:
        ordered = self._ordered(body)
        form = None if ordered is None else self.priced.form(ordered)
        return form is not None and not form.reduced

    def _ordered(self, body: frozenset[BodyNode]) -> Body | None:
        nodes = {node[0]: node for node in sorted(body, key=lambda node: self.place[node[0]])}
        ordered = body_order(nodes, list(nodes))
        return None if ordered is None else tuple(ordered)

    def _of(self, body: frozenset[BodyNode]) -> Iterator[Kernel]:
        """The kernels of a body: all of its roots are written, and any other values of it."""
        ordered, classes = self._ordered(body), self.view.classes
        assert ordered is not None
        form = self.priced.form(ordered)
        assert form is not None
        operands = {item for _, _, items in ordered for item in items}
        roots = [name for name, _, _ in ordered if name not in operands]
        others = [name for name, _, _ in ordered if name in operands]
        signatures = {name: self.view.signatures[number] for name, number, _ in ordered}
        reads = [item for item in leaves_of(ordered) if not classes[item].inline]
        types = {item: classes[item].type for item in reads}
        inputs = frozenset(item for item in reads if classes[item].leaf is None)
        prepared = classes[roots[-1]].prepared
        for count in range(len(others) + 1):
            for extra in combinations(others, count):
                results = (*reversed(roots), *extra)
                if any(classes[item].prepared is not prepared for item in results):
                    continue
                root = signatures[results[0]]
                if not all(form.writable(name, signatures[name], root) for name in results):
                    continue
                if any(self.reach.depends(i, r) for i in inputs for r in results):
                    continue
                price = self.priced.price(ordered, results, types)
                yield Kernel(frozenset(results), inputs, price_per_run(price, prepared))


def _mentioned(body: frozenset[BodyNode]) -> set[int]:
    return {item for name, _, operands in body for item in (name, *operands)}


def least_cost(view: View, kernels: list[Kernel]) -> float:
    """The least cost of kernels that write the outputs and all that these kernels read."""
    place = {key: number for number, key in enumerate(view.classes)}
    writers: dict[int, list[Kernel]] = {}
    for kernel in kernels:
        for item in kernel.results:
            writers.setdefault(item, []).append(kernel)
    known: dict[tuple[frozenset[int], frozenset[int]], float] = {}

    def least(needed: frozenset[int], written: frozenset[int]) -> float:
        if not needed:
            return 0.0
        state = needed, written
        if state not in known:
            known[state] = _least(needed, written)
        return known[state]

    def _least(needed: frozenset[int], written: frozenset[int]) -> float:
        last = max(needed, key=place.__getitem__)
        best = float("inf")
        for kernel in writers.get(last, ()):
            there = written | kernel.results
            left = frozenset(item for item in needed | kernel.inputs if item not in there)
            if any(place[item] >= place[last] for item in left):
                continue
            below = max(map(place.__getitem__, left), default=-1)
            kept = frozenset(item for item in there if place[item] < below)
            best = min(best, kernel.price + least(left, kept))
        return best

    return least(frozenset(o for o in view.outputs if view.classes[o].leaf is None), frozenset())


def tree_graph(seed: int, operations: int, size: int) -> GraphOp:
    """A graph of such operations in which each value has one reader."""
    rng = random.Random(seed)
    shapes = ((size, size), (size, 1), (1, size), (size,), (1, 1))
    types = [f32(*rng.choice(shapes)) for _ in range(rng.randint(2, 4))]
    if rng.random() < 0.6:
        types[0] = f32(size, size)

    def body(b: Emitter, *inputs: SSAValue) -> list[SSAValue]:
        free = list(inputs)
        for _ in range(operations):
            x = free.pop(rng.randrange(len(free)))
            fits = [y for y in free if broadcasts(shape_of(x), shape_of(y))]
            if fits and rng.random() < 0.5:
                y = rng.choice(fits)
                free.remove(y)
                free.append(b.call(rng.choice(BINARY), x, y))
            else:
                free.append(_of_one(b, rng, x))
        return [value for value in free if value not in inputs][:1]

    return build_graph(body, *types)


def _of_one(b: Emitter, rng: random.Random, x: SSAValue) -> SSAValue:
    """A value computed from another, as often as not by a reduction where it has rows."""
    axes = [axis for axis, size in enumerate(shape_of(x)) if size > 1]
    if len(shape_of(x)) == 2 and axes and rng.random() < 0.25:
        name = rng.choice(("sum", "max_reduce"))
        return b.call(name, x, axis=axes[-1], keepdims=rng.random() < 0.7)
    return b.call(rng.choice(UNARY), x)


def compared(
    graph: GraphOp, device: Device, options: SaturateOptions, joined: bool = True
) -> tuple[float, float]:
    """The cost of the choice for a graph, and the least that any choice costs."""
    view = saturated_view(graph, options)
    least = least_cost(view, Enumeration(view, device, joined).kernels())
    return saturate_graph(graph, device, options).cost_after, least


def main() -> int:
    parser = argparse.ArgumentParser(description="Choices beside the best of all choices.")
    parser.add_argument("--operations", type=int, default=12)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 40), metavar=("FIRST", "END"))
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    options = parser.parse_args()
    dearer = 0
    for seed in range(*options.seeds):
        graph = small_graph(seed, options.operations)
        try:
            cost, least = compared(graph, DEVICES[options.device], AT_LENGTH)
        except TooMany:
            print(f"seed {seed}: more than {MOST} bodies", flush=True)
            continue
        dearer += cost > least * (1 + PROVED)
        print(f"seed {seed}: {cost * 1e6:.4f} µs, least {least * 1e6:.4f} µs", flush=True)
    return 1 if dearer else 0


if __name__ == "__main__":
    sys.exit(main())
