"""What a step does besides the optimiser's update, and what it refuses."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn import nn, ops
from mgn.builder import GraphBuilder, Value
from mgn.dialects.kernel import DEVICES
from mgn.dialects.mgn.states import states_of
from mgn.runtime.location import FIGURES_VARIABLE
from mgn.training.step.options import StepOptions
from mgn.training.step.step import training_step
from tests.training.references import adamw

SIZES = {"a.weight": (3, 4), "a.bias": (3,), "b.weight": (2, 3), "b.bias": (2,)}


def sums(*, unused: bool = False) -> GraphBuilder:
    """A loss whose gradient by each parameter is an input."""
    with mgn.graph("sums") as g:
        total: Any = 0.0
        for name, shape in SIZES.items():
            type = f"f32[{', '.join(map(str, shape))}]"
            given = g.input(name.replace(".", "_"), type)
            total = total + ops.sum(g.param(name, type, nn.normal()) * given)
        count = g.param("count", "i32", nn.ones())
        extra: Value = ops.sum(g.param("unused", "f32[3]", nn.ones()))
        g.output(loss=total, count=count, rows=ops.full([2], 1.0), extra=extra)
    return g


def given(seed: int) -> dict[str, np.ndarray]:
    """The gradients, by the names of inputs."""
    random = np.random.default_rng(seed)
    return {
        name.replace(".", "_"): random.standard_normal(shape).astype(np.float32)
        for name, shape in SIZES.items()
    }


def test_clipping_factors_patterns_and_a_schedule_act_together() -> None:
    lr = mgn.schedules.warmup(2, 0.1)
    optimizer = mgn.AdamW(
        lr, weight_decay=0.5, lr_factors={"^b": 0.25, "": 1.0}, decay_factors={"bias$": 0.0}
    )
    trainer = mgn.Trainer(sums(), optimizer=optimizer, clip_norm=1.5, frozen=r"a\.weight")
    trained = ("a.bias", "b.weight", "b.bias")
    assert trainer.trained == trained
    exact = {name: trainer.params[name].astype(np.float64) for name in trained}
    fixed = {name: trainer.params[name] for name in ("a.weight", "unused", "count")}
    kept: dict[str, dict[str, Any]] = {name: {} for name in trained}
    for number in range(20):
        inputs = {name: item * 10.0 ** (number % 3 - 1) for name, item in given(number).items()}
        outputs = trainer.step({name: item.astype("f4") for name, item in inputs.items()})
        gradients = {name: inputs[name.replace(".", "_")] for name in trained}
        norm = np.sqrt(sum((item**2).sum() for item in gradients.values()))
        np.testing.assert_allclose(outputs["grad_norm"], norm, rtol=1e-5)
        scale = min(1.0, 1.5 / (norm + 1e-6))
        for name, value in exact.items():
            rate = 0.1 * min((number + 1) / 2, 1.0) * (0.25 if name[0] == "b" else 1.0)
            decay = 0.0 if name.endswith("bias") else 0.5
            now = (value, gradients[name] * scale, number + 1, kept[name], rate)
            exact[name] = adamw(*now, weight_decay=decay)
    for name, value in exact.items():
        np.testing.assert_allclose(trainer.params[name], value, rtol=2e-5, atol=2e-6)
    for name, value in fixed.items():
        np.testing.assert_array_equal(trainer.params[name], value)
    assert not any(f"optimizer.{name}." in key for key in trainer.state() for name in fixed)


@dataclass(frozen=True)
class Momentum(mgn.Optimizer):
    """One of one's own, with a state that begins otherwise."""

    momentum: float = 0.5

    def update(self, at: mgn.Update) -> Value:
        velocity = at.state("velocity", initialiser=nn.ones())
        velocity.write(velocity.value * self.momentum + at.gradient)
        return at.value - at.lr * velocity.value / at.step


@pytest.mark.parametrize(("element", "kept"), [("f64", np.float64), ("bf16", np.float32)])
def test_an_optimiser_of_ones_own_works_in_the_type_of_the_parameter(
    element: str, kept: Any
) -> None:
    with mgn.graph("own") as g:
        w = g.param("w", f"{element}[3]", nn.ones())
        g.output(loss=ops.sum(w * g.input("x", f"{element}[3]")))
    trainer = mgn.Trainer(g, optimizer=Momentum(lr=0.5))
    x = np.array([1.0, 2.0, -4.0]).astype(trainer.params["w"].dtype)
    trainer.step({"x": x})
    trainer.step({"x": x})
    velocity = trainer.state()["optimizer.w.velocity"]
    first, second = 0.5 + np.float64(x), 0.25 + 1.5 * np.float64(x)
    assert velocity.dtype == kept
    np.testing.assert_array_equal(velocity, second)
    expected = 1 - 0.5 * first - 0.25 * second
    rounding = {"f64": 1e-7, "bf16": 2.0**-7}[element]
    np.testing.assert_allclose(np.float64(trainer.params["w"]), expected, rtol=rounding)


class Wrong(Momentum):
    """One whose next value has another shape."""

    def update(self, at: mgn.Update) -> Value:
        return ops.sum(at.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "los"}, "has no output 'los' to train; it has loss, count, rows, extra"),
        ({"loss": "rows"}, r"the loss 'rows' is f32\[2\], not a float scalar; mean or sum it"),
        ({"loss": "count"}, r"the loss 'count' is i32\[\], not a float scalar"),
        (
            {"trained": "c.weight"},
            r"trained: no parameter matches 'c\.weight'; there are a",
        ),
        ({"frozen": ["a", "[a"]}, r"frozen: '\[a' is no regular expression"),
        ({"trained": "count"}, "parameter 'count' is i32, which has no gradient; freeze it"),
        ({"trained": "unused"}, "the loss depends on no parameter that is trained"),
        ({"clip_norm": 0.0}, "clip_norm is a number above 0, not 0"),
        ({"clip_norm": "1"}, "clip_norm takes a number, not '1'"),
        ({"clip_norm": True}, "clip_norm takes a number, not True"),
        ({"ema": [0.9]}, r"ema takes a number, not \[0\.9\]"),
        ({"trained": 3}, "trained takes a pattern of names or a list of them, not 3"),
        ({"frozen": None}, "frozen takes a pattern of names or a list of them, not None"),
        ({"trained": [3]}, "trained: 3 is no regular expression"),
        ({"grad_norm": "yes"}, "grad_norm takes True or False, not 'yes'"),
        ({"masters": 1}, "masters takes True or False, not 1"),
        ({"accumulate": 0}, "accumulate takes a whole number of at least 1, not 0"),
        ({"accumulate": 2.0}, r"accumulate takes a whole number of at least 1, not 2\.0"),
        ({"ema": 1.0}, "ema is a number from 0 to below 1, not 1"),
        ({"optimizer": "adam"}, r"an optimizer is such as mgn\.AdamW\(lr=1e-3\), not 'adam'"),
        (
            {"optimizer": Wrong()},
            r"the next value of .a\.weight. is f32\[\], not f32\[3, 4\]",
        ),
        (
            {"optimizer": mgn.SGD(lr_factors={"head": 0.1})},
            "lr_factors: no parameter matches 'head'",
        ),
        ({"seed": -1}, "seed takes a number from 0"),
    ],
)
def test_what_cannot_be_trained_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(mgn.MgnError, match=message):
        mgn.Trainer(sums(), **options)
    with pytest.raises(mgn.MgnError, match="AdamW: eps is nan"):
        mgn.AdamW(eps=float("nan"))


def test_masters_keep_what_rounding_would_lose() -> None:
    text = """
    graph slope(x: f32[2]) {
      param w: bf16[2] = ones()
      param v: f32[] = ones()
      return loss = sum(cast(w, "f32") * x) + v
    }"""
    x = {"x": np.array([2**-10, -(2**-10)], np.float32)}
    plain = mgn.Trainer(mgn.parse(text), optimizer=mgn.SGD(0.5))
    exact = mgn.Trainer(mgn.parse(text), optimizer=mgn.SGD(0.5), masters=True)
    assert set(exact.state()) - set(plain.state()) == {"optimizer.w.master"}
    for trainer in (plain, exact):
        for _ in range(31):
            trainer.step(x)
    np.testing.assert_array_equal(np.float32(plain.params["w"]), [1, 1])
    np.testing.assert_array_equal(np.float32(exact.params["w"]), [0.984375, 1.015625])
    lost = 31 / 2**11
    np.testing.assert_array_equal(exact.state()["optimizer.w.master"], [1 - lost, 1 + lost])
    exact.params["w"] = np.ones(2, np.float32).astype(exact.params["w"].dtype)
    exact.step(x)
    after = [1 - 2**-11, 1 + 2**-11]
    np.testing.assert_array_equal(exact.state()["optimizer.w.master"], after)


class Averaging(Momentum):
    """One with states of names that training has too."""

    def update(self, at: mgn.Update) -> Value:
        for name in ("ema", "gradient", "master"):
            held = at.state(name)
            held.write(held.value + at.gradient)
        return super().update(at)


def test_states_of_an_optimiser_are_its_own() -> None:
    plain = training_step(module_of(sums()), optimizer=Averaging())
    assert "optimizer.a.weight.ema" in states_of(plain.module)
    for options, what in (
        (StepOptions(ema=0.9), r"\.ema' would be an average \(ema\)"),
        (StepOptions(masters=True), r"\.master' would be a master \(masters\)"),
        (StepOptions(accumulate=2), r"\.gradient' would be a sum of gradients \(accumulate\)"),
    ):
        message = rf"the state 'optimizer\.a\.weight{what} and the optimiser's for 'a\.weight'"
        with pytest.raises(mgn.MgnError, match=f"{message} at once; give it another name"):
            training_step(module_of(sums()), optimizer=Averaging(), options=options)


def module_of(graph: GraphBuilder) -> ModuleOp:
    """A graph's module, which may be used up."""
    return graph.module.clone()


def test_names_of_outputs_and_states_are_not_taken_twice() -> None:
    with mgn.graph("twice") as g:
        w = g.param("w", "f32", nn.ones())
        held = g.state("w", "f32")
        held.write(w)
        g.output(loss=w * w, grad_norm=w)
    with pytest.raises(mgn.MgnError, match="a parameter and a state are named 'w'"):
        mgn.Trainer(g)
    with mgn.graph("twice") as g:
        w = g.param("w", "f32", nn.ones())
        g.output(loss=w * w, grad_norm=w)
    with pytest.raises(mgn.MgnError, match="has an output 'grad_norm' of its own; rename it"):
        mgn.Trainer(g, clip_norm=1.0)


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ('param v: f32[] as "optimizer.w.first" = zeros()', "parameter 'optimizer.w.first'"),
        ('param v: f32[] as "optimizer.seed" = zeros()', "parameter 'optimizer.seed'"),
        ('state v: i32[] as "optimizer.step"', "state 'optimizer.step'"),
    ],
)
def test_a_name_that_training_gives_is_refused(declared: str, name: str) -> None:
    text = f"""graph g() {{
      param w: f32[] = ones()
      {declared}
      return loss = w * w * cast(v, f32)
    }}"""
    with pytest.raises(mgn.MgnError, match=f"{name}: names that begin with 'optimizer.'"):
        mgn.Trainer(mgn.parse(text))


def test_a_trained_parameter_keeps_its_value_where_another_program_would_share_it() -> None:
    program = mgn.parse("""param w: f32[] = ones()
    graph g() { return loss = w * 2.0 }
    graph h() { return y = w }""")
    step = mgn.compile(program, graph="g", mode="training", optimizer=mgn.SGD(lr=0.25))
    step()
    with pytest.raises(mgn.MgnError, match="parameter 'w' is trained, and other programs do not"):
        mgn.compile(program, graph="h", params=step.params)
    assert step.params["w"] == 0.5
    other = mgn.compile(program, graph="h")
    other.params.update(step.params)
    assert other()["y"] == 0.5


def test_gradients_in_the_program_are_trained_through() -> None:
    """A penalty of the gradient: second order."""
    text = """
        graph g(x: f32[4]) {
          param w: f32[4] = ones()
          y = sum(w * w * w * x)
          slope = grad(y, w)
          return loss = sum(slope * slope)
        }"""
    trainer = mgn.Trainer(mgn.parse(text), optimizer=mgn.SGD(1 / 256))
    x = np.array([1, 2, 0, 1], np.float32)
    assert trainer.step({"x": x})["loss"] == 54
    np.testing.assert_allclose(trainer.params["w"], 1 - 36 * x * x / 256, rtol=1e-6)


@pytest.mark.parametrize("optimizer", [mgn.SGD(), mgn.AdamW(), mgn.SGD(momentum=0.9)])
def test_a_step_writes_states_in_their_places_after_all_else(
    optimizer: mgn.Optimizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By few kernels, the last ones; no gradient is computed twice, and nothing is copied. A device
    that computes much while it moves little might rather do one again.
    """
    plain, path = DEVICES["cpu"], tmp_path / "figures.json"
    figures = {"bandwidth": plain.bandwidth, "rates": plain.rates, "launch_cost": plain.launch_cost}
    path.write_text(json.dumps(figures))
    monkeypatch.setenv(FIGURES_VARIABLE, str(path))
    with mgn.graph("wide") as g:
        x, t = g.input("x", "f32[64, 256]"), g.input("t", "i32[64]")
        h = ops.relu(nn.Linear(256, 512, name="hidden")(x))
        g.output(loss=ops.cross_entropy(nn.Linear(512, 256, name="output")(h), t))
    trainer = mgn.Trainer(g, optimizer=optimizer, clip_norm=1.0)
    plan = trainer.executable.plan
    assert len(plan.steps) == len(plan.launches) <= 36
    kernels = [step.kernel for step in plan.launches]
    assert sum("matmul" in kernel for kernel in kernels) == 5, "two forward and three backward"
    accesses = {name: kernel.accesses for name, kernel in trainer.executable.kernels.items()}
    written = plan.written_states(accesses)
    assert len(written) == len(trainer.state()) - 1
    assert min(written.values()) >= plan.commits(accesses)
    assert plan.arena < 4 * 4 * 256 * 512, "no second copy of parameters and of their moments"
