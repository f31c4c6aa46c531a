"""An ONNX graph as it is written, node after node; values are names.

In: operations, weights, and at the end the shapes of the input and the result. Out: a model of
opset 20 as bytes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np


class OnnxGraph:
    """The nodes and initialisers that were written so far."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initialisers: list[Any] = []

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """An operation of one result. Out: the result's name."""
        from onnx import helper

        result = f"{operation.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, inputs, [result], **attributes))
        return result

    def constant(self, name: str, value: np.ndarray) -> str:
        """An initialiser. Out: its name."""
        from onnx import numpy_helper

        self.initialisers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def model(
        self,
        given: str,
        element: str,
        shape: Sequence[int],
        result: str,
        out: Sequence[int],
        x: str,
    ) -> bytes:
        """A serialised model with one input, and the value `x` as its one f32 result."""
        from onnx import TensorProto, helper

        graph = helper.make_graph(
            [*self.nodes, helper.make_node("Identity", [x], [result])],
            "network",
            [helper.make_tensor_value_info(given, getattr(TensorProto, element), shape)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, out)],
            self.initialisers,
        )
        versions = [helper.make_opsetid("", 20)]
        return helper.make_model(graph, opset_imports=versions, ir_version=9).SerializeToString()
