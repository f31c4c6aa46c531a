"""Instances of a rule's left side: types of its variables, attributes and constants, at random.

In: a `Rule` and a seed. Out: `Instance`s, of which many make no left side, and on which the rule
may not act.
"""

import ast
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.attributes import REQUIRED
from mgn.dialects.mgn.operation import BOOLS, OPERATIONS, AttributeSpec, Kind
from mgn.dialects.types import ELEMENT_TYPES, Family, element_of, tensor
from mgn.passes.saturate.rules.patterns import Call, Pattern, Variable, calls_of
from mgn.passes.saturate.rules.rule import Rule
from mgn.testing.draws import special_values

Shape = tuple[int, ...]

SHAPES: tuple[Shape, ...] = (
    (3, 4),
    (4, 3),
    (2, 3, 4),
    (4,),
    (),
    (3, 3),
    (2, 2, 2),
    (3, 1),
    (1, 4),
    (1,),
    (2, 4, 3),
    (2, 3), (5,), (1, 1), (2, 1, 3), (2, 3, 2, 2), (0,), (3, 0),
)  # fmt: skip
CUBES: tuple[Shape, ...] = (
    (2,), (2, 2), (3, 3), (2, 2, 2), (3, 3, 3), (2, 2, 2, 2), (2, 2, 2, 2, 2)
)  # fmt: skip
"""Shapes whose axes have one size: whatever moves or exchanges axes keeps them."""
LONG = 300
"""More elements along an axis than a byte counts, or than bf16 has whole numbers for."""
SIZES = (1, 1, 2, 2, 3, 3, 4, 5)
"""Sizes of axes; the shapes of an instance have two or three of them in common."""
MANY = 40
"""Elements along an axis where each element is computed by itself: more than there are special
values, so that all pairs of them are met.
"""
LENGTHWISE = (Kind.REDUCTION, Kind.SCAN, Kind.COMPOSITE)
"""Operations that are also tried along a long axis."""
FLOATS = ("f32", "f32", "f32", "f16", "bf16", "f64")
INTEGERS = ("i32", "i64", "i16", "i8", "u8", "u16", "u32")
ELEMENTS = (*FLOATS, *FLOATS, *INTEGERS, "bool")
OTHER_FLOATS = {"f32": ("f16", "bf16", "f64"), "f64": ("f16", "bf16")}
"""What the floats of an example are also tried as."""

PERMUTATIONS = tuple(perm for rank in range(1, 4) for perm in itertools.permutations(range(rank)))
NARROW = tuple(ELEMENT_TYPES[name] for name in ("f16", "bf16", "i8", "u8"))
ATTRIBUTES: dict[str, tuple[object, ...]] = {
    "perm": (*PERMUTATIONS, ()),
    "shape": ((12,), (3, 4), (4, 3), (2, 2, 3, 4), (2, 3, 4), (4,), (), (3, 3), (3, 2, 4)),
    "axis": ((0,), (1,), (0, 1)),
    "T": tuple(row for row in ELEMENT_TYPES.values() if row.dtype is not None) + NARROW,
    "transpose_a": (False, True),
    "transpose_b": (False, True),
    "padding": (((0, 0), (0, 0)), ((1, 0), (0, 0)), ((0, 0),)),
    "value": (0.0, 1.5, -2.0, 1.0),
    "starts": ((0, 0), (1, 0), (0,)),
    "stops": ((3, 4), (2, 4), (4,)),
    "steps": ((1, 1), (1,)),
    "approx": ("none", "tanh"),
}
KINDS: dict[str, tuple[object, ...]] = {
    "int": (0, 1, 2, 4, 3, -1, -2),
    "float": (0.5, 1.0, 1e-5, 10000.0, -0.5, 0.0),
    "number": (0.0, 1.5, -2.0, -3.5),
    "bool": (False, True),
    "str": (),
    "ints": ((), (0,), (1, 0), (2, 2), (2,), (3, 1)),
    "int or ints": ((2,), (3, 4), (2, 2)),
    "int, ints or none": ((0,), (1,), (0, 1)),
    "padding": (((0, 0),), ((1, 2),)),
    "pairs": (((0, 0), (0, 0)), ((1, 2),)),
    "element type": tuple(ELEMENT_TYPES[name] for name in ("f32", "f64", "i32")),
}
"""Values of attributes that `ATTRIBUTES` does not name, by their kind."""
CONSTANTS = (2.0, -1.5, 3.0, 0.25, 0.1, -4.0)
EXTREMES = (
    1.0, -1.0, 1e-20, -1e20, 12582912.0, 3e38, 1e-38, 2.0**-126, 2.0**127, 2.0**-20, 1e-7,
    -65504.0, 6e-8, 2.0**-149, 2.0**800, -1e30,
)  # fmt: skip
"""Constants at which the arithmetic of floats shows."""
SIGNED = (0.0, -0.0, math.inf, -math.inf)
"""Constants that make a sum or a product of another sign, or nan."""


@dataclass
class Instance:
    """One instance of a left side. `known` are variables that are constants, not inputs; `extreme`
    says that some number is no common one, for which f64 is not near the reals either.
    """

    types: list[TensorType]
    attributes: dict[str, object]
    constants: dict[str, float] = field(default_factory=dict[str, float])
    known: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    extreme: bool = False


Examples = Callable[[str, random.Random, list[str]], Instance | None]
"""Instances that random types hardly ever make, from a rule's name, a generator, its variables."""


def instances(rule: Rule, seed: int, examples: Examples | None = None) -> Iterator[Instance]:
    """Instances to try: examples of the row where it has them, in their element types and in other
    ones, else random types.
    """
    rng = random.Random(seed)
    choices = attribute_choices(rule.left_pattern)
    masks = masks_of(rule.left_pattern) | masks_of(rule.right_pattern)
    shapes_of = _many if is_elementwise(rule) else _shapes
    long = any(OPERATIONS[call.name].kind in LENGTHWISE for call in calls_of(rule.left_pattern))
    while True:
        example = examples(rule.name, rng, rule.variables) if examples is not None else None
        if example is not None:
            yield example if rng.random() < 0.6 else _in_other_floats(rng, example)
        else:
            make = shapes_of if rng.random() < 0.7 else _shapes
            make = _long if long and rng.random() < 0.15 else make
            shapes = make(rng, len(rule.variables))
            yield _random_instance(rng, rule, shapes, choices, masks)


def is_elementwise(rule: Rule) -> bool:
    """Whether both sides of a rule compute each element by itself."""
    calls = (*calls_of(rule.left_pattern), *calls_of(rule.right_pattern))
    return all(OPERATIONS[call.name].kind is Kind.ELEMENTWISE for call in calls)


def _random_instance(
    rng: random.Random,
    rule: Rule,
    shapes: Sequence[Shape],
    choices: Mapping[str, tuple[AttributeSpec, Sequence[object]]],
    masks: frozenset[str],
) -> Instance:
    """Alike types are drawn often, as most operations want them; some have two element types."""
    among = [rng.choice(ELEMENTS)]
    if len(rule.variables) > 1 and rng.random() < 0.15:
        among.append(rng.choice(ELEMENTS))
    elements = {name: "bool" if name in masks else rng.choice(among) for name in rule.variables}
    types = [
        tensor(elements[name], shape) for name, shape in zip(rule.variables, shapes, strict=True)
    ]
    values = {name: _attribute(rng, spec, given, shapes) for name, (spec, given) in choices.items()}
    extreme = rng.random() < 0.5
    constants = {name: _constant(rng, elements[name], extreme) for name in rule.constants}
    return Instance(types, values, constants, extreme=extreme)


def _many(rng: random.Random, count: int) -> list[Shape]:
    """Many elements, each with each other one or each by itself."""
    if count > 3 or rng.random() < 0.5:
        return [(2 * MANY + 17,)] * count
    return [tuple(MANY if axis == at else 1 for axis in range(count)) for at in range(count)]


def _long(rng: random.Random, count: int) -> list[Shape]:
    """One long axis, which all have, or but for one of them."""
    first = rng.choice([(LONG,), (2, LONG), (LONG, 2)])
    return [
        first if rng.random() < 0.8 else rng.choice([(), (1,), first[1:]]) for _ in range(count)
    ]


def _shapes(rng: random.Random, count: int) -> list[Shape]:
    kind = rng.random()
    if kind < 0.4:
        first = rng.choice(SHAPES)
        return [first if rng.random() < 0.4 else rng.choice(SHAPES) for _ in range(count)]
    if kind < 0.55:
        first = rng.choice(CUBES)
        return [first if rng.random() < 0.7 else first[1:] for _ in range(count)]
    sizes = [rng.choice(SIZES) for _ in range(rng.choice((1, 2, 2, 3)))]
    if rng.random() < 0.08:
        sizes.append(0)
    rank = rng.choice((0, 1, 2, 2, 2, 3, 3, 4))
    first = tuple(rng.choice(sizes) for _ in range(rank))
    return [first if rng.random() < 0.3 else _alike(rng, first, sizes) for _ in range(count)]


def _alike(rng: random.Random, first: Shape, sizes: Sequence[int]) -> Shape:
    """A shape that fits another one: without its leading axes, with axes of 1, turned."""
    return rng.choice(
        [
            first,
            first[rng.randrange(len(first) + 1) :],
            tuple(rng.choice((size, size, 1)) for size in first),
            (*first[:-2], *first[:-3:-1]),
            tuple(rng.choice(sizes) for _ in first),
            (*first[:-1], rng.choice(sizes)) if first else (),
        ]
    )


def masks_of(pattern: Pattern) -> frozenset[str]:
    """The variables that have to be bools."""
    found: set[str] = set()
    for call in calls_of(pattern):
        specs = OPERATIONS[call.name].operands
        for at, operand in enumerate(call.operands):
            if isinstance(operand, Variable) and specs[min(at, len(specs) - 1)].accepts == BOOLS:
                found.add(operand.name)
    return frozenset(found)


def _constant(rng: random.Random, element: str, extreme: bool) -> float:
    """A constant of a type: a usual one; or one of any magnitude between, since what lies near it
    is much smaller once it is taken off; or one that is extreme in any type, or in its own.
    """
    row = ELEMENT_TYPES[element]
    if not row.is_float:
        usual = rng.choice((2, 3, 1, 0, 4 if row.family is Family.UNSIGNED else -1))
        return rng.choice((usual, rng.choice(special_values(row).tolist()))) if extreme else usual
    if not extreme:
        return rng.choice(CONSTANTS)
    own = special_values(ELEMENT_TYPES["f32"] if element == "f64" else row).astype(np.float64)
    between = rng.choice((-1.0, 1.0)) * 2.0 ** rng.uniform(-8, 15)
    unusual = rng.choice((*EXTREMES, *own[np.isfinite(own)].tolist()))
    usual = rng.choice(CONSTANTS)
    return rng.choice((between, between, between, unusual, unusual, rng.choice(SIGNED), usual))


def _in_other_floats(rng: random.Random, example: Instance) -> Instance:
    """An example whose floats are of another type."""
    among = [element_of(type).name for type in example.types]
    given = next((name for name in among if name in OTHER_FLOATS), None)
    if given is None:
        return example
    element = rng.choice(OTHER_FLOATS[given])
    types = [
        tensor(element, type.get_shape()) if element_of(type).name == given else type
        for type in example.types
    ]
    dtype = ELEMENT_TYPES[element].dtype
    with np.errstate(all="ignore"):
        known = {
            name: array.astype(dtype) if array.dtype.kind == "f" else array
            for name, array in example.known.items()
        }
    return replace(example, types=types, known=known)


def attribute_choices(pattern: Pattern) -> dict[str, tuple[AttributeSpec, list[object]]]:
    """The attribute variables of a pattern, with the values that each is tried with."""
    found: dict[str, tuple[AttributeSpec, list[object]]] = {}
    for call in calls_of(pattern):
        for item in OPERATIONS[call.name].attributes:
            written = call.attributes.get(item.name)
            if isinstance(written, ast.Name):
                found.setdefault(written.id, (item, _values_of(item)))
    return found


def _values_of(attribute: AttributeSpec) -> list[object]:
    """Values that an attribute is tried with: those of its name, or else its default and some of
    its kind.
    """
    default = () if attribute.default is REQUIRED else (attribute.default,)
    for choices in (ATTRIBUTES.get(attribute.name, ()), (*default, *KINDS[attribute.kind.name])):
        values: list[object] = []
        for value in choices:
            with suppress(TypeError):
                values.append(None if value is None else attribute.kind.accept(value))
        if values:
            return values
    return [None]


def _attribute(
    rng: random.Random, item: AttributeSpec, among: Sequence[object], shapes: Sequence[Shape]
) -> object:
    """A value of an attribute: one that fits a shape of the instance, or any other."""
    make = FITTING.get(item.name)
    if make is None or not shapes or rng.random() < 0.4:
        return rng.choice(among)
    try:
        return item.kind.accept(make(rng, rng.choice(shapes)))
    except (TypeError, IndexError):
        return rng.choice(among)


def _regrouped(rng: random.Random, shape: Shape) -> Shape:
    """The elements of a shape in another one: merged, turned, with axes of 1, or wider."""
    at = rng.randrange(len(shape) + 1)
    merged = (*shape[:at], math.prod(shape[at : at + 2]), *shape[at + 2 :])
    dropped = tuple(size for size in shape if size != 1)
    with_one = (*shape[:at], 1, *shape[at:])
    wider = (rng.choice((1, 2, 3)), *shape)
    turned = tuple(rng.sample(shape, len(shape)))
    return rng.choice([merged, dropped, with_one, turned, shape, wider, (math.prod(shape),)])


def _axes(rng: random.Random, shape: Shape) -> Shape:
    """One axis or more, side by side or not."""
    count = rng.randint(min(1, len(shape)), len(shape))
    return tuple(sorted(rng.sample(range(len(shape)), count)))


def _stops(rng: random.Random, shape: Shape) -> Shape:
    return tuple(rng.choice((size, size, max(size - 1, 0))) for size in shape)


FITTING: dict[str, Callable[[random.Random, Shape], object]] = {
    "perm": lambda rng, shape: tuple(rng.sample(range(len(shape)), len(shape))),
    "shape": _regrouped,
    "starts": lambda rng, shape: tuple(rng.choice((0, 0, 1, 2)) for _ in shape),
    "stops": _stops,
    "steps": lambda rng, shape: tuple(rng.choice((1, 1, 2, 3)) for _ in shape),
    "padding": lambda rng, shape: tuple(
        (rng.choice((0, 0, 1, 2)), rng.choice((0, 0, 1))) for _ in shape
    ),
    "axis": _axes,
}
"""How an attribute is made to fit the shape of some variable, by its name."""


def literal_attributes(call: Call, attributes: Mapping[str, object]) -> dict[str, object]:
    """The attributes that a call writes, with the values of attribute variables."""
    return {
        name: attributes.get(node.id) if isinstance(node, ast.Name) else ast.literal_eval(node)
        for name, node in call.attributes.items()
    }
