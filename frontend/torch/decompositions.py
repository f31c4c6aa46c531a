"""Decompositions of mgn's own, for calls of which PyTorch's fake tensors say something wrong.

In: the arguments of an ATen operator. Out: its results by other operators, or NotImplemented, which
leaves the call to the table.
"""

from typing import Any

from mgn.frontend.torch.library import library


def own_decompositions() -> dict[Any, Any]:
    """What takes each operator apart."""
    return {library().ops.aten._weight_norm_interface.default: weight_norm_of_one_axis}


def weight_norm_of_one_axis(v: Any, g: Any, dim: int = 0) -> Any:
    """A weight of one axis with the norms of its elements. Of other weights, mgn has the operator;
    of these, PyTorch says that the norms were one number, and keeps no more for the gradient.
    """
    if v.ndim != 1:
        return NotImplemented
    norms = v.abs()
    return v * (g / norms), norms
