"""Random numbers: those of the paper, the same on every target and in the interpreter, of the seed
and the number of the run, and distributed as they should be.
"""

import math
import os

import numpy as np
import pytest

import mgn
from mgn import ops
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.philox import key_of, philox
from mgn.dialects.mgn.structure import graphs_of
from mgn.modules.module import Module

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")

KNOWN = [
    ([0] * 6, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ([0xFFFFFFFF] * 6, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0],
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]
"""Counters and keys, and the words, from the authors' known answers."""


@pytest.mark.parametrize(("words", "answer"), KNOWN)
def test_philox_gives_the_known_answers(words: list[int], answer: str) -> None:
    arrays = [np.array(word, np.uint32) for word in words]
    assert " ".join(f"{int(philox(*arrays, word)):08x}" for word in range(4)) == answer


SHAPES = [
    *([], [0], [1], [3, 0, 2], [1, 1], [257], [2, 3, 5, 7], [64, 33], [1, 1000], [1000, 1]),
    *([7, 1, 9], [128, 128], [5], [16], [31, 17], [2, 0], [1, 2, 1, 2], [333], [12, 1, 1], [4096]),
]
CALLS = ("uniform({}, -2, 3, T = {})", "normal({}, 1, 0.5, T = {})")


def interpreted(program: Module, seed: int, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    states = {"mgn.random": key_of(seed)}
    return Interpreter(states=states).run(next(graphs_of(program.lower())), inputs)


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16"])
def test_devices_draw_what_the_interpreter_draws(element: str, device_target: str) -> None:
    """All shapes in one graph. Bits of uniform numbers are equal but for the last place of their
    scaling; those of logarithms and cosines differ by a few units in the last place.
    """
    calls = [call.format(shape, element) for shape in SHAPES for call in CALLS]
    body = "\n".join(f"y{number} = {call}" for number, call in enumerate(calls))
    names = ", ".join(f"y{number}" for number in range(len(calls)))
    program = mgn.parse(f"graph g() {{\n{body}\nreturn {names}\n}}")
    exe = mgn.compile(program, device=DEVICE, target=device_target)
    found, wanted = exe(seed=11), interpreted(program, 11)
    unit = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[element]
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        error = np.abs(found[name].astype(np.float64) - array.astype(np.float64))
        assert error.max(initial=0) <= 16 * unit, name


def test_words_are_equal_bit_by_bit(device_target: str) -> None:
    program = mgn.parse("graph g() { return u = uniform([100, 33]), d = uniform([999], T = f64) }")
    wanted = interpreted(program, 5)
    found = mgn.compile(program, device=DEVICE, target=device_target, seed=5)()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_seed_gives_its_numbers_and_runs_without_one_go_on() -> None:
    exe = mgn.compile(mgn.parse("graph g() { return u = uniform([50]) }"), device=DEVICE, seed=3)
    first = [exe()["u"] for _ in range(3)]
    assert len({item.tobytes() for item in first}) == 3
    exe.reset()
    np.testing.assert_array_equal(exe()["u"], first[0])
    np.testing.assert_array_equal(exe(seed=3)["u"], first[0])
    np.testing.assert_array_equal(exe()["u"], first[1])
    assert not np.array_equal(exe(seed=4)["u"], first[0])
    assert exe.state["mgn.random"].tolist() == [4, 0, 1]
    large = exe(seed=2**64 - 1)["u"]
    assert not np.array_equal(large, exe(seed=2**32 - 1)["u"])
    for wrong in (-1, 2**64):
        with pytest.raises(mgn.MgnError, match="seed takes a number from 0"):
            exe(seed=wrong)


def test_each_call_draws_other_numbers_and_a_key_of_ones_own_draws_its_own() -> None:
    text = """
    fn noise() { return uniform([40]) }
    graph g(key: u32[3]) {
      a = noise()
      b = noise()
      return a, b, c = uniform([40], key = key), d = uniform([40], key = key, site = 1)
    }"""
    exe = mgn.compile(mgn.parse(text), device=DEVICE)
    out = exe(key=key_of(0))
    np.testing.assert_array_equal(out["a"], out["c"])
    np.testing.assert_array_equal(out["b"], out["d"])
    assert not np.array_equal(out["a"], out["b"])


def test_an_input_named_seed_is_an_input() -> None:
    text = "graph g(seed: f32[2]) { return y = seed + uniform([2]) }"
    exe = mgn.compile(mgn.parse(text), device=DEVICE)
    assert (exe(seed=np.full(2, 10, np.float32))["y"] >= 10).all()
    plain = mgn.compile(mgn.parse("graph g(x: f32[2]) { return y = x }"), device=DEVICE)
    with pytest.raises(mgn.MgnError, match="there is no input 'seed'"):
        plain(x=np.zeros(2, np.float32), seed=3)


def test_the_builder_draws_what_the_text_draws() -> None:
    text = (
        "graph g(x: f32[4, 3]) { return u = uniform([8]), i = categorical(x), d = dropout(x, 0.1) }"
    )
    with mgn.graph("g") as g:
        x = g.input("x", "f32[4, 3]")
        g.output(u=ops.uniform([8]), i=ops.categorical(x), d=ops.dropout(x, 0.1))
    given = {"x": np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)}
    written, built = (mgn.compile(item, device=DEVICE) for item in (mgn.parse(text), g))
    for _ in range(2):
        one, other = written(**given), built(**given)
        for name, array in one.items():
            np.testing.assert_array_equal(other[name], array)
    np.testing.assert_array_equal(one["d"], given["x"])


COUNT = 1 << 18


def test_uniform_numbers_are_uniform() -> None:
    exe = mgn.compile(mgn.parse(f"graph g() {{ return u = uniform([{COUNT}]) }}"), device=DEVICE)
    u = exe()["u"].astype(np.float64)
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 0.5) < 5 * math.sqrt(1 / 12 / COUNT)
    filled = np.bincount((u * 256).astype(int), minlength=256)
    chi = ((filled - COUNT / 256) ** 2 / (COUNT / 256)).sum()
    assert abs(chi - 255) < 6 * math.sqrt(2 * 255)
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 5 / math.sqrt(COUNT)


def test_normal_numbers_are_normal() -> None:
    exe = mgn.compile(mgn.parse(f"graph g() {{ return n = normal([{COUNT}]) }}"), device=DEVICE)
    n = exe()["n"].astype(np.float64)
    assert abs(n.mean()) < 5 / math.sqrt(COUNT)
    assert abs(n.var() - 1) < 5 * math.sqrt(2 / COUNT)
    assert abs((n**3).mean()) < 5 * math.sqrt(15 / COUNT)
    assert abs((n**4).mean() - 3) < 5 * math.sqrt(96 / COUNT)
    below = np.sort(n).searchsorted([-2, -1, 0, 1, 2]) / COUNT
    wanted = [0.5 * (1 + math.erf(x / math.sqrt(2))) for x in (-2, -1, 0, 1, 2)]
    np.testing.assert_allclose(below, wanted, atol=5 * math.sqrt(0.25 / COUNT))


def test_categories_come_with_the_probabilities_of_their_logits() -> None:
    rows = 1 << 16
    text = f"graph g(x: f32[5]) {{ return i = categorical(broadcast_to(x, [{rows}, 5])) }}"
    exe = mgn.compile(mgn.parse(text), device=DEVICE)
    logits = np.array([0.0, 1.0, -np.inf, -2.0, 0.5], np.float32)
    drawn = np.bincount(exe(x=logits)["i"], minlength=5) / rows
    share = np.exp(logits) / np.exp(logits).sum()
    assert drawn[2] == 0
    assert (np.abs(drawn - share) <= 5 * np.sqrt(share * (1 - share) / rows)).all()


WRONG = [
    ("uniform([2], 3, 1)", "uniform takes finite low <= high, not 3 and 1"),
    ("uniform([2], T = i32)", "uniform gives floats, not i32"),
    ("uniform([-2])", "-2"),
    ("normal([2], 0, -1)", "normal takes a finite mean and std >= 0, not 0 and -1"),
    ("uniform([2], key = cast(x, u32))", "uniform: the key is a u32[3]"),
    ("uniform([2], key = x)", "u32"),
    ("categorical(sum(x))", "categorical needs a class or more along the last axis"),
    ("categorical(x[0:0])", "categorical needs a class or more along the last axis"),
    ("dropout(x, 1.5)", "dropout takes a share from 0 to 1, not 1.5"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_a_wrong_call_is_told_with_its_place(call: str, message: str) -> None:
    with pytest.raises(mgn.DiagnosticsError) as caught:
        mgn.parse(f"graph g(x: f32[4]) {{\n  y = {call}\n  return y\n}}")
    (found,) = caught.value.diagnostics
    assert message in found.message
    assert found.line == 2
