"""Ensembles of decision trees, as XGBoost, LightGBM and scikit-learn export them.

In: features `[samples, features]`. Out: sums of leaves. All trees go down a level at once: the
place of each sample in each tree is a number of a table of all nodes, and a leaf leads to itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, shape
from mgn.frontend.onnx.core.operator import define
from mgn.frontend.onnx.operators.ml.linear import (
    DOMAIN,
    chosen,
    floats,
    labels_of,
    named,
    numbers,
    transformed,
)

LEAF, MEMBER = "LEAF", "BRANCH_MEMBER"
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
MODES = {
    "BRANCH_LEQ": "le",
    "BRANCH_LT": "lt",
    "BRANCH_GTE": "ge",
    "BRANCH_GT": "gt",
    "BRANCH_EQ": "eq",
    "BRANCH_NEQ": "ne",
}
"""How a node compares a feature with its number, and the operation that does so."""


@dataclass(frozen=True)
class Forest:
    """The nodes of all trees. A node has a feature and a number, how the two are compared, where it
    leads, and whether NaN goes the true way. Each leaf adds something to the targets
    `[nodes, targets]`. Some nodes compare with sets `[nodes, elements]`, filled up with NaN.
    """

    roots: np.ndarray
    features: np.ndarray
    values: np.ndarray
    modes: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    nan_is_yes: np.ndarray
    leaves: np.ndarray
    sets: np.ndarray | None = None

    @property
    def depth(self) -> int:
        """How many comparisons the longest way to a leaf has."""
        level, count = np.unique(self.roots), 0
        while len(level := level[self.modes[level] != LEAF]):
            level = np.unique([self.yes[level], self.no[level]])
            count += 1
            if count > len(self.modes):
                return -1
        return count


def _sums(c: Call, forest: Forest) -> SSAValue:
    """What the leaves of all trees come to: `[samples, targets]`."""
    b, x = c.b, floats(c, c[0]) if element(c[0]).name != "f64" else c[0]
    kind, depth = element(x).dtype, forest.depth
    if depth < 0:
        c.fail("a tree leads back to a node above")
    roots = c.constant(forest.roots, np.int32)
    place: SSAValue = b.broadcast_to(roots, [shape(x)[0], len(forest.roots)])

    def of(table: Any, dtype: Any) -> SSAValue:
        return b.gather(c.constant(table, dtype), place, axis=0)

    for _ in range(depth):
        value = b.take_along_axis(x, of(forest.features, np.int32), axis=1)
        goes = _compared(c, forest, value, of(forest.values, kind), of)
        if forest.nan_is_yes.any():
            goes = b.logical_or(goes, b.logical_and(b.isnan(value), of(forest.nan_is_yes, bool)))
        place = b.where(goes, of(forest.yes, np.int32), of(forest.no, np.int32))
    found = of(forest.leaves, kind)
    name = named(c, "aggregate_function", "SUM", AGGREGATES)
    reductions = {"SUM": b.sum, "AVERAGE": b.mean, "MIN": b.min_reduce, "MAX": b.max_reduce}
    if name not in reductions:
        c.fail(f"aggregate_function '{name}' is not supported")
    return reductions[name](found, axis=1)


def _compared(
    c: Call,
    forest: Forest,
    value: SSAValue,
    number: SSAValue,
    of: Callable[[Any, Any], SSAValue],
) -> SSAValue:
    """Whether features go the true way; nodes may compare in different ways."""
    b = c.b
    found: SSAValue | None = None
    for name in (*MODES, MEMBER):
        if not (forest.modes == name).any():
            continue
        if name == MEMBER:
            sets = of(forest.sets, element(value).dtype)
            same = b.eq(b.expand_dims(value, -1), sets)
            other = b.gt(b.sum(b.cast(same, "i32"), axis=-1), 0)
        else:
            other = b.call(MODES[name], value, number)
        found = other if found is None else b.where(of(forest.modes == name, bool), other, found)
    assert found is not None
    return found


def _old_forest(c: Call, kind: str, targets: int) -> Forest:
    """The nodes of versions before 5, which are named by tree and number."""
    trees, nodes = c.required("nodes_treeids"), c.required("nodes_nodeids")
    at = {pair: number for number, pair in enumerate(zip(trees, nodes, strict=True))}
    modes = np.array(c.required("nodes_modes"))
    ways = [
        np.array(
            [
                number if mode == LEAF else at.get((tree, to), -1)
                for number, (tree, to, mode) in enumerate(
                    zip(trees, c.required(f"nodes_{way}nodeids"), modes, strict=True)
                )
            ]
        )
        for way in ("true", "false")
    ]
    unknown = sorted(set(modes) - {LEAF, *MODES})
    if unknown:
        c.fail(f"the mode '{unknown[0]}' is not supported")
    leaves = np.zeros((len(modes), targets))
    names = (f"{kind}_{part}" for part in ("treeids", "nodeids", "ids", "weights"))
    for tree, node, target, weight in zip(*(c.required(name) for name in names), strict=True):
        leaves[at.get((tree, node), 0), target] += weight
    led = {place for way in ways for place, mode in zip(way, modes, strict=True) if mode != LEAF}
    if -1 in led:
        c.fail("a node leads to one that there is not")
    roots = np.array([place for place in range(len(modes)) if place not in led])
    tracks = c.attribute("nodes_missing_value_tracks_true") or [0] * len(modes)
    values = np.array(c.required("nodes_values"))
    features = np.array(c.required("nodes_featureids"))
    yes, no = ways
    return Forest(roots, features, values, modes, yes, no, np.array(tracks, bool), leaves)


def _with_base(c: Call, sums: SSAValue) -> SSAValue:
    base = numbers(c, "base_values")
    return sums if base is None else c.b.add(sums, c.constant(base, element(sums).dtype))


@define("TreeEnsembleRegressor", domain=DOMAIN)
def tree_regressor(c: Call) -> SSAValue:
    """`gather`s down all trees at once, and the sum of their leaves"""
    sums = _sums(c, _old_forest(c, "target", c.attribute("n_targets", 1)))
    return transformed(c, floats(c, _with_base(c, sums)))


@define("TreeEnsembleClassifier", domain=DOMAIN)
def tree_classifier(c: Call) -> Any:
    """`gather`s down all trees at once, sums of their leaves, and the label of the largest"""
    b, labels = c.b, labels_of(c, "classlabels_int64s")
    forest = _old_forest(c, "class", len(labels))
    classes = sorted(set(c.required("class_ids")))
    scores = floats(c, _sums(c, forest))
    if len(labels) != 2 or len(classes) != 1:
        scores = _with_base(c, scores)
        return chosen(c, scores, labels), transformed(c, scores)
    start = classes[0]
    one = b.slice(scores, starts=[0, start], stops=[shape(scores)[0], start + 1])
    base = numbers(c, "base_values")
    one = one if base is None else b.add(one, c.constant(base[-1:]))
    return _of_two(c, one, labels, min(c.required("class_weights")) >= 0)


def _of_two(c: Call, one: SSAValue, labels: np.ndarray, is_probability: bool) -> Any:
    """The results of two classes of which the trees know one: where no leaf is negative its score
    is a probability, unless it is transformed.
    """
    b = c.b
    name = c.attribute("post_transform", "NONE")
    if name not in ("NONE", "LOGISTIC"):
        c.fail(f"post_transform '{name}' of two classes is not supported")
    edge = 0.5 if is_probability else 0.0
    label = b.where(b.gt(one, edge), int(labels[1]), int(labels[0]))
    if name == "LOGISTIC":
        one = b.sigmoid(one)
    other = b.sub(1.0, one) if name == "LOGISTIC" or is_probability else b.neg(one)
    return b.cast(b.squeeze(label, axis=1), "i64"), b.concat([other, one], axis=1)


@define("TreeEnsemble", since=5, domain=DOMAIN)
def tree_ensemble(c: Call) -> SSAValue:
    """`gather`s down all trees at once, and the sum of their leaves"""
    codes = np.asarray(c.required("nodes_modes")).reshape(-1)
    weights = np.asarray(c.required("leaf_weights")).reshape(-1)
    targets = np.asarray(c.required("leaf_targetids"))
    count, last = len(codes), len(codes) + len(weights)
    leaves = np.zeros((last, c.attribute("n_targets", 1)))
    leaves[np.arange(count, last), targets] = weights
    ways = []
    for way in ("true", "false"):
        to = np.asarray(c.required(f"nodes_{way}nodeids"))
        is_leaf = np.asarray(c.required(f"nodes_{way}leafs"), bool)
        ways.append(np.concatenate([np.where(is_leaf, to + count, to), np.arange(count, last)]))
    rest = np.zeros(len(weights))
    names = np.array([*MODES, MEMBER])
    yes, no = ways
    tracks = c.attribute("nodes_missing_value_tracks_true") or [0] * count
    forest = Forest(
        np.asarray(c.required("tree_roots")),
        np.concatenate([c.required("nodes_featureids"), rest]),
        np.concatenate([np.asarray(c.required("nodes_splits")).reshape(-1), rest]),
        np.concatenate([names[codes], np.full(len(weights), LEAF)]),
        yes,
        no,
        np.concatenate([tracks, rest]).astype(bool),
        leaves,
        _sets(c, codes, last) if (codes == len(MODES)).any() else None,
    )
    return transformed(c, _sums(c, forest))


def _sets(c: Call, codes: np.ndarray, nodes: int) -> np.ndarray:
    """The sets of the nodes that have one: they stand one behind another, and NaN ends each."""
    whole = np.asarray(c.required("membership_values")).reshape(-1)
    ends = np.flatnonzero(np.isnan(whole))
    owners = np.flatnonzero(codes == len(MODES))
    if len(ends) < len(owners):
        c.fail(f"{len(owners)} nodes have sets, and {len(ends)} are given")
    starts = [0, *(ends[:-1] + 1)]
    parts = [whole[start:end] for start, end in zip(starts, ends, strict=True)]
    found = np.full((nodes, max(1, *map(len, parts))), np.nan)
    for owner, part in zip(owners, parts, strict=False):
        found[owner, : len(part)] = part
    return found
