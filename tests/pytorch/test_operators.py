"""Each operator of the table against PyTorch, in f64, by the reference interpreter."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from mgn.dialects.mgn.interpreter import Interpreter  # noqa: E402
from mgn.dialects.mgn.structure import graphs_of  # noqa: E402
from mgn.frontend.torch.arrays import array_of_tensor  # noqa: E402
from mgn.frontend.torch.graph import Source, import_graph, is_tensor, refusal  # noqa: E402
from mgn.frontend.torch.operators import OPERATORS  # noqa: E402
from mgn.modules.mlir_text import check_module  # noqa: E402
from tests.pytorch import backward_cases, operator_cases  # noqa: E402
from tests.pytorch.variant_cases import VARIANTS  # noqa: E402

CASES = operator_cases.CASES | backward_cases.CASES
TOLERANCE = 1e-10
"""Of results in f64, beside the largest element: sums are in another order. Of integers there are
functions in f32, which may differ by a few roundings.
"""

COARSE = {"hardsigmoid_backward.default": 1e-7}
"""Of operators in which PyTorch has a constant in f32."""

WITHOUT_RESULT = {
    "aten._assert_async.default",
    "aten._assert_async.msg",
    "aten._assert_tensor_metadata.default",
    "aten.new_empty_strided.default",
    "prims.convert_element_type.default",
    "prims.fma.default",
}
"""Operators that are not called here: they give nothing or anything, or are called by
decompositions alone.
"""


def operator_of(name: str):
    """The operator of a name with its overload."""
    packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def tensors_in(value, found):
    """All tensors among arguments, in order."""
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, list | tuple):
        for item in value:
            tensors_in(item, found)
    elif isinstance(value, dict):
        tensors_in(list(value.values()), found)
    return found


def with_tensors(value, rest):
    """Arguments with other tensors in the places of theirs."""
    if isinstance(value, torch.Tensor):
        return rest.pop(0)
    if isinstance(value, list | tuple):
        return type(value)(with_tensors(item, rest) for item in value)
    if isinstance(value, dict):
        return {name: with_tensors(item, rest) for name, item in value.items()}
    return value


def called(name, arguments):
    """An operator's results, and its graph with the types of f64."""
    positional, named = arguments if isinstance(arguments[-1], dict) else (arguments, {})
    operator, given = operator_of(name), tensors_in([positional, named], [])

    def call(*tensors):
        args, kwargs = with_tensors([positional, named], list(tensors))
        return operator(*args, **kwargs)

    graph = make_fx(call, tracing_mode="fake", pre_dispatch=True)(*given).graph
    return given, call(*given), graph


@pytest.mark.parametrize("name", sorted(CASES))
def test_an_operator_gives_what_pytorch_gives(name: str) -> None:
    check_operator(name, CASES[name]())


@pytest.mark.parametrize(("name", "case"), VARIANTS, ids=[name for name, _ in VARIANTS])
def test_an_operator_gives_what_pytorch_gives_in_other_calls(name: str, case) -> None:
    check_operator(name, case())


def check_operator(name: str, arguments) -> None:
    """An operator by the interpreter, compared with PyTorch."""
    given, expected, graph = called(name, arguments)
    nodes = list(graph.nodes)
    assert f"aten.{name}" in {str(node.target) for node in nodes} or "copy" in name
    inputs = [node for node in nodes if node.op == "placeholder"]
    sources = {node.name: Source(input=node.name) for node in inputs}
    returned = [
        (f"y{number}", node)
        for number, node in enumerate(tensors_of(nodes[-1].args[0]))
        if is_tensor(node.meta.get("val"))
    ]
    module = import_graph("g", nodes, sources, returned)
    check_module(module)
    arrays = {node.name: array_of_tensor(item) for node, item in zip(inputs, given, strict=True)}
    found = Interpreter().run(next(graphs_of(module)), arrays)
    wanted = [item for item in tensors_in([expected], []) if item is not None]
    assert len(wanted) == len(found)
    for one, other in zip(found.values(), wanted, strict=True):
        if "no_training" in name and not other.numel():
            continue
        reference = array_of_tensor(other)
        assert one.dtype == reference.dtype and one.shape == reference.shape
        finite = reference[np.isfinite(reference)] if reference.size else reference
        roundings = 4 * float(np.finfo(np.float32).eps) if one.dtype == np.float32 else TOLERANCE
        bound = COARSE.get(name, roundings) * max(1.0, float(np.abs(finite).max(initial=0)))
        np.testing.assert_allclose(one, reference, rtol=0, atol=bound, equal_nan=True)


def tensors_of(value):
    """The nodes among results."""
    return [item for item in (value if isinstance(value, list | tuple) else [value])
            if item is not None]  # fmt: skip


def test_every_operator_of_the_table_is_called() -> None:
    called_here = {f"aten.{name}" for name in CASES} | WITHOUT_RESULT
    assert OPERATORS.keys() == called_here


def test_an_operator_that_is_not_there_is_refused_with_a_reason() -> None:
    graph = make_fx(torch.erfinv, tracing_mode="fake")(torch.rand(3)).graph
    node = next(item for item in graph.nodes if item.op == "call_function")
    assert refusal(node) == "no such operator"
    graph = make_fx(lambda x: x & 3, tracing_mode="fake")(torch.arange(3)).graph
    node = next(item for item in graph.nodes if item.op == "call_function")
    assert refusal(node) == "bits of integers"
