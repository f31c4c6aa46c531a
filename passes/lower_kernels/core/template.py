"""What every template shares: its input, its result, and the sizes of its launch.

In: a `Body` with its schedule. Out: operations in a `Code`, and a `Launch`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.passes.kernels.body import Body, Indices, Node
from mgn.passes.kernels.index import linear
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import EarlyReads, Evaluator, Given
from mgn.passes.schedules.core.schedule import VARIANT

Variant = TypeVar("Variant", bound=StrEnum)


class Said(dict[str, Any]):
    """The entries of a schedule. VerifyException for an entry that a template needs and lacks."""

    def __missing__(self, name: str) -> Any:
        raise VerifyException(f"fusion.kernel: the schedule says no '{name}'")


@dataclass(frozen=True)
class Launch:
    """How many work-items run, in groups of how many; which arguments may share memory; and which
    results start as an argument, since the kernel writes a part of them.
    """

    global_size: tuple[int, ...]
    local_size: tuple[int, ...] = (1,)
    in_place: tuple[tuple[int, int], ...] = ()
    starts_as: tuple[tuple[int, int], ...] = ()


@dataclass
class Job:
    """One kernel to write: its body, its buffers, and the numbers its schedule fixes.

    `given` are nodes whose value the template has computed already, for all its evaluators.
    """

    body: Body
    code: Code
    inputs: Sequence[SSAValue]
    outputs: Sequence[SSAValue]
    schedule: Mapping[str, Any] = field(default_factory=dict[str, Any])
    given: dict[Node, Given] = field(default_factory=dict[Node, Given])

    def evaluator(self, lanes: int = 1) -> Evaluator:
        """An evaluator over the kernel's inputs."""
        evaluator = Evaluator(self.code, self.inputs, lanes)
        evaluator.given.update(self.given)
        return evaluator

    @property
    def is_gpu(self) -> bool:
        return self.schedule.get("form") == "gpu"

    def variant(self, variants: type[Variant]) -> Variant:
        """The variant of the template that the schedule says. VerifyException where it is none."""
        word = str(self.schedule.get(VARIANT, ""))
        if word not in {str(variant) for variant in variants}:
            known = ", ".join(f"'{variant}'" for variant in variants)
            raise VerifyException(f"fusion.kernel: the schedule's variant is '{word}', not {known}")
        return variants(word)

    def entry(self, name: str) -> int:
        """A number that the schedule of such a variant has."""
        return int(self.schedule[name])

    def number(self, name: str, default: int) -> int:
        """An entry of the schedule."""
        return int(self.schedule.get(name, default))

    def read_ahead(
        self, evaluator: Evaluator, unknown: Node, index_of: Callable[[Node], Indices]
    ) -> None:
        """Reads what the results need besides a value that is not known yet."""
        reads = EarlyReads(evaluator, self.body, unknown)
        for node in self.body.written:
            reads.visit(node, index_of(node))

    def write_at(
        self,
        evaluator: Evaluator,
        index_of: Callable[[Node], Indices],
        which: Callable[[Node], bool] = lambda _: True,
    ) -> None:
        """Evaluates and stores the results, or some of them, each at its index."""
        results = enumerate(self.body.written)
        self.write(evaluator, [(n, node, index_of(node)) for n, node in results if which(node)])

    def write(self, evaluator: Evaluator, written: Sequence[tuple[int, Node, Indices]]) -> None:
        """Evaluates results at an index each, then stores all: no store comes before a load."""
        values = [evaluator.lanes_at(node, index) for _, node, index in written]
        for value, (number, node, index) in zip(values, written, strict=True):
            place = linear(index, node.shape)
            if evaluator.lanes > 1:
                place = place.at_lane(0)
            self.code.store(value, self.outputs[number], self.code.index(place), place.multiple)
