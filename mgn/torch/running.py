"""A graph of ATen operators ready to run: mgn's parts and PyTorch's calls, one after the other.

In: an FX graph that AOT autograd has made, forward or backward. Out: `Running`, which takes its
arguments and gives its results. What PyTorch computes is said once, by name, with the reason.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from mgn.diagnostics import MgnWarning
from mgn.frontend.torch.graph import is_tensor, place_of
from mgn.frontend.torch.library import library
from mgn.torch.cutting import Cut, Refused, cut
from mgn.torch.families import Family
from mgn.torch.options import Options
from mgn.torch.parts import Part
from mgn.torch.strided import without_strides
from mgn.torch.views import views_at_end

MOST_NAMED = 12
"""Operators that one warning names."""

warned: set[str] = set()
"""The operators that a warning has named."""


class Running:
    """Runs a graph, one of a family. `frozen` are the numbers of its arguments that are parameters
    to be kept; `seen` is how many of its results, the first, a caller may write to.
    """

    def __init__(
        self,
        name: str,
        module: Any,
        options: Options,
        family: Family,
        frozen: Sequence[int] = (),
        seen: int = 0,
    ) -> None:
        without_strides(module.graph)
        views = views_at_end(module.graph, seen)
        self.nodes = list(module.graph.nodes)
        self.placeholders = [node for node in self.nodes if node.op == "placeholder"]
        self.constants = {
            node: getattr(module, node.target) for node in self.nodes if node.op == "get_attr"
        }
        for node, value in self.constants.items():
            node.meta.setdefault("val", value)
        found = cut(self.nodes, _elsewhere(self.placeholders), views)
        warn_of(found)
        self.family = family  # which lives as long as its programs
        self.results = [(_is_node(item), item) for item in self.nodes[-1].args[0]]
        kept = [self.placeholders[number] for number in frozen]
        self.steps = [
            (
                step.calls,
                Part(f"{name}_{number}", step, kept, options, family) if step.given else None,
            )
            for number, step in enumerate(found.steps)
        ]
        self._drops = self._last_uses()

    def __call__(self, *arguments: Any) -> list[Any]:
        """The results for arguments, in their order."""
        values: dict[Any, Any] = dict(self.constants)
        values.update(zip(self.placeholders, arguments, strict=True))
        with library().no_grad():
            for number, (calls, part) in enumerate(self.steps):
                for node in calls:
                    values[node] = node.target(
                        *_plain(node.args, values), **_plain(node.kwargs, values)
                    )
                if part is not None:
                    found = part([values[node] for node in part.needed])
                    values.update(zip(part.given, found, strict=True))
                for node in self._drops[number]:
                    values.pop(node, None)
        return [values[item] if is_node else item for is_node, item in self.results]

    @property
    def parts(self) -> list[Part]:
        """The parts that mgn computes."""
        return [part for _, part in self.steps if part is not None]

    def _last_uses(self) -> list[list[Any]]:
        """For each step the nodes that none behind it needs, nor the results."""
        last: dict[Any, int] = {}
        for number, (calls, part) in enumerate(self.steps):
            for node in calls:
                last[node] = number
                last.update(dict.fromkeys(node.all_input_nodes, number))
            for node in [*part.needed, *part.given] if part is not None else []:
                last[node] = number
        returned = set(self.nodes[-1].all_input_nodes)
        drops: list[list[Any]] = [[] for _ in self.steps]
        for node, number in last.items():
            if node not in returned:
                drops[number].append(node)
        return drops


def _elsewhere(placeholders: Sequence[Any]) -> str | None:
    """Why PyTorch computes all of a graph: its tensors are not on the CPU."""
    for node in placeholders:
        value = node.meta.get("val")
        if is_tensor(value) and value.device.type != "cpu":
            return f"a tensor on {value.device}"
    return None


def _plain(value: Any, values: Mapping[Any, Any]) -> Any:
    """Arguments with the values of nodes in their places."""
    return library("torch.fx.node").map_arg(value, values.__getitem__)


def _is_node(value: Any) -> bool:
    return hasattr(value, "all_input_nodes")


def warn_of(found: Cut) -> None:
    """Says which operators PyTorch computes, each once."""
    new: dict[str, Refused] = {}
    for item in found.refused:
        if str(item.node.target) not in warned:
            new.setdefault(str(item.node.target), item)
    if not new:
        return
    warned.update(new)
    told = [f"  {name} ({item.reason}; {_place(item.node)})" for name, item in new.items()]
    rest = [f"  and {len(told) - MOST_NAMED} more"] if len(told) > MOST_NAMED else []
    lines = "\n".join([*told[:MOST_NAMED], *rest])
    computed = sum(len(step.part) for step in found.steps)
    warnings.warn(
        f"mgn computes {computed} calls of a graph, and PyTorch these:\n{lines}",
        MgnWarning,
        stacklevel=2,
    )


def _place(node: Any) -> str:
    place = place_of(node)
    line = place.line.data
    return f"{place.filename.data}:{line}" if line else place.filename.data
