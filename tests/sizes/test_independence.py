"""What is said to be independent of padding is: poisoned padding does not reach it."""

from collections.abc import Iterator

import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import OPERATIONS, Kind
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.sizes.compare import compare
from mgn.sizes.composites import CUSTOM, STAYS_FINITE
from mgn.sizes.known import ANYTHING, FINITE
from mgn.sizes.lengthen import lengthened, told_of
from mgn.sizes.rows import ROWS
from mgn.sizes.rows import STAYS_FINITE as CORE_STAYS_FINITE

SIZES = (1, 2, 3, 5, 6)
LONG = 9
WIDTH = 4

STEPS = (
    "relu({a})",
    "{a} * {b} - 0.5",
    "softmax({a}, axis = 1)",
    "softmax({a}, axis = 0)",
    "{a} @ w",
    "{a} @ ({b}.T @ {a})",
    "cumsum({a}, axis = 0)",
    "cumsum({a}, axis = 1)",
    "rms_norm({a}, g, eps = 1e-5)",
    "layer_norm({a}, g, g, eps = 1e-5)",
    "attention({a}, {b}, {a}, heads = 2, causal = true)",
    "attention({a}, {b}, {a}, heads = 2, causal = true, window = 3)",
    "attention({a}, {b}, {a}, heads = 2)",
    "attention({a}, where(reshape(m, [S, 1]), {b}, 0.0), {b}, where(m, 0.0, -inf), heads = 2)",
    "attention({a}, w, w, heads = 2)",
    "attention({a}, w, w, heads = 2, causal = true)",
    "rope({a}, head_dim = 2, theta = 100.0)",
    "{a} * S + sum(where(reshape(m, [S, 1]), {b}, 0.0), axis = 0)",
    "{a} + sum({b}, axis = 0)",
    "{a} - max_reduce(where(reshape(m, [S, 1]), {b}, -inf), axis = 0)",
    "where(reshape(m, [S, 1]), {a}, {b})",
    "embedding(ids, w) + {a}",
    "gather({a}, ids, axis = 0)",
    "{a} + {b}[S - 1]",
    "{a} + {b}[0]",
    "flip({a}, axis = 0)",
    "flip({a}, axis = 1)",
    "sort({a}, axis = 0)",
    "sort({a}, axis = 1)",
    "reshape(transpose(reshape({a}, [S, 2, 2]), [0, 2, 1]), [S, 4])",
    "reshape(reshape({a}, [4, S]).T, [S, 4])",
    "reshape(reshape({a}, [S * 4]), [S, 4])",
    "concat([{a}, {b}], axis = 0)[0:S]",
    "concat([{a}, {b}], axis = 0)[S:2 * S]",
    "concat([{a}[:, 0:1], {b}[:, 1:4]], axis = 1)",
    "pad({a}, [[1, 0], [0, 0]])[0:S]",
    "pad({a}, [[0, 1], [0, 0]])[1:S + 1]",
    "{a} + cast(reshape(iota([S]), [S, 1]), f32)",
    "{a} / {b}",
    "exp({a})",
    "reshape(conv1d(reshape({a}.T, [1, 4, S]), k, padding = [[2, 0]]), [4, S]).T",
    "mean({a}, axis = 1, keepdims = true) * {b}",
    "tril({a} @ {b}.T) @ where(reshape(m, [S, 1]), {a}, 0.0)",
    "{a} + dynamic_slice(table, [2, 0], [S, 4])",
    "{a} + table[1:S + 1]",
    "one_hot(ids, classes = 4) + {a}",
    "take_along_axis({a}, reshape(ids, [S, 1]), axis = 1) + {b}",
)
"""Ways to make a value f32[S, 4] of two others."""


def program(rng: np.random.Generator, steps: int) -> str:
    """A random program with a dimension S."""
    names, lines = ["x"], list[str]()
    for number in range(steps):
        step = STEPS[rng.integers(len(STEPS))]
        a, b = (names[rng.integers(len(names))] for _ in range(2))
        lines.append(f"  v{number} = {step.format(a=a, b=b)}")
        names.append(f"v{number}")
    return _text("\n".join(lines), names[-1])


def _text(body: str, result: str) -> str:
    return f"""
        state kept: f32[12, 4]
        state count: i32[]
        graph g[S](x: f32[S, 4], m: bool[S], ids: i32[S]) {{
          param w: f32[4, 4]
          param g: f32[4]
          param k: f32[4, 4, 3]
          param table: f32[12, 4]
        {body}
          y = {result}
          kept <- dynamic_update_slice(kept, y, [1, 0])
          count <- count + S
          return y, last = y[S - 1]
        }}
    """


def lower(module: mgn.Module, size: int) -> GraphOp:
    return next(graphs_of(module.lower("g", {"S": size})))


def inputs(rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    return {
        "x": rng.standard_normal((size, WIDTH)).astype(np.float32),
        "m": rng.random(size) > 0.4,
        "ids": rng.integers(0, WIDTH, size).astype(np.int32),
    }


def poisoned(given: dict[str, np.ndarray], poison: float) -> dict[str, np.ndarray]:
    """Inputs for the longer program; floats of the padding are poison."""
    found: dict[str, np.ndarray] = {}
    for name, array in given.items():
        wide = np.zeros((LONG, *array.shape[1:]), array.dtype)
        if array.dtype.kind == "f":
            wide[:] = poison
        wide[: len(array)] = array
        found[name] = wide
    return found


def differences(text: str, size: int, seed: int) -> Iterator[str]:
    """`proved`, where the longer program is said to do; and what it then computes otherwise."""
    module, rng = mgn.parse(text), np.random.default_rng(seed)
    long, short = lower(module, LONG), lower(module, size)
    for fact, poison in ((ANYTHING, np.nan), (FINITE, -37.0)):
        found = compare(long, short, fact)
        if found.problem is not None:
            continue
        yield "proved"
        told = told_of("S", found.sites, [long, short])
        made = next(graphs_of(lengthened(module.lower("g", {"S": LONG}), told)))
        made.verify()
        given = inputs(rng, size)
        shapes = {"w": (4, 4), "g": (4,), "k": (4, 4, 3), "table": (12, 4)}
        parameters = {
            name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
        }
        states = {"kept": rng.standard_normal((12, 4)).astype(np.float32), "count": np.int32(3)}
        one, other = Interpreter(parameters, states=states), Interpreter(parameters, states=states)
        wanted = one.run(short, given)
        values = {item.name: item.given(long, short) for item in told}
        results = other.run(made, {**poisoned(given, poison), **values})
        for name, array in [*wanted.items(), *one.states.items()]:
            got = {**results, **other.states}[name][tuple(slice(n) for n in array.shape)]
            if not np.allclose(got, array, rtol=2e-4, atol=2e-4, equal_nan=True):
                yield f"{name} at {size} with {poison}: {text}"


@pytest.mark.parametrize("step", STEPS)
def test_an_operation_that_is_said_not_to_depend_on_padding_does_not(step: str) -> None:
    text = _text("", step.format(a="x", b="x"))
    found = [item for size in (2, 3, 6) for item in differences(text, size, 7)]
    assert not [item for item in found if item != "proved"]


def test_random_programs_that_are_said_not_to_depend_on_padding_do_not() -> None:
    rng = np.random.default_rng(20)
    proved = 0
    for number in range(60):
        text = program(rng, int(rng.integers(2, 5)))
        found = list(differences(text, SIZES[number % len(SIZES)], number))
        assert not [item for item in found if item != "proved"]
        proved += bool(found)
    assert proved >= 10


@pytest.mark.parametrize(
    ("step", "proved"),
    [
        ("{a} @ w", True),
        ("attention({a}, {b}, {a}, heads = 2, causal = true)", True),
        ("attention({a}, {b}, {a}, heads = 2)", False),
        ("{a} + sum(where(reshape(m, [S, 1]), {b}, 0.0), axis = 0)", True),
        ("{a} + sum({b}, axis = 0)", False),
        ("{a} + {b}[S - 1]", True),
        ("{a} * S", True),
        ("flip({a}, axis = 0)", False),
        ("{a} + dynamic_slice(table, [2, 0], [S, 4])", True),
        ("reshape(conv1d(reshape({a}.T, [1, 4, S]), k, padding = [[2, 0]]), [4, S]).T", True),
        ("{a} * uniform([S, 4])", True),
        ("gather({a}, ids, axis = 0)", False),
    ],
)
def test_what_a_person_would_call_independent_is_proved(step: str, proved: bool) -> None:
    module = mgn.parse(_text("", step.format(a="x", b="x")))
    found = compare(lower(module, LONG), lower(module, 5))
    assert (found.problem is None) == proved, found.problem


def test_a_problem_names_the_operation_and_its_place() -> None:
    module = mgn.parse("graph g[S](x: f32[S, 4]) {\n  return y = sum(x, axis = 0)\n}", "h.mgn")
    found = compare(lower(module, 9), lower(module, 5))
    assert found.problem == "sum at h.mgn:2:14: it combines all of axis 0, and its padding"


def test_what_is_known_of_a_shared_state_follows_its_writes() -> None:
    """A state that was written the padding of a value may not be read as if it were not."""
    text = """
        state kept: f32[12, 4]
        graph g[S](x: f32[S, 4], start: i32[]) {
          kept <- dynamic_update_slice(kept, x, [start, 0])
          return y = kept
        }
    """
    module = mgn.parse(text)
    found = compare(lower(module, 9), lower(module, 5))
    assert found.problem is not None and "where it writes padding is not known" in found.problem


def test_the_table_names_operations_that_there_are() -> None:
    """Elementwise operations have one row, so one that is added has it too; what is neither in the
    table nor composite is refused where it has padding.
    """
    named = {*ROWS, *CUSTOM, *STAYS_FINITE, *CORE_STAYS_FINITE}
    assert named <= OPERATIONS.keys()
    core = {name for name, spec in OPERATIONS.items() if spec.is_core}
    rest = {name for name in core - ROWS.keys() if OPERATIONS[name].kind is not Kind.ELEMENTWISE}
    assert rest == {
        "bucket_totals",
        "digit_counts",
        "part_totals",
        "place_digits",
        "run_bounds",
        "running_product_in_parts",
        "running_sum_in_parts",
        "scatter_along",
        "scatter_along_in_parts",
        "scatter_in_buckets",
        "scatter_runs",
        "scatter_runs_in_parts",
        "sort_digits",
    }
