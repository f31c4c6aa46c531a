"""Wrong rules that no row of the table is like are refused, and right ones accepted.

They are wrong at the ends of integers, at subnormal, large or special floats, in half precision,
for matrices that are not square, axes of other sizes, ties, or for a class that promises more.
"""

import pytest

from tests.passes.saturate.rules.trial_rows import (
    EXACT,
    FAST,
    REASSOCIATES,
    Row,
    is_accepted,
    is_refused,
)

WRONG: tuple[Row, ...] = (
    # Integers wrap around.
    ("greater-than-next", "gt(add(x, 1), x)", "ne(x, x)", EXACT, "integer(x)"),
    ("less-than-next", "lt(x, add(x, 1))", "eq(x, x)", FAST, "integer(x)"),
    ("abs-not-negative", "max(abs(x), 0)", "abs(x)", EXACT, "integer(x)"),
    ("halved-double", "div(mul(x, 2), 2)", "x", EXACT, "integer(x)"),
    ("double-halved", "mul(div(x, 2), 2)", "x", EXACT, "integer(x)"),
    ("square-not-negative", "max(mul(x, x), 0)", "mul(x, x)", FAST, "integer(x)"),
    ("negated-less", "lt(neg(x), neg(y))", "lt(y, x)", EXACT, "integer(x)"),
    ("difference-positive", "gt(sub(x, y), 0)", "gt(x, y)", FAST, "integer(x)"),
    ("sum-less", "lt(add(x, z), add(y, z))", "lt(x, y)", EXACT, "integer(x)"),
    ("max-of-sums", "max(add(x, z), add(y, z))", "add(max(x, y), z)", FAST, "integer(x)"),
    ("quotient-of-negation", "div(neg(x), y)", "neg(div(x, y))", EXACT, "integer(x)"),
    ("quotient-of-itself", "div(x, x)", "1", EXACT, "integer(x)"),
    ("remainder-of-sum", "mod(add(x, y), 3)", "mod(add(mod(x, 3), mod(y, 3)), 3)", EXACT, ""),
    ("unsigned-minus", "sub(neg(x), 1)", "neg(add(x, 2))", EXACT, "integer(x)"),
    ("wide-sum", "cast(add(cast(x, T=A), cast(y, T=A)), T=E)", "add(x, y)", EXACT, ""),
    ("relu-of-negation", "relu(neg(x))", "neg(min(x, 0))", EXACT, "integer(x)"),
    ("sign-times-abs", "mul(sign(x), abs(x))", "neg(neg(abs(x)))", EXACT, "integer(x)"),
    ("abs-of-product", "abs(mul(x, y))", "mul(abs(x), abs(y))", FAST, "integer(x)"),
    ("sum-of-cast", "cast(sum(x, axis=A), T=E)", "sum(cast(x, T=E), axis=A)", EXACT, ""),
    ("seventh", "div(mul(x, 7), 7)", "x", REASSOCIATES, "integer(x)"),
    ("minus-one-quotient", "div(x, -1)", "sub(-1, x)", EXACT, "integer(x)"),
    ("small-cast", "cast(cast(x, T=A), T=E)", "x", EXACT, "integer(x)"),
    # Signs of zeros, infinities, nan.
    ("add-any-zero", "add(x, 0)", "x", EXACT, "floating(x)"),
    ("zero-minus", "sub(0, x)", "neg(x)", EXACT, "floating(x)"),
    ("times-zero", "mul(x, 0)", "sub(x, x)", EXACT, "floating(x)"),
    ("minus-itself", "sub(x, x)", "mul(x, 0)", EXACT, "floating(x)"),
    ("equal-itself", "where(eq(x, x), y, z)", "y", EXACT, ""),
    ("not-less", "logical_not(lt(x, y))", "ge(x, y)", EXACT, ""),
    ("max-by-choice", "where(gt(x, y), x, y)", "max(x, y)", EXACT, ""),
    ("clamped", "max(min(x, 3), -3)", "x", REASSOCIATES, "floating(x)"),
    ("clamped-far", "min(x, 1000000.0)", "x", FAST, "wide(x)"),
    ("square-of-root", "mul(sqrt(x), sqrt(x))", "x", EXACT, "wide(x)"),
    ("truncated", "cast(cast(x, T=A), T=E)", "floor(x)", REASSOCIATES, "floating(x)"),
    # Subnormal and large floats.
    ("tiny-scale", "mul(mul(x, 1e-30), 1e30)", "x", EXACT, "wide(x)"),
    ("hypotenuse", "sqrt(add(mul(x, x), mul(y, y)))",
     "mul(abs(x), sqrt(add(1, mul(div(y, x), div(y, x)))))", REASSOCIATES, "wide(x)"),
    ("mean-of-two", "mul(add(x, y), 0.5)", "add(mul(x, 0.5), mul(y, 0.5))", EXACT, "wide(x)"),
    ("mean-apart", "add(mul(x, 0.5), mul(y, 0.5))", "mul(add(x, y), 0.5)", REASSOCIATES, "wide(x)"),
    ("squares-difference", "mul(add(x, y), sub(x, y))", "sub(mul(x, x), mul(y, y))",
     REASSOCIATES, "wide(x)"),
    ("quotients", "div(div(x, y), z)", "div(x, mul(y, z))", REASSOCIATES, "wide(x)"),
    ("product-of-three", "mul(mul(x, y), z)", "mul(x, mul(y, z))", REASSOCIATES, "wide(x)"),
    ("sum-of-three", "add(add(x, y), z)", "add(x, add(y, z))", REASSOCIATES, "wide(x)"),
    ("exp-of-sum", "exp(add(x, y))", "mul(exp(x), exp(y))", REASSOCIATES, "wide(x)"),
    ("log-of-product", "log(mul(x, y))", "add(log(x), log(y))", FAST, "wide(x)"),
    ("softmax-by-parts", "softmax(x)", "div(exp(x), sum(exp(x), axis=[-1], keepdims=True))",
     REASSOCIATES, "wide(x)"),
    ("sigmoid-of-exp", "sigmoid(x)", "div(exp(x), add(1, exp(x)))", REASSOCIATES, "wide(x)"),
    ("softplus-by-log", "softplus(x)", "log(add(1, exp(x)))", REASSOCIATES, "wide(x)"),
    ("expm1-by-exp", "expm1(x)", "sub(exp(x), 1)", REASSOCIATES, "wide(x)"),
    ("log1p-by-log", "log1p(x)", "log(add(x, 1))", REASSOCIATES, "wide(x)"),
    ("tanh-by-exp", "tanh(x)", "sub(1, div(2, add(exp(mul(x, 2)), 1)))", REASSOCIATES, "wide(x)"),
    ("erf-far", "erf(x)", "tanh(mul(x, 1.128379167))", FAST, "wide(x)"),
    ("shifted-away", "sub(add(x, 1e30), 1e30)", "mul(x, 2)", FAST, "wide(x)"),
    # Half precision.
    ("half-sum", "add(add(x, y), z)", "add(x, add(y, z))", EXACT, ""),
    ("half-silu", "mul(x, sigmoid(x))", "silu(x)", EXACT, ""),
    ("half-round", "round(x)", "floor(add(x, 0.5))", EXACT, ""),
    ("half-fma", "mul(add(x, 1), y)", "add(mul(x, y), y)", REASSOCIATES, ""),
    ("half-inverse", "mul(x, recip(y))", "div(x, y)", EXACT, ""),
    ("half-scale", "mul(mul(x, 3), 5)", "mul(x, 15)", EXACT, "floating(x)"),
    ("narrowed", "cast(mul(x, y), T=A)", "mul(cast(x, T=A), cast(y, T=A))", EXACT, ""),
    ("through-half", "cast(cast(x, T=A), T=E)", "x", EXACT, "floating(x)"),
    # Shapes: matrices that are not square, slices, axes.
    ("matmul-commutes", "matmul(a, b)", "matmul(b, a)", FAST, ""),
    ("matmul-turned-twice", "matmul(a, b, transpose_a=M, transpose_b=N)",
     "matmul(a, b, transpose_a=M, transpose_b=not N)", FAST, ""),
    ("gram", "matmul(a, a, transpose_b=True)", "matmul(a, a, transpose_a=True)", FAST, ""),
    ("sum-of-transpose", "sum(transpose(x, perm=P), axis=A)", "sum(x, axis=A)", FAST, ""),
    ("max-of-flip", "flip(x, axis=A)", "x", EXACT, ""),
    ("scan-of-flip", "running_sum(flip(x, axis=[0]), axis=0)",
     "flip(running_sum(x, axis=0), axis=[0])", FAST, ""),
    ("slice-starts", "slice(x, starts=A, stops=B, steps=C)",
     "slice(flip(x, axis=[0]), starts=A, stops=B, steps=C)", EXACT, ""),
    ("reshape-transpose", "reshape(transpose(x, perm=P), shape=S)", "reshape(x, shape=S)",
     EXACT, ""),
    ("reshape-of-concat", "concat([x, y], axis=A)", "concat([x, x], axis=A)", EXACT, ""),
    ("pad-value", "neg(pad(x, padding=P, value=V))", "pad(neg(x), padding=P, value=V)", EXACT, ""),
    ("pad-of-sum", "pad(add(x, 1), padding=P, value=V)", "add(pad(x, padding=P, value=V), 1)",
     EXACT, ""),
    ("softmax-of-max", "max_reduce(softmax(x), axis=A)", "softmax(max_reduce(x, axis=A))",
     FAST, "wide(x)"),
    ("mean-axis", "mean(x, axis=[0])", "mean(x, axis=[-1])", FAST, "wide(x)"),
    ("mean-of-empty", "div(sum(x, axis=A), 1)", "mean(x, axis=A)", FAST, "wide(x)"),
    ("prod-of-abs", "prod(neg(x), axis=A)", "prod(x, axis=A)", FAST, "wide(x)"),
    ("sum-positive", "max(sum(abs(x), axis=A), 1)", "sum(abs(x), axis=A)", FAST, "wide(x)"),
    ("max-nonempty", "max_reduce(add(x, y), axis=A)",
     "add(max_reduce(x, axis=A), max_reduce(y, axis=A))", FAST, ""),
    ("max-scaled", "max_reduce(mul(x, c), axis=A)", "mul(max_reduce(x, axis=A), c)",
     FAST, "constant(c)"),
    ("argmax-of-flip", "argmax(flip(x, axis=[0]), axis=0)", "argmax(x, axis=0)", EXACT, ""),
    ("argmax-last", "argmax(neg(x), axis=A)", "argmin(x, axis=A)", EXACT, ""),
    ("argmax-of-double", "argmax(mul(x, 2), axis=A)", "argmax(x, axis=A)", EXACT, ""),
    ("argmax-of-abs", "argmax(abs(x), axis=A)", "argmax(mul(x, x), axis=A)", FAST, ""),
    # Masks.
    ("where-same", "where(m, x, where(m, y, z))", "where(m, x, y)", EXACT, ""),
    ("where-factor", "mul(where(m, x, 0), y)", "where(m, mul(x, y), 0)", EXACT, ""),
    ("where-shift", "softmax(where(m, x, -1e9))", "softmax(add(x, where(m, 0.0, -1e9)))",
     REASSOCIATES, "wide(x)"),
    ("where-hidden", "softmax(where(m, x, -inf))", "softmax(where(m, x, -100.0))",
     REASSOCIATES, "wide(x)"),
    ("where-of-mask", "mul(x, cast(m, T=E))", "where(m, x, 0)", EXACT, ""),
    ("where-not", "where(logical_not(m), x, y)", "where(m, x, y)", EXACT, ""),
)  # fmt: skip

SOUND: tuple[Row, ...] = (
    ("relu-of-relu", "relu(relu(x))", "relu(x)", EXACT, ""),
    ("not-less-integer", "logical_not(lt(x, y))", "ge(x, y)", EXACT, "integer(x)"),
    ("twice", "add(x, x)", "mul(x, 2)", EXACT, ""),
    ("difference-turned", "neg(sub(x, y))", "sub(y, x)", REASSOCIATES, ""),
    ("sum-of-neg", "sum(neg(x), axis=A)", "neg(sum(x, axis=A))", REASSOCIATES, ""),
    ("sum-of-doubles", "sum(mul(x, 2), axis=A)", "mul(sum(x, axis=A), 2)", REASSOCIATES, "wide(x)"),
    ("twice-inverted", "recip(recip(x))", "x", REASSOCIATES, "wide(x)"),
    ("sum-less-first", "sub(add(x, y), x)", "y", REASSOCIATES, ""),
    ("log-of-exp", "log(exp(x))", "x", REASSOCIATES, "wide(x)"),
    ("rounding-dropped", "cast(cast(x, T=A), T=B)", "cast(x, T=B)",
     REASSOCIATES, "half(A) and floating(x)"),
    ("sum-of-sum", "sum(sum(x, axis=A), axis=A)", "sum(x)", FAST, ""),
    ("slice-again", "slice(slice(x, starts=A, stops=B, steps=C), starts=A, stops=B, steps=C)",
     "slice(x, starts=A, stops=B, steps=C)", EXACT, ""),
    ("any-order", "add(add(x, y), z)", "add(x, add(y, z))", FAST, ""),
    ("distributes", "add(mul(x, y), mul(x, z))", "mul(x, add(y, z))", FAST, "wide(x)"),
    ("exp-of-difference", "div(exp(x), exp(y))", "exp(sub(x, y))", FAST, "wide(x)"),
    ("matmul-of-sum", "matmul(add(a, b), c)", "add(matmul(a, c), matmul(b, c))", FAST, ""),
    ("max-of-negated", "max_reduce(neg(x), axis=A)", "neg(min_reduce(x, axis=A))", EXACT,
     "floating(x)"),
)  # fmt: skip


@pytest.mark.parametrize("row", WRONG, ids=[row[0] for row in WRONG])
def test_a_wrong_rule_is_refused(row: Row) -> None:
    is_refused(row)


@pytest.mark.parametrize("row", SOUND, ids=[row[0] for row in SOUND])
def test_a_right_rule_is_accepted(row: Row) -> None:
    is_accepted(row, wanted=20)


def test_there_are_many_wrong_rules() -> None:
    assert len({row[1:] for row in WRONG}) >= 85
