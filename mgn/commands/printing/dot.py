"""A program as a Graphviz graph: operations are nodes, kernels are boxes around them.

In: a module with graphs, before or after they were cut into kernels. Out: DOT text, for
`mgn-opt -t dot x.mgn | dot -Tsvg -o x.svg`.
"""

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp, LaunchOp
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.states import ReadStateOp, WriteStateOp
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, ReadOp, ReturnOp, graphs_of
from mgn.dialects.types import element_of, spelling

_FILL: dict[type[Operation], str] = {
    ReadOp: "lightyellow",
    ReadStateOp: "lightyellow",
    WriteStateOp: "lightyellow",
    ConstantOp: "gray92",
    LaunchOp: "lightblue",
}


def dot(module: ModuleOp) -> str:
    """The graphs of a module, side by side."""
    lines = ["digraph mgn {", '  node [shape=box, style="rounded,filled", fillcolor=white];']
    for number, graph in enumerate(graphs_of(module)):
        lines.extend(_GraphWriter(graph, f"g{number}").lines())
    return "\n".join([*lines, "}", ""])


class _GraphWriter:
    """Writes one graph; `_nodes` maps a value to the node that makes it."""

    def __init__(self, graph: GraphOp, prefix: str) -> None:
        self._graph = graph
        self._prefix = prefix
        self._nodes: dict[SSAValue, str] = {}
        self._count = 0

    def lines(self) -> Iterator[str]:
        """The lines of the graph's box."""
        graph = self._graph
        yield f"  subgraph cluster_{self._prefix} {{"
        yield f"    label={_quoted('graph ' + graph.sym_name.data)};"
        for name, argument in (*graph.named_inputs, *graph.named_states):
            node = self._node(argument)
            yield f"    {node} [label={_quoted(_label(name, argument))}, fillcolor=palegreen];"
        for op in graph.block.ops:
            yield from self._operation(op, "    ")
        yield "  }"

    def _operation(self, op: Operation, indent: str) -> Iterator[str]:
        if isinstance(op, FusedKernelOp):
            yield from self._kernel(op, indent)
            return
        if isinstance(op, ReturnOp):
            for name, value in (*self._graph.named_results, *self._graph.named_written):
                node = self._fresh()
                yield f"{indent}{node} [label={_quoted(_label(name, value))}, fillcolor=palegreen];"
                yield f"{indent}{self._nodes[value]} -> {node};"
            return
        node = self._fresh()
        for result in op.results:
            self._nodes[result] = node
        fill = _FILL.get(type(op), "white")
        yield f"{indent}{node} [label={_quoted(_title(op))}, fillcolor={fill}];"
        for operand in op.operands:
            yield f"{indent}{self._nodes[operand]} -> {node};"

    def _kernel(self, kernel: FusedKernelOp, indent: str) -> Iterator[str]:
        for argument, value in zip(kernel.block.args, kernel.inputs, strict=True):
            self._nodes[argument] = self._nodes[value]
        yield f"{indent}subgraph cluster_{self._fresh()} {{"
        yield f'{indent}  label={_quoted(kernel.kind.data)}; style="rounded,filled"; color=gray90;'
        for op in kernel.block.ops:
            if not isinstance(op, FusionReturnOp):
                yield from self._operation(op, indent + "  ")
        yield f"{indent}}}"
        for result, written in zip(kernel.outputs, kernel.written, strict=True):
            self._nodes[result] = self._nodes[written]

    def _node(self, value: SSAValue) -> str:
        self._nodes[value] = self._fresh()
        return self._nodes[value]

    def _fresh(self) -> str:
        self._count += 1
        return f"{self._prefix}_{self._count}"


def _title(op: Operation) -> str:
    if isinstance(op, ReadOp):
        return _label(op.parameter_name, op.result)
    if isinstance(op, ReadStateOp):
        return _label(op.state_name, op.result)
    if isinstance(op, WriteStateOp):
        return _label(f"{op.state_name} <-", op.value)
    if isinstance(op, ConstantOp):
        return _label(_constant(op), op.result)
    name = op.spec.name if isinstance(op, TensorOp) else op.name
    name = f"@{op.kernel_name}" if isinstance(op, LaunchOp) else name
    return "\\n".join([name, *(spelling(result.type) for result in op.results)])


def _constant(op: ConstantOp) -> str:
    return str(op.array.item()) if op.array.size == 1 else "constant"


def _label(name: str, value: SSAValue) -> str:
    assert isinstance(value.type, TensorType)
    return f"{name}\\n{element_of(value.type).name}{list(value.type.get_shape())}"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
