"""Rows of the rule table: matrix products.

None is exact on a device: another form or another shape may be added up in another order. A scale
that stands before a product may keep it from overflowing, and a product of differences from
cancelling: a row that moves one, or another bracket, is fast, unless what it moves is bounded.
"""

from mgn.passes.saturate.rules.rule import Rule, RuleClass

EXACT, REASSOCIATES = RuleClass.EXACT, RuleClass.REASSOCIATES
FAST, ROUNDS = RuleClass.FAST, RuleClass.ROUNDS

NORM = "rsqrt(add(div(sum(mul(a, a), axis=A, keepdims=True), n), e))"
"""The inverse length of rows, but for their size. Where the sum of the squares is finite, an
element is at most 2^64 in f32, and at most the root of n with this scale, which is at most 2^20.
"""
NORMED = (
    "reduces_last(A, a) and positive(n) and positive(e) and moderate(e) and parameters(b) "
    "and matrix(b) and read_once(r)"
)
"""When the statistic of a norm may follow the product of its rows with weights."""
SCALED_BY = " and vector(s) and parameters(s) and moderate_parameters(s, b)"
"""When its scale may become part of the weights."""

PRODUCTS: tuple[Rule, ...] = (
    # Matrix products take transposed operands as they are.
    Rule(
        "matmul-transposed-a",
        "matmul(transpose(a, perm=P), b, transpose_a=M, transpose_b=N)",
        "matmul(a, b, transpose_a=not M, transpose_b=N)",
        REASSOCIATES,
        "the same products; another kernel may add them in another order",
        "swaps_last_two(P)",
    ),
    Rule(
        "matmul-transposed-b",
        "matmul(a, transpose(b, perm=P), transpose_a=M, transpose_b=N)",
        "matmul(a, b, transpose_a=M, transpose_b=not N)",
        REASSOCIATES,
        "the same products; another kernel may add them in another order",
        "swaps_last_two(P)",
    ),
    Rule(
        "transposed-matmul",
        "transpose(matmul(a, b, transpose_a=M, transpose_b=N), perm=P)",
        "matmul(b, a, transpose_a=not N, transpose_b=not M)",
        REASSOCIATES,
        "(A B)ᵀ = Bᵀ Aᵀ",
        "swaps_last_two(P) and matrix(a) and matrix(b)",
    ),
    *(
        Rule(
            f"matmul-{word}-{side}",
            f"matmul({operands.format(scale)}, transpose_a=M, transpose_b=N)",
            f"{scale}(matmul(a, b, transpose_a=M, transpose_b=N), c)",
            FAST,
            "a product is linear",
            f"scalar(c) and {asked}(c) and wide(a)",
        )
        for word, scale, asked in (("scaled", "mul", "finite"), ("divided", "div", "nonzero"))
        for side, operands in (("a", "{}(a, c), b"), ("b", "a, {}(b, c)"))
    ),
    # Scales of rows and of columns.
    *(
        Rule(
            f"matmul-row-{word}",
            f"matmul({scale}(a, r), b, transpose_b=N)",
            f"{scale}(matmul(a, b, transpose_b=N), r)",
            FAST,
            "each row of the result is linear in its row of a",
            "one_column(r) and matrix(a) and matrix(b) and wide(a)",
        )
        for word, scale in (("scale", "mul"), ("quotient", "div"))
    ),
    *(
        Rule(
            f"matmul-column-{word}",
            f"matmul(a, {scale}(b, s), transpose_a=M)",
            f"{scale}(matmul(a, b, transpose_a=M), s)",
            FAST,
            "each column of the result is linear in its column of b",
            "one_row(s) and matrix(a) and matrix(b) and wide(a)",
        )
        for word, scale in (("scale", "mul"), ("quotient", "div"))
    ),
    # The scale of a norm becomes part of the weights that follow it; not in training, where
    # gradients read the statistic and the normed value.
    Rule(
        "matmul-of-normed",
        f"matmul(mul(mul(a, (r := {NORM})), s), b, transpose_b=N)",
        "mul(matmul(a, mul(b, reshape(s, shape=inner(s, N))), transpose_b=N), r)",
        REASSOCIATES,
        "diag(r) A diag(s) B = diag(r) (A (diag(s) B)); by Cauchy and Schwarz, what is bounded",
        NORMED + SCALED_BY + " and wide(a)",
    ),
    Rule(
        "tf32-matmul-of-normed",
        f"matmul(round_tf32(mul(mul(a, (r := {NORM})), s)), round_tf32(b), transpose_b=N)",
        "mul(matmul(round_tf32(a), round_tf32(mul(b, reshape(s, shape=inner(s, N)))), "
        "transpose_b=N), r)",
        ROUNDS,
        "diag(r) A diag(s) B = diag(r) (A (diag(s) B)); by Cauchy and Schwarz, what is bounded",
        NORMED + SCALED_BY + " and single(a)",
    ),
    # A product that is spelled as a sum of broadcast factors.
    Rule(
        "sum-of-broadcast-factors",
        "sum(mul(a, b), axis=A, keepdims=K)",
        "reshape(transpose(reshape(matmul("
        "reshape(transpose(reshape(a, shape=beside(a, b)), perm=left_order(a, b, A)), "
        "shape=left_matrices(a, b, A)), "
        "reshape(transpose(reshape(b, shape=beside(b, a)), perm=right_order(a, b, A)), "
        "shape=right_matrices(a, b, A)), "
        "transpose_a=left_turned(a, b, A), transpose_b=right_turned(a, b, A)), "
        "shape=contracted(a, b, A)), perm=in_place(a, b, A)), shape=SHAPE)",
        REASSOCIATES,
        "each element is the same sum of products; another kernel may add them in another order",
        "contracts(a, b, A) and wide(a)",
    ),
    # One product in place of two.
    Rule(
        "sum-of-products-of-one-left",
        "add(matmul(a, b, transpose_a=M, transpose_b=N), "
        "matmul(a, c, transpose_a=M, transpose_b=N))",
        "matmul(a, add(b, c), transpose_a=M, transpose_b=N)",
        FAST,
        "A B + A C = A (B + C)",
        "same_type(b, c) and wide(a)",
    ),
    Rule(
        "sum-of-products-of-one-right",
        "add(matmul(a, c, transpose_a=M, transpose_b=N), "
        "matmul(b, c, transpose_a=M, transpose_b=N))",
        "matmul(add(a, b), c, transpose_a=M, transpose_b=N)",
        FAST,
        "A C + B C = (A + B) C",
        "same_type(a, b) and wide(a)",
    ),
    Rule(
        "difference-of-products-of-one-left",
        "sub(matmul(a, b, transpose_a=M, transpose_b=N), "
        "matmul(a, c, transpose_a=M, transpose_b=N))",
        "matmul(a, sub(b, c), transpose_a=M, transpose_b=N)",
        FAST,
        "A B - A C = A (B - C)",
        "same_type(b, c) and wide(a)",
    ),
    Rule(
        "difference-of-products-of-one-right",
        "sub(matmul(a, c, transpose_a=M, transpose_b=N), "
        "matmul(b, c, transpose_a=M, transpose_b=N))",
        "matmul(sub(a, b), c, transpose_a=M, transpose_b=N)",
        FAST,
        "A C - B C = (A - B) C",
        "same_type(a, b) and wide(a)",
    ),
    # Two products in place of one, where a sum's second part is a product of few terms.
    Rule(
        "product-of-thin-update",
        "matmul(a, add(b, matmul(u, d, transpose_a=M, transpose_b=N)), transpose_a=L)",
        "add(matmul(a, b, transpose_a=L), "
        "matmul(matmul(a, u, transpose_a=L, transpose_b=M), d, transpose_b=N))",
        FAST,
        "A (B + U D) = A B + (A U) D",
        "thin_rows(a, u, d, L, M, N) and matrix(b) and wide(a)",
    ),
    Rule(
        "product-of-turned-thin-update",
        "matmul(a, add(b, matmul(u, d, transpose_a=M, transpose_b=N)), transpose_a=L, "
        "transpose_b=True)",
        "add(matmul(a, b, transpose_a=L, transpose_b=True), "
        "matmul(matmul(a, d, transpose_a=L, transpose_b=not N), u, transpose_b=not M))",
        FAST,
        "A (B + U D)ᵀ = A Bᵀ + (A Dᵀ) Uᵀ",
        "thin_rows(a, d, u, L, not N, not M) and matrix(b) and wide(a)",
    ),
    # The order of products, where the shapes make the other one less work.
    Rule(
        "product-from-the-right",
        "matmul(matmul(a, b, transpose_a=M, transpose_b=N), c, transpose_b=Q)",
        "matmul(a, matmul(b, c, transpose_a=N, transpose_b=Q), transpose_a=M)",
        FAST,
        "(A B) C = A (B C)",
        "less_work_from_the_right(a, b, c, M, N, Q) and wide(a)",
    ),
    Rule(
        "product-from-the-left",
        "matmul(a, matmul(b, c, transpose_a=N, transpose_b=Q), transpose_a=M)",
        "matmul(matmul(a, b, transpose_a=M, transpose_b=N), c, transpose_b=Q)",
        FAST,
        "A (B C) = (A B) C",
        "less_work_from_the_left(a, b, c, M, N, Q) and wide(a)",
    ),
    Rule(
        "turned-product-from-the-right",
        "matmul(matmul(a, b, transpose_a=M, transpose_b=N), c, transpose_a=True, transpose_b=Q)",
        "matmul(b, matmul(a, c, transpose_a=not M, transpose_b=Q), transpose_a=not N)",
        FAST,
        "(A B)ᵀ C = Bᵀ (Aᵀ C)",
        "less_work_from_the_right_turned(a, b, c, M, N, Q) and wide(a)",
    ),
    Rule(
        "turned-product-from-the-left",
        "matmul(a, matmul(b, c, transpose_a=N, transpose_b=Q), transpose_a=M, transpose_b=True)",
        "matmul(matmul(a, c, transpose_a=M, transpose_b=not Q), b, transpose_b=not N)",
        FAST,
        "A (B C)ᵀ = (A Cᵀ) Bᵀ",
        "less_work_from_the_left_turned(a, b, c, M, N, Q) and wide(a)",
    ),
)
