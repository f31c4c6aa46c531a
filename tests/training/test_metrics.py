"""Metrics: values against NumPy, part batches, and messages."""

import math

import numpy as np
import pytest

from mgn.diagnostics import MgnError
from mgn.training.run.metrics import METRICS, Mean, parse_metric


def value_of(text: str, counts: list[int], size: int = 4, **values: np.ndarray) -> float:
    """A metric over batches, of each of which so many examples count."""
    mean = Mean(parse_metric(text))
    first = 0
    for count in counts:
        rows = {
            name: np.resize(item[first : first + count], (size, *item.shape[1:]))
            for name, item in values.items()
        }
        mean.add(rows, size, None if count == size else count)
        first += count
    return mean.value


def test_metrics_are_means_over_all_examples() -> None:
    random = np.random.default_rng(0)
    logits = random.standard_normal((11, 9)).astype(np.float32)
    labels = random.integers(0, 9, 11).astype(np.int32)
    counts = [4, 4, 3]
    found = value_of("accuracy(logits, labels)", counts, logits=logits, labels=labels)
    assert found == pytest.approx((logits.argmax(-1) == labels).mean())
    hot = np.eye(9, dtype=np.float32)[labels]
    assert value_of(" accuracy( logits ,hot )", counts, logits=logits, hot=hot) == found
    ranks = (-logits).argsort(-1)[:, :5]
    top = np.mean([label in row for label, row in zip(labels, ranks, strict=True)])
    assert value_of("top5(a, b)", counts, a=logits, b=labels) == pytest.approx(top)
    other = random.standard_normal((11, 9)).astype(np.float32)
    squares = np.square(logits.astype(float) - other)
    assert value_of("mse(a, b)", counts, a=logits, b=other) == pytest.approx(squares.mean())
    assert value_of("rmse(a, b)", counts, a=logits, b=other) == pytest.approx(
        math.sqrt(squares.mean())
    )
    assert value_of("mae(a, b)", counts, a=logits, b=other) == pytest.approx(
        np.abs(logits.astype(float) - other).mean()
    )


@pytest.mark.parametrize("metric", ["accuracy", "top5"])
def test_a_model_that_gives_nan_is_not_right_about_the_first_class(metric: str) -> None:
    logits = np.full((4, 3), np.nan, np.float32)
    logits[0] = [2, 1, 0]
    logits[1, 1:] = [1, 0]
    found = value_of(f"{metric}(a, b)", [4], a=logits, b=np.zeros(4, np.int32))
    assert found == 0.25


def test_a_scalar_counts_for_whole_batches_alone() -> None:
    for text, wanted in (("loss", 2.0), ("mean(loss)", 2.0), ("perplexity(loss)", math.exp(2.0))):
        mean = Mean(parse_metric(text))
        for loss, count in ((1.0, None), (3.0, None), (100.0, 2)):
            mean.add({"loss": np.float32(loss)}, 4, count)
        assert mean.value == pytest.approx(wanted)
    assert not parse_metric("loss").row.rises
    assert parse_metric("accuracy").row.rises
    assert math.isnan(Mean(parse_metric("loss")).value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accuracy(logits", "a metric is such as accuracy"),
        ("acuracy(logits, labels)", "no metric 'acuracy'; did you mean 'accuracy'"),
        ("accuracy(logits)", "'accuracy' takes 2 values of the graph"),
        ("perplexity(a, b)", "'perplexity' takes one value"),
        ("mse(a, 2)", "takes 2 values of the graph, not"),
        ("nothing(a)", f"there are {', '.join(METRICS)}"),
    ],
)
def test_a_text_that_is_no_metric_says_why(text: str, message: str) -> None:
    with pytest.raises(MgnError, match=message):
        parse_metric(text)


def test_operands_that_the_graph_has_not_or_that_do_not_fit_are_named() -> None:
    metric = parse_metric("mse(a, logit)")
    with pytest.raises(MgnError, match=r"no 'logit' among .*; did you mean 'logits'"):
        metric.check(["a", "logits"])
    with pytest.raises(MgnError, match=r"of shapes \[4, 2\], \[4, 3\]"):
        Mean(metric).add({"a": np.zeros((4, 2)), "logit": np.zeros((4, 3))}, 4)
