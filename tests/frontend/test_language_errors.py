"""Every error of the language: its exact message, its place, and nothing beside it."""

from pathlib import Path

import pytest

from mgn.diagnostics import Diagnostic, DiagnosticsError
from mgn.frontend.program import parse, parse_file

Told = list[tuple[int, int, str]]


def errors_of(text: str) -> tuple[Diagnostic, ...]:
    """The diagnostics of a program with errors."""
    with pytest.raises(DiagnosticsError) as caught:
        parse(text, "t.mgn").lower()
    return caught.value.diagnostics


def told(text: str) -> Told:
    """Line, column and message of every error."""
    return [(item.line, item.column, item.message) for item in errors_of(text)]


def test_an_error_is_a_place_a_message_the_line_and_a_caret() -> None:
    (error,) = errors_of("graph g(x: f32[2]) {\n\ty = wieght + x\n  return y\n}")
    assert str(error) == "t.mgn:2:6: error: unknown name 'wieght'\n  \ty = wieght + x\n  \t    ^"


def test_an_error_in_a_function_says_where_it_was_called() -> None:
    text = (
        "fn f(x) { return x @ x }\nfn h(x) { return f(x) }\ngraph g(x: f32[2, 3]) {\n  y = "
        "h(x)\n  return y\n}"
    )
    with pytest.raises(DiagnosticsError) as caught:
        parse(text, "t.mgn")
    assert str(caught.value) == (
        "t.mgn:1:20: error: matmul of [2, 3] and [2, 3]: inner sizes 3 and 2 differ\n"
        "  fn f(x) { return x @ x }\n"
        "                     ^\n"
        "t.mgn:2:18: note: called from here\n"
        "  fn h(x) { return f(x) }\n"
        "                   ^\n"
        "t.mgn:4:7: note: called from here\n"
        "    y = h(x)\n"
        "        ^"
    )


IN_GRAPH: list[tuple[str, int, str]] = [
    ("y = reluu(x)", 5, "unknown operation 'reluu'; did you mean 'relu'?"),
    ("y = zzz", 5, "unknown name 'zzz'"),
    ("y = None", 5, "unknown name 'None'; did you mean 'none'?"),
    ("y = relu", 5, "operation 'relu' is called with '(…)'"),
    ("y = sum(x, axes = 1)", 5, "sum() has no argument 'axes'; did you mean 'axis'?"),
    ("y = x + round_tf32(true)", 9, "round_tf32: operand 'x' must be float, not bool"),
    ("y = x + exp(true)", 9, "exp: operand 'x' must be float, not bool"),
    ("y = sum(x, axis = 5)", 5, "sum: axis 5 is out of range for rank 2"),
    ("y = softmax()", 5, "softmax() needs 'x'"),
    ("y = softmax(x, axis = \"a\")", 5, "softmax(): 'axis' must be an integer"),
    ("y = x + h", 7, "operands have different element types f32 and f16; use cast(h, f32)"),
    ("y = x + z", 7, "shapes [2, 3] and [4] do not broadcast: axis -1 differs"),
    ("y = i + 0.5", 7, "0.5 is not an i32; use cast(x, f32) on the other operand"),
    ("y = x + true", 7, "true is not an f32; write 1"),
    ("y = i * false", 7, "false is not an i32; write 0"),
    ("y = clamp(x, min = true)", 5, "clamp: true is not an f32; write 1"),
    ("y = clamp(x, max = false)", 5, "clamp: false is not an f32; write 0"),
    ("y = x * full([3], true)", 9, "full: true is not an f32; write 1"),
    ("y = pad(x, [[0, 1], [0, 0]], true)", 5, "pad: true is not an f32; write 1"),
    ("y = x * (1 + true)", 12, "'+' does not take the integer 1 and true"),
    ("y = x + -true", 9, "'-' does not take true"),
    ("y = x @ x", 7, "matmul of [2, 3] and [2, 3]: inner sizes 3 and 2 differ"),
    ("y = z.T", 7, "x.T swaps the last two axes; x has 1"),
    ("y = x.U", 7, "unknown member '.U'; a tensor has .T and .shape"),
    ("y = x[2]", 6, "index 2 is out of range for axis 0 of size 2"),
    ("y = x[0, 0, 0]", 6, "3 indices for 2 axes"),
    ("y = x[..., ...]", 6, "an index may hold one '...'"),
    ("y = x[::0]", 6, "a slice's step must not be 0"),
    ("y = x[i]", 7, "a tensor is no index; use gather(x, ids, axis)"),
    ("y = x[1.0]", 7, "an index must be an integer, not the number 1.0"),
    ("y = not x", 5, "'not' is for compile-time values; tensors take logical_not(…)"),
    ("y = x and x", 7, "'and' is for compile-time values; tensors take logical_and(…)"),
    ("y = 1 < x < 2", 7, "a chain of comparisons of tensors; join them with logical_and(…)"),
    ("y = 1 / 0", 7, "division by zero"),
    ("y = 2 ** 100", 7, "the result of '**' is too large"),
    ("y = 1 + \"a\"", 7, 'the integer 1 and the text "a"'),
    ("y = x + \"a\"", 7, "'+' does not take the text \"a\""),
    ("a, b = split(x, [1, 1, 0])", 1, "3 values for 2 names"),
    ("a, b = x", 1, "a tensor f32[2, 3] for 2 names"),
    ("if x > 1 { }", 6, "use where(c, a, b)"),
    ("if 1 { }", 4, "if needs a compile-time true or false, not the integer 1"),
    ("for k in 0..x { }", 13, "a loop bound must be a compile-time integer"),
    ("for k in 0..2000000 { }", 1, "a loop may run 1,000,000 times, not 2,000,000"),
    ("for k in 3 { }", 10, "for needs a..b or a list, not the integer 3"),
    ("param w: f33[2]", 10, "unknown element type 'f33'; did you mean 'f32'?"),
    ("param w: f32[-1]", 14, "a dimension cannot be -1"),
    ("param w: f32[1.5]", 14, "a dimension must be a compile-time integer, not the number 1.5"),
    ("param w: f32[2] = nomal()", 19, "unknown initialiser 'nomal'; did you mean 'normal'?"),
    ("param w: f32[2] = normal(sdt = 1)", 26, "normal() has no argument 'sdt'; did you mean 'std'?"),  # noqa: E501
    ("param w: f32[2] = constant()", 19, "constant() needs 'v'"),
    ("param w: f32[2] = 1", 19, "an initialiser is a call such as zeros() or normal(std = 0.02)"),
    ("param w: i8[2] = constant(300)", 18, "constant(300) does not fit i8"),
    ("param w: i8[2] = constant(1.5)", 18, "constant(1.5) is not an i8"),
    ("param w: bool[2] = constant(2)", 20, "constant(2) does not fit bool"),
    ("param w: i64[2] = constant(9007199254740993)", 28, "which counts to 2**53"),
    ("param w: f32[2] = normal(0, -1)", 19, "normal() takes a std of at least 0, not -1"),
    ("param w: f32[2] = uniform(1, -1)", 19, "uniform() takes low <= high, not 1 and -1"),
    ("param w: f32[2000000000, 2000000000]", 10, "is too large: over 2**63 bytes"),
    ("y = iota([2000000000, 2000000000])", 5, "i32[2000000000, 2000000000] is too large"),
    ("param w: f32[2] as \"__metadata__\"", 7, "keep the name '__metadata__' for notes"),
    ("param w: f32[2] as 3", 20, "an external name is a text, not the integer 3"),
    ("param w: f32[2] as \"{x}\"", 22, "a text can hold numbers and texts, not a tensor f32[2, 3]"),
    ("scope 3 { }", 7, "a scope needs a text, not the integer 3"),
    ("x <- x + 1", 1, "'x' is a value, and only a state is written with '<-'"),
    ("relu <- x", 1, "unknown state 'relu'"),
    ("state s: f32[2] = 1", 19, "an initialiser is a call such as zeros() or normal(std = 0.02)"),
    ("state s: q8_0[32]", 10, "only a parameter can have a block format"),
    ("state s: f32[2]; s <- x", 23, "state 's' is f32[2], not f32[2, 3]"),
    ("state s: f32[2]; s <- \"a\"", 23, 'a state holds a tensor, not the text "a"'),
    ("state s: i8[2]; s <- 300", 22, "300 does not fit i8"),
    ("state s: f32[2]; s = x", 18, "'s' is a state, which is written with '<-'"),
    ("state s: f32[2]; state t: f32[3] as \"s\"", 27, "state 's' is f32[2] already, not f32[3]"),
    ("x + 1", 3, "the value is not used; bind it with NAME = …"),
    (" fn f(x) { return x }", 5, "'fn' stands at the top level only"),
    ("y = constant([[1], [1, 2]])", 5, "constant(): the rows differ in length"),
    ("y = constant(300, T = i8)", 5, "constant(): 300 does not fit i8"),
    ("y = 99999999999999999999", 5, "an integer must fit 64 bits"),
    ("y = x * 1e400", 9, "a number must fit f64; infinity is written inf"),
    ("y = \"a{\"", 7, "'{' in a text is not paired; write {{ for itself"),
    ("y = \"\\q\"", 6, "unknown escape '\\q' in a text"),
    ("y = \"{1 +}\"", 9, "an expression is needed between { and }"),
    ("y = relu(x", 9, "'(' is never closed"),
    ("y = relu(x]", 11, "']' does not close '('"),
    ("y = x)", 6, "')' closes nothing"),
    ("y = $x", 5, "'$' cannot stand here"),
    ("y = \"abc", 5, "the text is never closed: '\"' is missing"),
    ("y = relu(a = x, x)", 17, "an argument without a name follows one with a name"),
    ("y = relu(x = x, x = x)", 17, "argument 'x' is given twice"),
    ("y = * x", 5, "unexpected '*': expected an expression"),
    ("y = x +", 7, "nothing follows '+' on its line: expected an expression"),
    ("y = x *\nz = x", 7, "nothing follows '*' on its line: expected an expression"),
    ("y =", 3, "nothing follows '=' on its line: expected an expression"),
    ("param w:", 8, "nothing follows ':' on its line: expected a name"),
    ("y = concat(x, x, x, axis = 0)", 5, "got 3; write concat([a, b, …])"),
    ("y = x.reshape(3, 2)", 7, "there are no methods; write reshape(x, …)"),
    ("y = x[0].sum()", 10, "there are no methods; write sum(x, …)"),
    ("y = x.T.sum()", 9, "there are no methods; write sum(x, …)"),
    ("y = x.T()", 8, "'.T' is not called; it takes no '(…)'"),
    ("y x", 3, "unexpected 'x'"),
    ("y = x[0, 0] # z", 13, "'#' cannot stand here; a comment begins with //"),
    ("y = x && x", 7, "'&&' cannot stand here; compile-time values take 'and', tensors logical_and(…)"),  # noqa: E501
    ("y = !x", 5, "'!' cannot stand here; compile-time values take 'not', tensors logical_not(…)"),
    ("y = x ^ x", 7, "'^' cannot stand here; a power is **"),
    ("y = uniform([-1])", 5, "uniform: a shape cannot be negative: [-1]"),
    ("y = broadcast_to(x, [-1, 2, 3])", 5, "broadcast_to: a shape cannot be negative: [-1, 2, 3]"),
    ("y = f16(x)", 5, "unknown operation 'f16'; write cast(x, f16)"),
    ("if false { y = i32(x) }", 16, "unknown operation 'i32'; write cast(x, i32)"),
    ("a, = x", 1, "'a, =' takes a list apart, not a tensor f32[2, 3]"),
    ("a, = split(x, [1, 1])", 1, "2 values for 1 name"),
    ("y = -grad(sum(x), [x])", 5, "'-' does not take a list of 1 value"),
    ("param w: f32[2] = uniform(0, inf)", 19, "uniform() takes finite numbers, not 0 and inf"),
    ("param w: f32[2] = normal(nan)", 19, "normal() takes finite numbers, not nan and 1"),
    ("y = \"{if}\"", 7, "an expression is needed between { and }"),
    ("for = x", 1, "'for' is a word of the language, and cannot be a name"),
    ("y, in = split(x, [1, 1])", 4, "'in' is a word of the language, and cannot be a name"),
    ("param scope: f32[2]", 7, "'scope' is a word of the language, and cannot be a name"),
    ("y = x + as", 9, "'as' is a word of the language, and cannot be a name"),
    ("y = pad(x, state = 1)", 12, "'state' is a word of the language, and cannot be a name"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "column", "message"), IN_GRAPH)
def test_a_wrong_statement_is_told_once(statement: str, column: int, message: str) -> None:
    header = "graph g(x: f32[2, 3], h: f16[3], z: f32[4], i: i32[2]) {"
    found = told(f"{header}\n{statement}\nreturn x\n}}")
    assert len(found) == 1, found
    assert found[0][:2] == (2, column)
    assert message in found[0][2]


AT_TOP: list[tuple[str, Told]] = [
    ("", [(1, 1, "the file defines nothing")]),
    ("// only a comment\n", [(1, 1, "the file defines nothing")]),
    ("const A = B\nconst B = A", [(1, 7, "const 'A' depends on itself")]),
    ("const A = 1\nfn A() { return 1 }", [(2, 4, "'A' is defined twice")]),
    ("x = 1", [(1, 1, "only const, fn, graph, param, state and import stand at the top level")]),
    ("state s: i32[] = zero()", [(1, 18, "unknown initialiser 'zero'; did you mean 'zeros'?")]),
    ("state s: i32[]\nfn f(x) { t <- x\n return x }", [(2, 11, "unknown name 't'")]),
    ("graph g(x: f32[2]) { }", [(1, 7, "graph 'g' has no return")]),
    ("graph g(x: f32[2]) { return }", [(1, 22, "a graph returns one value or more")]),
    ("graph g(x: f32[2]) { return relu(x) }", [(1, 29, "a result needs a name: return NAME = …")]),
    ("graph g(x: f32[2]) { return x, x }", [(1, 32, "two results are named 'x'")]),
    ("graph g(x: f32[2]) { return y = \"a\" }", [(1, 29, 'a graph returns tensors, not the text "a"')]),  # noqa: E501
    ("graph g(x: f32, x: f32) { return x }", [(1, 17, "'x' is declared twice")]),
    ("graph g(x: q8_0[32]) { return x }", [(1, 12, "only a parameter can have a block format")]),
    ("graph g(x: f32[Q]) { return x }", [(1, 16, "unknown name 'Q'")]),
    ("graph g(x: f32[2]) { return x\nx = x\n}", [(2, 1, "this follows a return and is never reached")]),  # noqa: E501
    ("fn f(a, a) { return a }\ngraph g(x: f32[2]) { return y = f(x, x) }", [(1, 9, "parameter 'a' is declared twice")]),  # noqa: E501
    ("graph g() { return y = 4294967296, z = q }", [(1, 20, "4294967296 does not fit i32; full([], …, T = i64) gives another type"), (1, 40, "unknown name 'q'")]),  # noqa: E501
    ("state n: f32[2]\ngraph g(x: f32[2]) { n = x; return n }", [(2, 22, "'n' is a state, which is written with '<-'")]),  # noqa: E501
    ("fn f(x,, y) { return x }", [(1, 8, "unexpected ',': expected a name or ')'")]),
    ("}", [(1, 1, "'}' closes nothing")]),
    ("graph g(state: f32[2], param: f32[2]) { return y = 1 }", [(1, 9, "'state' is a word of the language, and cannot be a name"), (1, 24, "'param' is a word of the language, and cannot be a name")]),  # noqa: E501
    ("fn f(graph) { return 1 }", [(1, 6, "'graph' is a word of the language, and cannot be a name")]),  # noqa: E501
    ("const in = 3", [(1, 7, "'in' is a word of the language, and cannot be a name")]),
    ("graph g(x: f32[2]) { return x\n", [(1, 20, "'{' is never closed")]),
    ("graph g(x: f32[2]) {\nreturn x\nfn f() {}", [(3, 1, "'}' is missing before 'fn'")]),
    ("graph g(x: f32[2]) { return x }\n/* open", [(2, 1, "the comment is never closed: '*/' is missing")]),  # noqa: E501
    ("\x00\x01", [(1, 1, "the file is not text: it holds the character U+0000")]),
    ("fn f(a) { return zz + reluu(a) }", [(1, 18, "unknown name 'zz'"), (1, 23, "unknown operation 'reluu'; did you mean 'relu'?")]),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), AT_TOP)
def test_a_wrong_top_level_is_told(text: str, wanted: Told) -> None:
    assert told(text) == wanted


CALLS: list[tuple[str, str, str]] = [
    ("fn f(x, n: int) { return x }", "f(x, 1.5)", "'n' must be a compile-time int, not the number 1.5"),  # noqa: E501
    ("fn f(x, n: int) { return x }", "f(x, true)", "'n' must be a compile-time int, not true"),
    ("fn f(x: f32[4]) { return x }", "f(x)", "'x' must be f32[4], not a tensor f32[2]"),
    ("fn f(x, n) { return x }", "f(x)", "f() needs 'n'"),
    ("fn f(x) { return x }", "f(x, x)", "f() takes 1 argument, got 2"),
    ("fn f(x, scale) { return x }", "f(x, scael = 2)", "f() has no parameter 'scael'; did you mean 'scale'?"),  # noqa: E501
    ("fn f(x) { return x }", "f(x, x = 2)", "f() got two values for 'x'"),
    ("fn f(x) { return f(x) }", "f(x)", "fn 'f' calls itself; recursion is not possible"),
    ("const f = 1", "f(x)", "'f' is a const, which cannot be called"),
    ("graph f(x: f32[2]) { return x }", "f(x)", "'f' is a graph, which cannot be called"),
]  # fmt: skip


@pytest.mark.parametrize(("definition", "call", "message"), CALLS)
def test_a_wrong_call_is_told_once(definition: str, call: str, message: str) -> None:
    found = told(f"{definition}\ngraph g(x: f32[2]) {{ y = {call}\n return y }}")
    assert [item[2] for item in found] == [message]


def test_every_independent_error_comes_in_one_run_and_no_error_that_follows_from_one() -> None:
    text = """\
fn f(x {
}
graph g(x: f32[2, 3]) {
  a = foo(x) + bar
  b = a * 2 + a[0]
  c = x @ x
  for i in 0..3 { c = c + nope }
  d = = 3
  e = d + f(x)
  return a, b, c, e
}
graph h(x: f33[2]) { return y = relu(x) }
"""
    assert told(text) == [
        (1, 5, "'(' is never closed"),
        (4, 7, "unknown operation 'foo'; did you mean 'floor'?"),
        (4, 16, "unknown name 'bar'"),
        (6, 9, "matmul of [2, 3] and [2, 3]: inner sizes 3 and 2 differ"),
        (7, 27, "unknown name 'nope'; did you mean 'none'?"),
        (8, 7, "unexpected '=': expected an expression"),
        (12, 12, "unknown element type 'f33'; did you mean 'f32'?"),
    ]


def test_a_statement_that_breaks_off_before_another_takes_no_errors_of_that_along() -> None:
    text = (
        "const A = 1 +\nfn f(x) { return x + }\n"
        "graph g(x: f32[2]) { y = x *\nparam w: f33\nreturn y }"
    )
    assert told(text) == [
        (1, 13, "nothing follows '+' on its line: expected an expression"),
        (2, 22, "the statement ends here: expected an expression"),
        (3, 28, "nothing follows '*' on its line: expected an expression"),
        (4, 10, "unknown element type 'f33'; did you mean 'f32'?"),
    ]


@pytest.mark.parametrize("value", ["x x", "12abc", "0b11", "1.2.3"])
def test_a_bracket_is_asked_for_only_where_one_is_open(value: str) -> None:
    ((_, _, outside),) = told(f"graph g(x: f32[2]) {{ y = {value}\n return x }}")
    ((_, _, inside),) = told(f"graph g(x: f32[2]) {{ y = ({value})\n return x }}")
    assert outside.startswith("unexpected") and "')'" not in outside
    assert inside == f"{outside}: expected ',' or ')'"


def test_an_error_in_a_loop_or_in_a_function_called_twice_is_told_once() -> None:
    text = (
        "fn f(x) { return x + q }\ngraph g(x: f32[2]) { y = x; for i in 0..9 { y = f(x) }; z "
        "= f(x); return y, z }"
    )
    assert told(text) == [(1, 22, "unknown name 'q'")]


def test_two_types_for_one_parameter_are_an_error_with_a_note_at_the_first() -> None:
    text = 'param w: f32[2]\ngraph g(x: f32[2]) {\n  param v: f32[3] as "w"\n  return y = x\n}'
    (error,) = errors_of(text)
    assert (error.line, error.column) == (3, 12)
    assert error.message == "parameter 'w' is f32[2] already, not f32[3]"
    (note,) = error.notes
    assert (note.line, note.column, note.message) == (1, 7, "first declared here")


@pytest.mark.parametrize(("first", "line"), [(" = ones()", 1), ("", 4)])
def test_two_initialisers_for_one_parameter_are_an_error_with_a_note_at_the_first(
    first: str, line: int
) -> None:
    text = f"""param w: f32[2]{first}
graph g(x: f32[2]) {{
  param u: f32[2] as "w"
  param v: f32[2] as "w" = ones()
  param t: f32[2] as "w" = normal(std = 0.1)
  return y = x * u * v * t
}}"""
    (error,) = errors_of(text)
    assert (error.line, error.column) == (5, 28)
    assert error.message == "parameter 'w' is ones() at first, not normal(0.0, 0.1)"
    (note,) = error.notes
    assert (note.line, note.column, note.message) == (
        line,
        7 if line == 1 else 9,
        "first declared here",
    )


def test_one_initialiser_may_be_written_twice() -> None:
    text = 'param w: f32[2] as "a" = constant(nan)\n'
    again = 'graph g(x: f32[2]) { param v: f32[2] as "a" = constant(nan); return y = x * w * v }'
    assert parse(text + again, "t.mgn").lower()


def test_a_name_of_an_inner_block_is_unknown_outside_and_a_note_says_why() -> None:
    for line in ("y = x", "param y: f32[2] = ones()", "state y: f32[2]"):
        (error,) = errors_of(
            f"graph g(x: f32[2]) {{\nif true {{\n  z = x\n  {line}\n}}\nreturn y\n}}"
        )
        assert (error.line, error.message) == (6, "unknown name 'y'")
        (note,) = error.notes
        assert (note.line, note.column) == (4, 3 + line.index("y"))
        assert note.message.startswith("bound inside a block, and known only there; bind it before")


def test_a_dimension_is_unknown_in_a_function_and_a_note_says_what_to_do() -> None:
    (error,) = errors_of(
        "fn f(x) { return x * S }\ngraph g[S = 2](x: f32[S]) { y = f(x); return y }"
    )
    assert error.message == "unknown name 'S'"
    assert error.notes[0].message == "'S' is a dimension of graph 'g'; pass it as an argument"


def test_an_unbound_dimension_names_what_binds_it() -> None:
    program = parse("graph g[S](x: f32[S]) { return x }", "t.mgn")
    with pytest.raises(DiagnosticsError, match=r"bind it with dims=\{") as caught:
        program.lower()
    assert (caught.value.diagnostics[0].line, caught.value.diagnostics[0].column) == (1, 9)
    with pytest.raises(DiagnosticsError, match="no dimension 'T' in graph g"):
        program.lower(dims={"S": 1, "T": 2})
    with pytest.raises(DiagnosticsError, match="there is no graph 'h'"):
        program.lower(graph="h")
    with pytest.raises(DiagnosticsError, match="dimension 'S' cannot be -1"):
        program.lower(dims={"S": -1})


def test_imports_that_fail_are_errors_at_the_import(tmp_path: Path) -> None:
    main = tmp_path / "main.mgn"
    main.write_text('import "other.mgn"\ngraph g(x: f32[2]) { y = helper(x) + K; return y }')
    with pytest.raises(DiagnosticsError) as caught:
        parse_file(main)
    (error,) = caught.value.diagnostics
    assert (error.line, error.column) == (1, 8)
    assert error.message == 'import "other.mgn": cannot read the file: No such file or directory'
    (tmp_path / "other.mgn").write_text('import "main.mgn"')
    with pytest.raises(DiagnosticsError) as caught:
        parse_file(main)
    (error,) = caught.value.diagnostics
    assert error.message == 'import "main.mgn": cyclic import: main.mgn -> other.mgn -> main.mgn'
    assert error.file.endswith("other.mgn")


def test_a_file_that_is_not_utf8_is_an_error_at_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "bad.mgn"
    path.write_bytes(b"const A = 1\nconst \xff = 2")
    with pytest.raises(DiagnosticsError) as caught:
        parse_file(path)
    (error,) = caught.value.diagnostics
    assert (error.line, error.column) == (2, 7)
    assert error.message == "the file is not UTF-8 text: byte 0xFF"
