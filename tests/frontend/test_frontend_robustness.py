"""Bad input of any kind is a one-screen DiagnosticsError, quickly; large programs lower in time."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mgn.diagnostics import Diagnostic, DiagnosticsError
from mgn.frontend.program import parse, parse_file
from mgn.frontend.syntax.strings import quote, split_text
from tests.frontend.operation_examples import EXAMPLES, HEADER

GRAPH = "graph g(x: f32[2]) { y = %s\n return y }"


def message_of(text: str) -> str:
    """The text of the error, which fits a screen."""
    start = time.process_time()
    with pytest.raises(DiagnosticsError) as caught:
        parse(text, "t.mgn").lower()
    assert time.process_time() - start < 10
    message = str(caught.value)
    assert len(message) < 5000
    return message


@pytest.mark.parametrize(
    "text",
    [
        GRAPH % ("(" * 10_000 + "x" + ")" * 10_000),
        GRAPH % ("[" * 10_000),
        GRAPH % ("-" * 10_000 + "x"),
        GRAPH % ("not " * 10_000 + "true"),
        GRAPH % ("relu(" * 10_000 + "x" + ")" * 10_000),
        GRAPH % ("x" + "[0:1]" * 10_000),
        GRAPH % ("x" + ".T" * 10_000),
        GRAPH % ("x ** " * 10_000 + "x"),
        "graph g(x: f32[2]) { " + "if true { " * 10_000 + "}" * 10_000 + " return x }",
        "graph g(x: f32[2]) { " + 'scope "a" { ' * 10_000,
        "graph g(x: f32[2]) { " + "if true { } else " * 10_000 + "{ }\n return x }",
    ],
)
def test_nesting_ten_thousand_deep_is_one_message(text: str) -> None:
    assert "nested more than 200 levels deep" in message_of(text)


def test_a_line_of_ten_megabytes_is_one_message() -> None:
    for text in ("a" * 10_000_000, "x = " + "1 + " * 2_500_000, '"' + "\\" * 10_000_000):
        assert "the line is longer than 1,000,000 characters" in message_of(text)


def test_a_long_line_is_clipped_around_the_caret() -> None:
    message = message_of("const A = [" + "1, " * 30_000 + "zzz" + ", 1" * 30_000 + "]")
    _, excerpt, caret = message.splitlines()
    assert len(excerpt) < 130
    assert excerpt[caret.index("^") :].startswith("zzz, 1")


def test_long_chains_and_flat_programs_are_no_nesting() -> None:
    total = "const A = " + "1 + " * 50_000 + "1\n" + GRAPH % "x + A"
    parse(total).lower().verify()


def test_binary_files_are_one_message(tmp_path: Path) -> None:
    path = tmp_path / "a.mgn"
    for data in (bytes(range(256)) * 1000, b"\x7fELF\0\0" * 1000, b"\xff" * 10_000_000):
        path.write_bytes(data)
        with pytest.raises(DiagnosticsError) as caught:
            parse_file(path)
        assert len(str(caught.value).splitlines()) == 3
    with pytest.raises(DiagnosticsError, match="cannot read the file"):
        parse_file(tmp_path)


def test_a_file_without_an_end_is_one_message() -> None:
    with pytest.raises(DiagnosticsError, match="the file is longer than 256 MiB"):
        parse_file("/dev/zero")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes in folders")
def test_an_import_waits_for_no_device_and_no_pipe(tmp_path: Path) -> None:
    path = tmp_path / "a.mgn"
    os.mkfifo(tmp_path / "pipe.mgn")
    for name in ("/dev/zero", "pipe.mgn"):
        path.write_text(f'import "{name}"\n' + GRAPH % "x")
        with pytest.raises(DiagnosticsError, match="cannot read the file: it is a device or pipe"):
            parse_file(path)


def test_a_block_that_goes_on_after_its_brace_is_a_message() -> None:
    assert "2:3: error: unexpected 'else'" in message_of("graph g(x: f32[2]) {\n} else\nreturn x }")


def test_many_errors_are_counted_after_the_first_twenty() -> None:
    body = "\n".join(f"  y{i} = zzz{i}q{i}" for i in range(50))
    message = message_of(f"graph g(x: f32[2]) {{\n{body}\n  return x\n}}")
    assert message.endswith("and 30 more errors")
    assert message.count("error: unknown name") == 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("for i in 0..100 { for j in 0..201 { y = y + x } }", "more than 20,000 operations"),
        (
            "for i in 0..1000000 { for j in 0..1000000 { } }",
            "more than 3,000,000 statements",
        ),
        ("y = 10 ** 10 ** 10", "the result of '**' is too large"),
        ('t = "ab"; for i in 0..99 { t = t + t }', "a text may have 10000 characters"),
    ],
)
def test_programs_that_run_away_are_stopped(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgn.frontend.lowering.context.MOST_OPERATIONS", 20_000)
    start = time.process_time()
    with pytest.raises(DiagnosticsError, match=message.replace("*", r"\*")):
        parse(f"graph g(x: f32[]) {{ y = x\n {text}\n return y }}")
    assert time.process_time() - start < 60


def test_a_chain_of_calls_is_bounded() -> None:
    functions = "\n".join(f"fn f{i}(x) {{ return f{i + 1}(x) }}" for i in range(300))
    text = f"{functions}\nfn f300(x) {{ return x }}\n" + GRAPH % "f0(x)"
    assert "calls nested more than 100 deep" in message_of(text)


def test_twenty_thousand_operations_lower_in_time() -> None:
    lines = (f"  v{i + 1} = relu(v{i}) * 2.0 + x" for i in range(6700))
    body = "\n".join(lines)
    start = time.process_time()
    module = parse(f"graph g(x: f32[4]) {{\n  v0 = x\n{body}\n  return v6700\n}}").lower()
    assert time.process_time() - start < 10
    assert sum(1 for _ in module.walk()) == 6700 * 4 + 3


WORDS = [
    *("graph", "fn", "param", "const", "scope", "for", "in", "if", "else", "return", "import"),
    *("state", "as", "and", "or", "not", "true", "none", "nan", "g", "x", "y", "w", "f32", "relu"),
    *("(", ")", "[", "]", "{", "}", ",", ";", ":", ".", "..", "...", "=", "==", "<", "<-", "\n"),
    *("+", "-", "*", "/", "%", "@", "**", ".T", "1", "2.5", "0x", '"a"', '"{x}"', '"{', "/*", "*/"),
    *("//", "\\", "$", "é", "\r\n", "\t", '"', "constant", "split", "0..3", "16", "q8_0"),
]
SEED = """\
const N = 3
param s: f32[3] as "s.{N}" = normal(std = 0.02)
fn f(x, n: int = 2) {
  if n > 1 { return x * n } else { return x }
}
graph g[B = 2](x: f32[B, N], c: bool[3]) {
  scope "a.{B}" { param w: f32[N] = ones() }
  y = x
  for i in 0..3 { y = f(y, n = i) + where(c, w, 0.5) }
  a, b = split(y, [1, 1])
  z = -a[0, ::-1, none] ** 2 @ b.T
  return z, t = y + s
}
"""


def survives(text: str) -> None:
    """Either a program or a DiagnosticsError that can be shown."""
    try:
        parse(text, "t.mgn").lower().verify()
    except DiagnosticsError as error:
        assert all(isinstance(item, Diagnostic) for item in error.diagnostics)
        assert 0 < len(str(error)) < 200_000


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(WORDS), max_size=40))
@example(["graph", "g", "(", "}", "]", "{", "fn"])
def test_random_words_are_a_program_or_a_diagnostic(words: list[str]) -> None:
    survives(" ".join(words))
    survives(f"graph g(x: f32[2, 3], w: f32[3]) {{\n{' '.join(words)}\nreturn x }}")


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_random_text_is_a_program_or_a_diagnostic(text: str) -> None:
    survives(text)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(SEED)), st.integers(0, 12), st.sampled_from(["", *WORDS])),
        min_size=1,
        max_size=4,
    )
)
def test_mutated_programs_are_a_program_or_a_diagnostic(edits: list[tuple[int, int, str]]) -> None:
    text = SEED
    for start, length, word in edits:
        text = text[:start] + word + text[start + length :]
    survives(text)


_ARGUMENT = st.sampled_from(
    [
        *("x", "y", "c", "ids", "w", "wide", "1", "-1", "0.5", "[1, 2]", "[]", "[x, y]", "true"),
        *("none", "f16", '"sum"', "[[1, 2]]", "2000", "nan", "axis = 9", "axis = -1"),
        "keepdims = 1",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(EXAMPLES)), st.lists(_ARGUMENT, max_size=4))
def test_operations_called_with_anything_give_a_value_or_a_diagnostic(
    name: str, arguments: list[str]
) -> None:
    survives(f"graph g({HEADER}) {{ r = {name}({', '.join(arguments)})\n return x }}")


def test_the_seed_of_the_mutations_is_a_program() -> None:
    parse(SEED.replace("@ b.T", "")).lower().verify()


@given(st.text())
def test_a_quoted_text_reads_back(text: str) -> None:
    def no_expression(*_: object) -> object:
        raise AssertionError("a quoted text holds no expression")

    literal = quote(text)
    assert "".join(map(str, split_text(literal, (1, 1), no_expression))) == text  # type: ignore[arg-type]
