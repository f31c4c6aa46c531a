"""What the loop of a run needs of a trainer, and what it tells those who watch.

In: nothing. Out: the protocol `Trainee`, which `mgn.Trainer` is, and `Event` for callbacks.
"""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from mgn.training.data.batches import InputTypes
from mgn.training.data.shards import Division
from mgn.training.run.history import History
from mgn.training.step.evaluation import BoundGraph
from mgn.training.step.finite import StepByStep


class Trainee(StepByStep, Protocol):
    """What the loop needs of a trainer."""

    loss: str
    seed: int
    accumulate: int
    """How many batches a step has."""

    @property
    def inputs(self) -> InputTypes:
        """The inputs of the graph: element and shape by name."""
        ...

    @property
    def evaluates(self) -> BoundGraph:
        """The graph of evaluations."""
        ...

    @property
    def division(self) -> Division | None:
        """Which rows of a batch are this rank's, where several ranks share it out."""
        ...

    @property
    def configuration(self) -> Mapping[str, Any]:
        """What the steps depend on, in a form that JSON has."""
        ...

    @property
    def params(self) -> MutableMapping[str, np.ndarray]:
        """The parameters by external name."""
        ...

    @property
    def state_types(self) -> Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """The type of each array of the state."""
        ...

    def step(self, batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """A step, or a batch of it; the graph's results."""
        ...

    def run_eval(self, batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The results of the graph of evaluations, and nothing changes."""
        ...

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes the place of the state."""
        ...


class StopTraining(Exception):
    """Raised by a callback to end a run; its text says why."""


class Interruption(StopTraining):
    """The same for a run that is to end soon: it is saved, and what else is due is left to the run
    that is resumed.
    """


@dataclass(frozen=True)
class Event:
    """What a callback is told: a step or an evaluation was done, or a checkpoint written; a `batch`
    is one that does not complete its step.
    """

    kind: Literal["step", "batch", "evaluation", "checkpoint"]
    step: int
    epoch: int
    values: Mapping[str, float]
    trainer: Any
    history: History


Callback = Callable[[Event], object]
