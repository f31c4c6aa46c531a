"""The cycle collector pauses while IR is made, and runs again afterwards as it did before."""

import gc
import weakref

import pytest

from mgn.dialects import garbage
from mgn.dialects.garbage import collector_paused
from tests.conftest import ROOT


def test_pauses_nest_and_the_outermost_one_starts_the_collector_again() -> None:
    assert gc.isenabled()
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_was_made_in_a_pause_is_old_and_collected_with_the_old() -> None:
    class Node:
        def __init__(self) -> None:
            self.itself = self

    gc.collect()
    with collector_paused():
        ring = Node()
    assert any(item is ring for item in gc.get_objects(generation=2))
    gone = weakref.ref(ring)
    del ring
    gc.collect(1)
    assert gone() is not None
    gc.collect()
    assert gone() is None


def test_pauses_in_a_row_do_not_keep_garbage_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "MOST_UNSEEN", 10_000)
    made: list[weakref.ref[list[object]]] = []

    class Ring(list[object]):
        pass

    for _ in range(20):
        with collector_paused():
            ring = Ring(Ring() for _ in range(2_000))
            ring.append(ring)
            made.append(weakref.ref(ring))
    assert sum(item() is not None for item in made) < 10


def test_objects_that_the_user_froze_stay_frozen() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with collector_paused():
            pass
        assert gc.get_freeze_count() >= before > 0
    finally:
        gc.unfreeze()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_inside_starts_the_collector_again() -> None:
    with pytest.raises(ZeroDivisionError), collector_paused():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_one_file_alone_switches_the_collector_off() -> None:
    folders = ("codegen", "dialects", "frontend", "mgn", "passes", "runtime")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    found = [path.name for path in files if "gc.disable" in path.read_text(encoding="utf-8")]
    assert found == ["garbage.py"]
