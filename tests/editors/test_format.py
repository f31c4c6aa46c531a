"""`mgn-fmt`: one style, in which a program is what it was."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mgn.commands.fmt import main
from mgn.diagnostics import DiagnosticsError
from mgn.frontend.format_mgn import format_text
from mgn.frontend.syntax import ast
from mgn.frontend.syntax.parser import parse_text
from mgn.frontend.syntax.source import Source
from tests.conftest import ROOT, run_in_process
from tests.fuzz.bad_inputs.text_mutations import mutate, tokens_of
from tests.fuzz.makers import random_program
from tests.fuzz.spelling import respelled

FOLDERS = ("examples", "filecheck")
PROGRAMS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.mgn"))
}
UNTIDY = """\
import   "parts.mgn"
const A=1,B = - 2 ;const C=[ 1,2 , 3 ]


fn f( x ,n:int=A ,
   k = -1)   // why
{   // first

  y=x[ ... ,1 : n, ::-1 ]*-x .T**- 0.5;

  /* two
     lines */
  if n==1 and not(k<0){ y = y+
1 }
  else   {y=f(
  y // the value
  , n = 1)}
  for i in 0 .. A{ scope"l.{i}"{y= y;;y = y} }
  return y}
graph g [ B=1 , S ](x:f32[ B,S ]){
  param w:f32[]as"w"=ones( )
  state k :i32[ ]
  k<-k+1
  return   y=f(x),w } // end
"""
TIDY = """\
import "parts.mgn"
const A = 1, B = -2
const C = [1, 2, 3]

fn f(x, n: int = A,
    k = -1)  // why
{  // first
  y = x[..., 1:n, ::-1] * -x.T ** -0.5

  /* two
     lines */
  if n == 1 and not (k < 0) {
    y = y +
      1
  } else {
    y = f(
      y  // the value
      , n = 1)
  }
  for i in 0..A { scope "l.{i}" { y = y; y = y } }
  return y
}
graph g[B = 1, S](x: f32[B, S]) {
  param w: f32[] as "w" = ones()
  state k: i32[]
  k <- k + 1
  return y = f(x), w
}  // end
"""


def meaning(text: str) -> object:
    """The syntax tree of a text, without places; None where it has errors."""
    block, errors = parse_text(Source(text))
    nodes: list[object] = []
    for node in ast.walk(block):
        values = [getattr(node, name, None) for name in ("name", "value", "operator", "path")]
        nodes.append((type(node), [item for item in values if isinstance(item, int | str | float)]))
    return None if errors else repr(nodes)


def comments(text: str) -> list[str]:
    """The comments of a text in order."""
    found = re.findall(r'"(?:[^"\\\n]|\\[^\n])*"|(//[^\n]*|/\*[\s\S]*?\*/)', text)
    return [re.sub(r"\s+", " ", item).strip() for item in found if item]


def check(text: str) -> str:
    """Formats a text, and asks for all that formatting promises of any text."""
    made = format_text(Source(text))
    assert meaning(made) == meaning(text)
    assert comments(made) == comments(text)
    assert format_text(Source(made)) == made
    assert not re.search(r"[ \t\r]+$|\n{3}|\A\n|\n\n\Z", made, re.MULTILINE)
    return made


def test_the_style() -> None:
    assert check(UNTIDY) == TIDY


@pytest.mark.parametrize("text", ["", "\n\n", " ", ";", "\ufeff"])
def test_a_text_without_statements_is_empty(text: str) -> None:
    assert format_text(Source(text)) == ""


def test_numbers_and_dots_that_would_grow_together_stay_apart() -> None:
    for text in ("for i in a.. .5 {}", "x = 1. .T", "x = 1 .T", "x = a [0] .T", "x = - - +1"):
        check(f"graph g() {{ {text} }}")


def test_windows_line_ends_stay() -> None:
    made = format_text(Source("const A=1\r\n\r\n\r\n// é\r\nconst B=2"))
    assert made == "const A = 1\r\n\r\n// é\r\nconst B = 2\r\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_tree_means_the_same_in_its_style(name: str) -> None:
    if meaning(PROGRAMS[name]) is not None:
        made = check(PROGRAMS[name])
        assert made == PROGRAMS[name] or not name.startswith("examples"), "run mgn-fmt examples"


def shaken(text: str, rng: random.Random) -> Iterator[str]:
    """The pieces of a text, with other blanks between them where that changes no token."""
    for piece in tokens_of(text):
        if piece.isspace() and "\n" not in piece:
            yield rng.choice((" ", "   ", "\t"))
        elif piece.isspace():
            yield piece + rng.choice(("", "\n", "  \n\n\n   ", "  ;", "\r\n", "// c\n", "/* c */"))
        else:
            yield piece + (rng.choice(("", " ")) if piece in "([{,:=+*" else "")


def test_random_programs_mean_the_same_in_their_style() -> None:
    rng = random.Random(20)
    pool = [tokens_of(text) for text in PROGRAMS.values()]
    formatted = 0
    for number in range(30):
        if number % 10 == 0:
            text = respelled(random_program(("format", number)).text(), rng)
        else:
            text = rng.choice([item for item in PROGRAMS.values() if len(item) < 1500])
        text = "".join(shaken(text, rng))
        if number % 2:
            text = mutate(rng, text, pool)
        if meaning(text) is not None:
            check(text)
            formatted += 1
    assert formatted > 10


def test_lines_that_are_alike_are_formatted_alike() -> None:
    text = "graph g(x: f32[4]) {\n" + "  x=x*2.0+f( x,n=1 ) // c\n" * 200 + "  return x }\n"
    assert len(set(check(text).splitlines())) == 4


def test_files_are_written_where_they_change(tmp_path: Path) -> None:
    untidy, tidy = tmp_path / "untidy.mgn", tmp_path / "inner" / "tidy.mgn"
    tidy.parent.mkdir()
    untidy.write_text(UNTIDY, encoding="utf-8")
    tidy.write_text(TIDY, encoding="utf-8")
    before = tidy.stat().st_mtime_ns, tidy.stat().st_ino
    outcome = run_in_process(main, ["--check", str(tmp_path)])
    assert (outcome.status, outcome.stdout) == (1, "")
    assert outcome.stderr == f"{untidy}: would be formatted\n"
    assert untidy.read_text(encoding="utf-8") == UNTIDY
    outcome = run_in_process(main, [str(untidy), str(tidy)])
    assert (outcome.status, outcome.stderr) == (0, f"{untidy}: formatted\n")
    assert untidy.read_text(encoding="utf-8") == TIDY
    assert (tidy.stat().st_mtime_ns, tidy.stat().st_ino) == before
    assert run_in_process(main, ["--check", str(tmp_path)]).status == 0


def test_stdin_is_formatted_to_stdout() -> None:
    outcome = run_in_process(main, ["-"], stdin="const A=1 // µ")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "const A = 1  // µ\n", "")
    outcome = run_in_process(main, ["--check", "-"], stdin="const A=1")
    assert (outcome.status, outcome.stdout) == (1, "")


def test_no_name_is_not_that_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.mgn").write_bytes(b"const A=1")
    outcome = run_in_process(main, [""])
    assert outcome.status == 1 and "a file has an empty name" in outcome.stderr
    assert Path("a.mgn").read_bytes() == b"const A=1"


def test_files_with_errors_stay_as_they_are_and_the_others_are_formatted(tmp_path: Path) -> None:
    broken, other, nothing = (tmp_path / name for name in ("a.mgn", "b.mgn", "none.mgn"))
    broken.write_bytes(b"const A=(1\nconst B=2")
    other.write_bytes(b"const A=1")
    latin = tmp_path / "latin.mgn"
    latin.write_bytes(b"const A=1 // \xe9")
    outcome = run_in_process(main, [str(broken), str(nothing), str(latin), str(other)])
    assert outcome.status == 1
    for said in (":1:9: error: '(' is never closed", "cannot read the file", "0xE9"):
        assert said in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert broken.read_bytes() == b"const A=(1\nconst B=2"
    assert latin.read_bytes() == b"const A=1 // \xe9"
    assert other.read_bytes() == b"const A = 1\n"
    with pytest.raises(DiagnosticsError):
        format_text(Source("const A=(1"))
    assert "there is no .mgn file" in run_in_process(main, [str(Path(__file__).parent)]).stderr
