"""A graph that is there already, to which more is added.

In: a module of one graph. Out: a `GraphBuilder` in which the graph's block is open again: values
are added behind those that are there, outputs to its outputs, states to its states. An
`AddedGraph` begins with nothing.
"""

from typing import Any

from xdsl.dialects.builtin import LocationAttr, ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from mgn import ops
from mgn.builder import GraphBuilder, State, Value
from mgn.diagnostics import MgnError
from mgn.dialects.mgn.build import RANDOM_STATE, Draws, Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.states import ReadStateOp, StateOp, WriteStateOp, states_of
from mgn.dialects.mgn.structure import ParamOp, ReadOp, graphs_of, parameters_of
from mgn.dialects.places import UPDATE, in_phase
from mgn.dialects.types import element_of


class AddedGraph(GraphBuilder):
    """A graph that training makes; all that is added to it is at one place of the program."""

    def __init__(self, name: str, place: LocationAttr) -> None:
        super().__init__(name)
        self.place = place
        self._own: list[Operation] = []

    @property
    def writes_states(self) -> bool:
        """Whether a state was written so far, besides that of random numbers."""
        return bool(self._written())

    def write_where(self, condition: Value) -> None:
        """Leaves the states that were written so far as the run found them, but where a condition
        is true. Random numbers go on.
        """
        for name in self._written():
            type = self._states[name].type
            found = ReadStateOp(name, type)
            first = self._block.first_op
            assert first is not None, "a write is an operation"
            self._block.insert_op_before(found, first)
            state = State(self, name, type)
            state.write(ops.where(condition, state.value, Value(self, found.result)))

    def _written(self) -> list[str]:
        writes = [op for op in self._block.ops if isinstance(op, WriteStateOp)]
        names = dict.fromkeys(op.state_name for op in writes)
        return [name for name in names if name != RANDOM_STATE]

    def _finish(self) -> None:
        known, place = set(self._own), in_phase(self.place, UPDATE)
        for op in self._block.ops:
            if op not in known:
                op.location = place
        super()._finish()


class ExtendedGraph(AddedGraph):
    """The one graph of a module, which is used up. `with` finishes it again: `.module`.

    What is added stands at the place of the graph's end, so that a program is the same wherever
    it is extended from.
    """

    def __init__(self, module: ModuleOp) -> None:
        (graph,) = graphs_of(module)
        super().__init__(graph.sym_name.data, graph.location)
        self._ending = graph.return_op
        self._ending.detach()
        self._results = graph.result_names
        self._block = _moved(graph.block)
        self._emitter = Emitter(self._block.add_op)
        self._emitter.draws = self._draws = Draws()
        self._inputs = graph.input_names
        self._parameters = {name: (op, None) for name, op in parameters_of(module).items()}
        self._states = {name: op for name, op in states_of(module).items() if name != RANDOM_STATE}
        for op in (*parameters_of(module).values(), *states_of(module).values()):
            op.detach()
        self._draw_on()
        self._own = list(self._block.ops)

    def _draw_on(self) -> None:
        """Random numbers go on behind those of the graph, and are counted at its new end."""
        for op in list(self._block.ops):
            if isinstance(op, TensorOp) and "site" in op.values:
                self._draws.sites = max(self._draws.sites, op.values["site"] + 1)
            elif isinstance(op, WriteStateOp) and op.state_name == RANDOM_STATE:
                Rewriter.erase_op(op)

    @property
    def outputs(self) -> dict[str, Value]:
        """The outputs that the graph had, by name."""
        named = zip(self._results, self._ending.operands, strict=True)
        return {name: Value(self, value) for name, value in named}

    @property
    def operations(self) -> list[Operation]:
        """What there is so far, in order."""
        return list(self._block.ops)

    @property
    def parameters(self) -> dict[str, ParamOp]:
        """The parameters by external name."""
        return {name: op for name, (op, _) in self._parameters.items()}

    def hold(self, name: str, state: str | None = None, type: TensorType | None = None) -> ParamOp:
        """Makes a state of a parameter, with its name or another, and its type or another, from
        which it is cast. MgnError where there is a state of that name.
        """
        declared, _ = self._parameters.pop(name)
        held = name if state is None else state
        if held in self._states:
            raise MgnError(f"a parameter and a state are named '{held}'; give one another name")
        kept = declared.type if type is None else type
        self._states[held] = StateOp(held, kept, declared.initialiser)
        for op in list(self._block.ops):
            if isinstance(op, ReadOp) and op.parameter_name == name:
                read = ReadStateOp(held, kept)
                read.location, read.result.name_hint = op.location, op.result.name_hint
                self._block.insert_op_before(read, op)
                inner = Emitter(lambda new, before=op: self._block.insert_op_before(new, before))
                inner.location = op.location
                element = element_of(declared.type).name
                value = read.result if kept == declared.type else inner.cast(read.result, T=element)
                Rewriter.replace_op(op, [], [value])
        return declared

    def drop_writes(self) -> None:
        """Lets a run leave all states as they are, that of random numbers too."""
        for op in list(self._block.ops):
            if isinstance(op, WriteStateOp):
                Rewriter.erase_op(op)

    def draw_dropouts(self) -> None:
        """Has each `dropout` drop: other elements in each run."""
        for op in list(self._block.ops):
            if isinstance(op, TensorOp) and op.spec.name == "dropout" and op.values["p"] > 0.0:
                inner = Emitter(lambda new, before=op: self._block.insert_op_before(new, before))
                inner.location, inner.draws = op.location, self._draws
                Rewriter.replace_op(op, [], [_dropped(inner, op.operands[0], op.values["p"])])

    def output(self, **values: Any) -> None:
        """Results beside those that the graph had. MgnError where it has one of the name."""
        for name in values:
            if name in self._results:
                raise MgnError(f"graph '{self.name}' has an output '{name}' of its own; rename it")
        super().output(**values)

    def _finish(self) -> None:
        held = {name: value.value for name, value in self.outputs.items()}
        self._outputs = {**held, **self._outputs}
        self._ending.erase()
        super()._finish()


def _moved(block: Block) -> Block:
    """A block without a region, with what a block holds."""
    region = block.parent_region()
    assert region is not None
    region.detach_block(block)
    return block


def _dropped(b: Emitter, x: SSAValue, p: float) -> SSAValue:
    """A value of which a share is zero, and the others are larger by as much (Srivastava et al.
    2014).
    """
    if p == 1.0:
        return b.full(shape_of(x), 0.0, T=element_type_of(x))
    kept = b.ge(b.uniform(shape_of(x)), p)
    return b.where(kept, b.mul(x, 1.0 / (1.0 - p)), 0.0)
