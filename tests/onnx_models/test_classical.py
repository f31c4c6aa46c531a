"""Operators of classical machine learning compute what ONNX Runtime computes."""

from typing import Any

import numpy as np
import pytest

import mgn
from tests.onnx_models.models import interpreted, model, node

RNG = np.random.default_rng(9)
DOMAIN = "ai.onnx.ml"


def features(samples: int = 40, count: int = 4) -> np.ndarray:
    """Numbers, of which some are whole and some are none."""
    found = RNG.standard_normal((samples, count)).astype(np.float32)
    found[::3] = np.round(found[::3])
    found[1, 0] = found[5, 2] = np.nan
    return found


def random_forest(kind: str, modes: list[str], targets: int, *, least: float) -> dict[str, Any]:
    """The attributes of some trees, each node named by its tree and number."""
    found: dict[str, list[Any]] = {}

    def put(prefix: str, **values: Any) -> None:
        for name, value in values.items():
            found.setdefault(f"{prefix}_{name}", []).append(value)

    for tree in range(5):
        pending, last = [(0, 0)], 0
        while pending:
            number, depth = pending.pop()
            is_leaf = depth == 4 or (depth > 1 and RNG.random() < 0.3)
            yes, no = (0, 0) if is_leaf else (last + 1, last + 2)
            put(
                "nodes",
                treeids=tree,
                nodeids=number,
                featureids=int(RNG.integers(4)),
                values=float(np.round(RNG.standard_normal())),
                modes="LEAF" if is_leaf else modes[int(RNG.integers(len(modes)))],
                truenodeids=yes,
                falsenodeids=no,
                missing_value_tracks_true=int(RNG.integers(2)),
            )
            if is_leaf:
                for target in range(targets):
                    weight = float(RNG.uniform(least, 1)) / 5
                    put(kind, treeids=tree, nodeids=number, ids=target, weights=weight)
            else:
                last += 2
                pending += [(yes, depth + 1), (no, depth + 1)]
    return found


LEQ, ALL = ["BRANCH_LEQ"], ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ"]
ROWS = RNG.standard_normal((3, 4)).astype(np.float32).reshape(-1).tolist()
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "regression": (
        "TreeEnsembleRegressor",
        1,
        random_forest("target", LEQ, 3, least=-1)
        | {"n_targets": 3, "base_values": [0.5, 1.0, 2.0]},
    ),
    "regression, compared in all ways": (
        "TreeEnsembleRegressor",
        1,
        random_forest("target", ALL, 1, least=-1) | {"n_targets": 1},
    ),
    "means": (
        "TreeEnsembleRegressor",
        1,
        random_forest("target", LEQ, 1, least=-1)
        | {"n_targets": 1, "aggregate_function": "AVERAGE"},
    ),
    "classes": (
        "TreeEnsembleClassifier",
        2,
        random_forest("class", LEQ, 3, least=-1)
        | {"classlabels_int64s": [7, 8, 11], "post_transform": "SOFTMAX"},
    ),
    "two classes by one probability": (
        "TreeEnsembleClassifier",
        2,
        random_forest("class", LEQ, 1, least=0) | {"classlabels_int64s": [3, 5]},
    ),
    "two classes by one score": (
        "TreeEnsembleClassifier",
        2,
        random_forest("class", LEQ, 1, least=-1)
        | {"classlabels_int64s": [0, 1], "post_transform": "LOGISTIC"},
    ),
    "scaled": ("Scaler", 1, {"offset": [0.5] * 4, "scale": [1.0, 2.0, 3.0, 4.0]}),
    "filled in": (
        "Imputer",
        1,
        {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": float("nan")},
    ),
    "linear": (
        "LinearRegressor",
        1,
        {"coefficients": ROWS, "intercepts": [1.0, 2.0, 3.0], "targets": 3},
    ),
    "linear classes": (
        "LinearClassifier",
        2,
        {
            "coefficients": ROWS,
            "intercepts": [0.1, 0.2, 0.3],
            "classlabels_ints": [4, 6, 9],
            "post_transform": "SOFTMAX",
        },
    ),
    **{f"norm {name}": ("Normalizer", 1, {"norm": name}) for name in ("L1", "L2")},
}


@pytest.mark.parametrize("case", CASES)
def test_a_model_computes_what_onnx_runtime_computes(case: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    operator, count, attributes = CASES[case]
    x = features()
    x = x if operator.startswith("Tree") or operator == "Imputer" else np.nan_to_num(x)
    outputs = ["y", "z"][:count]
    one = node(operator, ["x"], outputs, domain=DOMAIN, **attributes)
    made = model([one], {"x": x}, outputs, domains={DOMAIN: 3})
    for item in made.graph.output:
        item.ClearField("type")
    wanted = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    for found, other in zip(interpreted(made, {"x": x}), wanted, strict=True):
        assert found.dtype == other.dtype
        np.testing.assert_allclose(found, other.reshape(found.shape), rtol=1e-5, atol=1e-5)


def test_labels_that_are_strings_are_refused_with_what_to_do() -> None:
    attributes = {"coefficients": ROWS, "classlabels_strings": ["a", "b", "c"]}
    one = node("LinearClassifier", ["x"], ["y", "z"], domain=DOMAIN, **attributes)
    made = model([one], {"x": features()}, ["y", "z"], domains={DOMAIN: 1})
    with pytest.raises(mgn.MgnError, match="export the model with integer labels"):
        mgn.from_onnx(made).lower()


def test_a_tree_that_leads_back_to_itself_is_refused() -> None:
    loop: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"],
        "nodes_truenodeids": [1, 1, 0],
        "nodes_falsenodeids": [2, 2, 0],
        "target_treeids": [0],
        "target_nodeids": [2],
        "target_ids": [0],
        "target_weights": [1.0],
    }
    one = node("TreeEnsembleRegressor", ["x"], ["y"], domain=DOMAIN, n_targets=1, **loop)
    made = model([one], {"x": features()}, domains={DOMAIN: 1})
    with pytest.raises(mgn.MgnError, match="a tree leads back to a node above"):
        mgn.from_onnx(made).lower()


def test_probabilities_by_the_names_of_classes_become_columns() -> None:
    """What converters of scikit-learn write: ONNX Runtime gives a dictionary for each sample."""
    onnxruntime = pytest.importorskip("onnxruntime")
    x = np.nan_to_num(features())
    operator, _, attributes = CASES["linear classes"]
    nodes = [
        node(operator, ["x"], ["y", "p"], domain=DOMAIN, **attributes),
        node("ZipMap", ["p"], ["z"], domain=DOMAIN, classlabels_int64s=[4, 6, 9]),
    ]
    made = model(nodes, {"x": x}, ["y", "z"], domains={DOMAIN: 1})
    for item in made.graph.output:
        item.ClearField("type")
    _, rows = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    _, found = interpreted(made, {"x": x})
    np.testing.assert_allclose(found, [[row[4], row[6], row[9]] for row in rows], rtol=1e-5)
    nodes[1] = node("ZipMap", ["p"], ["z"], domain=DOMAIN, classlabels_strings=["a", "b"])
    with pytest.raises(mgn.MgnError, match="2 classes have names, and there are 3 columns"):
        mgn.from_onnx(model(nodes, {"x": x}, ["y", "z"], domains={DOMAIN: 1})).lower()
