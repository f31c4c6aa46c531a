"""What executables of one session make of parameters alike is one buffer, for as long as one of
them holds it.
"""

import gc
import threading
import time
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mgn.codegen.launch_plan import BufferKind, BufferPlan, LaunchPlan, LaunchStep, OutputPlan
from mgn.codegen.signature import KernelSignature
from mgn.runtime.cache import KernelCache
from mgn.runtime.derived import derived_keys
from mgn.runtime.devices import choose
from mgn.runtime.errors import InputError
from mgn.runtime.large_pages import PAGE, has_large_pages, large_pages
from mgn.runtime.launching import session as session_module
from mgn.runtime.launching.executable import Executable
from mgn.runtime.launching.session import Session
from mgn.runtime.memory import bytes_together
from tests.runtime.device_kernels import KERNELS, SIZE, pointwise
from tests.support.threads import run_together

X, A, B, TABLE, FIRST, SECOND, Y = range(7)
BYTES = 4 * SIZE


def _buffer(kind: BufferKind, name: str, value: np.ndarray | None = None) -> BufferPlan:
    return BufferPlan(kind, name, "f32", (SIZE,), value=value)


PRODUCT = LaunchStep("multiply", (A, B, FIRST))
SUM = LaunchStep("add", (FIRST, TABLE, SECOND))


def planned(
    first: LaunchStep = PRODUCT,
    second: LaunchStep = SUM,
    table: float = 1.0,
    prefix: str = "%",
) -> LaunchPlan:
    """y = x * (a * b + table), of which the first or the second part is made by other kernels."""
    return LaunchPlan(
        name=f"graph_{prefix}",
        arena=512,
        buffers=(
            _buffer(BufferKind.INPUT, "x"),
            *(_buffer(BufferKind.PARAM, name) for name in "ab"),
            _buffer(BufferKind.CONSTANT, f"{prefix}t", np.full(SIZE, table, np.float32)),
            *(_buffer(BufferKind.DERIVED, f"{prefix}{n}") for n in range(2)),
            _buffer(BufferKind.VIEW, f"{prefix}y"),
        ),
        prepare=(first, second),
        steps=(LaunchStep("multiply", (X, SECOND, Y)),),
        outputs=(OutputPlan("y", Y, "f32", (SIZE,)), OutputPlan("ab", FIRST, "f32", (SIZE,))),
    )


RANDOM = np.random.default_rng(5)
VALUES = {"a": np.arange(SIZE, dtype=np.float32), "b": np.full(SIZE, 3, np.float32)}
XS = np.linspace(-1, 1, SIZE, dtype=np.float32)


def made(plan: LaunchPlan, beside: Executable | None = None, **options: Any) -> Executable:
    """An executable, in a session of its own or beside another one."""
    session = Session(choose("auto")) if beside is None else beside.session
    cache = KernelCache.disabled()
    kernels = options.pop("kernels", KERNELS)
    return Executable(plan, kernels, session.device, cache=cache, session=session, **options)


def with_values(executable: Executable) -> Executable:
    for name, value in VALUES.items():
        executable.set_param(name, value)
    return executable


def renamed(signature: KernelSignature, name: str) -> KernelSignature:
    """The same kernel under another name."""
    return replace(signature, name=name, source=signature.source.replace(signature.name, name))


def check(executable: Executable, table: float = 1.0) -> None:
    """Runs, and compares with NumPy."""
    a, b = (executable.get_param(name) for name in "ab")
    found = executable.run({"x": XS})
    np.testing.assert_array_equal(found["ab"], a * b)
    np.testing.assert_allclose(found["y"], XS * (a * b + np.float32(table)), rtol=1e-6)


def shared(first: Executable, second: Executable) -> list[int]:
    """The derived buffers, by their numbers in the first plan, that both hold."""
    theirs = [*second.memory.derived.values()]
    return [number for number, item in first.memory.derived.items() if item in theirs]


def test_plans_that_name_values_and_kernels_differently_share_what_they_make_alike() -> None:
    first = with_values(made(planned()))
    names = {"add": "pointwise_add_7", "multiply": "pointwise_mul_12"}
    kernels = {names[name]: renamed(item, names[name]) for name, item in KERNELS.items()}
    plan = planned(prefix="%other")
    prepare, (run,) = plan.prepare, plan.launches
    plan = replace(
        plan,
        prepare=tuple(replace(step, kernel=names[step.kernel]) for step in prepare),
        steps=(replace(run, kernel=names[run.kernel]),),
    )
    second = made(plan, first, kernels=kernels)
    check(first)
    check(second)
    assert first.preparation.launches == 2 and second.preparation.launches == 0
    assert shared(first, second) == [FIRST, SECOND]
    own = plan.arena + 2 * BYTES
    assert [item.allocated for item in (first, second)] == [own + 2 * BYTES] * 2
    assert bytes_together([first.memory, second.memory]) == 2 * own + 2 * BYTES


OTHERS: dict[str, tuple[LaunchPlan, dict[str, KernelSignature], dict[str, Any]]] = {
    "another kernel": (planned(LaunchStep("add", (A, B, FIRST))), KERNELS, {}),
    "parameters in another order": (planned(LaunchStep("multiply", (B, A, FIRST))), KERNELS, {}),
    "another parameter": (planned(LaunchStep("multiply", (A, A, FIRST))), KERNELS, {}),
    "other build options": (planned(), KERNELS, {"options": ["-cl-opt-disable"]}),
    "other launch sizes": (
        planned(),
        {**KERNELS, "multiply": replace(KERNELS["multiply"], local_size=(2, 1, 1))},
        {},
    ),
    "another text": (planned(), {**KERNELS, "multiply": pointwise("multiply", "b * a")}, {}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_made_otherwise_is_not_shared_nor_what_is_made_of_it(name: str) -> None:
    first = with_values(made(planned()))
    plan, kernels, options = OTHERS[name]
    second = made(plan, first, kernels=kernels, **options)
    assert shared(first, second) == []
    check(first)
    second.run({"x": XS})
    assert second.preparation.launches == 2


def test_a_part_is_shared_where_the_rest_differs() -> None:
    first, second = (made(planned(table=table)) for table in (1.0, 2.0))
    assert shared(first, second) == [], "these are of different sessions"
    first = with_values(first)
    second = made(planned(table=2.0), first)
    assert shared(first, second) == [FIRST]
    check(first)
    check(second, 2.0)
    assert second.preparation.launches == 1


def test_a_parameter_that_is_set_is_made_anew_once_for_all_that_hold_what_is_made_of_it() -> None:
    first = with_values(made(planned()))
    second, other = made(planned(), first), made(planned(table=2.0), first)
    for executable, table in ((first, 1.0), (second, 1.0), (other, 2.0)):
        check(executable, table)
    for setting, running in ((first, second), (second, first)):
        setting.set_param("b", RANDOM.standard_normal(SIZE).astype(np.float32))
        before = first.preparation.launches + second.preparation.launches
        check(running)
        check(setting)
        assert first.preparation.launches + second.preparation.launches == before + 2
        check(other, 2.0)
        assert other.preparation.stale == []


def test_a_preparation_that_fails_is_done_again_by_whoever_runs_next(monkeypatch: Any) -> None:
    first = with_values(made(planned()))
    second = made(planned(), first)
    check(second)
    first.set_param("a", VALUES["b"])

    def refused(*_: Any) -> Any:
        raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(Executable, "_bind", refused)
        with pytest.raises(InterruptedError):
            first.run({"x": XS})
    check(second)
    check(first)


def test_a_buffer_is_freed_when_the_last_that_holds_it_goes() -> None:
    first = with_values(made(planned(), guard=False))
    second = made(planned(), first, guard=False)
    other = made(planned(table=2.0), first, guard=False)
    check(first)
    held = {number: weakref.ref(item) for number, item in first.memory.derived.items()}
    del first
    gc.collect()
    assert all(item() is not None for item in held.values())
    check(second)
    assert second.preparation.launches == 0
    del second
    gc.collect()
    assert held[FIRST]() is not None and held[SECOND]() is None
    check(other, 2.0)
    third = made(planned(), other)
    check(third)
    assert third.preparation.launches == 1, "the product is there, and the sum is made again"


def test_two_buffers_of_one_plan_that_hold_the_same_are_one() -> None:
    plan = planned(second=LaunchStep("multiply", (A, B, SECOND)))
    executable = with_values(made(plan))
    check(executable, 0.0)
    assert executable.preparation.launches == 1
    assert executable.allocated == plan.arena + 3 * BYTES


def test_guarded_executables_share_too() -> None:
    first = with_values(made(planned(), guard=True))
    second = made(planned(), first, guard=True)
    check(first)
    check(second)
    assert second.preparation.launches == 0 and shared(first, second) == [FIRST, SECOND]


@pytest.mark.skipif(not has_large_pages(), reason="the system has no large pages")
def test_a_guarded_buffer_outlives_the_executable_that_made_it() -> None:
    """It is a slice of another buffer, which is in memory of the host where it is large."""
    size = PAGE // 4
    arguments = tuple(replace(item, count=size) for item in KERNELS["add"].arguments)
    wide = {
        name: replace(item, global_size=(size, 1, 1), arguments=arguments)
        for name, item in KERNELS.items()
    }
    plan = planned()
    large = tuple(
        replace(item, shape=(size,), value=None if item.value is None else np.ones(size, "f4"))
        for item in plan.buffers
    )
    outputs = tuple(replace(item, shape=(size,)) for item in plan.outputs)
    plan = replace(plan, arena=4 * size, buffers=large, outputs=outputs)
    holding = made(replace(plan, prepare=(), steps=()), guard=True, kernels=wide)
    for name in "ab":
        holding.set_param(name, np.full(size, 3, np.float32))
    first, second = (made(plan, holding, guard=True, kernels=wide) for _ in range(2))
    ones = np.ones(size, np.float32)
    first.run({"x": ones})
    del first
    gc.collect()
    others = [large_pages(4 * size) for _ in range(8)]
    for other in others:
        other[:] = 0x40
    assert np.all(second.run({"x": ones})["y"] == 10.0)
    assert second.preparation.launches == 0


def test_setting_a_parameter_that_is_interrupted_leaves_nothing_old(monkeypatch: Any) -> None:
    first = with_values(made(planned()))
    check(first)

    def interrupted(session: Session, *given: Any) -> None:
        store(session, *given)
        raise KeyboardInterrupt

    store = vars(Session)["_store"]
    with monkeypatch.context() as patched:
        patched.setattr(Session, "_store", interrupted)
        with pytest.raises(KeyboardInterrupt):
            first.set_param("a", VALUES["b"])
    np.testing.assert_array_equal(first.get_param("a"), VALUES["b"])
    check(first)


def test_threads_that_plan_a_parameter_at_once_hold_one_buffer() -> None:
    session, held = Session(choose("auto")), list[object]()

    def new() -> object:
        time.sleep(0.05)
        return object()

    def plan() -> None:
        held.append(session.hold(_buffer(BufferKind.PARAM, "a"), new, None))

    run_together([plan, plan])
    assert held[0] is held[1]


def test_a_value_that_is_set_while_a_parameter_moves_to_the_device_is_kept(
    monkeypatch: Any,
) -> None:
    first = with_values(made(planned()))
    assert first.session.parameter("a").buffer is None, "it waits on the host: no run reads it"
    setting = threading.Thread(target=first.set_param, args=("a", VALUES["b"]))

    def slowly(session: Session, *given: Any) -> None:
        if setting.ident is None:
            setting.start()
            setting.join(0.1)
        store(session, *given)

    store = vars(Session)["_store"]
    monkeypatch.setattr(Session, "_store", slowly)
    made(replace(planned(), prepare=(), steps=(LaunchStep("multiply", (X, A, Y)),)), first)
    setting.join()
    np.testing.assert_array_equal(first.get_param("a"), VALUES["b"])


def test_a_run_looks_for_values_while_another_thread_plans_more(monkeypatch: Any) -> None:
    first = made(planned())

    def planning(name: str) -> str:
        first.session.unset.add((BufferKind.PARAM, f"{name} and more"))
        return name

    monkeypatch.setattr(session_module, "whole_name", planning)
    with pytest.raises(InputError, match="2 parameters have no value: 'a', 'b'"):
        first.run({"x": XS})


def test_executables_come_go_run_and_are_told_of_values_in_many_threads() -> None:
    first = with_values(made(planned()))
    wrong: list[float] = []

    def write() -> None:
        for step in range(60):
            first.set_param("a", np.full(SIZE, step, np.float32))

    def come_and_run() -> None:
        for number in range(15):
            executable = made(planned(table=float(number % 3)), first)
            for _ in range(3):
                found = executable.run({"x": np.ones(SIZE, np.float32)})
                if not np.array_equal(found["y"], found["ab"] + np.float32(number % 3)):
                    wrong.append(number)

    run_together([write, come_and_run, come_and_run])
    assert not wrong
    check(first)


def test_names_of_kernels_of_any_length_are_in_no_key() -> None:
    names = ["k", "multiply", "a_name_of_some_more_words", "in"]
    keys: list[object] = []
    for name in names:
        kernels = {**KERNELS, name: renamed(KERNELS["multiply"], name)}
        keys.append(derived_keys(planned(LaunchStep(name, (A, B, FIRST))), kernels))
    assert all(item == keys[0] for item in keys)
