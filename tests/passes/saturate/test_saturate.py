"""`saturate` on small programs: which kernels come out, and that they compute the same."""

import itertools

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import PassFailedException

import mgn
from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import ConstantOp, ParamOp, ReadOp, graphs_of
from mgn.dialects.types import tensor
from mgn.passes.saturate import (
    DEFAULT_CLASSES,
    RuleClass,
    Saturate,
    SaturateOptions,
    saturate_graph,
)
from mgn.passes.saturate.egraph.engine import saturate_facts
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.rules.rule import RuleError
from tests.passes.saturate.saturate_programs import (
    CPU,
    body_names,
    build_graph,
    check_same,
    f32,
    kernels_of,
    matrices_of,
    random_graph,
    saturated,
)

FORMS = {
    "A B": ((8, 4), (4, 6), False, False),
    "Aᵀ B": ((4, 8), (4, 6), True, False),
    "A Bᵀ": ((8, 4), (6, 4), False, True),
    "Aᵀ Bᵀ": ((4, 8), (6, 4), True, True),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_transposed_product_with_bias_and_activation_is_one_kernel(
    form: str, swapped: bool
) -> None:
    left, right, transposed_a, transposed_b = FORMS[form]

    def body(b: Emitter, x: SSAValue, w: SSAValue, bias: SSAValue) -> SSAValue:
        a = b.transpose(x, [1, 0]) if transposed_a else x
        c = b.transpose(w, [1, 0]) if transposed_b else w
        product = b.matmul(a, c)
        return b.relu(b.add(bias, product) if swapped else b.add(product, bias))

    after, report = saturated(body, f32(*left), f32(*right), f32(6))
    (kernel,) = kernels_of(after)
    assert kernel.kind.data == "contraction"
    assert body_names(kernel) == ["matmul", "add", "relu"]
    (product,) = matrices_of(after)
    assert product.values == {"transpose_a": transposed_a, "transpose_b": transposed_b}
    assert report.cost_after < report.cost_before
    assert report.saturated


def test_a_silu_spelled_out_is_recognised_and_gated() -> None:
    def body(b: Emitter, gate: SSAValue, up: SSAValue) -> SSAValue:
        sigmoid = b.div(1.0, b.add(1.0, b.exp(b.neg(gate))))
        return b.mul(up, b.mul(sigmoid, gate))

    after, report = saturated(body, f32(4, 8), f32(4, 8))
    (kernel,) = kernels_of(after)
    assert body_names(kernel) == ["swiglu"]
    assert {"one-over", "sigmoid", "silu", "swiglu"} <= set(report.fired)


@pytest.mark.parametrize("approx", ["none", "tanh"])
def test_a_gelu_spelled_out_is_recognised(approx: str) -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        if approx == "none":
            inner = b.erf(b.mul(x, 0.5**0.5))
        else:
            cube = b.mul(b.mul(b.mul(x, x), x), 0.044715)
            inner = b.tanh(b.mul(b.add(x, cube), (2 / np.pi) ** 0.5))
        return b.mul(b.mul(x, 0.5), b.add(inner, 1.0))

    after, _ = saturated(body, f32(4, 8))
    (kernel,) = kernels_of(after)
    assert body_names(kernel) == ["gelu"]
    assert next(iter(kernel.block.ops)).values["approx"] == approx  # pyright: ignore


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_a_norm_is_one_reduction_kernel(name: str) -> None:
    after, _ = saturated(lambda b, x: b.call(name, b.mul(x, 3.0)), f32(64, 128))
    assert [kernel.kind.data for kernel in kernels_of(after)] == ["reduction"]


def _spelled_group_norm(b: Emitter, x: SSAValue, w: SSAValue, c: SSAValue) -> SSAValue:
    """As PyTorch exports it: the norm of rows, back in channels, and their scale and shift."""
    rows = b.reshape(x, [2, 4, -1])
    centred = b.sub(rows, b.mean(rows, axis=-1, keepdims=True))
    variance = b.mean(b.pow(centred, 2.0), axis=-1, keepdims=True)
    normal = b.reshape(b.div(centred, b.sqrt(b.add(variance, 1e-5))), [2, 32, 8, 8])
    return b.add(b.mul(normal, b.reshape(w, [32, 1, 1])), b.reshape(c, [32, 1, 1]))


@pytest.mark.parametrize("device", [CPU, DEVICES["nvidia-h200"]], ids=lambda item: item.name)
@pytest.mark.parametrize("spelled", [False, True], ids=["composite", "spelled"])
def test_a_norm_of_groups_with_silu_and_residual_is_one_kernel(
    spelled: bool, device: Device
) -> None:
    def body(b: Emitter, x: SSAValue, w: SSAValue, c: SSAValue, y: SSAValue) -> SSAValue:
        normal = _spelled_group_norm(b, x, w, c) if spelled else b.group_norm(x, w, c, groups=4)
        return b.add(b.silu(normal), y)

    images = f32(2, 32, 8, 8)
    after, _ = saturated(body, images, f32(32), f32(32), images, device=device)
    (kernel,) = kernels_of(after)
    assert kernel.kernel_kind is KernelKind.REDUCTION


def test_rows_are_not_broadcast_in_another_shape_of_the_elements() -> None:
    """A statistic of rows of 8 means nothing beside rows of 16; it is computed before."""

    def body(b: Emitter, x: SSAValue) -> SSAValue:
        largest = b.max_reduce(x, axis=1, keepdims=True)
        return b.mul(b.reshape(b.sub(x, largest), [8, 16]), b.reshape(largest, [1, 16]))

    after, _ = saturated(body, f32(16, 8))
    assert len(kernels_of(after)) > 1


def test_other_rows_of_the_reshaped_elements_are_another_kernel() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        return b.softmax(b.reshape(b.softmax(x), [8, 16]))

    after, _ = saturated(body, f32(16, 8))
    assert len(kernels_of(after)) == 2


def test_the_residual_sum_is_written_by_the_kernel_of_its_norm() -> None:
    def body(b: Emitter, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        total = b.add(x, y)
        return [b.rms_norm(total), total]

    after, _ = saturated(body, f32(64, 128), f32(64, 128))
    (kernel,) = kernels_of(after)
    assert kernel.kind.data == "reduction"
    assert len(kernel.outputs) == 2


def test_both_arms_of_a_diamond_are_one_kernel() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        shared = b.tanh(x)
        return b.mul(b.exp(shared), b.sin(shared))

    after, _ = saturated(body, f32(32, 32))
    (kernel,) = kernels_of(after)
    assert body_names(kernel).count("tanh") == 1


def test_two_arms_that_are_both_wanted_are_one_kernel() -> None:
    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        shared = b.tanh(x)
        return [b.exp(shared), b.sin(shared)]

    after, _ = saturated(body, f32(32, 32))
    (kernel,) = kernels_of(after)
    assert sorted(body_names(kernel)) == ["exp", "sin", "tanh"]


def test_two_statistics_of_the_same_rows_are_one_kernel() -> None:
    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        return [b.sum(x, axis=1), b.max_reduce(b.abs(x), axis=1), b.sum(x, axis=0)]

    after, _ = saturated(body, f32(32, 64))
    assert sorted(len(kernel.outputs) for kernel in kernels_of(after)) == [1, 2]


def test_a_sum_of_two_products_fuses_into_one_of_them() -> None:
    def body(b: Emitter, x: SSAValue, y: SSAValue, v: SSAValue, w: SSAValue) -> SSAValue:
        return b.add(b.matmul(x, v), b.matmul(y, w))

    after, _ = saturated(body, f32(8, 8), f32(8, 8), f32(8, 8), f32(8, 8))
    assert sorted(map(body_names, kernels_of(after))) == [["matmul"], ["matmul", "add"]]


def test_a_product_of_two_silus_keeps_both() -> None:
    after, _ = saturated(lambda b, x, y: b.mul(b.silu(x), b.silu(y)), f32(8, 8), f32(8, 8))
    (kernel,) = kernels_of(after)
    assert sorted(body_names(kernel)) in (["mul", "silu", "silu"], ["silu", "swiglu"])


def test_a_product_with_two_users_is_computed_once() -> None:
    def body(b: Emitter, x: SSAValue, w: SSAValue, bias: SSAValue) -> list[SSAValue]:
        product = b.matmul(x, w)
        return [b.add(product, bias), b.exp(product)]

    after, _ = saturated(body, f32(64, 256), f32(256, 64), f32(64))
    assert len(matrices_of(after)) == 1


@pytest.mark.parametrize("shape", [(4, 1), (4, 6), (6,), (1, 6), ()])
def test_bias_shapes_keep_their_broadcasting(shape: tuple[int, ...]) -> None:
    def body(b: Emitter, x: SSAValue, w: SSAValue, bias: SSAValue) -> SSAValue:
        return b.tanh(b.add(b.matmul(x, w), bias))

    after, _ = saturated(body, f32(4, 5), f32(5, 6), f32(*shape))
    assert len(kernels_of(after)) == 1


def test_attributes_keep_operations_apart() -> None:
    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        return [
            b.rms_norm(x, eps=1e-5),
            b.rms_norm(x, eps=0.5),
            b.gelu(x, approx="none"),
            b.gelu(x, approx="tanh"),
            b.sum(x, axis=0),
            b.sum(x, axis=1),
        ]

    after, _ = saturated(body, f32(4, 4))
    assert len(set(after.results_returned)) == 6


def test_equal_results_are_computed_once() -> None:
    def body(b: Emitter, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        return [b.add(x, y), b.add(y, x), b.sub(x, b.neg(y))]

    after, _ = saturated(body, f32(4), f32(4))
    assert len(set(after.results_returned)) == 1
    assert len(kernels_of(after)) == 1


def test_inputs_parameters_and_constants_returned_are_copied_by_kernels() -> None:
    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        read = ReadOp("w", f32(3))
        b.insert(read)
        table = b.constant_array(np.array([1.0, 2.0, 3.0], np.float32))
        return [x, x, b.mul(x, 1.0), read.result, table, b.constant(2.0, "f32")]

    graph = build_graph(body, f32(4))
    module = ModuleOp([ParamOp("w", f32(3)), graph])
    Saturate().apply(Context(), module)
    module.verify()
    weights = np.array([4.0, 5.0, 6.0], np.float32)
    x = np.arange(4, dtype=np.float32)
    results = Interpreter({"w": weights}).run(graph, {"x0": x})
    for name in ("y0", "y1", "y2"):
        np.testing.assert_array_equal(results[name], x)
    np.testing.assert_array_equal(results["y3"], weights)
    np.testing.assert_array_equal(results["y4"], [1.0, 2.0, 3.0])
    assert results["y5"] == 2.0
    assert {body_names(kernel)[0] for kernel in kernels_of(graph)} == {"identity"}


def test_scalar_constants_are_inside_kernels_and_tables_are_read() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        table = b.constant_array(np.arange(4, dtype=np.float32))
        return b.mul(b.add(x, table), 3.0)

    after, _ = saturated(body, f32(2, 4))
    (kernel,) = kernels_of(after)
    outside = [op for op in after.block.ops if isinstance(op, ConstantOp)]
    inside = [op for op in kernel.block.ops if isinstance(op, ConstantOp)]
    assert [op.array.size for op in outside] == [4]
    assert [op.array.item() for op in inside] == [3.0]


def test_without_fusion_every_operation_is_a_kernel() -> None:
    def body(b: Emitter, x: SSAValue, w: SSAValue) -> SSAValue:
        return b.softmax(b.matmul(x, w), axis=-1)

    after, report = saturated(body, f32(8, 8), f32(8, 8), fuse=False)
    assert [body_names(kernel) for kernel in kernels_of(after)] == [
        ["matmul"],
        ["max_reduce"],
        ["sub"],
        ["exp"],
        ["sum"],
        ["div"],
    ]
    assert report.cost_after == pytest.approx(report.cost_before)
    _, fused = saturated(body, f32(8, 8), f32(8, 8))
    assert sum(fused.fired.values()) > 0
    assert fused.cost_before == pytest.approx(report.cost_before), "what rules add is not counted"


def test_values_that_nothing_needs_are_not_computed() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        b.matmul(x, x)
        return b.neg(x)

    after, report = saturated(body, f32(4, 4))
    assert report.operations == 1
    assert not matrices_of(after)


def test_kernels_keep_the_location_of_what_they_compute() -> None:
    graph = build_graph(lambda b, x: b.exp(b.neg(x)), f32(4))
    place = FileLineColLoc(StringAttr("a.mgn"), IntAttr(3), IntAttr(5))
    for op in graph.block.ops:
        op.location = place
    saturate_graph(graph, CPU)
    assert kernels_of(graph)[0].location == place


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0)])
def test_empty_tensors_pass(shape: tuple[int, ...]) -> None:
    saturated(lambda b, x: b.sum(b.exp(x), axis=-1), f32(*shape))


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("sizes", list(itertools.product((0, 2), repeat=4))[:-1])
def test_products_of_nothing_pass(sizes: tuple[int, int, int, int], name: str) -> None:
    batch, rows, columns, depth = sizes
    text = f"""graph g(x: f16[{batch}, {rows}, {depth}]) {{
      param w: f16[{columns}, {depth}]
      param b: f16[{columns}]
      return y = linear(x, w, b)
    }}"""
    graph = next(graphs_of(mgn.parse(text).lower()))
    saturate_graph(graph, DEVICES[name])
    assert kernels_of(graph)


def test_integers_keep_their_products_with_zero_and_floats_theirs() -> None:
    after, _ = saturated(lambda b, x: b.mul(x, 0), tensor("i32", (4,)))
    assert body_names(kernels_of(after)[0]) == ["full"]
    after, _ = saturated(lambda b, x: b.mul(x, 0.0), f32(4))
    assert body_names(kernels_of(after)[0]) == ["mul"]


def test_a_cast_through_a_narrower_type_stays() -> None:
    def body(b: Emitter, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        narrow = b.cast(b.cast(x, T="f16"), T="f32")
        wide = b.cast(b.cast(y, T="f32"), T="f16")
        return [narrow, wide]

    before = build_graph(body, f32(4), tensor("f16", (4,)))
    saturate_graph(before, CPU)
    x = np.array([1.0001, 2.0, 3.0, 1000.3], np.float32)
    y = x.astype(np.float16)
    results = Interpreter().run(before, {"x0": x, "x1": y})
    np.testing.assert_array_equal(results["y0"], x.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(results["y1"], y)


def test_the_result_does_not_depend_on_the_run() -> None:
    texts = set()
    for _ in range(2):
        graph = random_graph(7, 30)
        saturate_graph(graph, CPU)
        texts.add(str(graph))
    assert len(texts) == 1


def test_the_pass_keeps_a_report_for_each_graph_that_reads_well() -> None:
    module = ModuleOp([build_graph(lambda b, x: b.silu(b.mul(x, 1.0)), f32(4, 4))])
    item = Saturate()
    item.apply(Context(), module)
    assert item.report is not None
    text = str(item.report)
    assert "saturated: yes" in text
    assert "mul-one 1" in text or "mul-one" in text
    assert "kernels chosen       1 in each run (1 pointwise)" in text


def test_an_operation_with_many_operands_is_a_kernel_all_the_same() -> None:
    after, _ = saturated(lambda b, *xs: b.neg(b.concat(list(xs), axis=0)), *[f32(2)] * 40)
    assert after.results_returned[0].type == f32(80)


def test_a_scalar_nan_is_a_constant_inside_the_kernel() -> None:
    graph = build_graph(lambda b, x: b.max(x, float("nan")), f32(4))
    saturate_graph(graph, CPU)
    (kernel,) = kernels_of(graph)
    assert len(kernel.inputs) == 1
    result = Interpreter().run(graph, {"x0": np.zeros(4, np.float32)})["y0"]
    assert np.isnan(result).all()


def test_a_rewrite_that_leads_back_to_its_own_operands_is_no_trouble() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        there = b.transpose(x, [1, 0])
        back = b.transpose(there, [1, 0])
        return b.add(b.neg(b.neg(b.exp(back))), b.mul(b.exp(x), 1.0))

    after, _ = saturated(body, f32(4, 6))
    assert [body_names(kernel) for kernel in kernels_of(after)] == [["exp", "add"]]


def test_the_e_graph_refuses_to_equate_values_of_different_types() -> None:
    graph = build_graph(lambda b, x, y: [b.neg(x), b.neg(y)], f32(4), f32(5))
    facts = encode_graph(graph).facts
    with pytest.raises(ValueError, match="different types"):
        facts.union(2, 3)
    facts.new_unions.append((2, 3))
    with pytest.raises(RuleError):
        saturate_facts(facts, [])


def test_a_half_precision_product_is_not_scaled_after_it_may_overflow() -> None:
    half = tensor("f16", (8, 8))
    fast = DEFAULT_CLASSES | {RuleClass.FAST}

    def body(b: Emitter, x: SSAValue, w: SSAValue) -> SSAValue:
        return b.matmul(b.mul(x, 0.125), w)

    after, report = saturated(body, half, half, classes=fast)
    assert report.fired["matmul-scaled-a"] == 0
    _, report = saturated(body, f32(8, 8), f32(8, 8), classes=fast)
    assert report.fired["matmul-scaled-a"] > 0
    assert len(kernels_of(after)) == 1


def test_a_time_budget_of_nothing_stops_and_says_so() -> None:
    graph = build_graph(lambda b, x: b.mul(b.neg(b.neg(x)), 1.0), f32(4))
    before = graph.clone()
    report = saturate_graph(graph, CPU, SaturateOptions(time_budget=0.0))
    assert not report.saturated
    check_same(before, graph)


def test_what_is_cut_into_kernels_already_is_refused() -> None:
    module = ModuleOp([build_graph(lambda b, x: b.neg(x), f32(4))])
    Saturate().apply(Context(), module)
    with pytest.raises(PassFailedException, match=r"fusion\.kernel is no operation on whole"):
        Saturate().apply(Context(), module)


@pytest.mark.parametrize("name", ["max", "min"])
def test_of_zeros_with_two_signs_the_operands_order_decides_where_bits_count(name: str) -> None:
    def body(b: Emitter, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        return [b.call(name, x, y), b.call(name, y, x)]

    exact = frozenset({RuleClass.EXACT})
    for classes, values in ((exact, 2), (DEFAULT_CLASSES, 1)):
        after, _ = saturated(body, f32(4), f32(4), classes=classes)
        assert len(set(after.results_returned)) == values
