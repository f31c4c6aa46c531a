"""An FX graph of ATen operators cut into parts that mgn computes, and calls that PyTorch makes.

In: the graph's nodes. Out: its steps, in an order in which each has what it needs. As few parts as
the graph allows: a call is put off until all parts before it have run, and a part takes all that
needs no later call.
"""

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mgn.frontend.torch.graph import is_tensor, refusal

RANDOM = frozenset(
    {
        "bernoulli",
        "dropout",
        "multinomial",
        "native_dropout",
        "normal",
        "normal_functional",
        "poisson",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "randperm",
        "rrelu_with_noise_functional",
        "uniform",
    }
)
"""Operators that draw: PyTorch does, so that numbers are those of `torch.manual_seed`."""

UNINITIALISED = frozenset(["empty", "empty_like", "empty_permuted", "empty_strided", "new_empty"])
"""Operators that give memory to be drawn into."""


def packet_of(node: Any) -> str:
    """The name of a node's operator without namespace and overload."""
    return str(node.target).split(".")[1] if "." in str(node.target) else str(node.target)


@dataclass(frozen=True)
class Refused:
    """A call that is left to PyTorch, and why."""

    node: Any
    reason: str


@dataclass
class Step:
    """Calls that PyTorch makes, in order; then the nodes that mgn computes together."""

    calls: list[Any] = field(default_factory=list[Any])
    part: list[Any] = field(default_factory=list[Any])

    @property
    def needed(self) -> list[Any]:
        """What the part needs from outside, in order."""
        own = set(self.part)
        found = dict.fromkeys(item for node in self.part for item in node.all_input_nodes)
        return [node for node in found if node not in own]

    @property
    def given(self) -> list[Any]:
        """The tensors of the part that others use, in order."""
        own = set(self.part)
        return [
            node
            for node in self.part
            if is_tensor(node.meta.get("val")) and any(user not in own for user in node.users)
        ]


@dataclass(frozen=True)
class Cut:
    """A graph as steps, with what was refused."""

    steps: Sequence[Step]
    refused: Sequence[Refused]


def cut(nodes: Sequence[Any], everything: str | None = None, views: Collection[Any] = ()) -> Cut:
    """The steps of a graph. With `everything`, a reason, PyTorch makes all calls; `views` are calls
    that it makes in any case.
    """
    refused = _refused(nodes, everything, views)
    levels: dict[Any, int] = {}
    drawn = 0
    steps: list[Step] = []
    for node in nodes:
        if node.op != "call_function":
            levels[node] = 0
            continue
        is_call = node in refused
        level = max((_after(item, levels, refused, is_call) for item in node.all_input_nodes),
                    default=0)  # fmt: skip
        if packet_of(node) in RANDOM:
            level = drawn = max(level, drawn)
        levels[node] = level
        while len(steps) <= level:
            steps.append(Step())
        (steps[level].calls if is_call else steps[level].part).append(node)
    return Cut(steps, [item for item in refused.values() if item.reason])


def _after(
    node: Any, levels: Mapping[Any, int], refused: Mapping[Any, Refused], is_call: bool
) -> int:
    """The first level at which a call, or a node of a part, has the value of another node."""
    is_computed = node.op == "call_function" and node not in refused
    return levels[node] + (is_call and is_computed)


def overlaps(value: Any) -> bool:
    """Whether elements of a view lie in one place, as those of windows that slide: such a view is
    PyTorch's. What is repeated along an axis is none.
    """
    if not is_tensor(value):
        return False
    reach = 0
    for step, size in sorted(zip(value.stride(), value.shape, strict=True)):
        if size > 1 and 0 < step <= reach:
            return True
        reach += (size - 1) * step
    return False


def _refused(
    nodes: Sequence[Any], everything: str | None, views: Collection[Any]
) -> dict[Any, Refused]:
    """The nodes that PyTorch computes; without a reason those that are its by nature."""
    found: dict[Any, Refused] = {}
    for node in nodes:
        if node.op != "call_function":
            continue
        if node in views or (node.target is operator.getitem and node.args[0] in found):
            found[node] = Refused(node, "")
        elif everything is not None:
            found[node] = Refused(node, everything)
        elif packet_of(node) in RANDOM | UNINITIALISED or overlaps(node.meta.get("val")):
            found[node] = Refused(node, "")
        else:
            reason = refusal(node)
            if reason is not None:
                found[node] = Refused(node, reason)
    return found
