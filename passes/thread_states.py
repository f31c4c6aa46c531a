"""thread-states: what states hold becomes arguments of a graph, what is written becomes results.

Before:
    mgn.graph @count() -> ("before" : tensor<i32>) {
      %0 = mgn.read_state @steps : tensor<i32>
      %1 = mgn.constant dense<1> : tensor<i32>
      %2 = mgn.add(%0, %1) : tensor<i32>
      mgn.write_state @steps, %2 : tensor<i32>
      mgn.return %0 : tensor<i32>
    }
After:
    mgn.graph @count(state "steps" = %steps: tensor<i32>)
        -> ("before" : tensor<i32>, state "steps" : tensor<i32>) {
      %0 = mgn.constant dense<1> : tensor<i32>
      %1 = mgn.add(%steps, %0) : tensor<i32>
      mgn.return %steps, %1 : tensor<i32>, tensor<i32>
    }

A read becomes the value that was written last before it, or the argument. The last write of a state
is its result; one that writes what was there is none. No operation of the graph has an effect
after this, so the passes that follow need no notion of order.
"""

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from mgn.dialects.mgn.states import ReadStateOp, WriteStateOp
from mgn.dialects.mgn.structure import GraphOp, ReturnOp, graphs_of
from mgn.passes.rewriting import replace


@dataclass(frozen=True)
class ThreadStates(ModulePass):
    """Threads the states of all graphs of a module."""

    name = "thread-states"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for graph in graphs_of(op):
            thread_states(graph)


def thread_states(graph: GraphOp) -> None:
    """Threads the states of one graph, in place; a graph without effects stays as it is."""
    threads = _Threads(graph)
    for op in list(graph.block.ops):
        if isinstance(op, ReadStateOp):
            replace(op, [threads.value(op.state_name, op.result.type, op.result.name_hint)])
        elif isinstance(op, WriteStateOp):
            threads.values[op.state_name] = op.value
            threads.written.setdefault(op.state_name)
            Rewriter.erase_op(op)
    threads.finish()


@dataclass
class _Threads:
    """What each state holds at the operation that is looked at."""

    graph: GraphOp
    entries: dict[str, SSAValue] = field(init=False)
    values: dict[str, SSAValue] = field(init=False)
    written: dict[str, None] = field(init=False)

    def __post_init__(self) -> None:
        self.entries = dict(self.graph.named_states)
        self.values = {**self.entries, **dict(self.graph.named_written)}
        self.written = dict.fromkeys(self.graph.written_names)

    def value(self, name: str, type: Attribute, hint: str | None) -> SSAValue:
        """What a state holds; an argument of the graph where nothing has written it."""
        if name not in self.values:
            block = self.graph.block
            argument = block.insert_arg(type, len(block.args))
            argument.name_hint = hint
            self.values[name] = self.entries[name] = argument
        return self.values[name]

    def finish(self) -> None:
        """Writes names and results into the graph."""
        graph, before = self.graph, self.graph.return_op
        left = [name for name in self.written if self.values[name] is not self.entries.get(name)]
        results = list(before.operands[: len(graph.result_names)])
        final = ReturnOp([*results, *(self.values[name] for name in left)])
        final.location = before.location
        Rewriter.erase_op(before)
        graph.block.add_op(final)
        for key, names in (("states", list(self.entries)), ("written", left)):
            graph.properties.pop(key, None)
            if names:
                graph.properties[key] = ArrayAttr([StringAttr(name) for name in names])
