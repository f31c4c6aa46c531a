"""`mgn-opt`: what goes where, exit statuses, and messages for every kind of bad input."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mgn.commands.actions.expectations import compare, expectations_in
from mgn.diagnostics import Diagnostic
from tests.conftest import Outcome

Run = Callable[..., Outcome]

GOOD = """mgn.graph @g("x" = %x : tensor<4xf32>) -> ("y" : tensor<4xf32>) {
  %y = mgn.relu(%x) : tensor<4xf32>
  mgn.return %y : tensor<4xf32>
}
"""


def one_screen(outcome: Outcome) -> bool:
    """A failure without a traceback and without a result."""
    return (
        outcome.status == 1
        and outcome.stdout == ""
        and "Traceback" not in outcome.stderr
        and 0 < len(outcome.stderr.splitlines()) < 25
        and max(map(len, outcome.stderr.splitlines())) < 400
    )


def test_the_result_goes_to_stdout_and_reads_back(mgn_opt: Run) -> None:
    first = mgn_opt("-", stdin=GOOD)
    second = mgn_opt("-f", "mlir", "-", stdin=first.stdout)
    assert first.status == second.status == 0
    assert "%y = mgn.relu(%x) : tensor<4xf32>" in first.stdout
    assert second.stdout == first.stdout
    assert first.stderr == ""


@pytest.mark.parametrize(("word", "resident"), [("", True), ("on", True), ("off", False)])
def test_launches_for_a_described_device_are_merged_unless_the_environment_says_off(
    mgn_opt: Run, monkeypatch: pytest.MonkeyPatch, word: str, resident: bool
) -> None:
    monkeypatch.setenv("MGN_RESIDENT", word)
    text = "graph g(x: f32[1, 64]) { return y = sort(softmax(softmax(x), axis = 0)) }"
    device = ("--device", "nvidia-h200")
    outcome = mgn_opt("-f", "mgn", *device, "-p", "default", "-t", "plan", "-", stdin=text)
    assert outcome.status == 0
    assert ("plan.resident" in outcome.stdout) is resident


def test_a_word_of_the_environment_that_is_neither_on_nor_off_is_named(
    mgn_opt: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGN_RESIDENT", "maybe")
    outcome = mgn_opt("--device", "nvidia-h200", "-", stdin=GOOD)
    assert one_screen(outcome)
    assert "MGN_RESIDENT is on or off, not 'maybe'" in outcome.stderr


def test_the_input_may_be_mgn_text_on_stdin(mgn_opt: Run) -> None:
    outcome = mgn_opt("-f", "mgn", "-", stdin="graph g(x: f32[4]) { return y = relu(x) }")
    assert outcome.status == 0
    assert "mgn.relu" in outcome.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.mgn"], "error: cannot open 'nowhere.mgn': no such file or directory"),
        (["-p", "simplfy", "-"], "did you mean 'simplify'?"),
        (["-p", "simplify{speed=3}", "-"], "pass 'simplify' has no option 'speed'"),
        (["-p", "saturate{tim=3}", "-"], "has no option 'tim'; did you mean 'time'?"),
        (
            ["-p", "saturate{kernels=3}", "-"],
            "its options are rules, time, extract, fuse, prepare, moderate, memoise\n",
        ),
        (
            ["-p", "saturate{rules=foo}", "-"],
            "no class of rules 'foo'; there are exact, reassociates, spreads, fast, approximates, "
            "rounds",
        ),
        (["-p", "saturate{time=nan}", "-"], "pass 'saturate': time takes a number, not nan"),
        (["-p", "saturate{fuse=1}", "-"], "pass 'saturate': fuse takes true or false, not 1"),
        (["-p", "saturate{rules=exact,rounds}", "-"], "rules takes a text, not exact,rounds"),
        (["-p", "saturate{rules=a+b}", "-"], 'other signs goes in quotes: {option="a+b"}'),
        (["-p", "saturate{time=-1}", "-"], "time_budget takes a number of seconds, not -1.0"),
        (["-p", "simplify,{", "-"], "cannot read the pipeline"),
        (["-p", "training", "-"], "graph 'g' has no output 'loss' to train; it has y"),
        (["-p", "training-step{optimizer=adma}", "-"], "no optimiser 'adma'; did you mean 'adam'?"),
        (["-t", "opncl", "-"], "did you mean 'opencl'?"),
        (["-t", "spirv-asm", "-"], "the program has no kernels yet; -p default brings it there"),
        (["-t", "opencl", "-"], "the program has no kernels yet; -p default brings it there"),
        (["-t", "plan", "-"], "the program has no plan yet"),
        (["--dim", "B", "-"], "--dim takes NAME=N"),
        (["--dim", "B=2", "-"], "sizes are fixed"),
        (["--graph", "h", "-"], "there is no graph 'h'; the graphs are g"),
        (["--device", "abacus", "-"], "unknown device 'abacus'; there are cpu"),
        (["--fast"], "unrecognized arguments: --fast"),
        (["file.xyz"], "'file.xyz' is neither .mgn nor .mlir nor .spv; -f mgn"),
        (["."], "'.' is a folder, and the program is a file"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    mgn_opt: Run, arguments: list[str], message: str
) -> None:
    outcome = mgn_opt(*arguments, stdin=GOOD)
    assert one_screen(outcome), outcome.stderr
    assert message in outcome.stderr


@pytest.mark.parametrize("suffix", ["mgn", "mlir"])
@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00rubbish",
        bytes(range(256)) * 8,
        b'"' + b"a" * 100_000,
        b"graph g(x: f32[4]) { y = " + b"(" * 10_000 + b"x" + b")" * 10_000,
        b"builtin.module {" * 5_000,
        b"x" * 10_000_000,
        b"",
        b"graph",
    ],
    ids=["not-utf8", "all-bytes", "open-string", "deep", "deep-modules", "long", "empty", "cut"],
)
def test_rubbish_is_an_error_of_one_screen(
    mgn_opt: Run, tmp_path: Path, suffix: str, content: bytes
) -> None:
    path = tmp_path / f"rubbish.{suffix}"
    path.write_bytes(content)
    started = time.process_time()
    outcome = mgn_opt(path)
    assert one_screen(outcome), outcome.stderr[:2000]
    assert time.process_time() - started < 10.0


def test_a_directory_is_an_error(mgn_opt: Run, tmp_path: Path) -> None:
    folder = tmp_path / "folder.mgn"
    folder.mkdir()
    assert one_screen(mgn_opt(folder))


def test_an_error_shows_the_line_and_a_caret(mgn_opt: Run) -> None:
    outcome = mgn_opt("-", stdin=GOOD.replace("mgn.relu", "mgn.rleu"))
    first, line, caret = outcome.stderr.splitlines()[:3]
    assert first == "<stdin>:2:16: error: Operation mgn.rleu is not registered"
    assert line == "    %y = mgn.rleu(%x) : tensor<4xf32>"
    assert caret.index("^") == line.index("(")


def test_a_program_of_the_language_that_is_read_as_mlir_is_told_so(mgn_opt: Run) -> None:
    text = "// one\n/* two */ graph g(x: f32[4]) { return y = relu(x) }"
    outcome = mgn_opt("-", stdin=text)
    assert outcome.status == 1 and "-f mgn reads programs of the language" in outcome.stderr
    assert "-f mgn" not in mgn_opt("-", stdin=GOOD.replace("mgn.relu", "mgn.rleu")).stderr
    assert mgn_opt("-f", "mgn", "-", stdin=text).status == 0


def test_a_failing_run_writes_nothing(mgn_opt: Run, tmp_path: Path) -> None:
    target = tmp_path / "out.mlir"
    target.write_text("as it was")
    text = f"{GOOD}// -----\n{GOOD.replace('relu', 'rleu')}"
    outcome = mgn_opt("--split-input-file", "-", "-o", target, stdin=text)
    assert one_screen(outcome)
    assert target.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [target]


def test_the_output_file_is_replaced_whole(mgn_opt: Run, tmp_path: Path) -> None:
    target = tmp_path / "out.mlir"
    outcome = mgn_opt("-", "-o", target, stdin=GOOD)
    assert (outcome.status, outcome.stdout) == (0, "")
    assert target.read_text() == mgn_opt("-", stdin=GOOD).stdout
    assert list(tmp_path.iterdir()) == [target]


def test_an_output_in_a_missing_folder_is_an_error(mgn_opt: Run, tmp_path: Path) -> None:
    assert one_screen(mgn_opt("-", "-o", tmp_path / "no" / "out.mlir", stdin=GOOD))


def test_pieces_are_separate_and_keep_their_lines(mgn_opt: Run) -> None:
    joined = f"{GOOD}// -----\n{GOOD}"
    outcome = mgn_opt("--split-input-file", "-", stdin=joined)
    assert outcome.status == 0
    assert outcome.stdout.count("// -----\n") == 1
    broken = mgn_opt(
        "--split-input-file", "-", stdin=f"{GOOD}// -----\n{GOOD.replace('relu', 'n')}"
    )
    assert "<stdin>:7:" in broken.stderr


def test_announced_messages_pass_and_others_fail(mgn_opt: Run) -> None:
    wrong = GOOD.replace("relu", "rleu")
    announced = wrong.replace("  %y", "  // expected-error@+1 {{not registered}}\n  %y")
    assert mgn_opt("--verify-diagnostics", "-", stdin=announced).status == 0
    unannounced = mgn_opt("--verify-diagnostics", "-", stdin=wrong)
    assert one_screen(unannounced)
    assert "<stdin>:2:16: error: unexpected error: Operation mgn.rleu" in unannounced.stderr
    other = announced.replace("not registered", "something else")
    assert one_screen(mgn_opt("--verify-diagnostics", "-", stdin=other))
    elsewhere = announced.replace("@+1", "@+2")
    assert one_screen(mgn_opt("--verify-diagnostics", "-", stdin=elsewhere))


def test_expectations_are_read_with_their_places() -> None:
    text = "\n".join(
        [
            "a // expected-error {{here}}",
            "// expected-error@+2 {{two below}}",
            "// expected-warning@below {{next}}",
            "b",
            "// expected-note@-1 {{one above}}",
            "// expected-error@unknown {{nowhere}}",
        ]
    )
    found = [(item.severity, item.text, item.line) for item in expectations_in(text)]
    assert found == [
        ("error", "here", 1),
        ("error", "two below", 4),
        ("warning", "next", 4),
        ("note", "one above", 4),
        ("error", "nowhere", 0),
    ]


def test_one_expectation_fits_one_message() -> None:
    message = Diagnostic("twice", "f", 1, 1)
    expected = expectations_in("x // expected-error {{twice}}")
    assert compare("f", expected, [message]) == []
    assert [str(item) for item in compare("f", expected, [message, message])] == [
        "f:1:1: error: unexpected error: twice"
    ]


def test_a_malformed_expectation_is_an_error(mgn_opt: Run) -> None:
    outcome = mgn_opt("--verify-diagnostics", "-", stdin="// expected-error {no braces}\n")
    assert one_screen(outcome)
    assert "malformed expectation" in outcome.stderr


def test_lists_name_every_row(mgn_opt: Run) -> None:
    from mgn.commands.printing.targets import TARGETS
    from mgn.driver.pipelines import PASSES
    from mgn.modules.dialect_table import DIALECTS
    from mgn.passes.saturate.egraph.compile_rules import commutations
    from mgn.passes.saturate.egraph.wide_products import WIDE_PRODUCTS
    from mgn.passes.saturate.rules.conditions import PREDICATES
    from mgn.passes.saturate.rules.table import RULES

    others = (*commutations(), *WIDE_PRODUCTS)
    tables: dict[str, Mapping[str, object]] = {
        "passes": PASSES,
        "dialects": DIALECTS,
        "targets": TARGETS,
        "rules": {**RULES, **{rule.name: rule for rule in others}},
        "predicates": PREDICATES,
    }
    for name, table in tables.items():
        outcome = mgn_opt(f"--list-{name}")
        assert outcome.status == 0
        assert not [row for row in table if row not in outcome.stdout]


def test_the_list_of_passes_parts_names_from_summaries_and_shows_only_what_text_can_set(
    mgn_opt: Run,
) -> None:
    from mgn.driver.pipelines import PASSES

    listed = mgn_opt("--list-passes").stdout
    assert not [
        name
        for name, row in PASSES.items()
        if f"{name}  " not in listed or row.summary not in listed
    ]
    assert "{time: float = 5.0}" in listed
    assert "reports" not in listed


@pytest.mark.parametrize("target", ["egglog", "egraph-json"])
def test_a_program_lowered_too_far_for_an_e_graph_is_told_so(mgn_opt: Run, target: str) -> None:
    outcome = mgn_opt("-p", "default", "-t", target, "-", stdin=GOOD)
    assert one_screen(outcome)
    assert "the program has no graph; this target wants one not yet lowered" in outcome.stderr


def test_a_closed_pipe_is_no_traceback() -> None:
    code = "import sys; from mgn.commands.opt import main; sys.exit(main(['--list-passes']))"
    reader, writer = os.pipe()
    os.close(reader)
    outcome = subprocess.run(
        [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert outcome.returncode == 1
    assert outcome.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "closed", "message"),
    [
        (["--list-passes"], ">&-", "error: stdout is closed, and the results go there\n"),
        (["-f", "mgn", "-"], "<&-", "error: stdin is closed, and the program is read from there\n"),
        (["nowhere.mgn"], "2>&-", ""),
    ],
)
def test_a_closed_stream_is_an_error_that_says_so(
    arguments: list[str], closed: str, message: str
) -> None:
    code = f"import sys; from mgn.commands.opt import main; sys.exit(main({arguments}))"
    outcome = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, code],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert outcome.stderr == message


def test_help_shows_examples_and_loads_no_compiler() -> None:
    code = """
import atexit, sys
from mgn.commands.opt import main
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
sys.exit(main(["--help"]))
"""
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "examples:" in outcome.stdout
    loaded = outcome.stderr.split()
    assert "mgn.commands.opt" in loaded
    assert not {"xdsl", "numpy", "lark", "egglog", "pyopencl"} & set(loaded)


@pytest.mark.parametrize("passes", ["saturate{time=1}", "plan-memory{alignment=none}"])
def test_options_take_whole_numbers_for_floats_and_none_for_nothing(
    mgn_opt: Run, passes: str
) -> None:
    outcome = mgn_opt("-p", passes.replace("plan-memory", "default,plan-memory"), "-", stdin=GOOD)
    assert outcome.status == 0, outcome.stderr


def test_a_planned_program_has_no_picture_and_the_message_says_when_it_has(mgn_opt: Run) -> None:
    outcome = mgn_opt("-p", "default", "-t", "dot", "-", stdin=GOOD)
    assert outcome.status == 1
    assert "the program has no graph any more; -p simplify,saturate" in outcome.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "%s = vector.reduction <addition>, %v : vector<4xf32> into f32",
            "<stdin>:3:34: error: 'addition' is not a valid Combining",
        ),
        (
            "%s = memref.load %m[] : memref<8xf32>",
            "<stdin>:3:3: error: expected an index for each dimension",
        ),
        ("%s = arith.constant 5 : i2", "<stdin>:4:3: error: Integer value 5 is out of range"),
        ("%s = arith.constant 0.5 : f80", "<stdin>:3:29: error: mgn has no type f80"),
        (
            "%s = vector.extract %v[9] : f32 from vector<4xf32>",
            "<stdin>:1:1: error: vector.extract of lane 9, and vector<4xf32> has 4",
        ),
        (
            "%s = arith.constant 1 : i99999999999",
            "<stdin>:3:27: error: an integer type has at most 16777215 bits",
        ),
    ],
)
def test_what_xdsl_raises_of_its_own_is_an_error_with_its_place(
    mgn_opt: Run, line: str, message: str
) -> None:
    text = f"""kernel.func @f(%m: memref<8xf32>) access [read] global [1, 1, 1] local [1, 1, 1] {{
  %v = arith.constant dense<1.0> : vector<4xf32>
  {line}
  kernel.return
}}
"""
    outcome = mgn_opt("-f", "mlir", "-", stdin=text)
    assert one_screen(outcome)
    assert message in outcome.stderr


def test_a_kernel_of_what_a_target_has_no_text_for_is_an_error_with_its_place(mgn_opt: Run) -> None:
    text = """kernel.func @f() access [] global [1, 1, 1] local [1, 1, 1] {
  %s = mgn.iota() shape = [4], axis = 0 : () -> tensor<4xi32>
  kernel.return
}
"""
    outcome = mgn_opt("-f", "mlir", "-t", "opencl", "-", stdin=text)
    assert one_screen(outcome)
    assert outcome.stderr.startswith("error: <stdin>:2:3: mgn.iota has no OpenCL C text")


@pytest.mark.parametrize(
    ("first", "again", "message"),
    [
        (
            "simplify,saturate",
            "saturate",
            "fusion.kernel is no operation on whole tensors; saturate",
        ),
        ("default", "simplify", ""),
        (
            "simplify",
            "plan-memory",
            "mgn.matmul is no launch; saturate, choose-schedules and lower",
        ),
        ("simplify,saturate", "plan-memory", "fusion.kernel is no launch; saturate, choose"),
        (
            "simplify,saturate,choose-schedules,lower-kernels",
            "saturate",
            "fusion.launch is no oper",
        ),
    ],
)
def test_a_pass_on_another_level_names_the_operation_its_place_and_what_comes_before(
    mgn_opt: Run, tmp_path: Path, first: str, again: str, message: str
) -> None:
    text = "graph g(x: f32[4, 8], w: f32[8, 8]) { return y = x @ w }"
    lowered = tmp_path / "lowered.mlir"
    assert mgn_opt("-f", "mgn", "-p", first, "-o", lowered, "-", stdin=text).status == 0
    outcome = mgn_opt(lowered, "-p", again)
    assert outcome.status == (1 if message else 0)
    if message:
        place = re.escape(f"{again}: {message}")
        assert re.match(rf"{lowered}:\d+:\d+: error: {place}", outcome.stderr)
        assert outcome.stderr.splitlines()[2].strip() == "^"


def test_a_graph_beside_what_was_lowered_is_not_compiled_again(
    mgn_opt: Run, tmp_path: Path
) -> None:
    text = "graph {0}(x: f32[4]) {{ return y = relu(x) }}"
    planned = mgn_opt("-f", "mgn", "-p", "default", "-", stdin=text.format("g")).stdout
    graph = mgn_opt("-f", "mgn", "-", stdin=text.format("h")).stdout.strip()
    graph = graph.removeprefix("builtin.module {").removesuffix("}")
    outcome = mgn_opt(
        "-f", "mlir", "-t", "explain", "-", stdin=f"{planned.rstrip()[:-1]}\n{graph}\n}}"
    )
    assert outcome.status == 1 and "no graph and no parameter" in outcome.stderr


@pytest.mark.parametrize(
    ("step", "there"),
    [*product(("open", "fdopen", "replace"), (False, True)), ("chmod", True)],
)
def test_an_interrupt_leaves_files_as_they_were(
    mgn_opt: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, there: bool
) -> None:
    (tmp_path / "p.mgn").write_text("graph g(x: f32[2]) { return y = relu(x) }")
    if there:
        (tmp_path / "out.mlir").write_text("before")
    files = {item.name: item.read_text() for item in tmp_path.iterdir()}
    owner = Path if step in ("chmod", "replace") else os
    act = getattr(owner, step)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        """Does a part of what was asked for, and no more."""
        if step == "open" and not arguments[1] & os.O_CREAT:
            return act(*arguments, **options)
        if step == "open":
            os.close(act(*arguments, **options))
        elif step == "fdopen":
            with act(*arguments, **options) as stream:
                stream.write(b"half of")
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, step, interrupted)
    outcome = mgn_opt(tmp_path / "p.mgn", "-o", tmp_path / "out.mlir")
    monkeypatch.undo()
    assert (outcome.status, outcome.stdout, outcome.stderr) == (1, "", "interrupted\n")
    assert {item.name: item.read_text() for item in tmp_path.iterdir()} == files
