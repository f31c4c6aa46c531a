"""All operators that are known: importing this fills the table.

In: nothing. Out: `TABLE`, which the files named here have entered their operators into.
"""

from mgn.frontend.torch import (
    activations,
    attention,
    backward,
    backward_elementwise,
    backward_norms,
    convolution,
    creation,
    elementwise,
    indexing,
    movement,
    normalisation,
    products,
    reductions,
)
from mgn.frontend.torch.table import TABLE, Build

GROUPS = {
    "Elementwise": elementwise,
    "Activations": activations,
    "Constants": creation,
    "Movement": movement,
    "Products": products,
    "Convolution, pooling, resizing": convolution,
    "Norms and softmax": normalisation,
    "Reductions and orders": reductions,
    "Indexing": indexing,
    "Attention": attention,
    "Gradients": backward,
    "Gradients of elementwise functions and softmax": backward_elementwise,
    "Gradients of norms": backward_norms,
}
"""The files of the table, with their titles."""

OPERATORS: dict[str, Build] = TABLE
"""What builds each operator, by its name with its overload."""


def grouped() -> dict[str, list[str]]:
    """The operators of each file, by its title."""
    homes = {module.__name__: title for title, module in GROUPS.items()}
    found: dict[str, list[str]] = {title: [] for title in GROUPS}
    for name, build in TABLE.items():
        found[homes[build.__module__]].append(name)
    return found
