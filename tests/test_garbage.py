"""The cycle collector pauses while IR is made, and runs again afterwards as it did before."""

import gc

import pytest
from conftest import ROOT

from mgn.dialects.garbage import collector_paused


def test_pauses_nest_and_the_outermost_one_starts_the_collector_again() -> None:
    assert gc.isenabled()
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


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
