"""Convolutions, pooling and resizing on the CPU device, on both targets and in the forms for a GPU,
against the interpreter.

Many calls of an operation are one graph, so that kernels are chosen for it as a whole. What is
built of SPIR-V is not optimised by the driver, which optimises the same kernels in OpenCL C.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn import ops
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.types import ELEMENT_TYPES
from mgn.driver.compilation import Compiled
from tests.dialects.spatial_cases import SPATIAL, Drawn, drawn
from tests.fuzz.device import Job, Runner
from tests.fuzz.variants import Variant
from tests.support.opencl_fixture import UNOPTIMISED
from tests.support.programs import evaluate

CASES = 20
Arrays = list[list[np.ndarray]]
Case = tuple[list[Drawn], Arrays]
"""Calls, and what each is given, all in one element type."""


@pytest.fixture(autouse=True)
def unoptimised(device_runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds what is SPIR-V without the driver's optimiser."""
    monkeypatch.setattr(device_runner, "spirv_options", [UNOPTIMISED])


HALF_EPSILON = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}


def graph_of(name: str, cases: Sequence[Case]) -> Any:
    """A graph with all calls, the results `y0_0`, `y0_1`, … of inputs `x0_0_0`, `x0_0_1`, …, by the
    numbers of the case, the call and the input.
    """
    with mgn.graph("g") as graph:
        results: dict[str, Any] = {}
        for case, (calls, arrays) in enumerate(cases):
            element = element_name(arrays)
            for number, call in enumerate(calls):
                inputs = [
                    graph.input(
                        f"x{case}_{number}_{place}", f"{element}[{', '.join(map(str, shape))}]"
                    )
                    for place, shape in enumerate(call.shapes)
                ]
                results[f"y{case}_{number}"] = getattr(ops, name)(*inputs, **call.attributes)
        graph.output(**results)
    return graph.module


def arrays_of(calls: list[Drawn], element: str) -> list[list[np.ndarray]]:
    random, dtype = np.random.default_rng(7), ELEMENT_TYPES[element].dtype
    if not ELEMENT_TYPES[element].is_float:
        low = 0 if element.startswith("u") else -9
        return [[random.integers(low, 9, s).astype(dtype) for s in c.shapes] for c in calls]
    return [[random.uniform(-2, 2, s).astype(dtype) for s in c.shapes] for c in calls]


FORMS = {
    "opencl": Variant(),
    "spirv": Variant(target="spirv"),
    "gpu": Variant(
        figures=(
            *(("kind", "gpu"), ("vector_bits", 128), ("sub_group_size", 32)),
            *(("max_work_group_size", 256), ("local_memory", 48 << 10), ("compute_units", 4)),
        )
    ),
}
"""Both targets, and the forms that templates have for a GPU, which a CPU runs as well."""


def check(
    runner: Runner, name: str, calls: list[Drawn], arrays: list[list[np.ndarray]], *forms: str
) -> None:
    """All calls on the device; each has the interpreter's value, but for what sums of so many terms
    may lose.
    """
    case = calls, arrays
    check_all(runner, name, {form: [case] for form in forms})


def check_all(runner: Runner, name: str, cases: Mapping[str, Sequence[Case]]) -> None:
    """The same of calls of several element types: those in a form are one graph, and all kernels
    are built together.
    """
    jobs: list[Job] = []
    judged: list[tuple[str, Sequence[Case]]] = []
    ways: dict[tuple[Any, ...], tuple[Compiled, ModuleOp]] = {}
    for form, given in cases.items():
        variant = FORMS[form]
        if variant.target == "spirv" and not runner.takes_spirv:
            continue
        described = variant.described(runner.description)
        way = variant.figures, *map(id, given)
        if way not in ways:
            module = graph_of(name, given)
            ways[way] = variant.compile(module, runner.description), module
        compiled, module = ways[way]
        jobs.append(runner.job(compiled, module, described, variant.target, False))
        judged.append((form, given))
    runner.build(jobs)
    for (form, given), job in zip(judged, jobs, strict=True):
        assert job.error is None, job.error
        inputs = {
            f"x{case}_{number}_{place}": array
            for case, (_, arrays) in enumerate(given)
            for number, operands in enumerate(arrays)
            for place, array in enumerate(operands)
        }
        found = runner.run(job, inputs, {})
        for case, (calls, arrays) in enumerate(given):
            what = f"{name} of {element_name(arrays)}, {form}"
            results = [found[f"y{case}_{number}"] for number in range(len(calls))]
            judge(what, calls, arrays, results)


def element_name(arrays: Arrays) -> str:
    """The element type of all arrays."""
    dtype = arrays[0][0].dtype
    return next(item.name for item in ELEMENT_TYPES.values() if item.dtype == dtype)


def judge(
    what: str, calls: list[Drawn], arrays: list[list[np.ndarray]], found: list[np.ndarray]
) -> None:
    name, element = what.split()[0], element_name(arrays)
    for got, call, given in zip(found, calls, arrays, strict=True):
        with np.errstate(all="ignore"):
            (want,) = evaluate(name, *given, wide=True, **call.attributes)
        told = f"{what}: {call}"
        assert got.shape == want.shape, told
        if element not in HALF_EPSILON:
            np.testing.assert_array_equal(got, want, err_msg=told)
            continue
        sums = 2.0 * (call.terms + 3) * HALF_EPSILON["f64" if element == "f64" else "f32"]
        sizes = 4.0 * call.terms if len(call.shapes) > 1 else 2.0
        rounding = 2.0 * HALF_EPSILON[element] * np.abs(want.astype(np.float64))
        wide, exact = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(np.isnan(wide), np.isnan(exact), err_msg=told)
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(wide[~finite], exact[~finite], err_msg=told)
        error = np.abs(wide[finite] - exact[finite])
        bound = (sums * sizes + rounding)[finite]
        assert np.all(error <= bound), f"{told}: {np.max(error - bound)} above its bound"


@pytest.mark.long
@pytest.mark.parametrize("name", SPATIAL)
def test_random_calls_have_the_interpreters_value(name: str, device_runner: Runner) -> None:
    calls = [drawn(name, number) for number in range(CASES)]
    check(device_runner, name, calls, arrays_of(calls, "f32"), *FORMS)


ELEMENTS = [name for name, row in ELEMENT_TYPES.items() if row.dtype is not None and name != "f32"]


@pytest.mark.parametrize("name", SPATIAL)
def test_all_element_types_that_it_takes(
    name: str, device_runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an optimiser, which sees the kernels of random calls."""
    monkeypatch.setattr(device_runner, "opencl_options", [UNOPTIMISED])
    accepted = OPERATIONS[name].operands[0].accepts
    cases: dict[str, list[Case]] = {form: [] for form in FORMS}
    for place, element in enumerate(ELEMENTS):
        row = ELEMENT_TYPES[element]
        if row.family not in accepted:
            continue
        calls = [drawn(name, 100 + 2 * place + number) for number in range(2)]
        if not row.is_float and name == "upsample":
            calls = [call for call in calls if call.attributes["mode"] == "nearest"]
        if calls:
            cases[list(FORMS)[place % len(FORMS)]].append((calls, arrays_of(calls, element)))
    check_all(device_runner, name, {form: given for form, given in cases.items() if given})


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0]


@pytest.mark.parametrize("name", [name for name in SPATIAL if "conv" not in name])
def test_special_values_pass_as_the_interpreter_says(name: str, device_runner: Runner) -> None:
    calls = [drawn(name, 300 + number) for number in range(6)]
    arrays = arrays_of(calls, "f32")
    random = np.random.default_rng(1)
    for given in arrays:
        chosen = random.random(given[0].shape) < 0.2
        given[0] = np.where(chosen, random.choice(SPECIAL, given[0].shape), given[0])
        given[0] = given[0].astype(np.float32)
    check(device_runner, name, calls, arrays, "opencl", "gpu")


def test_padding_is_never_the_largest_element(device_runner: Runner) -> None:
    """Not even beside the least numbers."""
    for element in ("f32", "bf16", "i32", "i8"):
        dtype = ELEMENT_TYPES[element].dtype
        least = -np.inf if ELEMENT_TYPES[element].is_float else np.iinfo(dtype).min
        x = np.full((1, 1, 3, 5), least, dtype)
        call = Drawn([x.shape], {"kernel": 3, "padding": 1, "stride": 1})
        check(device_runner, "max_pool2d", [call], [[x]], "opencl")
