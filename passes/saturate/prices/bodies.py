"""A kernel's body as e-nodes: values have numbers for names, operations those of signatures."""

from collections.abc import Mapping, Sequence

BodyNode = tuple[int, int, tuple[int, ...]]
"""A value of a body: its name, the number of its signature, its operands' names."""

Body = tuple[BodyNode, ...]
Names = Sequence[int] | Mapping[int, int]
"""`names[i]` is what stands in the place of i."""


def renamed(nodes: Sequence[BodyNode], names: Names) -> Body:
    """E-nodes over other names."""
    return tuple([(names[name], number, _at(names, given)) for name, number, given in nodes])


def _at(names: Names, items: tuple[int, ...]) -> tuple[int, ...]:
    """What stands in the place of some: of most operations one or two."""
    return (
        (names[items[0]], names[items[1]])
        if len(items) == 2
        else (names[items[0]],)
        if len(items) == 1
        else tuple([names[item] for item in items])
    )
