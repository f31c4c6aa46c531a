"""Finds the operation from which the first NaN or infinity of a step came.

In: a trainer, with the batch and the state that a step began with. Out: nothing, or an error at the
place of the operation in the program:

    net.mgn:14:10: error: step 31: 'loss' is nan. 'log' makes the first infinity of finite …
      return log(p)
             ^

The step is computed again by the reference interpreter, operation by operation, in the program's
order.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mgn.diagnostics import Diagnostic, DiagnosticsError
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.steps import Step
from mgn.dialects.mgn.structure import ConstantOp, graphs_of
from mgn.dialects.places import text_place
from mgn.distributed.crew import crew_of
from mgn.training.step.loss_scale import NORM, SKIPPED

Array = np.ndarray

_NOTHING = (
    "The reference interpreter finds all values of this step finite: they leave the range in the "
    "precision or the order in which the kernels compute them"
)


class StepByStep(Protocol):
    """What is needed of a trainer."""

    @property
    def steps(self) -> int:
        """How many steps were done."""
        ...

    @property
    def pending(self) -> int:
        """How many batches there were of a step that is not complete."""
        ...

    @property
    def step_modules(self) -> tuple[ModuleOp, ...]:
        """The graphs of a step in their order, whose parameters and optimiser are states or
        parameters. But for the first, they have no inputs.
        """
        ...

    @property
    def texts(self) -> Mapping[str, str]:
        """The program's files by the names that places have."""
        ...

    def state(self) -> dict[str, Array]:
        """All that the next step depends on."""
        ...


class FiniteCheck:
    """Looks at each step of a trainer."""

    def __init__(self, trainer: StepByStep) -> None:
        self.trainer = trainer
        self._batch: Mapping[str, Array] = {}
        self._state: dict[str, Array] = {}

    def before(self, batch: Mapping[str, Array]) -> None:
        """Keeps what a step begins with."""
        self._batch = batch
        self._state = self.trainer.state()

    def after(self, results: Mapping[str, Array]) -> None:
        """DiagnosticsError where a result or the state behind a step is not finite. The norm of the
        gradients need not be where the step was skipped for that. Of several ranks, all raise that
        of the first one whose share of the batch has made it.
        """
        if results.get(SKIPPED):
            results = {name: value for name, value in results.items() if name != NORM}
        crew = crew_of(self.trainer)
        faults = crew.exchange("a check", fault_among(results) or fault_among(self.trainer.state()))
        fault = next((item for item in faults if item is not None), None)
        if fault is None:
            return
        message, operation = self._given() or self._first()
        number = self.trainer.steps + bool(self.trainer.pending)
        found = crew.exchange(
            "what was not finite",
            (
                message is not _NOTHING,
                self._placed(f"step {number}: {fault}. {message}", operation),
            ),
        )
        raise DiagnosticsError([max(found, key=lambda item: item[0])[1]])

    def _given(self) -> tuple[str, Operation | None] | None:
        """What was not finite before the step."""
        for what, arrays in (("input", self._batch), ("before the step,", self._state)):
            fault = fault_among(arrays)
            if fault is not None:
                return f"{what} {fault}", None
        return None

    def _first(self) -> tuple[str, Operation | None]:
        """The first operation of the step that makes what is not finite of what is."""
        state, batch = self._state, self._batch
        for module in self.trainer.step_modules:
            (graph,) = graphs_of(module)
            watcher = Watcher(state)
            watcher.run(graph, batch)
            if watcher.found is not None:
                return watcher.said, watcher.found
            state, batch = {**state, **watcher.states}, {}
        return _NOTHING, None

    def _placed(self, message: str, operation: Operation | None) -> Diagnostic:
        """A message at an operation's place, where that is known."""
        texts = self.trainer.texts
        location = None if operation is None else text_place(operation.location)
        if location is None or not location.line.data:
            return Diagnostic(message, file=next(iter(texts), "<graph>"))
        file, line = location.filename.data, location.line.data
        lines = texts.get(file, "").split("\n")
        held = lines[line - 1] if line <= len(lines) else None
        return Diagnostic(message, file, line, location.column.data, held)


class FiniteGuard:
    """Says of a state whether it is one to keep. What was not finite when a run began may stay so:
    a mask of -inf, say. Without a beginning, nothing is a fault.
    """

    def __init__(self, trainer: StepByStep) -> None:
        self.trainer = trainer
        self._looked_at: set[str] = set()

    def begin(self) -> None:
        """Takes the state as it is for one to keep."""
        state = self.trainer.state()
        self._looked_at = {name for name, value in state.items() if not count_of(value)}

    def fault(self, state: Mapping[str, Array]) -> str | None:
        """Which array is no longer finite; None where there is none."""
        return fault_among({name: state[name] for name in state if name in self._looked_at})


class Watcher(Interpreter):
    """An interpreter that notes the first operation of a graph that makes what is not finite."""

    def __init__(self, state: Mapping[str, Array]) -> None:
        super().__init__(state, states=state)
        self.found: Operation | None = None
        self.said = ""
        self._depth = 0

    def _results(self, step: Step, operands: Sequence[Array]) -> list[Array]:
        op = step.op
        self._depth += 1
        try:
            results = super()._results(step, operands)
        finally:
            self._depth -= 1
        is_new = self.found is None and not self._depth and not isinstance(op, ConstantOp)
        if is_new and all(count_of(item) == 0 for item in operands):
            for item in results:
                if count_of(item):
                    self.found, self.said = op, _said(op, item)
                    break
        return results


def _said(op: Operation, array: Array) -> str:
    """What an operation has made."""
    kind = "NaN" if np.isnan(array).any() else "infinity"
    name = op.name.removeprefix("mgn.")
    return (
        f"'{name}' makes the first {kind} of finite numbers: "
        f"{count_of(array)} of {array.size} values"
    )


def fault_among(arrays: Mapping[str, Any]) -> str | None:
    """Which array is not finite, and how; None where all are."""
    for name, value in arrays.items():
        array = np.asarray(value)
        count = count_of(array)
        if count and array.ndim == 0:
            return f"'{name}' is {float(array)}"
        if count:
            return f"'{name}' is not finite in {count} of {array.size} values"
    return None


def count_of(array: Array) -> int:
    """How many values are NaN or infinite; none of those that are no floats."""
    array = np.asarray(array)
    if array.dtype.kind in "biu" or not array.size:
        return 0
    return int(array.size - np.count_nonzero(np.isfinite(array)))
