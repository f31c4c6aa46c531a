"""What rules may compute from the attributes of a match.

In: `Operand`s of `conditions` and attribute values. Out: an attribute value.
"""

import math
from collections.abc import Callable
from typing import Any

from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.saturate.rules import contracted_sums, layouts, rotary_tables


def _compose(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation of transposing by `first`, then by `second`."""
    return tuple(first[axis] for axis in second)


ATTRIBUTE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "compose": _compose,
    "as_matrix": lambda x: (math.prod(x.shape[:-1]), x.shape[-1]),
    "inner": lambda x, turned: x.shape[-1:] if turned else (x.shape[-1], 1),
    "of_filters": lambda w: (w.shape[0], *(1,) * (len(w.shape) - 1)),
    "outer": lambda shape: tuple(shape[:-1]),
    "as_column": lambda x: (*x.shape, 1),
    "last_row": lambda w, turned: float(w.shape[1 if turned else 0] - 1),
    "number_of": lambda x: x.constant,
    "scaled_by": layouts.scaled_by,
    "divided_by": lambda scale, c: scale / c.constant,
    "only": lambda axes: axes[0],
    "turned": lambda x, perm: tuple(x.shape[axis] for axis in perm),
    "one_head": layouts.one_head,
    "one_head_bias": layouts.one_head_bias,
    "keys_last": layouts.keys_last,
    "in_groups": layouts.in_groups,
    "each_of_group": layouts.each_of_group,
    "groups_outward": layouts.groups_outward,
    "line_start": layouts.line_start,
    "line_stop": layouts.line_stop,
    "line_steps": layouts.line_steps,
    "bias_in_groups": layouts.bias_in_groups,
    "heads_inward": layouts.heads_inward,
    "heads_outward": layouts.heads_outward,
    "merged": layouts.merged,
    "unmerged": layouts.unmerged,
    "merged_bias": layouts.merged_bias,
    "merged_keys": layouts.merged_keys,
    "heads_of": layouts.heads_of,
    "without_group": layouts.without_group,
    "window_of": layouts.window_of,
    "shape_of": lambda x: x.shape,
    "position_type": lambda: ELEMENT_TYPES["i32"],
    "line_of": lambda x, axis: tuple([n if i == axis else 1 for i, n in enumerate(x.shape)]),
    "last": lambda x: x.shape[-1],
    "half": lambda x: x.shape[-1] // 2,
    "in_batches_of": lambda x, y: (*x.shape[:-2], *y.shape[-2:]),
    "beside_rows": lambda b: (*b.shape[:-2], 1, *b.shape[-2:]),
    "together": layouts.together,
    "moved": layouts.moved,
    "lifted": layouts.lifted,
    "places": lambda axes, perm: tuple(sorted(perm[axis] for axis in axes)),
    "beside": contracted_sums.beside,
    "left_turned": contracted_sums.left_turned,
    "right_turned": contracted_sums.right_turned,
    "left_order": contracted_sums.left_order,
    "right_order": contracted_sums.right_order,
    "left_matrices": contracted_sums.left_matrices,
    "right_matrices": contracted_sums.right_matrices,
    "contracted": contracted_sums.contracted,
    "in_place": contracted_sums.in_place,
    "merged_last": lambda x: (*x.shape[:-2], math.prod(x.shape[-2:])),
    "paired": lambda shape: (*shape[:-1], *(2 * size for size in shape[-1:])),
    "every_other": lambda shape: (*(1,) * (len(shape) - 1), 2),
    "first_of_pairs": lambda shape, starts: (*(0,) * (len(shape) - 1), starts[-1]),
    "in_rows": rotary_tables.in_rows,
    "base_of": rotary_tables.base_of,
}
"""What right sides may compute from matched values and attributes."""
