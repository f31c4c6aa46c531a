"""The benchmarks' cases compute what they say, at small sizes, and the tables hold together."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.contests import (
    cases,
    contestants,
    language_model_cases,
    memory_cases,
    suites,
)
from benchmarks.contests.cases import Case
from benchmarks.table import Table
from mgn.bench.timing import TOO_LONG, Turns, interleaved_medians
from mgn.runtime.devices import choose
from mgn.runtime.errors import DeviceError

SMALL = (
    cases.matmul(33),
    cases.product(70, 12, 9),
    cases.product(5, 6, 7, batch=3),
    cases.gelu_matmul(7, 8, 9),
    *(cases.product(70, 12, 9, precision=precision) for precision in ("tf32", "bf16")),
    *(cases.gelu_matmul(7, 8, 9, precision) for precision in ("tf32", "bf16")),
    *(make(80, 24) for make in (cases.residual, cases.chain, cases.softmax, cases.layer_norm)),
    *(make(80, 24) for make in (memory_cases.rms_norm, memory_cases.swiglu)),
    *(make(80, 24) for make in (memory_cases.cross_entropy, memory_cases.transpose)),
    memory_cases.column_sum(80, 24),
    *(memory_cases.depthwise(2, 3, 14, 3, precision) for precision in ("f32", "bf16")),
    *(cases.decoding(2, 40, 8, precision) for precision in ("f32", "f16")),
    language_model_cases.log_softmax(80, 24),
    language_model_cases.column_mean(80, 24),
    *(language_model_cases.grouped_attention(2, (4, 2), n, 9, 8) for n in (1, 9)),
    *(cases.spelled_attention(1, 2, 16, 8, precision) for precision in ("f32", "tf32")),
)

TINYGRAD = (*(case for case in SMALL if case.precision != "tf32"), cases.attention(1, 2, 16, 8))


def needs_device() -> None:
    try:
        choose("cpu")
    except DeviceError:
        pytest.skip("no OpenCL device for the CPU: install the extra 'cpu'")


@pytest.mark.parametrize(
    "case", (*SMALL, language_model_cases.argmax(80, 24)), ids=lambda case: case.name
)
def test_a_case_is_the_same_in_mgn_and_numpy_and_a_wrong_result_is_found(case: Case) -> None:
    needs_device()
    arrays = contestants.arrays_of(case)
    executable = contestants.executable_of(case, "cpu")
    found = next(iter(executable(**arrays).values()))
    contestants.check(case, arrays, found)
    with pytest.raises(SystemExit, match="wrong result"):
        contestants.check(case, arrays, np.where(np.isfinite(found), found * 1.01 + 0.1, found))


def test_some_queries_of_more_keys_are_no_case_as_pytorch_masks_others() -> None:
    with pytest.raises(AssertionError, match="as many as keys"):
        language_model_cases.grouped_attention(1, (4, 2), 3, 9, 8)


def test_tinygrad_computes_the_same_where_it_is_installed() -> None:
    pytest.importorskip("tinygrad")
    needs_device()
    for case in TINYGRAD:
        arrays = contestants.arrays_of(case)
        shape = contestants.executable_of(case, "cpu")(**arrays)["y"].shape
        assert contestants.tinygrad_call(case, arrays, shape, False)() is None
        assert 0.0 < contestants.tinygrad_call(case, arrays, shape, True)() < 10.0
        wrong = replace(case, torch=partial(_tenth_more, case.torch))
        with pytest.raises(SystemExit, match="wrong result of tinygrad"):
            contestants.tinygrad_call(wrong, arrays, shape, False)


def _tenth_more(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments) * 1.1


def test_a_contestant_that_takes_very_long_has_one_turn() -> None:
    calls: list[str] = []

    def contestant(name: str, seconds: float) -> Callable[[], float]:
        return lambda: calls.append(name) or seconds

    functions = {"slow": contestant("slow", TOO_LONG * 2), "quick": contestant("quick", 0.5)}
    medians = interleaved_medians(functions, Turns(3, 0.1, 0.0))
    assert medians == {"slow": TOO_LONG * 2, "quick": 0.5}
    assert calls.count("slow") == 2
    assert calls.count("quick") == 6


def test_there_are_thirty_odd_products_and_names_are_unique() -> None:
    for precision in cases.STORED:
        assert len(suites.odd(precision)) == 30
    for table in suites.SUITES.values():
        assert len({case.name for case in table}) == len(table)


def test_the_command_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_device()
    table = (cases.softmax(80, 24), cases.matmul(17), cases.matmul(33))
    monkeypatch.setitem(suites.SUITES, ("cpu", "odd"), table)
    monkeypatch.setattr(command, "copy_bandwidth", lambda device: 1e10)
    monkeypatch.setattr(command, "_timed", lambda functions, kind: dict.fromkeys(functions, 2e-6))
    target = tmp_path / "out.json"
    assert command.main(["--device", "cpu", "--suite", "odd", "--json", str(target)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("softmax 80x24") == printed.count("matmul 33") == 1
    assert printed.count("matmul 17") == 2
    written = json.loads(target.read_text())
    rows = {row["kernel"]: row for row in written["kernels"]}
    assert rows["matmul 33"]["share"] == 1.0
    assert rows["softmax 80x24"]["share"] == pytest.approx(2 * 4 * 80 * 24 / 2e-6 / 1e10)
    assert command.main(["--device", "cpu", "--only", "nothing of that name"]) == 1


def test_a_run_that_is_cut_leaves_the_rows_that_were_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_device()
    times = iter([{"mgn": 2e-6}, {"mgn": 1e-6, "torch": 5e-7}])
    table = (cases.matmul(33), cases.matmul(65), cases.softmax(80, 24))
    monkeypatch.setitem(suites.SUITES, ("cpu", "odd"), table)
    monkeypatch.setattr(command, "copy_bandwidth", lambda device: 1e10)
    monkeypatch.setattr(contestants, "contestants_of", lambda case, device: {})
    monkeypatch.setattr(command, "_timed", lambda functions, kind: next(times))
    target = tmp_path / "out.json"
    with pytest.raises(RuntimeError, match="StopIteration"):
        command.main(["--device", "cpu", "--suite", "odd", "--json", str(target)])
    small, large = json.loads(target.read_text())["kernels"]
    assert large["share"] == 0.5
    assert small["share"] == pytest.approx(33**3 / 65**3 / 4)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "mat" in line]
    assert [line[1] for line in lines] == ["33", "65"]
    assert [line[5] for line in lines] == ["1", "0.5"]


def test_a_table_prints_its_head_again_with_new_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table(6, ("bound",))
    table.print({"kernel": "a", "ms": 1.23456, "bound": "copy"})
    table.print({"kernel": "b", "ms": 2.0, "operations": "12,345"})
    table.print({"kernel": "c", "operations": "1"})
    assert capsys.readouterr().out.splitlines() == [
        "kernel         ms",
        "a           1.235",
        "kernel         ms  operations",
        "b               2      12,345",
        "c                           1",
    ]
