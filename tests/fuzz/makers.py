"""How a call of each operation is drawn: operands of fitting types, and attributes.

In: a `Draw`. Out: a step of the operation in it. Elementwise operations and the plain reductions
follow from their declarations; the others have a row here. An operation without one is an error,
which a test finds.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from mgn.dialects.mgn.operation import FLOATS, NUMERIC, OPERATIONS, Kind, OperationSpec
from tests.fuzz import movers
from tests.fuzz.axes import axes_of, axis_of
from tests.fuzz.draw import FLOAT_ELEMENTS, INTEGER_ELEMENTS, REFUSALS, Draw
from tests.fuzz.movers import ANYTHING
from tests.fuzz.patterns import from_rule
from tests.fuzz.program import Program
from tests.fuzz.randoms import RANDOMS
from tests.fuzz.spatial import SPATIAL_MAKERS
from tests.fuzz.values import Shape

Maker = Callable[[Draw], Any]


# ---- elementwise

GUARDED: dict[str, str] = {
    **dict.fromkeys(("log", "sqrt", "rsqrt", "recip", "pow", "log1p"), "positive"),
    **dict.fromkeys(("exp", "expm1", "tan"), "bounded"),
    **dict.fromkeys(("softplus", "elu", "sin", "cos"), ""),
}
"""What keeps the first operand of an operation in its domain, most of the time."""

ATTRIBUTES: dict[str, Callable[[random.Random], Any]] = {
    "slope": lambda rng: rng.choice((0.01, 0.2, -0.5, 0.0, 1.0)),
    "alpha": lambda rng: rng.choice((1.0, 1.5, 0.1)),
    "approx": lambda rng: rng.choice(("none", "tanh")),
    "reduction": lambda rng: rng.choice(("mean", "sum", "none")),
    "eps": lambda rng: rng.choice((1e-5, 1e-3, 1e-6, 0.1)),
    "ignore_index": lambda rng: rng.choice((0, 1, -100)),
    "delta": lambda rng: rng.choice((1.0, 0.75, 0.1)),
}


def attributes_of(draw: Draw, spec: OperationSpec) -> dict[str, Any]:
    """Values for the attributes that `ATTRIBUTES` knows; some are left out for their defaults."""
    known = [item.name for item in spec.attributes if item.name in ATTRIBUTES]
    return {name: ATTRIBUTES[name](draw.rng) for name in known if draw.rng.random() < 0.7}


def elementwise(draw: Draw, spec: OperationSpec) -> int:
    """Operands that broadcast with the first one; literals here and there."""
    first = draw.among(next(item.accepts for item in spec.operands if item.group == "T"))
    guard = GUARDED.get(spec.name, "")
    first = getattr(draw, guard)(first) if guard else first
    element, shape = draw.element(first), draw.shape(first)
    operands: list[int | float] = []
    placed = False
    for item in spec.operands:
        if item.group != "T":
            operands.append(draw.fitting("bool", shape))
        elif not placed:
            operands.append(first)
            placed = True
        elif element.name != "bool" and draw.rng.random() < 0.2:
            operands.append(draw.literal(element))
        else:
            other = draw.fitting(element.name, shape)
            guarded = {"div": "positive", "mod": "positive", "pow": "bounded"}.get(spec.name)
            operands.append(getattr(draw, guarded)(other) if guarded else other)
    if len(operands) > 1 and spec.commutative and draw.rng.random() < 0.5:
        operands.reverse()
    return draw.step(spec.name, *operands, **attributes_of(draw, spec))


def cast(draw: Draw) -> int:
    names = (*FLOAT_ELEMENTS, *INTEGER_ELEMENTS, "bool")
    return draw.step("cast", draw.among(ANYTHING), T=draw.rng.choice(names))


def clamp(draw: Draw) -> int:
    x = draw.among(NUMERIC)
    low, high = sorted((draw.literal(draw.element(x)), draw.literal(draw.element(x))))
    bounds = {"min": low, "max": high}
    if draw.rng.random() < 0.4:
        del bounds[draw.rng.choice(("min", "max"))]
    return draw.step("clamp", x, **bounds)


# ---- reductions


def reduction(draw: Draw, spec: OperationSpec) -> int:
    x = draw.among(spec.operands[0].accepts, draw.rng.choice((0, 1, 1)))
    if spec.name == "prod":
        x = draw.bounded(x)
    given = {"axis": axes_of(draw.rng, len(draw.shape(x)))}
    if draw.rng.random() < 0.5:
        given["keepdims"] = draw.rng.random() < 0.5
    return draw.step(spec.name, x, **given)


def block_sums(draw: Draw) -> int:
    x = draw.among(NUMERIC, 1)
    leading = draw.rng.randint(1, len(draw.shape(x)))
    return draw.step("block_sums", x, rows=draw.rng.choice((1, 2, 7)), leading=leading)


def along_axis(draw: Draw, spec: OperationSpec) -> int:
    x = draw.among(spec.operands[0].accepts, 1)
    return draw.step(spec.name, x, axis=axis_of(draw.rng, len(draw.shape(x))))


# ---- products


def matmul(draw: Draw) -> int:
    a = draw.among(NUMERIC, 1)
    shape, element = draw.shape(a), draw.element(a).name
    turn_a = len(shape) > 1 and draw.rng.random() < 0.3
    inner = shape[-2] if turn_a else shape[-1]
    turn_b = draw.rng.random() < 0.4
    columns = draw.rng.choice((1, 2, 3, 4, 7, 8, 16, 17, 33, 64))
    batch = tuple(1 if draw.rng.random() < 0.2 else size for size in shape[:-2])
    batch = batch[draw.rng.randint(0, len(batch)) :]
    other: Shape = (*batch, columns, inner) if turn_b else (*batch, inner, columns)
    if draw.rng.random() < 0.15:
        other, turn_b = (inner,), False
    b = draw.value(element, other)
    return draw.step("matmul", a, b, transpose_a=turn_a, transpose_b=turn_b)


def linear(draw: Draw) -> int:
    x = draw.among(NUMERIC, 1)
    element, out = draw.element(x).name, draw.rng.choice((1, 2, 3, 8, 16, 33))
    w = draw.value(element, (out, draw.shape(x)[-1]))
    bias = () if draw.rng.random() < 0.4 else (draw.value(element, (out,)),)
    return draw.step("linear", x, w, *bias)


EQUATIONS = (
    "ij,jk->ik", "ij,kj->ki", "bij,bjk->bik", "bhqd,bhkd->bhqk", "ij->ji", "ij->", "ij->j",
    "ii->i", "i,j->ij", "i,i->", "...ij,...jk->...ik", "...i->...", "ij,jk,kl->il", "ij,ij->i",
    "bij,bj->bi", "abc,cd->abd", "ij,ij->ij", "i,->i", "ijk->kji",
)  # fmt: skip


def einsum(draw: Draw) -> int:
    """One of a list of equations, or a random one of two operands."""
    equation = draw.rng.choice(EQUATIONS)
    if draw.rng.random() < 0.3:
        left = draw.rng.sample("abcd", draw.rng.randint(1, 3))
        right = draw.rng.sample("abcd", draw.rng.randint(1, 3))
        among = sorted({*left, *right})
        kept = draw.rng.sample(among, draw.rng.randint(0, len(among)))
        equation = f"{''.join(left)},{''.join(right)}->{''.join(kept)}"
    sizes = {letter: draw.rng.choice((1, 2, 3, 4, 5, 8, 9)) for letter in "abcdhijklqxyz"}
    element = draw.element_name(NUMERIC)
    batch = tuple(draw.rng.choice((1, 2, 3)) for _ in range(draw.rng.randint(0, 2)))
    operands = [
        draw.value(element, _einsum_shape(part, sizes, batch))
        for part in equation.partition("->")[0].split(",")
    ]
    return draw.step("einsum", tuple(operands), equation=equation)


def _einsum_shape(letters: str, sizes: dict[str, int], batch: Shape) -> Shape:
    front = batch if letters.startswith("...") else ()
    return (*front, *(sizes[letter] for letter in letters.removeprefix("...")))


# ---- attention and rope


def _heads(draw: Draw) -> tuple[int, int, int]:
    kv_heads = draw.rng.choice((1, 1, 2, 3))
    return kv_heads * draw.rng.choice((1, 1, 2, 3)), kv_heads, draw.rng.choice((2, 4, 5, 8, 16))


def attention(draw: Draw, name: str = "attention") -> int:
    heads, kv_heads, size = _heads(draw)
    rows, keys = (draw.rng.choice((1, 2, 3, 5, 8, 17, 33)) for _ in range(2))
    batch = draw.rng.choice(((), (1,), (2,), (3,), (2, 2)))
    element, width = draw.element_name(FLOATS), draw.rng.choice((size, size, 3))
    q = draw.value(element, (*batch, rows, heads * size))
    k = draw.value(element, (*batch, keys, kv_heads * size))
    v = draw.value(element, (*batch, keys, kv_heads * width))
    given: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads}
    _scoring(draw, given)
    bias = ()
    if draw.rng.random() < 0.25:
        bias = (draw.fitting(element, (*batch, heads, rows, keys)),)
    if name == "attention_parts":
        given["each"] = draw.rng.choice((1, 2, 4, 16))
    return draw.step(name, q, k, v, *bias, **given)


def _scoring(draw: Draw, given: dict[str, Any]) -> None:
    """How scores are made, as attributes."""
    if draw.rng.random() < 0.4:
        given["causal"] = True
    if draw.rng.random() < 0.25:
        given["window"] = draw.rng.choice((1, 2, 7))
    if draw.rng.random() < 0.3:
        given["scale"] = draw.rng.choice((0.125, 0.3, 1.0))
    if draw.rng.random() < 0.15:
        given["softcap"] = draw.rng.choice((1.5, 20.0))


def attention_gradient(draw: Draw, name: str) -> int:
    heads, kv_heads, size = _heads(draw)
    rows, keys = (draw.rng.choice((1, 2, 3, 5, 17)) for _ in range(2))
    batch = draw.rng.choice(((), (1,), (2,)))
    element, width = draw.rng.choice(("f32", "f64")), draw.rng.choice((size, size, 3))
    q = draw.value(element, (*batch, rows, heads * size))
    k = draw.value(element, (*batch, keys, kv_heads * size))
    given: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads}
    _scoring(draw, given)
    lse = draw.step("attention_lse", q, k, **given)
    if name == "attention_lse":
        return lse
    v = draw.value(element, (*batch, keys, kv_heads * width))
    g = draw.value(element, (*batch, rows, heads * width))
    own = draw.value(element, (*batch, rows, heads))
    return draw.step(name, q, k, v, g, lse, own, **given)


def rope(draw: Draw) -> int:
    element = draw.element_name(FLOATS)
    size, heads = draw.rng.choice((2, 4, 8, 10)), draw.rng.choice((1, 2, 3))
    batch = draw.rng.choice(((), (1,), (2,), (2, 3)))
    x = draw.value(element, (*batch, draw.rng.choice((1, 2, 5, 9)), size * heads))
    given: dict[str, Any] = {"head_dim": size, "theta": draw.rng.choice((10000.0, 100.0))}
    if draw.rng.random() < 0.4:
        given["interleaved"] = True
    offset = draw.given(draw.arrays.integers(0, 100, ()).astype("int32"))
    return draw.step("rope", x, offset if draw.rng.random() < 0.4 else 3.0, **given)


# ---- norms and losses


def last_axes_norm(draw: Draw, name: str) -> int:
    x = draw.among(FLOATS, 1)
    element, shape = draw.element(x).name, draw.shape(x)
    part = shape[-1:] if draw.rng.random() < 0.8 else shape[-2:]
    wanted = draw.rng.randint(0, 2 if name == "layer_norm" else 1)
    weights = [draw.value(element, part) for _ in range(wanted)]
    return draw.step(name, x, *weights, **attributes_of(draw, OPERATIONS[name]))


def channel_norm(draw: Draw, name: str) -> int:
    x = draw.among(FLOATS, 3 if name == "instance_norm" else 2)
    element, channels = draw.element(x).name, draw.shape(x)[1]
    given = attributes_of(draw, OPERATIONS[name])
    if name == "group_norm":
        given["groups"] = draw.rng.choice([n for n in range(1, 9) if channels % n == 0] or [1])
    count = 4 if name == "batch_norm" else draw.rng.randint(0, 2)
    weights = [draw.value(element, (channels,)) for _ in range(count)]
    if name == "batch_norm":
        weights[3] = draw.positive(weights[3])
    return draw.step(name, x, *weights, **given)


def pair_loss(draw: Draw, name: str) -> int:
    x = draw.among(FLOATS)
    if name == "bce":
        x = draw.step("sigmoid", x)
    target = draw.fitting(draw.element(x).name, draw.shape(x))
    return draw.step(name, x, target, **attributes_of(draw, OPERATIONS[name]))


def class_loss(draw: Draw, name: str) -> int:
    x = draw.among(FLOATS, 1)
    shape = draw.shape(x)
    if name == "cross_entropy" and draw.rng.random() < 0.3:
        labels = draw.value(draw.element(x).name, shape)
    else:
        labels = draw.ids(shape[:-1], shape[-1])
    return draw.step(name, x, labels, **attributes_of(draw, OPERATIONS[name]))


def _named(function: Callable[[Draw, str], int], *names: str) -> dict[str, Maker]:
    return {name: partial(function, name=name) for name in names}


_AXIS_NAMES = ("running_sum", "running_product", "softmax", "log_softmax")

MAKERS: dict[str, Maker] = {
    **{
        name: partial(elementwise, spec=spec)
        for name, spec in OPERATIONS.items()
        if spec.kind is Kind.ELEMENTWISE
    },
    **{
        name: partial(reduction, spec=OPERATIONS[name])
        for name in (
            "sum", "prod", "max_reduce", "min_reduce", "mean", "var", "logsumexp", "cumsum",
            "cumprod", "argmax", "argmin",
        )
    },
    **{name: partial(along_axis, spec=OPERATIONS[name]) for name in _AXIS_NAMES},
    **_named(attention, "attention", "attention_parts"),
    **_named(
        attention_gradient, "attention_lse", "attention_query_gradient", "attention_key_gradient"
    ),
    **_named(last_axes_norm, "layer_norm", "rms_norm"),
    **_named(channel_norm, "group_norm", "batch_norm", "instance_norm"),
    **_named(pair_loss, "bce", "bce_with_logits", "mse", "l1", "huber"),
    **_named(class_loss, "cross_entropy", "nll"),
    "block_sums": block_sums, "cast": cast, "clamp": clamp, "matmul": matmul, "linear": linear,
    "einsum": einsum, "rope": rope, **movers.MOVERS, **RANDOMS, **SPATIAL_MAKERS,
}  # fmt: skip
"""The maker of each operation."""

FREQUENT = {
    **dict.fromkeys(("add", "sub", "mul", "div", "matmul", "linear", "sum"), 4),
    **dict.fromkeys(("max_reduce", "mean", "softmax", "where", "cast", "attention"), 3),
    **dict.fromkeys(("transpose", "reshape", "slice", "concat", "layer_norm", "rms_norm"), 3),
    **dict.fromkeys(("exp", "sqrt", "broadcast_to", "relu", "gelu", "silu", "sigmoid"), 2),
}
"""Operations that are drawn more often than others."""


RULE_SHARE = 0.12
"""How often the left side of a rule is drawn in the place of one operation."""


def grow(draw: Draw, steps: int) -> None:
    """Adds so many operations; those that do not fit what there is are drawn again."""
    names = list(MAKERS)
    weights = [FREQUENT.get(name, 1) for name in names]
    for _ in range(20 * steps):
        if len(draw.steps) >= steps:
            break
        try:
            if draw.rng.random() < RULE_SHARE:
                from_rule(draw)
            else:
                MAKERS[draw.rng.choices(names, weights)[0]](draw)
        except REFUSALS:
            continue


def random_program(seed: object) -> Program:
    """The program that a seed stands for, with its flavour."""
    rng = random.Random(str(seed))
    flavour = rng.choice(("tame", "tame", "tame", "wide", "special"))
    size = rng.choice((30, 100, 300, 300, 1000, 1000, 5000) if rng.random() < 0.97 else (100_000,))
    draw = Draw(rng, flavour, size)
    grow(draw, rng.choice((1, 2, 3, 4, 5, 6, 8, 10, 14, 20)))
    while not draw.steps:
        grow(draw, 1)
    return draw.program()
