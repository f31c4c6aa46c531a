"""`read-panels`: words looked up in panels, against NumPy, and the memory of the table."""

import numpy as np
import pytest

import mgn
from mgn.driver.pipelines import PIPELINES
from tests.whole_programs.test_states import DEVICE

PROGRAM = """
param table: f32[{words}, {width}] = normal()
graph g(ids: i32[{rows}]) {{
  x = tanh(gather(table, ids))
  return y = x @ table.T, x
}}
"""


def pipeline(least: int) -> str:
    """The default passes, with tables of so many bytes read in panels."""
    passes = [
        f"read-panels{{least={least}}}" if p == "read-panels" else p for p in PIPELINES["default"]
    ]
    return ",".join(passes)


def compiled(least: int, **sizes: int) -> mgn.Executable:
    module = mgn.parse(PROGRAM.format(**sizes))
    return mgn.compile(module, device=DEVICE, passes=pipeline(least))


@pytest.mark.parametrize(
    ("words", "width", "rows"), [(1024, 256, 64), (2048, 96, 70), (960, 128, 33), (1000, 130, 41)]
)
def test_rows_of_panels_are_those_of_the_table(words: int, width: int, rows: int) -> None:
    sizes = {"words": words, "width": width, "rows": rows}
    generator = np.random.default_rng(rows)
    table = generator.standard_normal((words, width), np.float32)
    ids = generator.integers(-3, words + 3, rows).astype(np.int32)
    found: list[tuple[int, dict[str, np.ndarray]]] = []
    for least in (0, 1 << 40):
        executable = compiled(least, **sizes)
        executable.params["table"] = table
        results = executable(ids=ids)
        found.append((executable.params.session.held_bytes, results))
    (held, here), (before, there) = found
    np.testing.assert_array_equal(here["x"], there["x"])
    wanted = np.tanh(table[ids.clip(0, words - 1)].astype(np.float64))
    np.testing.assert_allclose(here["x"], wanted, rtol=1e-6)
    np.testing.assert_array_equal(here["y"], there["y"])
    assert before == table.nbytes
    assert held == (0 if words % 32 == 0 else table.nbytes)


def test_small_tables_are_left_where_they_are() -> None:
    executable = mgn.compile(
        mgn.parse(PROGRAM.format(words=1024, width=256, rows=64)), device=DEVICE
    )
    assert any(kernel.operations == ("gather", "tanh") for kernel in executable.report.kernels)


@pytest.mark.parametrize("more", ["table", "sum(table, axis = 1)", "gather(table.T, ids)"])
def test_tables_that_others_read_are_looked_up_as_they_lie(more: str) -> None:
    text = PROGRAM.format(words=1024, width=256, rows=64).replace(", x\n", f", x, z = {more}\n")
    found = [
        mgn.compile(mgn.parse(text), device=DEVICE, passes=pipeline(least)).report.kernels
        for least in (0, 1 << 40)
    ]
    here, there = ([kernel.operations for kernel in kernels] for kernels in found)
    assert here == there
