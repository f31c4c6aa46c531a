"""Ways to compute a class from others, and what each is guessed to cost a program.

In: bodies with their forms and prices, and the traits of the classes that they mention. Out: their
ranks, by which the few are kept that are worth trying.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.types import tensor_bytes
from mgn.passes.arrangements.split_attention import part_keys
from mgn.passes.saturate.candidates.priced_bodies import KnownBody
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import Body, Names, renamed
from mgn.passes.saturate.prices.forms import OF_ROWS, Form, Way
from mgn.passes.saturate.prices.prices import price_per_run

TAKEN = (1.0, 0.5, 0.0)
"""What a reader is charged of having a value in memory of which it is known by how many kernels of
a choice it is read there: none, one, which this reader may stand for, or more.
"""
MANY = len(TAKEN) - 1
"""By how many such kernels a value is read where further ones make no difference."""


@dataclass(frozen=True)
class Traits:
    """What matters of a class to cuts that mention it.

    `repeats` is about a kernel that computes it for its one reader: by how many times more than
    once an element it is evaluated there, at most (broadcasts.py). `lasts` says that this may cost
    more than to have it in memory. `views` says that it is a slice or a reshape of another class,
    and `moves` that it is nothing but that or a transpose. `beside` says that a kernel which is
    there in any case may write it besides. `takers` are the kernels of a known choice that read it
    from memory, as many as make a difference. `gathered` says of what is prepared that runs take
    rows of it where it lies, or of what it is made of. `pooled` says that a reduction of few of its
    elements follows, through movement or not.
    """

    type: TensorType
    in_memory: bool
    inline: bool
    users: int
    is_output: bool
    prepared: bool = False
    repeats: float = 0.0
    lasts: bool = False
    views: bool = False
    beside: bool = False
    moves: bool = False
    takers: int | None = None
    gathered: bool = False
    pooled: bool = False

    @cached_property
    def is_scalar(self) -> bool:
        """Whether it has no axes."""
        return not self.type.get_shape()

    @property
    def stored(self) -> bool:
        """Whether it may pay to have it in memory."""
        return self.users > 1 or self.is_output or self.lasts


CutWay = tuple[Way, bool]
"""What no kernel of another kind is a substitute for; whether it takes what is lying rounded."""


@dataclass
class Cut:
    """A legal body for a class: `names` are the local names that stand for those of the known body,
    over which its `form` is. It reads its `leaves` from memory, which are `reads` in that body;
    `price` is that of the kernel that writes the class alone. It stands `besides` where it reads
    what another one computes; its operands come `apart` where others share what they come from
    (ways_tried.py). An attention's matrix unit takes values from memory that are `lying` there
    rounded, which the body does not say.
    """

    known: KnownBody
    form: Form
    names: tuple[int, ...]
    reads: tuple[int, ...]
    leaves: tuple[int, ...]
    price: float
    rank: float = 0.0
    besides: bool = False
    lying: bool = False
    apart: bool = False

    @property
    def results(self) -> tuple[int, ...]:
        """What its kernel writes, over names of the known body: the class alone."""
        return self.known.inside[-1:]

    @property
    def size(self) -> int:
        """How many operations it computes."""
        return len(self.known.body)

    @property
    def inside(self) -> set[int]:
        """The values that it computes."""
        names = self.names
        return {names[item] for item in self.known.inside}

    @cached_property
    def body(self) -> Body:
        """The body over local names."""
        return renamed(self.known.body, self.names)

    @property
    def way(self) -> CutWay:
        """What no other cut is a substitute for, nor takes the place of in a search."""
        return self.form.way, self.lying

    def types(self, traits: Sequence[Traits]) -> dict[int, TensorType]:
        """The types of what it reads, over names of the known body."""
        names = self.names
        return {item: traits[names[item]].type for item in self.reads}

    def renamed(self, names: Names) -> "Cut":
        """The same cut over other names."""
        own = self.price, self.rank, self.besides, self.lying, self.apart
        return Cut(self.known, self.form, *self._over(names), *own)

    def at(self, mapped: Sequence[int]) -> "Cut":
        """The same cut as a user names its classes."""
        own = self._over(mapped)
        return Cut(self.known, self.form, *own, self.price, lying=self.lying)

    def _over(self, names: Names) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Its names, what it reads and its leaves where others stand in the place of its names."""
        own = tuple([names[item] for item in self.names])
        return own, self.reads, tuple([own[item] for item in self.reads])


class Ranking:
    """Orders the cuts of a class by their prices and what it is guessed to cost to have their
    leaves in memory: of each, a share for every reader. An output is written in any case. A kernel
    that computes one on its way, and can write it, spares the launch of another.
    """

    def __init__(self, signatures: Sequence[Signature], device: Device) -> None:
        self.signatures = signatures
        self.device = device
        self.costs: dict[int, float] = {}

    def rank(self, cuts: Sequence[Cut], traits: Sequence[Traits]) -> list[Cut]:
        """Notes the ranks of a class's cuts; the best one first."""
        writes = any(item.is_output for item in traits[1:])
        for cut in cuts:
            needed = sum([self._share(traits[name]) for name in cut.leaves])
            cut.rank = cut.price + needed - (self._spared(cut, traits) if writes else 0.0)
        self._count_needs([cut for cut in cuts if cut.form.has_rows], traits)
        return sorted(cuts, key=lambda item: (item.rank, item.size, item.leaves))

    def in_parts(self, cut: Cut) -> int | None:
        """The signature of an attention whose keys a GPU may cut into parts; None of other cuts.
        Parts have many more work-groups. So a cut that is dearer whole may be the cheaper one, and
        takes no place of one with another attention of the class.
        """
        if cut.form.kind is not KernelKind.ATTENTION or self.device.is_cpu:
            return None
        number = next(node[1] for node in cut.known.body if node[0] == cut.form.heavy)
        attention = self.signatures[number]
        (*batch, queries, _), keys = attention.operand_shapes[0], attention.operand_shapes[1][-2]
        heads, shared = attention.values["heads"], attention.values["kv_heads"]
        groups, rows = prod(batch) * shared, queries * (heads // shared)
        cut_up = part_keys(keys, attention.values["window"], groups, rows, self.device)
        return None if cut_up is None else number

    def alone(self, cut: Cut, traits: Sequence[Traits]) -> float:
        """What a cut costs that is the only reader of its leaves."""
        return cut.price + sum(self._cost(traits[name]) for name in cut.leaves)

    def _count_needs(self, cuts: Sequence[Cut], traits: Sequence[Traits]) -> None:
        """Ranks cuts that read what a reduction decides, where wider cuts compute it besides. Such
        a cut counts what the wider ones read too: the kernel that writes the value reads that.
        """
        widest_first = sorted(cuts, key=lambda cut: cut.size, reverse=True)
        for place, cut in enumerate(widest_first):
            for leaf in cut.leaves:
                wider = [item for item in widest_first[:place] if _computes(item, cut, leaf)]
                if wider:
                    least = min(item.rank - item.price for item in wider)
                    cut.rank = max(cut.rank, self._rank_with(cut, leaf, least, traits))

    def _rank_with(self, cut: Cut, leaf: int, wider: float, traits: Sequence[Traits]) -> float:
        """The rank of a cut of which one leaf needs what wider cuts read. The leaf's readers
        outside of the cut share that.
        """
        known = traits[leaf]
        rest = sum(self._share(traits[name]) for name in cut.leaves if name != leaf)
        inside = sum(leaf in operands for _, _, operands in cut.body)
        readers = max(1, known.users + known.is_output + 1 - inside)
        return cut.price + rest + (self._cost(known) + wider - rest) / readers

    def _spared(self, cut: Cut, traits: Sequence[Traits]) -> float:
        """What a program is spared by a kernel that writes outputs on its way."""
        body, names = cut.known.body, cut.names
        made = [(item, number) for item, number, _ in body[:-1] if traits[names[item]].is_output]
        root = self.signatures[body[-1][1]]
        written = [cut.form.writable(name, self.signatures[number], root) for name, number in made]
        return price_per_run(sum(written) * self.device.launch_cost, traits[0].prepared)

    def _share(self, traits: Traits) -> float:
        """What it costs each reader of a class to have that in memory: nothing, of an output. Of a
        class that only moves another one, each reader pays the whole of both, unless it is known to
        lie there: the other may have to be written as well.
        """
        if traits.is_output:
            return 0.0
        cost = self._cost(traits)
        if traits.takers and traits.users > 1:
            return cost * TAKEN[traits.takers]
        if traits.moves and not traits.takers:
            return 2 * cost
        return cost if traits.takers is not None else cost / traits.users

    def _cost(self, traits: Traits) -> float:
        known = self.costs.get(id(traits))
        if known is None:
            known = self.costs[id(traits)] = self._new_cost(traits)
        return known

    def _new_cost(self, traits: Traits) -> float:
        if traits.in_memory:
            return 0.0
        launch = 0.0 if traits.beside else self.device.launch_cost
        cost = launch + tensor_bytes(traits.type) / self.device.bandwidth
        return price_per_run(cost, traits.prepared)


def _computes(wide: Cut, cut: Cut, leaf: int) -> bool:
    """Whether one cut computes, from a reduction, what another reads, and all that this does."""
    return (
        leaf in wide.names
        and wide.form.places.get(wide.names.index(leaf)) in OF_ROWS
        and wide.form.way == cut.form.way
        and all(name == leaf or name in wide.leaves for name in cut.leaves)
        and frozenset(cut.body).issubset(wide.body)
    )
