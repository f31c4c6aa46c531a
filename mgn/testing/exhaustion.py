"""Trials of a rule on every value there is, where these are few.

In: a `Rule` whose two sides compute each element by itself. Out: the element types for which it
acted and all values were tried: every pattern of 16 bits of one operand, every pair of 8 bits of
two. Constants beside them are the special values of the type.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np

from mgn.dialects.types import ELEMENT_TYPES, ElementType, tensor
from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.testing.draws import all_values, special_values
from mgn.testing.instances import Instance, attribute_choices, is_elementwise, masks_of
from mgn.testing.left_sides import Unfit
from mgn.testing.trials import values_of
from mgn.testing.values import Difference, Values

OF_ONE = ("f16", "bf16", "i8", "u8", "i16", "u16")
OF_TWO = ("i8", "u8")
MOST_INSTANCES = 40
"""Choices of constants and attributes that are tried for an element type."""


def exhausted(rule: Rule) -> tuple[tuple[str, ...], Difference | None]:
    """The element types of which all values were tried, and where the sides differ, if they do."""
    names = [name for name in rule.variables if name not in rule.constants]
    masks = masks_of(rule.left_pattern) | masks_of(rule.right_pattern)
    if not is_elementwise(rule) or masks or not 1 <= len(names) <= 2:
        return (), None
    tried: list[str] = []
    for element in OF_ONE if len(names) == 1 else OF_TWO:
        acted = False
        for instance in _instances(rule, ELEMENT_TYPES[element]):
            try:
                values = values_of(rule, instance)
            except Unfit:
                continue
            acted = True
            difference = _difference(rule, values)
            if difference is not None:
                return tuple(tried), difference
        if acted:
            tried.append(element)
    return tuple(tried), None


def _difference(rule: Rule, values: Values) -> Difference | None:
    """Where the sides differ on all values at once, by what the class promises."""
    arrays = [
        np.ascontiguousarray(all_values(ELEMENT_TYPES[element]).reshape(shape))
        if shape
        else np.zeros((), ELEMENT_TYPES[element].dtype)
        for element, shape in values.elements_and_shapes
    ]
    if rule.equality is RuleClass.EXACT or not values.of_floats:
        return values.differ_in_bits_on(arrays)
    if rule.equality is RuleClass.REASSOCIATES:
        return values.differ_by_bound_on([_finite(array) for array in arrays], seed=0)
    return None


def _finite(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "iub":
        return array
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(array.astype(np.float64)), array, np.zeros_like(array))


def _instances(rule: Rule, element: ElementType) -> Iterator[Instance]:
    """An operand of all values, or two of all pairs, with special constants."""
    count = len(rule.variables) - len(rule.constants)
    bits = 2**element.bits
    shapes = iter([(bits,)] if count == 1 else [(bits, 1), (1, bits)])
    types = [
        tensor(element, () if name in rule.constants else next(shapes)) for name in rule.variables
    ]
    choices = {name: among for name, (_, among) in attribute_choices(rule.left_pattern).items()}
    numbers = [value for value in special_values(element).tolist() if value == value]
    made = 0
    for constants in product(numbers, repeat=len(rule.constants)):
        for values in product(*choices.values()):
            if made == MOST_INSTANCES:
                return
            made += 1
            attributes = dict(zip(choices, values, strict=True))
            yield Instance(types, attributes, dict(zip(rule.constants, constants, strict=True)))
