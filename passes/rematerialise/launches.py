"""The launches of a graph as a problem, and a plan of it as the graph's launches.

In: a graph of launches, and what its kernels may write in place. Out: a `Problem`, whose values are
those results of launches that lie in the arena; and the graph with its launches in the order of a
plan, some of them twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from mgn.dialects.checks import is_check
from mgn.dialects.fusion import LaunchOp
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.arena import aligned
from mgn.passes.liveness import Pairs, tensor_bytes
from mgn.passes.plan_memory import AGAIN
from mgn.passes.rematerialise.tasks import Copy, Plan, Problem, Task


@dataclass(frozen=True)
class Launches:
    """What runs in each run of a graph: its launches, what their kernels may do, what they take,
    and which results lie in states.
    """

    graph: GraphOp
    launches: Sequence[LaunchOp]
    in_place: Pairs
    starting: Pairs
    in_states: Mapping[SSAValue, str]
    kept: Sequence[SSAValue]
    seconds: Mapping[str, float]
    alignment: int

    @property
    def values(self) -> list[SSAValue]:
        """The results that lie in the arena."""
        made = [item for launch in self.launches for item in launch.outputs]
        return [item for item in made if item not in self.in_states]

    def problem(self, early: bool) -> Problem:
        """The launches as tasks; `early` says that states may be written before all else is done,
        but not before the checks of the run.
        """
        number = {item: index for index, item in enumerate(self.values)}
        tasks = [self._task(launch, number) for launch in self.launches]
        for index, later in self._overwritten().items():
            tasks[index] = replace(tasks[index], ahead_of=frozenset(later))
        for index, behind in enumerate(self._behind(early)):
            commits = not early and self._commits(self.launches[index])
            tasks[index] = replace(tasks[index], behind=frozenset(behind), commits=commits)
        return Problem(
            tasks,
            [aligned(tensor_bytes(item), self.alignment) for item in self.values],
            frozenset(number[item] for item in self.kept if item in number),
            self.alignment,
            tuple(
                aligned(tensor_bytes(item), self.alignment)
                for item in dict.fromkeys(self.kept)
                if item not in number and item not in self.in_states
            ),
        )

    def _task(self, launch: LaunchOp, number: Mapping[SSAValue, int]) -> Task:
        name, inputs, outputs = launch.kernel_name, list(launch.inputs), list(launch.outputs)
        over: list[tuple[int, int]] = []
        for read, written in sorted(self.in_place.get(name, ())):
            position = written - len(inputs)
            if read >= len(inputs) or not 0 <= position < len(outputs):
                continue
            source, result = inputs[read], outputs[position]
            if source not in number or result not in number or inputs.count(source) > 1:
                continue
            if tensor_bytes(source) == tensor_bytes(result):
                over.append((number[source], number[result]))
        return Task(
            tuple(number[item] for item in inputs if item in number),
            tuple(number[item] for item in outputs if item in number),
            self.seconds.get(name, 0.0),
            tuple(over),
            again=not self.starting.get(name) and all(item in number for item in outputs),
        )

    def _overwritten(self) -> dict[int, set[int]]:
        """For each launch that reads what lies in a state, those that write the next value."""
        place = {launch: index for index, launch in enumerate(self.launches)}
        there: dict[str, SSAValue] = dict(self.graph.named_states)
        found: dict[int, set[int]] = {}
        for index, launch in enumerate(self.launches):
            for item in launch.outputs:
                name = self.in_states.get(item)
                if name is None:
                    continue
                before = there.get(name)
                for use in before.uses if before is not None else ():
                    reader = place.get(use.operation)  # type: ignore[call-overload]
                    if reader is not None and reader != index:
                        found.setdefault(reader, set()).add(index)
                there[name] = item
        return found

    def _behind(self, early: bool) -> list[set[int]]:
        """The launches that each launch runs behind, besides the makers of its operands in the
        arena. These are the makers of its operands in states. A launch that writes states also runs
        behind the launches that have to be done before, if they stand before it.
        """
        launches = self.launches
        maker: dict[SSAValue, int] = {
            item: index for index, launch in enumerate(launches) for item in launch.outputs
        }
        checks = [
            maker[item]
            for label, item in self.graph.named_results
            if is_check(label) and item in maker
        ]
        plain = [index for index, launch in enumerate(launches) if not self._writes(launch)]
        found: list[set[int]] = []
        for index, launch in enumerate(launches):
            held = {maker[item] for item in launch.inputs if item in self.in_states}
            if self._commits(launch):
                held.update(checks if early else plain)
            found.append({item for item in held if item < index})
        return found

    def _commits(self, launch: LaunchOp) -> bool:
        """Whether a launch writes a state that it does not write a part of."""
        return self._writes(launch) and not self.starting.get(launch.kernel_name)

    def _writes(self, launch: LaunchOp) -> bool:
        """Whether a launch writes a state, or a part of one."""
        return any(item in self.in_states for item in launch.outputs)


def write(
    graph: GraphOp, launches: Sequence[LaunchOp], values: Sequence[SSAValue], plan: Plan
) -> None:
    """Has a graph's launches run as a plan says; `values` are those of the problem, by number."""
    number = {item: index for index, item in enumerate(values)}
    copies: dict[Copy, SSAValue] = {}
    last = graph.return_op
    inputs = [list(launch.inputs) for launch in launches]
    for launch in launches:
        launch.detach()
    for run in plan.runs:
        launch, read = launches[run.task], dict(run.reads)
        operands = [
            copies[number[item], read[number[item]]] if item in number else item
            for item in inputs[run.task]
        ]
        if run.is_repeated:
            launch = _repeated(launch, operands)
        else:
            launch.operands = operands
        graph.block.insert_op_before(launch, last)
        made = [item for item in launch.outputs if run.is_repeated or item in number]
        copies.update(zip(run.writes, made, strict=True))
    for index, item in enumerate(last.operands):
        if item in number:
            last.operands[index] = copies[plan.kept[number[item]]]


def _repeated(launch: LaunchOp, operands: Sequence[SSAValue]) -> LaunchOp:
    """The same launch once more."""
    again = LaunchOp(launch.kernel_name, operands, [item.type for item in launch.outputs])
    again.location = launch.location
    again.attributes[AGAIN] = UnitAttr()
    for old, new in zip(launch.outputs, again.outputs, strict=True):
        new.name_hint = old.name_hint
    return again
