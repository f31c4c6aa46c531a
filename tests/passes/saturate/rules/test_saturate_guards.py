"""Programs that a pattern too generous would fuse or merge wrongly."""

from collections import Counter

import numpy as np
import pytest
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from tests.passes.saturate.saturate_programs import (
    body_names,
    f32,
    kernels_of,
    matrices_of,
    saturated,
)


def test_a_bias_sum_that_is_also_returned_is_written_and_not_computed_twice() -> None:
    def body(b: Emitter, x: SSAValue, w: SSAValue, bias: SSAValue) -> list[SSAValue]:
        biased = b.add(b.matmul(x, w), bias)
        return [b.relu(biased), biased]

    after, _ = saturated(body, f32(64, 64), f32(64, 64), f32(64))
    (kernel,) = kernels_of(after)
    assert body_names(kernel) == ["matmul", "add", "relu"]
    assert len(kernel.outputs) == 2
    assert len(set(after.results_returned)) == 2


def test_a_product_that_is_returned_beside_its_biased_form_is_computed_once() -> None:
    def body(b: Emitter, x: SSAValue, w: SSAValue, bias: SSAValue) -> list[SSAValue]:
        product = b.matmul(x, w)
        return [product, b.add(product, bias)]

    after, _ = saturated(body, f32(64, 256), f32(256, 64), f32(64))
    assert len(matrices_of(after)) == 1


def test_a_product_added_to_itself_is_computed_once() -> None:
    def body(b: Emitter, x: SSAValue, w: SSAValue) -> SSAValue:
        product = b.matmul(x, w)
        return b.add(product, product)

    after, _ = saturated(body, f32(64, 64), f32(64, 64))
    assert len(matrices_of(after)) == 1


def test_a_silu_times_itself_is_not_taken_for_a_gate_of_another_value() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        active = b.silu(x)
        return b.mul(active, active)

    after, _ = saturated(body, f32(8, 8))
    (kernel,) = kernels_of(after)
    assert len(kernel.inputs) == 1


@pytest.mark.parametrize("second", ["returned", "reduced", "product"])
def test_a_gate_product_with_a_second_user_is_computed_once(second: str) -> None:
    def body(b: Emitter, x: SSAValue, g: SSAValue, u: SSAValue) -> list[SSAValue]:
        gate = b.matmul(x, g)
        other = {
            "returned": lambda: gate,
            "reduced": lambda: b.sum(gate, axis=0),
            "product": lambda: b.matmul(gate, u, transpose_b=True),
        }[second]()
        return [b.mul(b.silu(gate), b.matmul(x, u)), other]

    after, _ = saturated(body, f32(128, 256), f32(256, 256), f32(256, 256))
    assert len(matrices_of(after)) == (3 if second == "product" else 2)


def test_a_column_and_a_full_factor_are_kept_apart() -> None:
    def body(b: Emitter, x: SSAValue, column: SSAValue, full: SSAValue) -> list[SSAValue]:
        return [b.add(b.mul(x, column), full), b.add(b.mul(x, full), column)]

    after, _ = saturated(body, f32(6, 4), f32(6, 1), f32(6, 4))
    assert len(set(after.results_returned)) == 2


def test_a_gelu_whose_constants_were_folded_away_stays_what_it_is() -> None:
    """0.5·x·(1 + erf(0.7·x)) is no gelu, and the constant times a gelu is not one either."""

    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        near = b.mul(b.mul(x, 0.5), b.add(b.erf(b.mul(x, 0.7)), 1.0))
        tripled = b.mul(b.mul(x, 1.5), b.add(b.erf(b.mul(x, 0.5**0.5)), 1.0))
        return [near, tripled]

    _, report = saturated(body, f32(4, 8))
    assert report.fired["gelu"] == 0


def test_a_constant_folded_into_a_gelu_keeps_its_value() -> None:
    after, _ = saturated(lambda b, x: b.mul(b.gelu(b.mul(x, 2.0)), 0.25), f32(4, 8))
    assert len(kernels_of(after)) == 1


def test_a_value_used_across_stop_gradient_is_one_value() -> None:
    def body(b: Emitter, x: SSAValue, w: SSAValue) -> list[SSAValue]:
        product = b.matmul(x, w)
        return [b.exp(product), b.mul(b.stop_gradient(product), product)]

    after, _ = saturated(body, f32(64, 64), f32(64, 64))
    assert len(matrices_of(after)) == 1


DIFFERING: list[tuple[str, dict[str, object], dict[str, object]]] = [
    ("rms_norm", {"eps": 1e-5}, {"eps": 1e-2}),
    ("layer_norm", {"eps": 1e-5}, {"eps": 1e-2}),
    ("softmax", {"axis": 0}, {"axis": 1}),
    ("sum", {"axis": 0}, {"axis": 1}),
    ("gelu", {"approx": "none"}, {"approx": "tanh"}),
    ("cumsum", {"axis": 0}, {"axis": 1}),
    ("flip", {"axis": 0}, {"axis": 1}),
    ("clamp", {"min": 0.0}, {"min": 0.5}),
    ("rope", {"head_dim": 4, "theta": 1e4}, {"head_dim": 4, "theta": 5e5}),
    ("rope", {"head_dim": 4}, {"head_dim": 8}),
    ("rope", {"head_dim": 4}, {"head_dim": 4, "interleaved": True}),
    ("group_norm", {"groups": 2}, {"groups": 4}),
    ("leaky_relu", {"slope": 0.1}, {"slope": 0.2}),
    ("max_reduce", {"axis": 0}, {"axis": 1}),
    ("transpose", {"perm": [0, 1]}, {"perm": [1, 0]}),
    ("slice", {"starts": [0, 0], "stops": [8, 4]}, {"starts": [0, 4], "stops": [8, 8]}),
]
"""An operation with attributes, one of which differs."""


@pytest.mark.parametrize(("name", "first", "second"), DIFFERING)
def test_an_attribute_that_alone_differs_keeps_two_values_apart(
    name: str, first: dict[str, object], second: dict[str, object]
) -> None:
    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        return [b.call(name, x, **first), b.call(name, x, **second)]

    after, _ = saturated(body, f32(8, 8))
    assert len(set(after.results_returned)) == 2


SPELLINGS = {
    "softmax": lambda b, x: _softmax(b, x),
    "log_softmax": lambda b, x: b.log(_softmax(b, x)),
    "layer_norm": lambda b, x: _layer_norm(b, x),
    "rms_norm": lambda b, x: b.div(
        x, b.sqrt(b.add(b.mean(b.pow(x, 2.0), axis=-1, keepdims=True), 1e-5))
    ),
}


def _softmax(b: Emitter, x: SSAValue) -> SSAValue:
    shifted = b.exp(b.sub(x, b.max_reduce(x, axis=-1, keepdims=True)))
    return b.div(shifted, b.sum(shifted, axis=-1, keepdims=True))


def _layer_norm(b: Emitter, x: SSAValue) -> SSAValue:
    centred = b.sub(x, b.mean(x, axis=-1, keepdims=True))
    variance = b.mean(b.pow(centred, 2.0), axis=-1, keepdims=True)
    return b.div(centred, b.sqrt(b.add(variance, 1e-5)))


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_composite_and_its_exported_parts_are_one_value(name: str) -> None:
    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        return [b.call(name, x), SPELLINGS[name](b, x)]

    after, _ = saturated(body, f32(64, 128))
    assert len(set(after.results_returned)) == 1
    assert Counter(kernel.kind.data for kernel in kernels_of(after)) == {"reduction": 1}


def test_the_exported_parts_with_another_epsilon_are_another_value() -> None:
    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        return [b.layer_norm(x, eps=1e-3), _layer_norm(b, x)]

    after, _ = saturated(body, f32(64, 128))
    assert len(set(after.results_returned)) == 2


def test_a_gelu_with_a_power_is_recognised() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        inner = b.mul(b.add(x, b.mul(b.pow(x, 3.0), 0.044715)), (2 / np.pi) ** 0.5)
        return b.mul(b.mul(x, b.add(b.tanh(inner), 1.0)), 0.5)

    after, _ = saturated(body, f32(4, 8))
    assert list(map(body_names, kernels_of(after))) == [["gelu"]]
