"""Linear models and what comes before them: scaled, normalised and filled-in features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define

DOMAIN = "ai.onnx.ml"


def floats(c: Call, x: SSAValue) -> SSAValue:
    """Features in f32, as these operators compute."""
    return x if element(x).name == "f32" else c.b.cast(x, "f32")


def numbers(c: Call, name: str) -> np.ndarray | None:
    """An attribute of floats."""
    found = c.attribute(name)
    return None if found is None else np.asarray(found, np.float32)


TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def named(c: Call, name: str, default: str, names: Sequence[str]) -> str:
    """An attribute that is one of these names, or from version 5 on the number of one."""
    found = c.attribute(name, default)
    return names[found] if isinstance(found, int) and 0 <= found < len(names) else str(found)


def transformed(c: Call, scores: SSAValue) -> SSAValue:
    """Scores `[samples, classes]` after `post_transform`."""
    name = named(c, "post_transform", "NONE", TRANSFORMS)
    makers: dict[str, Any] = {
        "NONE": lambda: scores,
        "LOGISTIC": lambda: c.b.sigmoid(scores),
        "SOFTMAX": lambda: c.b.softmax(scores, axis=-1),
    }
    if name not in makers:
        c.fail(f"post_transform '{name}' is not supported")
    return makers[name]()


def labels_of(c: Call, name: str) -> np.ndarray:
    """The labels of classes, which have to be integers."""
    found = c.attribute(name)
    if not found:
        c.fail("labels that are strings are not supported; export the model with integer labels")
    return np.asarray(found, np.int64)


def chosen(c: Call, scores: SSAValue, labels: np.ndarray) -> SSAValue:
    """The label of the largest score of each sample."""
    return c.b.gather(c.constant(labels), c.b.argmax(scores, axis=-1), axis=0)


@define("Scaler", domain=DOMAIN)
def scaler(c: Call) -> SSAValue:
    """(x - offset)·scale"""
    b, found = c.b, floats(c, c[0])
    offset, scale = numbers(c, "offset"), numbers(c, "scale")
    found = found if offset is None else b.sub(found, c.constant(offset))
    return found if scale is None else b.mul(found, c.constant(scale))


@define("Normalizer", domain=DOMAIN)
def normalizer(c: Call) -> SSAValue:
    """x divided by its largest element, or its 1-norm or 2-norm, of each sample"""
    b, x = c.b, floats(c, c[0])
    name = c.attribute("norm", "MAX")
    how: dict[str, Any] = {"axis": -1, "keepdims": True}
    makers: dict[str, Any] = {
        "MAX": lambda: b.max_reduce(x, **how),
        "L1": lambda: b.sum(b.abs(x), **how),
        "L2": lambda: b.sqrt(b.sum(b.mul(x, x), **how)),
    }
    if name not in makers:
        c.fail(f"norm '{name}' is not supported")
    size = makers[name]()
    return b.div(x, b.where(b.eq(size, 0.0), 1.0, size))


@define("ZipMap", domain=DOMAIN)
def zip_map(c: Call) -> SSAValue:
    """its operand, with a column for each class in the order of the labels, and no dictionaries"""
    labels = c.attribute("classlabels_strings") or c.attribute("classlabels_int64s") or []
    columns = shape(c[0])[-1] if shape(c[0]) else 0
    if len(labels) != columns:
        c.fail(f"{len(labels)} classes have names, and there are {columns} columns")
    return c[0]


@define("Imputer", domain=DOMAIN)
def imputer(c: Call) -> SSAValue:
    """`where` a value is the replaced one, the one of its column"""
    b, x = c.b, c[0]
    is_float = element(x).is_float
    filled = c.attribute("imputed_value_floats" if is_float else "imputed_value_int64s")
    if not filled:
        c.fail("the imputed values are missing")
    replaced = c.attribute("replaced_value_float" if is_float else "replaced_value_int64", 0)
    missing = b.isnan(x) if is_float and np.isnan(replaced) else b.eq(x, c.like(replaced, x))
    return b.where(missing, c.constant(filled, element(x).dtype), x)


def _scores(c: Call, rows: int) -> SSAValue:
    x = floats(c, c[0])
    count = len(c.required("coefficients"))
    if not rank(x) or count != rows * shape(x)[-1]:
        c.fail(f"{count} coefficients are not {rows} for each feature of {list(shape(x))}")
    weights = np.asarray(c.required("coefficients"), np.float32).reshape(rows, shape(x)[-1])
    found = c.b.matmul(x, c.importer.tensor("coefficients", weights), transpose_b=True)
    offsets = numbers(c, "intercepts")
    return found if offsets is None else c.b.add(found, c.constant(offsets))


@define("LinearRegressor", domain=DOMAIN)
def linear_regressor(c: Call) -> SSAValue:
    """`matmul` with the coefficients, and the intercepts"""
    return transformed(c, _scores(c, c.attribute("targets", 1)))


@define("LinearClassifier", domain=DOMAIN)
def linear_classifier(c: Call) -> Any:
    """`matmul` with the coefficients, and the label of the largest score"""
    labels = labels_of(c, "classlabels_ints")
    if len(c.required("coefficients")) != len(labels) * shape(c[0])[-1]:
        c.fail("fewer rows of coefficients than classes are not supported")
    scores = _scores(c, len(labels))
    return chosen(c, scores, labels), transformed(c, scores)
