"""Kernels of rows that also add up columns: one pass over what both read.

In: a view, its candidates, and the sums of columns among what kernels could be. Out: candidates.
The kernel of a norm's gradient, say, writes the gradient of its rows, and what each block of rows
adds to the gradients of its parameters; a second kernel makes these of what blocks come to.

A kernel is joined with one sum after another that reads what it has, as long as all kernels then
cost less together.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.shapes import element_count
from mgn.dialects.types import tensor_bytes
from mgn.passes.arrangements.row_blocks import SumsOfBlocks, choose_block
from mgn.passes.kernels.rows import RowSpace
from mgn.passes.saturate.candidates.arranging import Arranger, NewValues, Placer
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet, ColumnSum, Template
from mgn.passes.saturate.candidates.limits import NO_GAIN
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.horizontal_fusion.side_by_side import Merger, Placed

Shape = tuple[int, ...]
Space = tuple[Shape, int]
"""A shape, and how many of its axes are rows: those that are added up."""

FORMS = 3
"""Kernels that are tried for what they write, and sums for what they come to."""


def column_joins(view: View, found: CandidateSet, device: Device, reach: Reach) -> Iterator[Placed]:
    """Templates with their classes, which are cheaper than those whose work they do. What blocks
    come to is in the view then.
    """
    sums = _by_space(found.sums)
    if sums:
        yield from _Joins(view, found, device, reach).joins(sums)


def _by_space(sums: Sequence[ColumnSum]) -> dict[Space, list[ColumnSum]]:
    """Sums of columns by their space: of each thing they come to the cheapest few."""
    found: dict[Space, list[ColumnSum]] = {}
    alike: dict[tuple[int, ...], list[frozenset[int]]] = {}
    for item in sorted(sums, key=lambda item: item.template.price):
        known = alike.setdefault(item.results, [])
        if len(known) < FORMS and item.reads not in known:
            known.append(item.reads)
            form = item.template.form
            found.setdefault((form.shape, len(form.axes)), []).append(item)
    return found


@dataclass(frozen=True)
class _Pieces:
    """The kernels of a sum: of its blocks, and of what these come to, over names of `values`."""

    values: NewValues
    blocks: Template
    whole: Template


@dataclass(frozen=True)
class _Blocked:
    """A sum of columns by blocks, where it stands: the kernel of its blocks, and the one that makes
    them whole. `totals` are the classes of the sums, before what follows them.
    """

    sum: ColumnSum
    blocks: Candidate
    whole: Candidate
    totals: tuple[int, ...]

    @property
    def saves(self) -> float:
        """What the kernel that makes it whole costs less than all of it."""
        return self.sum.template.price - self.whole.price


class _Joins:
    """Joins kernels with sums of columns. `pieces` and `blocked` are what sums by blocks were found
    to be, `large` what a sum reads of which there is an element for each that it adds up.
    """

    def __init__(self, view: View, found: CandidateSet, device: Device, reach: Reach) -> None:
        self.view, self.found, self.device, self.reach = view, found, device, reach
        self.arranger = Arranger(view, device)
        self.blocks = Merger(view, found, device, (KernelKind.ROW_BLOCKS,), True)
        self.wholes = Merger(view, found, device, (KernelKind.REDUCTION,))
        self.placer = Placer(view, found.handed)
        self.pieces: dict[tuple[Template, int], _Pieces | None] = {}
        self.large: dict[ColumnSum, Collection[int]] = {}
        self.blocked: dict[tuple[ColumnSum, int], _Blocked | None] = {}
        self.entered: set[tuple[Template, tuple[int, ...]]] = set()

    def joins(self, sums: Mapping[Space, Sequence[ColumnSum]]) -> Iterator[Placed]:
        """The joins that save something; then what they hand on has its place in the view."""
        for space, kernels in self._kernels(sums).items():
            by_value = self._by_value(sums[space])
            for kernel in kernels:
                for item in self._beside(kernel, space, by_value):
                    if (item.template, item.classes) not in self.entered:
                        self.entered.add((item.template, item.classes))
                        yield item.template, item.classes
        self.placer.sort()
        self.found.handed = frozenset(self.placer.known.values())
        self.found.position = {key: place for place, key in enumerate(self.view.classes)}

    def _kernels(self, sums: Mapping[Space, Sequence[ColumnSum]]) -> dict[Space, list[Candidate]]:
        """The kernels of each space: a few of those that write the same."""
        leading: dict[Shape, list[int]] = {}
        for shape, count in sums:
            leading.setdefault(shape, []).append(count)
        found: dict[Space, dict[tuple[int, ...], list[Candidate]]] = {}
        for candidate in self.found.candidates:
            form = candidate.template.form
            if form.kind is KernelKind.POINTWISE:
                shape = self.view.signatures[candidate.template.body[-1][1]].shape
                counts = leading.get(shape, [])
            elif form.kind is KernelKind.REDUCTION and form.shape in leading:
                shape, first = form.shape, len(form.shape) - len(form.axes)
                rows = form.axes == tuple(range(first, len(shape)))
                counts = [count for count in leading[shape] if rows and count == first]
            else:
                continue
            for count in counts:
                alike = found.setdefault((shape, count), {})
                alike.setdefault(candidate.results, []).append(candidate)
        return {
            space: [
                item
                for alike in groups.values()
                for item in sorted(alike, key=self._with_inputs)[:FORMS]
            ]
            for space, groups in found.items()
        }

    def _with_inputs(self, kernel: Candidate) -> float:
        """The price of a kernel with what it takes to write what it reads of other kernels."""
        bytes = sum([tensor_bytes(self.view.classes[item].type) for item in kernel.inputs])
        return kernel.price + bytes / self.device.bandwidth

    def _beside(
        self, kernel: Candidate, space: Space, sums: Mapping[int, Sequence[ColumnSum]]
    ) -> Iterator[Candidate]:
        """A kernel with the sums of blocks of one value after another, as long as each saves
        something, and the kernels that make these whole.
        """
        rows = RowSpace(space[0], tuple(range(space[1])))
        reduces = kernel.kind is KernelKind.REDUCTION
        block = choose_block(rows.length, rows.rows, reduces, self.device)
        if block is None:
            return
        near: dict[tuple[int, ...], list[_Blocked]] = {}
        for item in self._near(kernel, sums):
            blocked = self._blocked(item, block)
            if blocked is not None:
                near.setdefault(blocked.blocks.results, []).append(blocked)
        later, ends = {*kernel.results}, list[Candidate]()
        for alike in near.values():
            later.update(name for blocked in alike for name in blocked.totals)
            wider = self._wider(kernel, alike, later)
            if wider is None or wider.price - kernel.price >= max(item.saves for item in alike):
                self.found.left_out[NO_GAIN] += 1
                continue
            kernel = wider
            yield kernel
            yield from (blocked.whole for blocked in alike)
            ends.append(max(alike, key=lambda item: (len(item.whole.results), item.saves)).whole)
        yield from self._together(ends)

    def _near(
        self, kernel: Candidate, sums: Mapping[int, Sequence[ColumnSum]]
    ) -> Iterator[ColumnSum]:
        """The sums of which a kernel reads or computes all that is large."""
        has = {*kernel.reads, *(node[0] for node in kernel.body)}
        for name in sorted(sums.keys() & has):
            for item in sums[name]:
                if has.issuperset(self.large[item]):
                    yield item

    def _by_value(self, sums: Sequence[ColumnSum]) -> dict[int, list[ColumnSum]]:
        """Sums by one of the values that they read of which there is an element for each that they
        add up.
        """
        found: dict[int, list[ColumnSum]] = {}
        for item in sums:
            count = prod(item.template.form.shape)
            types = {name: self.view.classes[name].type for name in item.reads}
            large = [name for name in types if element_count(types[name].get_shape()) >= count]
            if large:
                self.large[item] = large
                found.setdefault(min(large), []).append(item)
        return found

    def _wider(
        self, kernel: Candidate, alike: Sequence[_Blocked], later: Collection[int]
    ) -> Candidate | None:
        """The cheapest kernel that also adds up blocks, in one of some ways, and waits for nothing
        that comes later; None for none.
        """
        found: list[Candidate] = []
        for blocks in {item.blocks.template: item.blocks for item in alike}.values():
            if set(kernel.results).isdisjoint(blocks.results):
                template, classes = self.blocks.merged(kernel, blocks)
                if template is not None:
                    found.append(Candidate(-1, template, classes))
        found = [item for item in found if not self._waits(item, later)]
        return min(found, key=lambda item: item.price, default=None)

    def _waits(self, kernel: Candidate, later: Collection[int]) -> bool:
        """Whether an input of a kernel depends on one of some classes."""
        known = [name for name in kernel.inputs if name in self.reach.position]
        return any(self.reach.depends(name, other) for name in known for other in later)

    def _together(self, ends: Sequence[Candidate]) -> Iterator[Candidate]:
        """One kernel that makes several sums whole, where it is cheaper."""
        if not ends:
            return
        joined = ends[0]
        for end in ends[1:]:
            template, classes = self.wholes.merged(joined, end)
            if template is not None and template.price < joined.price + end.price:
                joined = Candidate(-1, template, classes)
        yield joined

    def _blocked(self, item: ColumnSum, block: int) -> _Blocked | None:
        """A sum by blocks, worked out once where it stands."""
        key = item, block
        if key not in self.blocked:
            pieces, found = self._pieces(item, block), None
            if pieces is not None:
                classes = self.placer.place(pieces.values, item.classes)
                totals = [
                    item.classes[name]
                    for name, number, _ in item.template.body
                    if self.view.signatures[number].kind is Kind.REDUCTION
                ]
                blocks, whole = (
                    Candidate(-1, own, classes) for own in (pieces.blocks, pieces.whole)
                )
                if not self._waits(whole, {*whole.results, *totals}):
                    found = _Blocked(item, blocks, whole, tuple(totals))
            self.blocked[key] = found
        return self.blocked[key]

    def _pieces(self, item: ColumnSum, block: int) -> _Pieces | None:
        """The kernels of a sum by blocks, worked out once for its template."""
        key = item.template, block
        if key not in self.pieces:
            values = NewValues(item.traits)
            arrangement = SumsOfBlocks(block, len(item.template.form.axes))
            made = self.arranger.pieces(arrangement, item.template, values)
            self.pieces[key] = _Pieces(values, made[0], made[1]) if len(made) == 2 else None
        return self.pieces[key]
