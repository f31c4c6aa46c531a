"""The sizes of a range are searched by one of them, whichever is compiled first and wherever."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType

import mgn
from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.driver.compilation import Compiled
from mgn.passes.saturate import SaturateOptions, SaturateReport
from mgn.passes.saturate.memo import forget_choices
from mgn.program_cache import references
from mgn.program_cache.cache import compile_or_recall, program_cache
from mgn.program_cache.references import Reference, SearchSettings, forget_references
from mgn.recipe import Recipe
from mgn.sized_executable import SizedExecutable, recipe_at
from mgn.sizes.plan import SizePlan, plan_sizes
from mgn.sizes.ranges import Sizes
from tests.conftest import ROOT
from tests.whole_programs.test_states import DEVICE

BLOCKS = 14
SETTINGS = SearchSettings(DEVICES["cpu"], None, "f32")


def text(blocks: int = BLOCKS, gate: str = "silu") -> str:
    """Norms, causal attention and gates, one behind the other."""
    lines = ["graph g[S](x: f32[1, S, 16]) {", "h0 = x"]
    for n in range(blocks):
        lines += [f"param w{n}: f32[16, 16] = normal(std = 0.2)", f"param g{n}: f32[16] = ones()"]
        lines += [f"r{n} = rms_norm(h{n}, g{n})"]
        lines += [f"a{n} = attention(r{n}, r{n}, r{n}, heads = 2, causal = true)"]
        lines += [f"h{n + 1} = h{n} + {gate}(a{n} @ w{n})"]
    return "\n".join([*lines, f"return y = h{blocks}, last = h{blocks}[0, S - 1]", "}"])


def price(module: ModuleOp) -> float:
    """Programs of small sizes cost less, so that there are several."""
    (graph,) = graphs_of(module)
    type = graph.block.args[0].type
    assert isinstance(type, TensorType)
    return float(np.prod(type.get_shape()))


def planned(program: str = "") -> tuple[Recipe, SizePlan]:
    """How programs of three sizes are compiled, by the figures of a device that is not measured."""
    module = mgn.parse(program or text())
    recipe = Recipe(module, "g", {}, DEVICES["cpu"])

    def lower(size: int) -> ModuleOp:
        return replace(recipe, dims={"S": size}).lower()

    return recipe, plan_sizes(lower, "S", Sizes(range(1, 65)), 3, price)


def among(compiled: Compiled) -> str:
    """Where the operations were chosen that kernels were looked for among."""
    report = compiled.report.saturation
    assert isinstance(report, SaturateReport)
    return report.among


def kernels_of(recipe: Recipe, plan: SizePlan, size: int) -> tuple[str, str]:
    """The kernels of a size, and where their operations were chosen."""
    found = recipe_at(recipe, plan, size)
    compiled = compile_or_recall(
        found.lower(), DEVICES["cpu"], reference=found.reference, target="opencl"
    )
    kernels = {name: str(kernel) for name, kernel in sorted(compiled.kernels.items())}
    return json.dumps([kernels, str(compiled.plan)]), among(compiled)


def kernels_in_order(sizes: Sequence[int]) -> dict[int, tuple[str, str]]:
    recipe, plan = planned()
    assert set(sizes) <= set(plan.buckets)
    return {size: kernels_of(recipe, plan, size) for size in sizes}


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("MGN_CACHE_DIR", str(tmp_path))
    forget_choices()
    forget_references()
    yield
    forget_choices()
    forget_references()


def buckets() -> tuple[int, ...]:
    return planned()[1].buckets


def test_each_size_gets_the_same_kernels_whichever_was_compiled_before() -> None:
    found = buckets()
    assert len(found) == 3
    upwards = kernels_in_order(found)
    assert [among for _, among in upwards.values()] == [
        "" if size == found[1] else f"x of 1×{found[1]}×16" for size in found
    ]
    for order in (found[::-1], (found[0],)):
        forget_choices()
        forget_references()
        assert kernels_in_order(order) == {size: upwards[size] for size in order}


@pytest.mark.parametrize("cache", ["on", "off"])
def test_each_process_gets_the_same_kernels(cache: str, tmp_path: Path) -> None:
    found = buckets()
    expected = kernels_in_order(found)
    program = (
        "import json, sys\n"
        "from tests.sizes.test_reference import kernels_in_order\n"
        "print(json.dumps(list(kernels_in_order([int(sys.argv[1])]).values())))"
    )
    for size in (found[2], found[0]):
        environment = {"MGN_PROGRAM_CACHE": cache, "MGN_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", program, str(size)],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        assert [tuple(item) for item in json.loads(done.stdout)] == [expected[size]]


def test_what_was_chosen_is_found_on_disk_and_searched_where_it_is_damaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MGN_PROGRAM_CACHE", "on")
    searches: list[object] = []
    search = references._search  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(
        references, "_search", lambda *given: searches.append(given) or search(*given)
    )
    recipe, plan = planned()

    def options() -> SaturateOptions:
        forget_references()
        reference = recipe_at(recipe, plan, plan.buckets[0]).reference
        assert reference is not None
        return reference.options(SETTINGS, program_cache())

    first = options()
    assert first.reference is not None and len(searches) == 1
    assert options() == first and len(searches) == 1
    for path in tmp_path.rglob("*.kernel"):
        path.write_bytes(path.read_bytes()[:-1])
    assert options() == first and len(searches) == 2


def test_a_key_says_of_the_reference_and_of_its_settings() -> None:
    recipe, plan = planned()

    def at(size: int, program: str = "") -> Reference:
        made = planned(program)[0] if program else recipe
        return Reference(replace(made, dims={"S": size}).lower)

    keys = [
        *(at(size).key(SETTINGS) for size in plan.buckets),
        at(32, text(gate="relu")).key(SETTINGS),
        at(32).key(replace(SETTINGS, precision="bf16")),
        at(32).key(replace(SETTINGS, saturation=SaturateOptions(moderate=False))),
        at(32).key(replace(SETTINGS, device=replace(DEVICES["cpu"], launch_cost=1e-3))),
    ]
    assert None not in keys and len(set(keys)) == len(keys)
    assert at(32).key(SETTINGS) == at(32).key(SETTINGS)


def test_a_program_on_disk_is_that_of_its_reference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MGN_PROGRAM_CACHE", "on")
    recipe, plan = planned()
    size, reference, largest = plan.buckets
    lower = recipe_at(recipe, plan, size).lower
    ways = [None, *(Reference(recipe_at(recipe, plan, at).lower) for at in (reference, largest))]

    def recalled(way: Reference | None) -> bool:
        compiled = compile_or_recall(lower(), DEVICES["cpu"], reference=way, target="opencl")
        return compiled.report.recalled

    assert [recalled(way) for way in ways] == [False, False, False]
    assert [recalled(way) for way in ways] == [True, True, True]


def test_a_pipeline_of_the_users_searches_each_size_whole() -> None:
    recipe, plan = planned()
    found = recipe_at(replace(recipe, pipeline=("default",)), plan, plan.buckets[0])
    assert found.search_options() is None


def test_one_size_is_searched_whole() -> None:
    exe = mgn.compile(mgn.parse(text()), dims={"S": 16}, device=DEVICE)
    assert exe.recipe.reference is None
    assert isinstance(exe.report.saturation, SaturateReport) and not exe.report.saturation.among


def test_every_size_of_a_range_computes_what_the_program_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mgn.program_cache.prices.price_or_recall", lambda ir, *_: price(ir))
    module = mgn.parse(text(blocks=12))
    exe = mgn.compile(module, dims={"S": range(1, 25)}, buckets=3, device=DEVICE)
    assert isinstance(exe, SizedExecutable) and len(exe.sizes.buckets) == 3
    said: set[str] = set()
    for size in range(1, 25):
        x = np.random.default_rng(size).standard_normal((1, size, 16)).astype(np.float32)
        found = exe(x=x)
        report = exe.ran.report.saturation
        assert isinstance(report, SaturateReport)
        said.add(report.among)
        (graph,) = graphs_of(module.lower("g", {"S": size}))
        parameters = {name: exe.params[name] for name in exe.params}
        expected = Interpreter(parameters, wide=True).run(graph, {"x": x})
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
    assert said == {"", f"x of 1×{exe.sizes.reference}×16"}


def test_a_page_explains_the_kernels_that_run(tmp_path: Path) -> None:
    recipe, plan = planned()
    found = recipe_at(recipe, plan, plan.buckets[0])
    options = found.search_options()
    assert options is not None and options.reference is not None
    kernels = compile_or_recall(
        found.lower(), DEVICES["cpu"], reference=found.reference, target="opencl"
    ).kernels
    page = found.page()
    assert all(name in page for name in kernels)
