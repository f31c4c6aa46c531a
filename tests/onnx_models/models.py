"""Small ONNX models for tests, and what ONNX's reference evaluator says of them.

In: nodes, inputs with types, arrays. Out: models, and the outputs of the reference and of mgn.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

Array = np.ndarray


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    """A node."""
    return onnx.helper.make_node(operator, list(inputs), list(outputs), **attributes)


def value(name: str, array: Array | None, shape: Sequence[Any] | None = None) -> Any:
    """The declaration of an input or an output; of an array's type and, if not given, shape."""
    if array is None:
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
    number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    sizes = list(array.shape if shape is None else shape)
    return onnx.helper.make_tensor_value_info(name, number, sizes)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Array],
    outputs: Sequence[str] = ("y",),
    weights: Mapping[str, Array] | None = None,
    opset: int = 21,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[Any] = (),
) -> Any:
    """A model of one graph. `shapes` has those of inputs that are not their arrays'."""
    graph = onnx.helper.make_graph(
        list(nodes),
        "main",
        [value(name, array, (shapes or {}).get(name)) for name, array in inputs.items()],
        [value(name, None) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [onnx.helper.make_operatorsetid("", opset)]
    opsets += [onnx.helper.make_operatorsetid(*item) for item in (domains or {}).items()]
    return onnx.helper.make_model(
        graph, opset_imports=opsets, functions=list(functions), ir_version=10
    )


def reference(made: Any, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs by ONNX's own evaluator."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(made).run(None, dict(inputs))


def interpreted(made: Any, inputs: Mapping[str, Array], **options: Any) -> list[Array]:
    """The outputs of the imported model by mgn's interpreter."""
    from mgn.dialects.mgn.interpreter import Interpreter
    from mgn.dialects.mgn.structure import graphs_of
    from mgn.frontend.onnx.program import load_onnx

    program = load_onnx(made, **options)
    graph = next(graphs_of(program.lower()))
    given = {name: inputs[name] for name in graph.input_names}
    return list(Interpreter(program.values).run(graph, given).values())


def check(made: Any, inputs: Mapping[str, Array], **options: Any) -> None:
    """mgn says what ONNX says."""
    found, wanted = interpreted(made, inputs, **options), reference(made, inputs)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
