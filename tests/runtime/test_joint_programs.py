"""Kernels that a CPU driver builds as one program: their bits, and what the cache has of them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.codegen.launch_plan import BufferKind, BufferPlan, LaunchPlan, LaunchStep, OutputPlan
from mgn.codegen.signature import KernelSignature
from mgn.passes.saturate.options import SaturateOptions
from mgn.passes.saturate.rules.rule import RuleClass
from mgn.runtime.cache import KernelCache
from mgn.runtime.errors import BuildError
from mgn.runtime.launching import joint_programs, programs
from mgn.runtime.launching.executable import Executable
from mgn.runtime.launching.joint_programs import joins
from tests.runtime.device_kernels import SIZE, pointwise


def sources(*expressions: str) -> dict[str, KernelSignature]:
    """Kernels whose texts are as the code generator writes them."""
    found = {f"k{number}": pointwise(f"k{number}", text) for number, text in enumerate(expressions)}
    head = "#pragma OPENCL FP_CONTRACT OFF\n\n"
    return {name: replace(item, source=head + item.source) for name, item in found.items()}


def run(cache: KernelCache, kernels: dict[str, KernelSignature]) -> tuple[Executable, np.ndarray]:
    """What a chain of kernels makes of x = 3 and w = 2, launched one after the other."""
    plan = LaunchPlan(
        name="chain",
        arena=512 * len(kernels),
        buffers=(
            BufferPlan(BufferKind.INPUT, "x", "f32", (SIZE,)),
            BufferPlan(BufferKind.INPUT, "w", "f32", (SIZE,)),
            *(
                BufferPlan(BufferKind.VIEW, f"%{name}", "f32", (SIZE,), 512 * number)
                for number, name in enumerate(kernels)
            ),
        ),
        steps=tuple(
            LaunchStep(name, (number + 1 if number else 0, 1, number + 2))
            for number, name in enumerate(kernels)
        ),
        outputs=(OutputPlan("y", len(kernels) + 1, "f32", (SIZE,)),),
    )
    executable = Executable(plan, kernels, "cpu", cache=cache)
    x, w = np.full(SIZE, 3, np.float32), np.full(SIZE, 2, np.float32)
    return executable, executable.run({"x": x, "w": w})["y"]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.kernel"))


def test_kernels_are_one_program_of_which_the_cache_has_each(tmp_path: Path) -> None:
    kernels = sources("a + b", "a * b", "a - b")
    first, y = run(KernelCache(tmp_path), kernels)
    assert len(set(first.build.programs.values())) == 1
    assert first.build.from_cache == 0 and np.all(y == 8)
    second, y = run(KernelCache(tmp_path), kernels)
    assert len(set(second.build.programs.values())) == 1
    assert second.build.from_cache == 3 and np.all(y == 8)
    sizes = [path.stat().st_size for path in files(tmp_path)]
    assert len(sizes) == 4 and sorted(sizes)[2] < 200


def test_kernels_of_several_programs_are_found_wherever_they_were_built(tmp_path: Path) -> None:
    run(KernelCache(tmp_path), sources("a + b", "a * b"))
    other, y = run(KernelCache(tmp_path), sources("a + b", "a * b", "a - b", "a / b"))
    assert other.build.from_cache == 2 and np.all(y == 4)
    assert len(set(other.build.programs.values())) == 2
    alone, _ = run(KernelCache(tmp_path), {"k0": sources("a + b")["k0"]})
    assert alone.build.from_cache == 1


@pytest.mark.parametrize("damage", ["gone", "damaged", "refused"])
def test_a_joint_binary_that_is_lost_is_built_again(tmp_path: Path, damage: str) -> None:
    kernels, cache = sources("a + b", "a * b"), KernelCache(tmp_path)
    run(cache, kernels)
    joint = max(files(tmp_path), key=lambda path: path.stat().st_size)
    if damage == "gone":
        joint.unlink()
    elif damage == "damaged":
        joint.write_bytes(joint.read_bytes()[:-1])
    else:
        cache.store(joint.stem, b"no binary at all")
    again, y = run(cache, kernels)
    assert again.build.from_cache == 0 and np.all(y == 10)
    assert run(cache, kernels)[0].build.from_cache == 2


def test_what_is_refused_is_told_and_its_neighbours_are_kept(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"refused a kernel:(.|\n)*nothing_of_the_kind"):
        run(KernelCache(tmp_path), sources("a + b", "nothing_of_the_kind(a)", "a - b"))
    assert len(files(tmp_path)) == 1
    assert run(KernelCache(tmp_path), {"k0": sources("a + b")["k0"]})[0].build.from_cache == 1


@pytest.mark.parametrize("expressions", [("a + b",), ("a + b", "a * b")], ids=["one", "two"])
def test_a_driver_is_asked_for_a_binary_where_a_cache_takes_it(
    expressions: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some drivers compile each kernel anew for it."""
    plain, asked = programs.build_source, list[str]()

    def noted(context: Any, handle: Any, source: str, options: Any) -> Any:
        program, binary = plain(context, handle, source, options)
        return program, lambda: asked.append(source) or binary()

    monkeypatch.setattr(programs, "build_source", noted)
    for folder, count in ((None, 0), (tmp_path, 1)):
        _, y = run(KernelCache(folder), sources(*expressions))
        assert len(asked) == count and np.all(y == (5 if len(expressions) == 1 else 10))


def test_many_kernels_are_several_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_programs, "MOST_TOGETHER", 2)
    executable, y = run(KernelCache.disabled(), sources(*["a + b"] * 5))
    assert len(set(executable.build.programs.values())) == 3
    assert np.all(y == 13)


def test_what_has_an_entry_of_one_name_or_is_completed_later_stays_alone() -> None:
    text = sources("a + b")["k0"].source
    assert joins(text)
    assert not joins("// resident\n" + text)
    assert not joins(
        "#ifndef MGN_PTX\n#error this program is completed in its PTX\n#endif\n" + text
    )
    assert not joins(text + text)
    assert not joins(pointwise("k0", "a + b").source)


PROGRAM = """
graph g(x: f32[37, 100], w: f32[100, 40], q: f32[1, 24, 32]) {
  return p = gelu(x @ w) / 3, s = softmax(x), t = sqrt(abs(x.T)), c = sum(x, axis = 0),
    m = argmax(x), v = cumsum(x, axis = 1), a = attention(q, q, q, heads = 2, causal = true)
}
"""


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Callable[..., mgn.Executable]:
    """The program, built with so many kernels together."""
    monkeypatch.setenv("MGN_CACHE_DIR", "off")

    def build(most: int, **options: Any) -> mgn.Executable:
        monkeypatch.setattr(joint_programs, "MOST_TOGETHER", most)
        return mgn.compile(mgn.parse(PROGRAM), device="cpu", **options)

    return build


@pytest.mark.parametrize("target", ["opencl", "spirv", "auto"])
@pytest.mark.parametrize("exact", [False, True])
def test_the_bits_are_those_of_kernels_that_are_built_alone(
    target: str, exact: bool, built: Callable[..., mgn.Executable]
) -> None:
    """Quotients and roots too, whose rounding is an option of the driver."""
    draw = np.random.default_rng(0).standard_normal
    shapes = {"x": (37, 100), "w": (100, 40), "q": (1, 24, 32)}
    inputs = {name: draw(shape).astype(np.float32) for name, shape in shapes.items()}
    classes = frozenset({RuleClass.EXACT}) if exact else SaturateOptions().classes
    options = {"target": target, "saturation": SaturateOptions(classes=classes)}
    together, alone = built(64, **options), built(1, **options)
    counts = [len(set(item.launched.build.programs.values())) for item in (together, alone)]
    assert counts[0] <= 2 < counts[1]
    wanted = alone(**inputs)
    for name, got in together(**inputs).items():
        np.testing.assert_array_equal(got.view(np.int32), wanted[name].view(np.int32), name)
