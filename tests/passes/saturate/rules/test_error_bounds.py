"""What bounds of errors are taken from: evaluations that know nothing of each other."""

import numpy as np

import mgn
from mgn.dialects.mgn.steps import ReadyGraph
from mgn.dialects.mgn.structure import graphs_of
from mgn.testing.error_bounds import error_bounds

KEPT = """
state total: f32[3]
graph g(x: f32[3]) {
  total <- total * x + 0.1
  return y = tanh(total) / 3.0
}
"""
GIVEN = "graph g(x: f32[3], total: f32[3]) { return y = tanh(total * x + 0.1) / 3.0 }"


def ready(text: str) -> ReadyGraph:
    return ReadyGraph(next(graphs_of(mgn.parse(text).lower())))


def test_each_evaluation_of_a_graph_finds_its_states_as_they_were_given() -> None:
    """They are those of the graph that gets as an input what the other one finds in its state."""
    x, total = (np.array(row, np.float32) for row in ([1.5, -2.0, 0.25], [0.5, 0.75, -3.0]))
    exact = np.tanh(total.astype(np.float64) * x + 0.1) / 3.0
    kept = list(error_bounds(ready(KEPT), {"x": x}, {}, exact, seed=3, states={"total": total}))
    given = list(error_bounds(ready(GIVEN), {"x": x, "total": total}, {}, exact, seed=3))
    assert len(kept) == len(given) > 2
    for one, other in zip(kept, given, strict=True):
        assert (one == other).all() and (one < 1e-5).all() and one.any()
