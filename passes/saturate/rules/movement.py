"""Rows of the rule table: the movement of elements, by itself and through what it passes.

Movement goes one way, from operands to results, so that it meets the movement that undoes it.
"""

from mgn.passes.saturate.rules.rule import Rule, RuleClass

EXACT, REASSOCIATES = RuleClass.EXACT, RuleClass.REASSOCIATES

REDUCTIONS = ("sum", "prod", "max_reduce", "min_reduce")
SCALED = ("mul", "div")
STATISTICS = ("sqrt", "rsqrt", "log")
"""What is taken of the sums of rows, before or after their axis is put back."""

MOVEMENT: tuple[Rule, ...] = (
    # Movement of movement.
    Rule(
        "transpose-transpose",
        "transpose(transpose(x, perm=P), perm=Q)",
        "transpose(x, perm=compose(P, Q))",
        EXACT,
        "permutations compose",
    ),
    Rule(
        "transpose-as-reshape",
        "transpose(x, perm=P)",
        "reshape(x, shape=SHAPE)",
        EXACT,
        "only axes of size 1 change places",
        "keeps_order(x, P)",
    ),
    Rule(
        "transpose-of-merged-axes",
        "transpose(reshape(x, shape=S), perm=P)",
        "reshape(transpose(x, perm=together(x, S, P)), shape=SHAPE)",
        EXACT,
        "axes that are merged move together",
        "merges_axes(x, S)",
    ),
    Rule(
        "transpose-undone",
        "transpose(reshape(transpose(x, perm=P), shape=S), perm=Q)",
        "reshape(x, shape=SHAPE)",
        EXACT,
        "axes come back to where they were, but for some of size 1 that came between",
        "comes_back(x, P, S, Q)",
    ),
    Rule(
        "reshape-reshape",
        "reshape(reshape(x, shape=S), shape=R)",
        "reshape(x, shape=R)",
        EXACT,
        "the order of elements stays",
    ),
    Rule(
        "broadcast-broadcast",
        "broadcast_to(broadcast_to(x, shape=S), shape=R)",
        "broadcast_to(x, shape=R)",
        EXACT,
        "broadcasting composes",
    ),
    Rule("flip-flip", "flip(flip(x, axis=A), axis=A)", "x", EXACT, "reversed twice"),
    # Reductions with and without the reduced axes.
    *(
        Rule(
            f"{name}-then-kept",
            f"reshape({name}(x, axis=A), shape=S)",
            f"{name}(x, axis=A, keepdims=True)",
            EXACT,
            "the reduced axes put back as 1",
        )
        for name in (*REDUCTIONS, "logsumexp")
    ),
    *(
        Rule(
            f"{name}-then-dropped",
            f"reshape({name}(x, axis=A, keepdims=True), shape=S)",
            f"{name}(x, axis=A)",
            EXACT,
            "the reduced axes left out",
        )
        for name in REDUCTIONS
    ),
    # A broadcast that its user makes anyway.
    *(
        Rule(
            f"{name}-of-broadcast",
            f"{name}({operands})",
            f"{name}(x, y)",
            EXACT,
            "operands are broadcast as they are used",
        )
        for name, operands in (
            ("add", "broadcast_to(x, shape=S), y"),
            ("mul", "broadcast_to(x, shape=S), y"),
            ("sub", "x, broadcast_to(y, shape=S)"),
            ("div", "x, broadcast_to(y, shape=S)"),
        )
    ),
    # Leading axes of size 1, which its user adds anyway.
    *(
        Rule(
            f"{name}-of-leading-axes",
            f"{name}({operands})",
            f"{name}(x, y)",
            EXACT,
            "operands are broadcast as they are used",
            f"leads_with_ones({reshaped}, S)",
        )
        for name, operands, reshaped in (
            ("add", "reshape(x, shape=S), y", "x"),
            ("mul", "reshape(x, shape=S), y", "x"),
            ("sub", "x, reshape(y, shape=S)", "y"),
            ("div", "x, reshape(y, shape=S)", "y"),
        )
    ),
    # Scales pass through movement, towards the result.
    *(
        Rule(
            f"{move}-of-{name}",
            f"{move}({name}(x, c), {attribute}=P)",
            f"{name}({move}(x, {attribute}=P), c)",
            EXACT,
            "one scale for all elements",
            "scalar(c)",
        )
        for name in SCALED
        for move, attribute in (("transpose", "perm"), ("reshape", "shape"))
    ),
    *(
        Rule(
            f"reshape-of-{name}",
            f"reshape({name}(x), shape=S)",
            f"{name}(reshape(x, shape=S))",
            EXACT,
            "each element by itself",
        )
        for name in STATISTICS
    ),
    Rule(
        "reshape-of-shift",
        "reshape(add(x, c), shape=S)",
        "add(reshape(x, shape=S), c)",
        EXACT,
        "one shift for all elements",
        "scalar(c)",
    ),
    Rule(
        "reshape-of-logarithm-and-largest",
        "reshape(add(log(x), max_reduce(y, axis=A)), shape=S)",
        "add(reshape(log(x), shape=S), reshape(max_reduce(y, axis=A), shape=S))",
        EXACT,
        "each element by itself",
    ),
    # Leading axes of products, merged or not.
    Rule(
        "sum-of-merged-batches",
        "add(reshape(x, shape=S), y)",
        "reshape(add(x, reshape(y, shape=in_batches_of(x, y))), shape=SHAPE)",
        EXACT,
        "each element by itself",
        "merges_batches(x, S) and same_leading(S, shape_of(y), 2)",
    ),
    Rule(
        "matmul-of-merged-batches",
        "matmul(reshape(a, shape=S), reshape(b, shape=R), transpose_a=M, transpose_b=N)",
        "reshape(matmul(a, b, transpose_a=M, transpose_b=N), shape=SHAPE)",
        REASSOCIATES,
        "batches in any shape; another kernel may add up in another order",
        "merges_batches(a, S) and merges_batches(b, R) and same_batches(a, b)",
    ),
    *(
        Rule(
            f"matmul-of-merged-batches-{name}-{side}",
            f"matmul({operands.format('reshape(a, shape=S)', 'reshape(b, shape=R)')}, "
            "transpose_a=M, transpose_b=N)",
            f"reshape(matmul({operands.format('a', 'b')}, transpose_a=M, transpose_b=N), "
            "shape=SHAPE)",
            REASSOCIATES,
            "batches in any shape, also of what one number scales",
            "scalar(c) and merges_batches(a, S) and merges_batches(b, R) and same_batches(a, b)",
        )
        for name in SCALED
        for side, operands in (("left", name + "({}, c), {}"), ("right", "{}, " + name + "({}, c)"))
    ),
    Rule(
        "matmul-of-merged-rows",
        "reshape(matmul(reshape(a, shape=S), b, transpose_b=N), shape=R)",
        "matmul(a, reshape(b, shape=beside_rows(b)), transpose_b=N)",
        REASSOCIATES,
        "rows of several axes, each of which meets the same columns",
        "merges_rows(a, S, R, b)",
    ),
    Rule(
        "matmul-of-joined-rows",
        "matmul(reshape(a, shape=S), b, transpose_b=N)",
        "reshape(matmul(a, b, transpose_b=N), shape=SHAPE)",
        REASSOCIATES,
        "rows of several axes, each of which meets the same columns",
        "joins_long_rows(a, S, b)",
    ),
    Rule(
        "sum-of-joined-rows",
        "add(reshape(x, shape=S), y)",
        "reshape(add(x, y), shape=SHAPE)",
        EXACT,
        "each row meets the same numbers",
        "joins_rows(x, S, y)",
    ),
    Rule(
        "matmul-of-turned-rows",
        "matmul(transpose(a, perm=P), b, transpose_b=N)",
        "transpose(matmul(a, b, transpose_b=N), perm=P)",
        REASSOCIATES,
        "rows of several axes, each of which meets the same columns",
        "turns_rows(P, b)",
    ),
    Rule(
        "matmul-of-thin-batches",
        "matmul(a, b, transpose_b=N)",
        "reshape(matmul(reshape(a, shape=as_matrix(a)), b, transpose_b=N), shape=SHAPE)",
        REASSOCIATES,
        "the rows of all batches are one matrix, and fill more of a tile",
        "thin_batches(a, b)",
    ),
)
