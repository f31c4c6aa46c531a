"""Batches: their order, what is left out, and messages for data that does not fit."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from mgn.runtime.errors import InputError
from mgn.training.data.batches import ArrayBatches, IterableBatches, open_batches, order_of
from mgn.training.data.prefetch import prefetched

INPUTS = {"x": ("f32", (4, 2)), "labels": ("i32", (4,))}


def arrays(count: int = 11) -> dict[str, np.ndarray]:
    """Examples whose labels count them."""
    labels = np.arange(count, dtype=np.int32)
    return {"x": np.stack([labels, -labels], 1).astype(np.float32), "labels": labels}


def labels_of(batches: Any, *position: int) -> list[list[int]]:
    """The labels of each batch of an epoch."""
    return [batch["labels"].tolist() for batch in batches.epoch(*position)]


def test_an_epoch_has_each_example_at_most_once_with_its_own_label() -> None:
    batches = ArrayBatches(arrays(), INPUTS, seed=3)
    for number in range(4):
        seen = []
        for batch in batches.epoch(number):
            assert batch["x"].shape == (4, 2)
            np.testing.assert_array_equal(batch["x"][:, 0], batch["labels"])
            seen += batch["labels"].tolist()
        assert len(seen) == len(set(seen)) == 8
    assert batches.remark() == (
        "the data: 3 of 11 examples of each epoch make no whole batch of 4: left out"
    )


def test_the_order_follows_from_the_seed_and_the_epoch_alone() -> None:
    first, again = (ArrayBatches(arrays(), INPUTS, seed=3) for _ in range(2))
    epochs = [labels_of(first, number) for number in range(3)]
    assert [labels_of(again, number) for number in (2, 0, 1)] == [epochs[2], epochs[0], epochs[1]]
    assert epochs[0] != epochs[1] != epochs[2]
    assert labels_of(ArrayBatches(arrays(), INPUTS, seed=4), 0) != epochs[0]
    assert order_of(3, 0, 6).tolist() == order_of(3 + 2**64, 0, 6).tolist()


def test_an_epoch_goes_on_at_any_batch() -> None:
    batches = ArrayBatches(arrays(40), INPUTS)
    whole = labels_of(batches, 5)
    for start in range(len(whole) + 1):
        assert labels_of(batches, 5, start) == whole[start:]


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_files_are_as_good_as_arrays(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"data.{suffix}"
    if suffix == "npz":
        np.savez(path, **arrays(), other=np.zeros(3))
    else:
        save_file(arrays(), path)
    assert labels_of(open_batches(path, INPUTS), 2) == labels_of(open_batches(arrays(), INPUTS), 2)


def test_a_scalar_input_is_the_same_in_all_batches() -> None:
    inputs = {**INPUTS, "rate": ("f32", ())}
    batches = ArrayBatches({**arrays(), "rate": np.float32(0.5)}, inputs)
    assert [batch["rate"] for batch in batches.epoch(0)] == [0.5, 0.5]


def test_an_evaluation_takes_all_examples_in_their_order() -> None:
    for count in (8, 11, 3):
        found = []
        for batch, rows in ArrayBatches(arrays(count), INPUTS).evaluation():
            assert len(batch["labels"]) == 4
            found += batch["labels"][:rows].tolist()
        assert found == list(range(count))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, r"there is no array 'labels'; it is i32\[N\]$"),
        ({"labels": None, "label": np.zeros(11)}, "did you mean 'label'"),
        ({"labels": np.zeros(11, np.int64)}, r"has dtype int64, not int32.*astype\(np.int32\)"),
        (
            {"x": np.zeros((11, 3), np.float32)},
            r"'x' has shape \[11, 3\], and is to be f32\[N, 2\]",
        ),
        ({"x": np.zeros(11, np.float32)}, r"'x' has shape \[11\], and is to be f32\[N, 2\]"),
        ({"labels": np.zeros(10, np.int32)}, "different numbers of examples: 'x' 11, 'labels' 10"),
        ({"x": [[1], [2, 3]]}, "'x' is no array but list"),
    ],
)
def test_arrays_that_do_not_fit_are_named(change: dict[str, Any], message: str) -> None:
    given = {name: item for name, item in {**arrays(), **change}.items() if item is not None}
    with pytest.raises(InputError, match=message):
        open_batches(given, INPUTS)


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        open_batches({"x": np.zeros((5, 2))}, INPUTS)
    assert len(str(caught.value).splitlines()) == 2


def test_fewer_examples_than_a_batch_are_refused() -> None:
    with pytest.raises(InputError, match=r"3 examples, and a batch has 4; .* of 3 or less"):
        ArrayBatches(arrays(3), INPUTS).need_a_batch()
    with pytest.raises(InputError, match="there are no examples"):
        ArrayBatches(arrays(0), INPUTS)


def test_inputs_that_are_no_batch_are_refused() -> None:
    inputs = {"x": ("f32", (4, 2)), "mask": ("f32", (2, 2))}
    with pytest.raises(InputError, match="no batch of examples: 'x' 4, 'mask' 2"):
        ArrayBatches({"x": np.zeros((8, 2), "f"), "mask": np.zeros((8, 2), "f")}, inputs)
    with pytest.raises(InputError, match="batches come from the path"):
        open_batches(7, INPUTS)


def listed(*counts: int) -> list[dict[str, np.ndarray]]:
    """Batches of so many examples each."""
    return [arrays(count) for count in counts]


def test_an_iterable_gives_its_batches_in_its_order_from_any_of_them_on() -> None:
    source = [{**batch, "more": 1} for batch in listed(4, 4, 4)]
    source[1]["labels"] = np.arange(4, 8, dtype=np.int32)
    batches = IterableBatches(source, INPUTS)
    assert labels_of(batches, 0) == labels_of(batches, 1)
    assert labels_of(batches, 0, 1) == [[4, 5, 6, 7], [0, 1, 2, 3]]


def test_a_last_part_batch_of_an_iterable_is_left_out() -> None:
    batches = IterableBatches(listed(4, 3), INPUTS)
    assert batches.remark() is None
    assert len(labels_of(batches, 0)) == 1
    assert batches.remark() == "the data: the last batch has only 3 examples: left out"
    assert [count for _, count in batches.evaluation()] == [None, 3]
    assert [len(batch["x"]) for batch, _ in batches.evaluation()] == [4, 4]
    with pytest.raises(InputError, match="batch 0 has only 3 examples"):
        labels_of(IterableBatches(listed(3, 4), INPUTS), 0)


def test_an_iterator_that_is_spent_is_no_second_epoch() -> None:
    batches = IterableBatches(iter(listed(4)), INPUTS)
    assert len(labels_of(batches, 0)) == 1
    with pytest.raises(InputError, match="gives its batches once, and epoch 2 needs them"):
        labels_of(batches, 1)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (3, "batch 1 is int, not arrays by name"),
        ({"x": np.zeros((4, 2), "f")}, r"batch 1: 'labels' is missing; it is i32\[4\]"),
        ({**arrays(4), "labels": np.zeros(4)}, "batch 1: 'labels' has dtype float64"),
        ({**arrays(4), "x": np.zeros((4, 3), "f")}, r"batch 1: 'x' has shape \[4, 3\]"),
        (arrays(5), r"batch 1: 'x' has shape \[5, 2\](.*\n)*.*batch 1: cut it into batches of 4"),
    ],
)
def test_a_batch_that_does_not_fit_is_named(batch: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        labels_of(IterableBatches([arrays(4), batch], INPUTS), 0)


def test_batches_are_made_ahead_in_their_order_and_an_error_stands_in_its_place() -> None:
    made: list[int] = []

    def source() -> Iterator[int]:
        for number in range(6):
            if number == 4:
                raise ValueError("four")
            made.append(number)
            yield number

    taken: list[int] = []
    with prefetched(source()) as ready, pytest.raises(ValueError, match="four"):
        for number in ready:
            while len(made) < min(number + 3, 4):
                time.sleep(0.001)
            taken.append(number)
    assert taken == [0, 1, 2, 3]


def test_the_thread_ends_with_the_loop() -> None:
    before = threading.active_count()
    with prefetched(iter(range(10**9))) as ready:
        assert next(ready) == 0
    assert threading.active_count() == before
