"""Reads ONNX models: the only file of this package that knows ONNX's own classes.

In: a path or a ModelProto. Out: a `Model`. DiagnosticsError where the file is damaged, is none, or
has types of values that mgn does not have.
"""

import importlib
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mgn.diagnostics import Diagnostic, DiagnosticsError, MgnError, WrongType
from mgn.frontend.onnx.core.model import DOMAINS, Function, Graph, Input, Model, Node, Reference

BFLOAT16 = 16
"""ONNX's number of the type bf16, which its older versions give as f32."""

NOISE = re.compile(r"\[\w+Error\] |Inference error\(s\): |\(op_type:[^)]*\): ")
"""What ONNX says in front of what is wrong."""

SHORT = 4096
"""Elements of a known input that ONNX's inference of shapes may want to see."""


def onnx_package() -> Any:
    """The package `onnx`. MgnError, which names the extra that brings it, where it is missing."""
    try:
        return importlib.import_module("onnx")
    except ImportError:
        raise MgnError(
            "ONNX models need the package onnx: pip install 'mgn-compiler[onnx]'"
        ) from None


def read_model(source: Any, name: str | None = None) -> Model:
    """The model of a path or a ModelProto; `name` stands in messages."""
    onnx = onnx_package()
    if isinstance(source, onnx.ModelProto):
        return _model(onnx, source, name or "<model>")
    if not isinstance(source, str | PathLike) or isinstance(source, bytes):
        said = type(source).__name__
        raise WrongType(f"mgn.from_onnx takes a path or an onnx.ModelProto, not {said}")
    path = Path(source)
    file = name or str(path)
    if not path.is_file():
        problem = "it is no file" if path.exists() else "no such file"
        problem = "it is a folder" if path.is_dir() else problem
        raise MgnError(f"cannot open '{path}': {problem}")
    try:
        proto = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise _wrong(f"not an ONNX model: {_first_line(error)}", file) from None
    try:
        onnx.external_data_helper.load_external_data_for_model(proto, str(path.parent))
    except Exception as error:
        raise _wrong(f"its external data cannot be read: {_first_line(error)}", file) from None
    return _model(onnx, proto, file)


def _model(onnx: Any, proto: Any, file: str) -> Model:
    if not proto.HasField("graph") or not proto.opset_import:
        raise _wrong("not an ONNX model: it has no graph, or does not say its opset", file)
    reader = _Reader(onnx, file)
    functions = {
        (_domain(item.domain), item.name): reader.function(item) for item in proto.functions
    }
    opsets = _opsets(proto.opset_import)
    reader.check_names(*opsets)
    for domain, version in opsets.items():
        if version < 1:
            named = f"domain '{domain}'" if domain else "its operators"
            raise _wrong(f"not an ONNX model: version {version} of {named} is none", file)
    newest = onnx.defs.onnx_opset_version()
    if (version := opsets.get("", newest)) > newest:
        said = f"the package onnx here, {onnx.__version__}, knows those up to {newest}"
        remedy = "a newer one is needed, or a model of an older version"
        raise _wrong(f"its operators are of version {version}, and {said}: {remedy}", file)
    model = Model(file, reader.graph(proto.graph), opsets, functions)
    model.list_nodes()
    return model


def _schema_of(node: Node, version: int) -> Any:
    """ONNX's schema of an operator in a version of its domain; None where there is none."""
    defs = onnx_package().defs
    try:
        return defs.get_schema(node.operator, version, node.domain)
    except defs.SchemaError:
        return None


def schema_function(
    node: Node, attributes: Mapping[str, Any], version: int, types: Sequence[Any]
) -> Function | None:
    """The body that ONNX itself gives for an operator; None where it has none.

    `attributes` are those of the node, without references. `types` are the element types and
    shapes of the inputs, (None, ()) for one that is left out, a shape of None for a sequence.
    """
    onnx, schema = onnx_package(), _schema_of(node, version)
    if schema is None:
        return None
    reader = _Reader(onnx, node.operator)
    if schema.has_function:
        found = reader.function(schema.function_body)
        if not found.opsets:
            found.opsets[node.domain] = version
    elif schema.has_context_dependent_function:
        made = [_type_proto(onnx, *item) for item in types]
        known = [item.SerializeToString() for item in made]
        versions = schema.context_dependent_function_opset_versions
        fitting = max((item for item in versions if item <= version), default=versions[0])
        text = schema.get_context_dependent_function_with_opset_version(
            fitting, _bound_proto(onnx, node, attributes).SerializeToString(), known
        )
        proto = onnx.FunctionProto()
        proto.ParseFromString(text)
        found = reader.function(proto)
    else:
        return None
    latest = onnx.defs.onnx_opset_version()
    found.opsets.setdefault("", latest if node.domain else version)
    for item, value in schema.attributes.items():
        default = value.default_value
        if default is not None and default.type:
            found.defaults.setdefault(item, reader.attribute(default))
    return found


def _bound_proto(onnx: Any, node: Node, attributes: Mapping[str, Any]) -> Any:
    """A node with the values of its attributes in the place of references."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.attribute[:]
    for item in node.proto.attribute:
        if not item.ref_attr_name:
            proto.attribute.append(item)
        elif item.name in attributes:
            proto.attribute.append(onnx.helper.make_attribute(item.name, attributes[item.name]))
    return proto


def has_schema_function(node: Node, version: int) -> bool:
    """Whether ONNX itself gives a body for an operator."""
    schema = _schema_of(node, version)
    if schema is None:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def misuse(node: Node, attributes: Mapping[str, Any], version: int) -> str | None:
    """What a node has against its operator's schema that no function would miss: more inputs or
    outputs than there are, or no attribute that it needs. None where there is no such thing, or
    ONNX has no such operator.
    """
    schema = _schema_of(node, version)
    if schema is None:
        return None
    counts = ("inputs", node.inputs, schema.max_input), ("outputs", node.outputs, schema.max_output)
    for what, names, most in counts:
        if any(names[most:]):
            return f"it has {len(names)} {what}, and version {version} of it takes {most} at most"
    for name, item in schema.attributes.items():
        if item.required and name not in attributes:
            return f"attribute '{name}' is missing"
    return None


def complaint(
    node: Node,
    attributes: Mapping[str, Any],
    opsets: Mapping[str, int],
    types: Sequence[Any],
    arrays: Sequence[np.ndarray | None],
) -> str | None:
    """What ONNX's checker and its inference of shapes say against a node; None where they find it
    right, or it has graphs of its own. `types` and `arrays` are those of its inputs, as far as
    they are known.
    """
    if any(node.graphs):
        return None
    onnx = onnx_package()
    proto = _bound_proto(onnx, node, attributes)
    names = ["" if dtype is None else f"x{place}" for place, (dtype, _) in enumerate(types)]
    proto.input[:] = names
    helper, context = onnx.helper, onnx.checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = dict(opsets)
    try:
        inputs = [
            helper.make_value_info(name, _type_proto(onnx, *type))
            for name, type in zip(names, types, strict=True)
            if name
        ]
        known = [
            onnx.numpy_helper.from_array(array, name)
            for name, array in zip(names, arrays, strict=True)
            if name and array is not None and array.size <= SHORT
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in proto.output if name]
        graph = helper.make_graph([proto], "node", inputs, outputs, known)
        versions = [helper.make_opsetid(*item) for item in opsets.items()]
        made = helper.make_model(graph, opset_imports=versions)
        onnx.checker.check_node(proto, context)
        onnx.shape_inference.infer_shapes(made, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:
        return f"ONNX refuses it: {NOISE.sub('', _first_line(error))}"
    return None


def dtype_of(number: int) -> np.dtype[Any] | str:
    """NumPy's type of a number of ONNX; its name where NumPy has none."""
    onnx = onnx_package()
    if number == BFLOAT16:
        return np.dtype(ml_dtypes.bfloat16)
    if number == onnx.TensorProto.STRING:
        return "strings"
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    except KeyError:
        return f"type {number}"


class _Reader:
    def __init__(self, onnx: Any, file: str) -> None:
        self.onnx, self.file = onnx, file

    def check_names(self, *names: Any) -> None:
        """Names are text. Protocol buffers give bytes where they are not UTF-8."""
        for name in names:
            if not isinstance(name, str):
                raise _wrong(f"not an ONNX model: the name {name!r} is no UTF-8", self.file)

    def graph(self, proto: Any) -> Graph:
        initialisers = {item.name: self.array(item) for item in proto.initializer}
        for item in proto.sparse_initializer:
            initialisers[item.values.name] = self.sparse(item)
        inputs = [self.input(item) for item in proto.input if item.name not in initialisers]
        nodes = [self.node(item) for item in proto.node]
        outputs = tuple(item.name for item in proto.output)
        self.check_names(proto.name, *outputs, *initialisers)
        return Graph(proto.name, tuple(inputs), outputs, nodes, initialisers)

    def input(self, proto: Any) -> Input:
        self.check_names(proto.name)
        whole = proto.type
        optional = whole.WhichOneof("value") == "optional_type"
        whole = whole.optional_type.elem_type if optional else whole
        sequence = whole.WhichOneof("value") == "sequence_type"
        whole = whole.sequence_type.elem_type if sequence else whole
        kind = whole.WhichOneof("value")
        if kind != "tensor_type":
            return Input(proto.name, (kind or "untyped").removesuffix("_type"), None)
        type = whole.tensor_type
        if sequence or not type.HasField("shape"):
            return Input(proto.name, type.elem_type, None, sequence, optional)
        sizes = tuple(map(_size, type.shape.dim))
        self.check_names(*(item.dim_param for item in type.shape.dim))
        return Input(proto.name, type.elem_type, sizes, is_optional=optional)

    def node(self, proto: Any) -> Node:
        attributes = {item.name: self.attribute(item) for item in proto.attribute}
        inputs, outputs = tuple(proto.input), tuple(proto.output)
        domain = _domain(proto.domain)
        self.check_names(proto.op_type, domain, proto.name, *inputs, *outputs, *attributes)
        return Node(proto.op_type, domain, proto.name, inputs, outputs, attributes, proto)

    def attribute(self, proto: Any) -> Any:
        if proto.ref_attr_name:
            self.check_names(proto.ref_attr_name)
            return Reference(proto.ref_attr_name)
        kinds = self.onnx.AttributeProto
        if proto.type == kinds.TENSOR:
            return self.array(proto.t)
        if proto.type == kinds.SPARSE_TENSOR:
            return self.sparse(proto.sparse_tensor)
        if proto.type == kinds.GRAPH:
            return self.graph(proto.g)
        if proto.type == kinds.STRING:
            return proto.s.decode("utf-8", "replace")
        if proto.type == kinds.STRINGS:
            return [item.decode("utf-8", "replace") for item in proto.strings]
        if proto.type in (kinds.FLOATS, kinds.INTS):
            return list(proto.floats if proto.type == kinds.FLOATS else proto.ints)
        return self.onnx.helper.get_attribute_value(proto)

    def function(self, proto: Any) -> Function:
        defaults = {item.name: self.attribute(item) for item in proto.attribute_proto}
        nodes = [self.node(item) for item in proto.node]
        opsets = _opsets(proto.opset_import)
        inputs, outputs = tuple(proto.input), tuple(proto.output)
        self.check_names(proto.name, proto.domain, *inputs, *outputs, *defaults, *opsets)
        return Function(proto.name, inputs, outputs, nodes, defaults, opsets)

    def array(self, proto: Any) -> np.ndarray:
        try:
            if proto.data_type not in self.onnx.TensorProto.DataType.values():
                raise ValueError(f"there is no type {proto.data_type}")
            if any(size < 0 for size in proto.dims):
                raise ValueError(f"its sizes are {list(proto.dims)}")
            array = np.asarray(self.onnx.numpy_helper.to_array(proto))
        except Exception as error:
            message = f"tensor '{proto.name}' is damaged: {_first_line(error)}"
            raise _wrong(message, self.file) from None
        return array.astype(ml_dtypes.bfloat16) if proto.data_type == BFLOAT16 else array

    def sparse(self, proto: Any) -> np.ndarray:
        """A sparse tensor, made dense."""
        values, indices = self.array(proto.values), self.array(proto.indices)
        try:
            dense = np.zeros(tuple(proto.dims), values.dtype)
            places = indices if indices.ndim == 1 else indices @ _strides(dense.shape)
            dense.reshape(-1)[places] = values
        except (ValueError, IndexError, MemoryError) as error:
            message = f"tensor '{proto.values.name}' is damaged: {_first_line(error)}"
            raise _wrong(message, self.file) from None
        return dense


def _size(proto: Any) -> int | str | None:
    """The size of an axis: some exporters write -1 or "?" for one that is not known."""
    if proto.HasField("dim_value"):
        return proto.dim_value if proto.dim_value >= 0 else None
    return None if proto.dim_param in ("", "?") else proto.dim_param


def _strides(shape: Sequence[int]) -> np.ndarray:
    return np.cumprod([1, *shape[:0:-1]])[::-1].astype(np.int64)


def _type_proto(onnx: Any, dtype: Any, shape: Sequence[int] | None) -> Any:
    if dtype is None:
        return onnx.TypeProto()
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    if shape is None:
        part = onnx.helper.make_tensor_type_proto(number, None)
        return onnx.helper.make_sequence_type_proto(part)
    return onnx.helper.make_tensor_type_proto(number, list(shape))


def _opsets(imports: Any) -> dict[str, int]:
    found: Mapping[str, int] = {_domain(item.domain): item.version for item in imports}
    return dict(found)


def _domain(name: str) -> str:
    return DOMAINS.get(name, name)


def _wrong(message: str, file: str) -> DiagnosticsError:
    return DiagnosticsError([Diagnostic(message, file)])


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
