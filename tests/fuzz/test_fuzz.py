"""The program fuzzer: a seeded run of it, and that it finds what was planted, and cuts it down."""

import random
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp

from mgn.codegen.opencl import arithmetic as opencl_arithmetic
from mgn.codegen.opencl.expression import ADD
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate import Rule, RuleClass, forget_rule, register_rule
from mgn.runtime.errors import RuntimeFault
from tests.fuzz import trial
from tests.fuzz.__main__ import main
from tests.fuzz.bounds import Bounds
from tests.fuzz.campaign import Campaign, Options, tell
from tests.fuzz.cases import CORRECTLY_ROUNDED, Finding
from tests.fuzz.compare import other_bits, outside
from tests.fuzz.device import Runner
from tests.fuzz.draw import REFUSALS, Draw
from tests.fuzz.makers import MAKERS, random_program
from tests.fuzz.minimise import minimise
from tests.fuzz.program import Leaf, Program, Step
from tests.fuzz.together import outputs_of_parts, taken_apart, together
from tests.fuzz.trial import DeviceLost, Trials
from tests.fuzz.variants import Variant


def programs(count: int, seed: str) -> list[tuple[str, Program]]:
    """Random programs with their seeds."""
    return [(f"{seed}:{n}", random_program(f"{seed}:{n}")) for n in range(count)]


def first_finding(trials: Trials, seed: str, batches: int) -> Finding:
    """The first finding among some batches, cut down."""
    for number in range(batches):
        found = trials.batch(programs(12, f"{seed} {number}"))
        if found:
            return minimise(found[0], trials.again, 20.0)
    raise AssertionError("nothing was found")


def test_every_operation_is_drawn() -> None:
    own = {name for name, spec in OPERATIONS.items() if spec.op_class.__module__ != __name__}
    assert own - set(MAKERS) == set()
    assert set(OPERATIONS) >= CORRECTLY_ROUNDED
    drawn: set[str] = set()
    for _, program in programs(400, "drawn"):
        drawn |= program.names
    assert len(drawn) > 0.9 * len(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_a_maker_draws_its_operation(name: str) -> None:
    rng = random.Random(name)
    for _ in range(50):
        draw = Draw(rng, "tame", 300)
        try:
            MAKERS[name](draw)
        except REFUSALS:
            continue
        assert name in draw.program().names
        return
    raise AssertionError(f"every call of {name} was refused")


def test_a_seed_stands_for_one_program() -> None:
    one, other = (random_program("1:7") for _ in range(2))
    assert one.steps == other.steps
    assert one.text() == other.text()
    assert not other_bits(one.inputs, other.inputs)


@pytest.mark.long
def test_a_seeded_run_finds_nothing(device_runner: Runner) -> None:
    trials = Trials(device_runner, modules=1, ways=2)
    for number in range(4):
        found = trials.batch(programs(6, f"test {number}"), f"test {number}")
        assert [tell(item) for item in found] == []
    counts = trials.counts
    assert counts.drawn == counts.programs == 24
    assert counts.modules >= 4 and counts.runs >= 8
    assert counts.claimed > 0.3 * counts.elements


def test_programs_side_by_side_give_what_each_gives_alone() -> None:
    parts = [program for _, program in programs(5, "side")]
    whole = together(parts)
    assert len(outputs_of_parts(whole)) >= len(parts)
    results = Interpreter(whole.parameters).run(next(graphs_of(whole.build())), whole.inputs)
    for program, got in zip(parts, taken_apart(parts, results), strict=True):
        graph = next(graphs_of(program.build()))
        alone = Interpreter(program.parameters).run(graph, program.inputs)
        assert list(got) == list(alone)
        assert other_bits(got, alone) is None


def test_what_only_programs_side_by_side_show_is_found_and_cut_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optimise = Variant.optimise

    def confused(variant: Variant, program: Program, device: Device, lower: bool) -> ModuleOp:
        if sum("x" in leaf.name for leaf in program.leaves) > 3 and "exp" in program.names:
            raise ValueError("too many inputs")
        return optimise(variant, program, device, lower)

    x = np.ones(3, np.float32)
    parts = [
        Program((Leaf(0, "input", x),), (Step((1,), name, (0,)),), (1,))
        for name in ("exp", "abs", "neg", "tanh", "sin", "cos")
    ]
    monkeypatch.setattr(Variant, "optimise", confused)
    monkeypatch.setattr(trial, "ALONE", 0.0)
    trials = Trials(None)
    (found,) = trials.batch([(f"9:{n}", part) for n, part in enumerate(parts)], "9")
    assert found.seed == "9:0-5"
    smaller = minimise(found, trials.again, 20.0)
    assert smaller.program.names == {"exp"}
    assert len(outputs_of_parts(smaller.program)) == 4
    assert "--seed 9 --first 0 --count 6" in tell(smaller)


def test_a_wrong_rule_is_found_and_cut_down() -> None:
    row = Rule("wrong-where", "where(c, a, b)", "a", RuleClass.EXACT, "nothing", when="computed(c)")
    trials = Trials(None, modules=2)
    register_rule(row)
    try:
        found = first_finding(trials, "rule", 20)
    finally:
        forget_rule(row.name)
    assert found.where.partition(" for ")[0] in ("module", "kernels")
    assert len(found.program.steps) <= 3
    assert all(leaf.array.size <= 16 for leaf in found.program.leaves)
    assert "mgn.compile(mgn.parse(text)" in tell(found)
    assert trials.again(found, found.program) is None


@pytest.mark.long
def test_a_wrong_row_of_the_emitter_is_found_and_cut_down(
    device_runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(opencl_arithmetic.FLOAT_INFIX, arith.SubfOp, ("+", ADD))
    found = first_finding(Trials(device_runner, modules=0, ways=1), "emitter", 10)
    assert found.where == "device"
    assert len(found.program.steps) <= 2
    assert all(leaf.array.size <= 16 for leaf in found.program.leaves)
    assert "mgn.compile(mgn.parse(text)" in tell(found)


def sets_of(program: Program) -> tuple[Bounds, Mapping[str, object]]:
    bounds = Bounds(program.parameters)
    return bounds, bounds.run(next(graphs_of(program.build())), program.inputs)


def test_bounds_tell_a_small_error_from_none() -> None:
    x = np.linspace(-2, 2, 48, dtype=np.float32).reshape(6, 8)
    steps = (Step((1,), "softmax", (0,)), Step((2,), "matmul", (1, 0), (("transpose_b", True),)))
    program = Program((Leaf(0, "input", x),), steps, (2,))
    _, sets = sets_of(program)
    shifted = x.astype(np.float64) - x.max(1, keepdims=True)
    weights = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    right = (weights @ x.astype(np.float64).T).astype(np.float32)
    assert outside({"y0": right}, sets, finite=True) is None  # type: ignore
    wrong = right.copy()
    wrong[2, 3] *= 1.001
    told = outside({"y0": wrong}, sets, finite=True)  # type: ignore
    assert told is not None and told.startswith("y0[2, 3]")
    assert "1 of 36" in told


def test_nothing_is_claimed_where_the_written_program_overflows() -> None:
    x = np.array([3e38, 1.0], np.float32)
    program = Program((Leaf(0, "input", x),), (Step((1,), "mul", (0, 10.0)),), (1,))
    _, sets = sets_of(program)
    for got, finite, right in (
        ([np.inf, 10.0], False, True),
        ([5.0, 10.0], True, True),
        ([5.0, 10.0], False, False),
        ([np.inf, 11.0], True, False),
    ):
        told = outside({"y0": np.array(got, np.float32)}, sets, finite)  # type: ignore
        assert (told is None) == right, (got, finite)


def test_a_comparison_at_its_boundary_is_not_claimed() -> None:
    x = np.array([0.1, 0.5], np.float32)
    steps = (Step((1,), "mul", (0, 3.0)), Step((2,), "gt", (1, 0.3)))
    _, sets = sets_of(Program((Leaf(0, "input", x),), steps, (2,)))
    assert outside({"y0": np.array([True, True])}, sets, finite=True) is None  # type: ignore
    assert outside({"y0": np.array([False, True])}, sets, finite=True) is None  # type: ignore
    assert outside({"y0": np.array([True, False])}, sets, finite=True)  # type: ignore


def test_a_printed_array_is_read_back_to_the_bit() -> None:
    from tests.fuzz.program import written

    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.bool_):
        array = np.array([0, 1, 1], dtype)
        again = eval(written(array).partition("#")[0], {"np": np, "ml_dtypes": ml_dtypes})
        assert again.dtype == array.dtype and again.tobytes() == array.tobytes()


def test_the_command_counts_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "3", "--device", "none", "--seed", "5"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("3 programs judged of 3 drawn, 0 runs on none, ")
    assert "; 0 findings; " in told


def test_a_device_that_is_lost_is_a_finding(
    device_runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object) -> None:
        raise RuntimeFault("out of resources")

    monkeypatch.setattr(device_runner, "run", lose)
    with pytest.raises(DeviceLost, match="RuntimeFault: out of resources"):
        Trials(device_runner, modules=0).batch(programs(1, "lost"))


def test_a_text_that_means_another_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tests.fuzz.trial.respelled", lambda text, rng: text.replace("exp(", "log(")
    )
    program = Program(
        (Leaf(0, "input", np.ones((2, 3), np.float32)),),
        (Step((1,), "exp", (0,)), Step((2,), "neg", (1,)), Step((3,), "sum", (2,))),
        (3,),
    )
    found = Finding(program, None, "text", "another module")
    smaller = minimise(found, Trials(None).again, 20.0)
    assert [step.name for step in smaller.program.steps] == ["exp"]


def test_a_process_that_dies_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Campaign(Options(count=2, device="none"))
    campaign.begin()
    campaign.workers[0].process.kill()
    campaign.run()
    assert campaign.found == 1 and campaign.counts.drawn == 2
    told = capsys.readouterr().out
    assert "programs 0 to 1: ended the process (they are tried again one by one)" in told
