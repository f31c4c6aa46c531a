"""Training by several ranks: the curve of one process, whole checkpoints, and no silent waiting."""

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.philox import key_of
from mgn.distributed.launch import check_stage, find_crew, launched_ranks
from mgn.distributed.layout import LINE, lay_out, share_out
from mgn.training.data.batches import ArrayBatches
from mgn.training.data.shards import Division, SharedBatches, combined, divide, rows_of
from mgn.training.step.shared_steps import own_key
from tests.conftest import ROOT
from tests.distributed.four_ranks import STEPS

PATIENCE = 120.0

NET = "graph g[B = 10](x: f32[B, 4], scale: f32) { loss = mean(x) * scale\n return loss }"


class OfFour:
    """What `divide` asks of a crew."""

    size = 4

    def __init__(self, rank: int) -> None:
        self.rank = rank


def divided(text: str, rank: int = 0, dims: Mapping[str, int] | None = None) -> Division:
    module = mgn.parse(text)
    return divide(module, module.graphs[0], dims or {}, OfFour(rank))  # pyright: ignore[reportArgumentType]


@pytest.mark.long
def test_four_ranks_train_as_one_process_does_and_all_end_when_one_is_killed(
    tmp_path: Path,
) -> None:
    pytest.importorskip("mpi4py")
    # The launcher is to see nothing of the kill: it would end the others before they can tell. It
    # also mixes what the ranks write, within lines, so each writes to a file of its own.
    script = """"$0" -m tests.distributed.four_ranks "$1" 2> "$1/errors_of_$PMI_RANK"
        echo $? > "$1/status_$PMI_RANK"
        for turn in $(seq 300); do [ -e "$1/status_0" ] && [ -e "$1/status_1" ] &&
            [ -e "$1/status_2" ] && [ -e "$1/status_3" ] && break; sleep 0.1; done"""
    command = [launcher(), "-n", "4", "sh", "-c", script, sys.executable, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False
    )
    errors = {path.name: path.read_text() for path in sorted(tmp_path.glob("errors_of_*"))}
    assert (tmp_path / "found.json").exists(), ended.stderr + "".join(errors.values())
    found = json.loads((tmp_path / "found.json").read_text())
    one = found["one process"]
    assert len(one["losses"]) == STEPS + 3
    for name, kept in (("four ranks", slice(STEPS)), ("two hosts", slice(STEPS))):
        np.testing.assert_allclose(found[name]["losses"], one["losses"][kept], rtol=2e-6)
        np.testing.assert_allclose(found[name]["norms"], one["norms"][kept], rtol=2e-6)
    for name, values in found["four ranks"]["evaluations"].items():
        np.testing.assert_allclose(values, one["evaluations"][name][: len(values)], rtol=2e-6)
    assert_same_state(found["two hosts"]["state"], found["four ranks"]["state"])
    assert_same_state(found["resumed by one"]["state"], one["state"])
    np.testing.assert_allclose(found["resumed by one"]["losses"], one["losses"][STEPS:], rtol=2e-5)
    assert found["changed by a skipped step"] == ["optimizer.skipped"]
    assert found["buckets"] == 4
    own = [{item for item in names if "velocity" in item} for names in found["owned"]]
    assert own == [{"optimizer.a.velocity"}, {"optimizer.b.velocity"}, set(), set()]
    statuses = [int((tmp_path / f"status_{rank}").read_text()) for rank in range(4)]
    assert statuses == [1, 1, 128 + signal.SIGKILL, 1]
    for rank in (0, 1, 3):
        assert errors[f"errors_of_{rank}"].count("RankError: rank 2") == 1
        said = json.loads((tmp_path / f"said_by_{rank}.json").read_text())
        assert re.fullmatch(r"rank 2 \(.*\) ended without a word: it was .*", said["message"])
        assert said["seconds"] < 10.0


def launcher() -> str:
    """The `mpiexec` of this environment."""
    return str(Path(sysconfig.get_path("scripts")) / "mpiexec")


def assert_same_state(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("seed", range(20))
def test_buckets_hold_each_element_once_and_in_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = {f"w{n}": int(random.integers(0, 300)) for n in range(random.integers(1, 9))}
    shares = int(random.integers(1, 6))
    layout = lay_out(sizes, int(random.integers(1, 400)), shares)
    assert layout.length % LINE == 0
    flat = np.concatenate([[f"{name}/{i}" for i in range(size)] for name, size in sizes.items()])
    held = np.full((len(layout.buckets), layout.size), "", flat.dtype)
    for number, parts in enumerate(layout.buckets):
        for part in parts:
            for share, piece in layout.cut(part):
                first = share * layout.length + piece.place
                assert piece.place + piece.count <= layout.length
                names = [f"{piece.name}/{piece.start + i}" for i in range(piece.count)]
                assert (held[number, first : first + piece.count] == "").all()
                held[number, first : first + piece.count] = names
    np.testing.assert_array_equal(held.reshape(-1)[: len(flat)], flat)
    assert (held.reshape(-1)[len(flat) :] == "").all()
    assert held.size - len(flat) < layout.size or not flat.size


def test_parameters_are_shared_out_by_size() -> None:
    owner = share_out({"a": 10, "b": 60, "c": 30, "d": 25, "e": 0}, 3)
    assert list(owner) == ["a", "b", "c", "d", "e"]
    assert owner == {"b": 0, "c": 1, "d": 2, "a": 2, "e": 1}


def test_shares_of_a_batch_are_all_of_it() -> None:
    for batch in (4, 5, 7, 10):
        ends = [rows_of(batch, 4, rank) for rank in range(4)]
        assert [start for start, _ in ends] == [0, *(stop for _, stop in ends[:-1])]
        assert ends[-1][1] == batch
        assert {stop - start for start, stop in ends} <= {batch // 4, batch // 4 + 1}


def test_ranks_see_each_row_of_a_shuffled_epoch_once() -> None:
    x = np.arange(43 * 4, dtype=np.float32).reshape(43, 4)
    inputs = {"x": ("f32", (10, 4)), "scale": ("f32", ())}
    whole = ArrayBatches({"x": x, "scale": np.float32(2)}, inputs, seed=5)
    ranks = [SharedBatches(whole, divided(NET, rank)) for rank in range(4)]
    epochs = [item.epoch(3, 1) for item in ranks]
    for batch, *shares in zip(whole.epoch(3, 1), *epochs, strict=True):
        np.testing.assert_array_equal(np.concatenate([item["x"] for item in shares]), batch["x"])
        assert all(item["scale"] == 2 for item in shares)
    evaluated = [list(item.evaluation()) for item in ranks]
    assert [[count for _, count in item][-1] for item in evaluated] == [2, 1, 0, 0]
    assert all(count is None for item in evaluated for _, count in item[:-1])


def test_results_of_shares_are_those_of_the_batch() -> None:
    shares = [
        {"loss": np.float32(1.0), "right": np.int32(2)},
        {"loss": np.float32(4.0), "right": np.int32(3)},
    ]
    found = combined(shares, [0.75, 0.25])
    assert (found["loss"], found["right"]) == (1.75, 5)
    assert (found["loss"].dtype, found["right"].dtype) == (np.float32, np.int32)


def test_each_rank_draws_its_own_numbers() -> None:
    keys = {own_key(key_of(seed), rank).tobytes() for seed in range(4) for rank in range(64)}
    assert len(keys) == 256
    np.testing.assert_array_equal(own_key(key_of(7), 0), key_of(7))


@pytest.mark.parametrize(
    ("text", "dims", "message"),
    [
        ("graph g(x: f32[8, 4]) { loss = mean(x)\n return loss }", {}, r"such as graph g\[B = 64"),
        (NET, {"B": 3}, "a batch of 3 has no row for each of 4 ranks"),
        (
            "graph g[B = 8](x: f32[B, 4]) { state s: f32[B]\n s <- s + mean(x, axis = 1)\n"
            "loss = mean(x)\n return loss }",
            {},
            r"state 's' is f32\[8\], which depends on the batch 'B'",
        ),
    ],
)
def test_what_cannot_be_shared_out_is_an_error(
    text: str, dims: dict[str, int], message: str
) -> None:
    with pytest.raises(mgn.MgnError, match=message):
        divided(text, dims=dims)


def test_a_launcher_is_known_by_what_it_leaves_in_the_environment() -> None:
    assert launched_ranks({}) == 1
    assert launched_ranks({"PMI_SIZE": "4"}) == launched_ranks({"OMPI_COMM_WORLD_SIZE": "4"}) == 4
    assert find_crew(False).size == 1
    assert find_crew(find_crew(False)) is find_crew(False)
    with pytest.raises(mgn.MgnError, match="a communicator of mpi4py or a trainer's crew, not int"):
        find_crew(4)


@pytest.mark.parametrize(
    ("zero", "bucket", "message"),
    [(2, 8.0, "zero is 0, or 1"), (True, 8.0, "zero is 0"), (0, 0.0, "bucket takes a number")],
)
def test_a_stage_and_a_bucket_are_checked(zero: Any, bucket: float, message: str) -> None:
    with pytest.raises(mgn.MgnError, match=message):
        check_stage(zero, bucket)


def test_without_mpi4py_the_error_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "mpi4py.py").write_text("raise ImportError\n")
    code = "import mgn.distributed.launch as it\nit.find_crew()"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "PMI_SIZE": "2"}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert "a run of 2 processes needs mpi4py and MPI: python -m pip install" in ended.stderr
    assert "mgn-compiler[distributed]" in ended.stderr
