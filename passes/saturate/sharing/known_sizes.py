"""What is remembered of the graphs of one structure: which kernels were chosen at which sizes.

In: the candidates of a graph and the choice among them, which nothing was shared for. Out: the same
over names, for graphs of other sizes, and a lower bound that it brings for those.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.extract import Extraction
from mgn.passes.saturate.sharing.structure import KernelName, Names, kernel_name

STRUCTURES, SIZES = 8, 6
"""Structures that are remembered, and sizes of each; the ones unused for longest are dropped."""


@dataclass(frozen=True)
class KnownSize:
    """The search's result at some sizes: the least price of the candidates of each name, the names
    of those chosen, what they cost, and a lower bound on the cost of any choice.
    """

    sizes: str
    outputs: frozenset[int]
    prices: Mapping[KernelName, float]
    chosen: frozenset[KernelName]
    cost: float
    bound: float

    def bound_for(self, named: "NamedCandidates") -> float:
        """What any choice among candidates costs at least; 0 where some have no like here.

        A choice there is one here by its names. Each of its kernels costs at least some share of
        what it does here, and so the choice costs at least that share of the least cost here.
        """
        shares: list[float] = []
        for name, price in named.prices.items():
            known = self.prices.get(name) or self._like(name)
            if not known:
                return 0.0
            shares.append(price / known)
        return self.bound * min(shares, default=0.0)

    def _like(self, name: KernelName) -> float | None:
        """The least price of kernels that write the same and read no more; None where there are
        none.
        """
        alike = self.by_results.get(name.results, ())
        return min(
            (self.prices[item] for item in alike if item.inputs <= name.inputs), default=None
        )

    @cached_property
    def by_results(self) -> Mapping[tuple[int, ...], Sequence[KernelName]]:
        """The names of the candidates that write the same values."""
        found: dict[tuple[int, ...], list[KernelName]] = {}
        for name in self.prices:
            found.setdefault(name.results, []).append(name)
        return found


@dataclass
class KnownSizes:
    """The sizes of one structure that are known, the last one used last, and names of values."""

    names: Names = field(default_factory=Names)
    sizes: list[KnownSize] = field(default_factory=list[KnownSize])

    def note(self, sizes: str, named: "NamedCandidates", extraction: Extraction) -> None:
        """Remembers a choice that nothing was shared for."""
        numbers = extraction.selection.kernels
        chosen = frozenset([named.name(named.found.candidates[number]) for number in numbers])
        cost, bound = extraction.selection.cost, extraction.bound
        made = KnownSize(sizes, named.outputs, named.prices, chosen, cost, bound)
        self.sizes = [*self.sizes[-SIZES + 1 :], made]


class NamedCandidates:
    """Candidates with the names of a structure."""

    def __init__(self, view: View, found: CandidateSet, names: Names) -> None:
        self.found = found
        self.values = names.of(view)
        self.outputs = frozenset([self.values[key] for key in found.outputs])
        self.names = [kernel_name(item, self.values) for item in found.candidates]
        self.prices: dict[KernelName, float] = {}
        for name, item in zip(self.names, found.candidates, strict=True):
            self.prices[name] = min(item.price, self.prices.get(name, item.price))

    def name(self, candidate: Candidate) -> KernelName:
        return self.names[candidate.number]


_STRUCTURES: OrderedDict[Hashable, KnownSizes] = OrderedDict()


def known_sizes(key: Hashable) -> KnownSizes:
    """What is known of a structure; nothing at first."""
    known = _STRUCTURES.setdefault(key, KnownSizes())
    _STRUCTURES.move_to_end(key)
    while len(_STRUCTURES) > STRUCTURES:
        _STRUCTURES.popitem(last=False)
    return known


def forget_sizes() -> None:
    """Drops everything remembered."""
    _STRUCTURES.clear()
