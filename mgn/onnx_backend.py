"""mgn as a backend of ONNX: what ONNX's own tests, and tools made for any backend, call.

In: a `ModelProto`, then arrays. Out: arrays, in the order of the model's outputs.

    rep = mgn.onnx_backend.prepare(onnx.load("model.onnx"), device="CPU")
    (y,) = rep.run([x])

Inputs that have to be known when a model is read, as the shape of a Reshape, are taken from the
first run; another run with other values of these reads and compiles the model again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, defs, helper
from onnx.backend.base import Backend, BackendRep

from mgn.codegen.launch_plan import BufferKind
from mgn.diagnostics import DiagnosticsError, MgnError
from mgn.dialects.mgn.build import RANDOM_STATE
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.philox import key_of
from mgn.dialects.mgn.structure import graphs_of
from mgn.frontend.onnx.core.errors import UnknownValues
from mgn.frontend.onnx.core.narrow import HOLDERS, held
from mgn.frontend.onnx.core.reading import dtype_of
from mgn.frontend.onnx.program import OnnxProgram, load_onnx
from mgn.modules.module import Module

DEVICES = {"CPU": "cpu", "CUDA": "gpu"}
"""ONNX's names of devices, and the selectors of mgn."""

Run = Callable[[Mapping[str, np.ndarray]], Sequence[Any]]


class PreparedModel(BackendRep):
    """A model that runs on arrays. `interpreted`: by the reference interpreter."""

    def __init__(self, model: ModelProto, selector: str, interpreted: bool = False) -> None:
        self._model, self._selector, self._interpreted = model, selector, interpreted
        initialised = {item.name for item in model.graph.initializer}
        self._inputs = [item.name for item in model.graph.input if item.name not in initialised]
        self._outputs = [_declared_type(item) for item in model.graph.output]
        self._constants: set[str] = set()
        self._made: dict[Any, Run] = {}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs for a list of arrays, or a mapping by name; a list is a sequence. MgnError
        where the list is longer than the model's inputs.
        """
        if not isinstance(inputs, Mapping) and len(inputs) > len(self._inputs):
            raise MgnError(f"{len(inputs)} inputs are given, and the model has {len(self._inputs)}")
        named = (
            inputs if isinstance(inputs, Mapping) else dict(zip(self._inputs, inputs, strict=False))
        )
        given = {name: _arrays(value) for name, value in named.items()}
        while True:
            try:
                results = self._runner(given)(_tensors(given))
                return tuple(map(_as_declared, results, self._outputs))
            except UnknownValues as error:
                names = {
                    name.rsplit(".", 1)[0] if name not in given else name for name in error.inputs
                }
                if names <= self._constants:
                    raise
                self._constants.update(names)

    def _runner(self, given: Mapping[str, Any]) -> Run:
        """What runs the model on arrays of these shapes."""
        known = {
            name: value for name, value in given.items() if name in self._constants or value is None
        }
        shapes = {
            name: [part.shape for part in value] if isinstance(value, list) else value.shape
            for name, value in given.items()
            if value is not None
        }
        key = (
            tuple((name, value.tobytes()) for name, value in sorted(_tensors(known).items())),
            str(sorted(shapes.items())),
        )
        if key not in self._made:
            program = load_onnx(self._model, shapes=shapes, constants=known)
            self._made[key] = (
                self._interpreter(program) if self._interpreted else self._compiled(program)
            )
        return self._made[key]

    def _interpreter(self, program: OnnxProgram) -> Run:
        graph = next(graphs_of(program.lower()))

        def run(arrays: Mapping[str, np.ndarray]) -> Sequence[Any]:
            states = {RANDOM_STATE: key_of(0)}
            inputs = {name: arrays[name] for name in graph.input_names}
            return _grouped(program, Interpreter(program.values, states=states).run(graph, inputs))

        return run

    def _compiled(self, program: OnnxProgram) -> Run:
        from mgn.api import compile as compile_module

        made = compile_module(Module(program), device=self._selector)
        names = {buffer.name for _, buffer in made.plan.of_kind(BufferKind.INPUT)}

        def run(arrays: Mapping[str, np.ndarray]) -> Sequence[Any]:
            return _grouped(program, made.run({name: arrays[name] for name in names}))

        return run


def _arrays(value: Any) -> Any:
    if value is None or isinstance(value, list | tuple):
        return None if value is None else [held(np.asarray(part)) for part in value]
    return held(np.asarray(value))


def _declared_type(item: ValueInfoProto) -> Any:
    """The element type that a model gives an output; None of one that is no tensor."""
    number = item.type.tensor_type.elem_type
    return dtype_of(number) if number else None


def _as_declared(value: Any, dtype: Any) -> Any:
    """A result in the type of the model, where mgn holds that in another."""
    return value.astype(dtype) if isinstance(dtype, np.dtype) and dtype in HOLDERS else value


def _tensors(given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays by the names of the program's inputs: those of a sequence each by its own."""
    found: dict[str, np.ndarray] = {}
    for name, value in given.items():
        parts = (
            {f"{name}.{number}": part for number, part in enumerate(value)}
            if isinstance(value, list)
            else {name: value}
        )
        found.update({key: part for key, part in parts.items() if part is not None})
    return found


def _grouped(program: OnnxProgram, results: Mapping[str, np.ndarray]) -> list[Any]:
    """The results in the order of the model's outputs, sequences as lists."""
    return [
        [results[part] for part in names] if isinstance(names, list) else results[names]
        for names in program.outputs.values()
    ]


class MgnBackend(Backend):
    """ONNX's interface of a backend."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """A model made ready; what mgn does not have is an error here."""
        load_onnx(model)
        return PreparedModel(model, DEVICES.get(device.split(":")[0], device))

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node; `opset_version` is that of its domain, the newest if not said.
        `outputs_info` is not needed.
        """
        names = [name for name in node.input if name]
        if not isinstance(inputs, Mapping) and len(inputs) != len(names):
            given = f"{len(inputs)} inputs are given"
            raise MgnError(f"{node.op_type}: {given}, and the node has {len(names)}")
        named = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
        version = kwargs.pop("opset_version", None) or defs.onnx_opset_version()
        graph = helper.make_graph(
            [node],
            "node",
            [_declared(name, np.asarray(value)) for name, value in named.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output],
        )
        opsets = [helper.make_operatorsetid(node.domain, version)]
        return cls.prepare(helper.make_model(graph, opset_imports=opsets), device).run(named)

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether mgn has all operators of a model."""
        try:
            load_onnx(model)
        except DiagnosticsError:
            return False
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether there is such a device."""
        from mgn.runtime.devices import choose
        from mgn.runtime.errors import DeviceError

        try:
            choose(DEVICES.get(device.split(":")[0], device))
        except DeviceError:
            return False
        return True


class ReferenceBackend(MgnBackend):
    """The same by the reference interpreter: no kernels, and no device."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """A model made ready for the interpreter."""
        load_onnx(model)
        return PreparedModel(model, device, interpreted=True)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """The processor alone."""
        return device == "CPU"


def _declared(name: str, array: np.ndarray) -> ValueInfoProto:
    """The declaration of an input that an array is for."""
    number = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, number, array.shape)


prepare = MgnBackend.prepare
run_model = MgnBackend.run_model
run_node = MgnBackend.run_node
supports_device = MgnBackend.supports_device
is_compatible = MgnBackend.is_compatible
