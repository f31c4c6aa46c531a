"""States on the device: what runs leave is what the interpreter leaves; a run that fails leaves
nothing; graphs that are compiled together share states and parameters.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn import nn
from mgn.codegen.launch_plan import BufferKind
from mgn.commands.opt import main as main_of_opt
from mgn.commands.run import main as main_of_run
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.states import states_of
from mgn.dialects.mgn.structure import graphs_of
from mgn.driver.packaging import package_graph
from mgn.executable import Executable
from mgn.modules.initialisers import initial_value
from mgn.modules.module import Module
from mgn.passes.thread_states import ThreadStates
from mgn.runtime.devices import choose
from mgn.runtime.errors import InputError, NoParameter, RuntimeFault
from mgn.runtime.memory import DeviceMemory, buffer_bytes
from mgn.runtime.packages.writer import package_bytes
from tests.conftest import run_in_process
from tests.fuzz.device import described

ROOT = Path(__file__).resolve().parent.parent.parent
DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")
PROMPT, TOKENS = 8, 64

PROGRAMS = {
    "reads and writes in order": """
        state total: f32[3] = ones()
        fn add(x, i: int) {
          state k: f32[3] as "layer.{i}" = constant(2)
          old = k
          k <- k + x
          total <- total + k
          return old
        }
        graph g(x: f32[3]) {
          state steps: i32[]
          before = total
          steps <- steps + 1
          for i in 0..3 { scope "s" { x = add(x, i) } }
          return x, steps = steps, total = total, before
        }""",
    "two states change places": """
        graph g(x: f32[3]) {
          state j: f32[3] = ones()
          state k: f32[3] = normal(0, 1)
          old = k
          k <- j + x
          j <- old
          return y = j * 2, k = k
        }""",
    "states of one value": """
        graph g(x: f32[3]) {
          state j: f32[3]
          state k: f32[3]
          j <- x * 3
          k <- j
          return y = x
        }""",
    "inputs, parameters and numbers are written": """
        graph g(x: f32[3]) {
          param w: f32[3] = ones()
          state a: f32[3]
          state b: f32[3]
          state c: f32[3]
          was = a + b + c
          a <- x
          b <- w
          c <- 4
          return y = was
        }""",
    "a state that nobody writes": """
        graph g(x: f32[3]) { state k: f32[3] = constant(5); return y = x * k }""",
    "a state of every kind": """
        graph g(x: f32[3]) {
          state a: bool[3]
          state b: u8[2]
          state c: f16[0, 4]
          state d: i64[]
          a <- x > 0
          b <- b + 200
          c <- c + 1
          d <- d - 1
          return y = cast(a, f32) + cast(d, f32)
        }""",
    "a part is written and read": """
        graph g(x: f32[3]) {
          state at: i32[]
          state k: f32[300, 3]
          k <- dynamic_update_slice(k, reshape(x, [1, 3]), [at, 0])
          at <- at + 2
          return y = sum(k, axis = 0), z = k[0:4, :] @ k.T
        }""",
    "a part is written of what is read before and returned": """
        graph g(x: f32[3]) {
          state k: f32[3000, 8] = ones()
          before = sum(k)
          part = reshape(pad(x, [[0, 5]], 0.0), [1, 8])
          k <- dynamic_update_slice(k, part, [7, 0])
          k <- dynamic_update_slice(k, part * 2, [8, 0])
          return before, k = k, after = sum(k)
        }""",
    "a part is written of what is returned as it was": """
        graph g(x: f32[3]) {
          state k: f32[3000, 3]
          old = k
          k <- dynamic_update_slice(k, reshape(x, [1, 3]), [2999, 0])
          return old, new = sum(k, axis = 0)
        }""",
}


def first_values(program: Module) -> dict[str, np.ndarray]:
    return {name: initial_value(op, 0) for name, op in states_of(program.lower()).items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_runs_leave_in_states_what_the_interpreter_leaves(name: str, device_target: str) -> None:
    program = mgn.parse(PROGRAMS[name])
    exe = mgn.compile(program, device=DEVICE, target=device_target)
    plain, threaded = program.lower(), program.lower()
    ThreadStates().apply(None, threaded)  # type: ignore[arg-type]
    parameters = {"w": np.ones(3, np.float32)}
    reference = Interpreter(parameters, states=first_values(program))
    other = Interpreter(parameters, states=first_values(program))
    random = np.random.default_rng(0)
    for _ in range(4):
        x = random.standard_normal(3).astype(np.float32)
        wanted = reference.run(next(graphs_of(plain)), {"x": x})
        again = other.run(next(graphs_of(threaded)), {"x": x})
        found = exe(x=x)
        for key, array in wanted.items():
            np.testing.assert_array_equal(again[key], array)
            np.testing.assert_allclose(found[key], array, rtol=1e-5, atol=1e-4)
        for key, array in exe.state.items():
            np.testing.assert_array_equal(other.states[key], reference.states[key])
            np.testing.assert_allclose(array, reference.states[key], rtol=1e-5, atol=1e-4)
    exe.reset()
    for key, array in first_values(program).items():
        np.testing.assert_array_equal(exe.state[key], array)


def test_tokens_decoded_with_a_cache_are_those_that_are_recomputed(device_target: str) -> None:
    program = mgn.parse_file(ROOT / "examples/cached_decoder.mgn")
    lm = mgn.compile(program, graph=["prefill", "decode"], device=DEVICE, target=device_target)
    prompt = np.random.default_rng(1).integers(0, 97, (1, PROMPT)).astype(np.int32)
    token = lm["prefill"](tokens=prompt)["next"]
    tokens = [int(token[0])]
    for _ in range(TOKENS - 1):
        token = lm["decode"](token=token)["next"]
        tokens.append(int(token[0]))
    assert lm.state["position"] == PROMPT + TOKENS - 1
    whole = np.concatenate([prompt[0], tokens[:-1]])[None].astype(np.int32)
    graph = next(graphs_of(program.lower("whole", {"S": whole.shape[1]})))
    recomputed = Interpreter(dict(lm.params)).run(graph, {"tokens": whole})["next"]
    assert recomputed[0, PROMPT - 1 :].tolist() == tokens
    assert len(set(tokens)) > 8


def test_graphs_compiled_together_hold_parameters_and_states_once() -> None:
    program = mgn.parse_file(ROOT / "examples/cached_decoder.mgn")
    lm = mgn.compile(program, graph=["prefill", "decode"], dims={"S": 4}, device=DEVICE)
    held = [
        {
            buffer.name: buffer_bytes(buffer)
            for number, buffer in enumerate(exe.plan.buffers)
            if buffer.kind in ("param", "state") and number not in exe.plan.passing
        }
        for exe in lm.values()
    ]
    assert {*lm.state} < {*held[0]} & {*held[1]}
    assert [exe.held_bytes for exe in lm.values()] == [sum(item.values()) for item in held]
    once = sum((held[0] | held[1]).values())
    assert lm.params.session.held_bytes == once
    shared = [exe.launched.memory.shared for exe in lm.values()]
    both = sum(size for key, size in shared[0].items() if key in shared[1])
    assert both > sum(exe.held_bytes for exe in lm.values()) - once, "and what is made of weights"
    assert lm.allocated == sum(exe.allocated for exe in lm.values()) - both


SHARED = """
    param a: f32[8, 8] = ones()
    state k: f32[8]
    graph write(x: f32[8]) { k <- x @ tanh(a @ a); return y = k }
    graph read[N = 2](z: f32[N]) { return y = k * 2, z = z, w = k @ tanh(a @ a) }
"""


def test_a_parameter_that_is_set_is_seen_by_all_graphs_with_what_derives_from_it() -> None:
    program = mgn.compile(mgn.parse(SHARED), graph=["write", "read"], device=DEVICE)
    x, z = np.ones(8, np.float32), np.zeros(2, np.float32)
    for scale in (0.1, 0.2, 0.0):
        program.params["a"] = a = np.full((8, 8), scale, np.float32)
        wanted = x @ np.tanh(a @ a)
        np.testing.assert_allclose(program["write"](x=x)["y"], wanted, rtol=1e-5)
        np.testing.assert_allclose(program["read"](z=z)["y"], wanted * 2, rtol=1e-5)
        np.testing.assert_allclose(program["read"](z=z)["w"], wanted @ np.tanh(a @ a), rtol=1e-5)
        np.testing.assert_allclose(program.state["k"], wanted, rtol=1e-5)
    assert program["read"].params is program["write"].params


def test_dimensions_go_to_the_graphs_that_have_them() -> None:
    program = mgn.compile(mgn.parse(SHARED), graph=["write", "read"], dims={"N": 5}, device=DEVICE)
    assert program["read"](z=np.ones(5, np.float32))["z"].shape == (5,)
    with pytest.raises(mgn.MgnError, match="there is no dimension 'M' in graph write, read"):
        mgn.compile(mgn.parse(SHARED), graph=["write", "read"], dims={"M": 5}, device=DEVICE)
    with pytest.raises(mgn.MgnError, match="there is no graph 'wr'; the graphs are write, read"):
        mgn.compile(mgn.parse(SHARED), graph=["wr"], device=DEVICE)
    with pytest.raises(mgn.MgnError, match="a list of different names"):
        mgn.compile(mgn.parse(SHARED), graph=["read", "read"], device=DEVICE)
    with pytest.raises(mgn.MgnError, match="there is no graph 'wrote'; did you mean 'write'"):
        program["wrote"]


def test_a_name_of_two_types_in_two_graphs_is_refused() -> None:
    text = "graph g[N = 2](x: f32[N]) { state k: f32[N]; k <- k + x; return y = k }"
    text += text.replace("graph g[N = 2]", "\ngraph h[M = 3]").replace("N", "M")
    with pytest.raises(mgn.MgnError, match=r"state 'k' is f32\[2\] already, not f32\[3\]"):
        mgn.parse(text)
    late = text.replace("M = 3", "M")
    with pytest.raises(RuntimeFault, match=r"state 'k' is f32\[2\] in one graph and f32\[3\] in"):
        mgn.compile(mgn.parse(late), graph=["g", "h"], dims={"M": 3}, device=DEVICE)


def test_states_are_read_and_set_by_external_name() -> None:
    exe = mgn.compile(mgn.parse(PROGRAMS["reads and writes in order"]), device=DEVICE)
    assert list(exe.state["s.layer.1"]) == [2, 2, 2]
    exe.state["s.layer.0"] = np.array([1, 2, 3], np.float32)
    exe(x=np.ones(3, np.float32))
    assert list(exe.state["s.layer.0"]) == [2, 3, 4]
    with pytest.raises(NoParameter, match=r"there is no state 's.layer.3'; did you mean 's.layer"):
        exe.state["s.layer.3"]
    with pytest.raises(InputError, match=r"state 'steps' has dtype float64, not int32"):
        exe.state["steps"] = np.zeros(())
    with pytest.raises(InputError, match=r"state 'total' has shape \[4\], not \[3\]"):
        exe.state["total"] = np.zeros(4, np.float32)
    with pytest.raises(TypeError, match="cannot be deleted"):
        del exe.state["total"]
    assert "total: f32[3]" in repr(exe.state)


def test_whether_there_is_a_name_is_asked_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is copied for it, and a parameter without a value and a lost state are there."""
    text = """graph g(x: f32[32]) {
      param w: f32[32]
      param q: q8_0[32]
      state k: f32[32]
      k <- k + x * w * q
      return y = x
    }"""
    module = mgn.parse(text)
    package = package_graph(module.lower(), described(choose(DEVICE)))
    (tmp_path / "g.mgnpkg").write_bytes(package_bytes(package))
    exe = mgn.compile(module, device=DEVICE)
    packed = mgn.load_package(tmp_path / "g.mgnpkg", device=DEVICE)
    exe.params.session.lost.add("k")
    monkeypatch.setattr("mgn.runtime.launching.session.Session.get", pytest.fail)
    for names in (exe.params, packed.params):
        found = [name in names for name in ("w", "q", "k", "", 3)]
        assert found == [True, True, False, False, False]
    for names in (exe.state, packed.state):
        assert [name in names for name in ("w", "k", 3, None)] == [False, True, False, False]


def contents(exe: Executable) -> dict[str, np.ndarray]:
    return {name: exe.state[name] for name in exe.state}


def test_a_run_with_wrong_inputs_leaves_states_as_they_were() -> None:
    exe = mgn.compile(mgn.parse(PROGRAMS["two states change places"]), device=DEVICE)
    before = contents(exe)
    with pytest.raises(InputError):
        exe(x=np.ones(4, np.float32))
    for key, array in before.items():
        np.testing.assert_array_equal(exe.state[key], array)


def test_only_the_row_of_a_large_cache_is_written() -> None:
    text = """graph step(row: f32[2, 1, 64], at: i32[]) {
      state k: f32[2, 4096, 64]
      k <- dynamic_update_slice(k, row, [0, at, 0])
      return s = sum(k * k, axis = [1, 2])
    }"""
    exe = mgn.compile(mgn.parse(text), device=DEVICE)
    plan = exe.plan
    assert plan.arena < 1 << 20, "no second cache"
    copied = [step for step in plan.steps if step not in plan.launches]
    assert not copied
    assert sum(buffer.kind is BufferKind.STATE for buffer in plan.buffers) == 1
    for at in (0, 5, 4095, 9000, -3):
        exe(row=np.full((2, 1, 64), at + 1, np.float32), at=np.array(at, np.int32))
    k = exe.state["k"]
    assert k[:, 0].max() == -2 and k[0, 5, 0] == 6 and k[1, 4095, 63] == 9001
    assert np.count_nonzero(k) == 3 * 128


def test_a_package_holds_states_with_their_first_values(tmp_path: Path) -> None:
    text = """graph g(x: f32[3]) {
      state at: i32[] = constant(2)
      state k: f32[300, 3]
      k <- dynamic_update_slice(k, reshape(x, [1, 3]), [at, 0])
      at <- at + 2
      return y = sum(k, axis = 0), at = at
    }"""
    package = package_graph(mgn.parse(text).lower(), described(choose(DEVICE)))
    (tmp_path / "g.mgnpkg").write_bytes(package_bytes(package))
    exe = mgn.load_package(tmp_path / "g.mgnpkg", device=DEVICE)
    for run in range(1, 4):
        out = exe(x=np.ones(3, np.float32))
        assert out["at"] == exe.state["at"] == 2 + 2 * run
        assert out["y"].tolist() == [run] * 3
    assert np.flatnonzero(exe.state["k"][:, 0]).tolist() == [2, 4, 6]
    exe.reset()
    assert exe.state["at"] == 2 and not exe.state["k"].any()


def test_states_of_a_program_from_the_cache_begin_as_they_were_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGN_PROGRAM_CACHE", "on")
    monkeypatch.setenv("MGN_CACHE_DIR", str(tmp_path))
    text = PROGRAMS["reads and writes in order"]
    runs = [mgn.compile(mgn.parse(text), device=DEVICE) for _ in range(2)]
    assert [exe.report.recalled for exe in runs] == [False, True]
    x = np.ones(3, np.float32)
    first, second = ([exe(x=x) for _ in range(3)] for exe in runs)
    for one, other in zip(first, second, strict=True):
        for key, array in one.items():
            np.testing.assert_array_equal(other[key], array)


def test_arrays_stay_on_the_device_between_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the prompt, nothing but the tokens that are asked for crosses to the host."""
    program = mgn.parse_file(ROOT / "examples/cached_decoder.mgn")
    lm = mgn.compile(program, graph=["prefill", "decode"], device=DEVICE)
    prompt = np.random.default_rng(2).integers(0, 97, (1, PROMPT)).astype(np.int32)
    token: Any = lm["prefill"](tokens=prompt)["next"]
    wanted = [int(token[0])]
    for _ in range(9):
        token = lm["decode"](token=token)["next"]
        wanted.append(int(token[0]))
    lm.reset()
    token = lm["prefill"].run_on_device(tokens=prompt)["next"]
    drawn = [token]
    with monkeypatch.context() as patched:
        for name in ("upload", "download"):
            patched.setattr(DeviceMemory, name, None)
        patched.setattr("mgn.runtime.launching.session.as_bytes", None)
        for _ in range(9):
            token = lm["decode"].run_on_device(token=token)["next"]
            drawn.append(token)
    assert [int(item.numpy()[0]) for item in drawn] == wanted
    assert token.shape == (1,) and token.dtype == np.int32 and len(token) == 1
    assert "i32[1] on " in repr(token)
    np.testing.assert_array_equal(np.asarray(token), np.from_dlpack(token))


def test_an_array_of_another_device_or_type_is_refused() -> None:
    text = "graph g(x: f32[3]) { state k: f32[3]; k <- k + x; return y = k, z = x[0:2] }"
    one, other = (mgn.compile(mgn.parse(text), device=DEVICE) for _ in range(2))
    out = one.run_on_device(x=np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(one(x=out["y"])["y"], [0, 2, 4])
    one.state["k"] = out["y"]
    np.testing.assert_array_equal(one.state["k"], [0, 1, 2])
    with pytest.raises(InputError, match=r"input 'x' is f32\[2\], not f32\[3\]"):
        one(x=out["z"])
    with pytest.raises(InputError, match="lies in the memory of other executables"):
        other(x=out["y"])


class Lent:
    """What only DLPack can read."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_arrays_of_other_libraries_come_by_dlpack() -> None:
    exe = mgn.compile(mgn.parse("graph g(x: f32[3]) { return y = x + 1 }"), device=DEVICE)
    out = exe(x=Lent(np.arange(3, dtype=np.float32)))
    np.testing.assert_array_equal(out["y"], [1, 2, 3])
    with pytest.raises(InputError, match="has dtype float64"):
        exe(x=Lent(np.arange(3.0)))


def test_rows_of_a_cache_are_written_in_place() -> None:
    """Even of small caches, as a copy would cost a command more. Keys and values are written before
    attention reads them where they lie. All else is written behind what reads it, which a failing
    run leaves as it was. Launches are not merged: a resident one may be both.
    """
    program = mgn.parse_file(ROOT / "examples/cached_decoder.mgn")
    exe = mgn.compile(program, graph="decode", device=DEVICE, resident="off")
    accesses = {name: kernel.accesses for name, kernel in exe.kernels.items()}
    first = exe.plan.commits(accesses)
    written = exe.plan.written_states(accesses)
    read_behind = {
        buffer
        for number, step in enumerate(exe.plan.launches)
        for buffer, access in zip(step.arguments, accesses[step.kernel], strict=True)
        if buffer in written and access != "write" and number > written[buffer]
    }
    early = {buffer for buffer, step in written.items() if step < first}
    names = {exe.plan.buffers[number].name for number in early}
    assert len(written) == 5 and early <= read_behind
    assert names == {"layers.0.k", "layers.1.k", "layers.0.v", "layers.1.v"}
    assert all(step in exe.plan.launches for step in exe.plan.steps), "nothing is copied"


def test_the_builder_makes_the_states_of_the_text() -> None:
    text = """graph g(x: f32[2]) {
      scope "a" { state k: f32[2] = ones() }
      state n: i32[]
      old = k
      k <- k + x
      n <- 3
      return old, new = k
    }"""
    with mgn.graph("g") as g:
        x = g.input("x", "f32[2]")
        with g.scope("a"):
            k = g.state("k", "f32[2]", nn.ones())
        n = g.state("n", "i32[]")
        old = k.value
        k.write(k.value + x)
        n.write(3)
        g.output(old=old, new=k.value)
        with pytest.raises(mgn.DiagnosticsError, match=r"state 'n' is i32\[\], not f32\[2\]"):
            n.write(x)
        with pytest.raises(mgn.DiagnosticsError, match=r"state 'n' is i32\[\] already"):
            g.state("n", "f32[]")
    given = np.array([1, 2], np.float32)
    written, built = (mgn.compile(item, device=DEVICE) for item in (mgn.parse(text), g))
    for _ in range(2):
        one, other = written(x=given), built(x=given)
        for name, array in one.items():
            np.testing.assert_array_equal(other[name], array)
    assert list(built.state) == list(written.state) == ["a.k", "n"]


@pytest.mark.parametrize("form", ["egglog", "egraph-json", "dot", "mgn", "mlir", "plan"])
def test_programs_with_states_are_printed_in_every_form(form: str, tmp_path: Path) -> None:
    file = tmp_path / "g.mgn"
    file.write_text(PROGRAMS["reads and writes in order"])
    passes = ["-p", "default"] if form == "plan" else []
    done = run_in_process(main_of_opt, [str(file), *passes, "-t", form])
    assert done.status == 0 and done.stdout, done.stderr


def test_states_are_printed_and_set_by_the_command(tmp_path: Path) -> None:
    file = tmp_path / "g.mgn"
    file.write_text("graph g() { state n: i32[]; n <- n + 2; return n = n }")
    np.savez(tmp_path / "s.npz", n=np.array(5, np.int32))
    common = [str(file), "--device", DEVICE]
    done = run_in_process(main_of_run, [*common, "--states", str(tmp_path / "s.npz")])
    assert done.status == 0, done.stderr
    assert "n: i32[] mean 7" in done.stdout and "state n: i32[] mean 7" in done.stdout
    page = tmp_path / "out.html"
    done = run_in_process(main_of_run, [*common, "--repeat", "2", "--report", f"--explain={page}"])
    assert done.status == 0 and page.exists(), done.stderr
    np.savez(tmp_path / "s.npz", m=np.array(5, np.int32))
    done = run_in_process(main_of_run, [*common, "--states", str(tmp_path / "s.npz")])
    assert done.status == 1 and "there is no state 'm'" in done.stderr
