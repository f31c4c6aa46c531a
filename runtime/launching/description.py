"""What a planned graph takes and gives, as types and on a line.

In: a plan, and a device's name. Out: types by name; `mlp(x: f32[2, 3]) -> (y: f32[2]), 1 launch …`.
"""

from collections.abc import Sequence
from typing import Protocol

from mgn.codegen.launch_plan import BufferKind, LaunchPlan
from mgn.diagnostics import MOST_SAID, WrongType, one_line
from mgn.dialects.checks import is_check
from mgn.runtime.devices import ComputeDevice
from mgn.runtime.host_arrays import ArrayType


class PlanOnDevice(Protocol):
    """A plan, and the device that it runs on."""

    @property
    def plan(self) -> LaunchPlan: ...
    @property
    def device(self) -> ComputeDevice: ...


class Described:
    """An executable that says what its plan takes and gives."""

    @property
    def inputs(self: PlanOnDevice) -> dict[str, ArrayType]:
        """What a run takes: name to type (`element`, `shape`, `dtype`), in the graph's order."""
        return input_types(self.plan)

    @property
    def outputs(self: PlanOnDevice) -> dict[str, ArrayType]:
        """What a run gives: name to type, in the graph's order."""
        return output_types(self.plan)

    def __repr__(self: PlanOnDevice) -> str:
        return f"{type(self).__name__}({described(self.plan, self.device.name)})"


def input_types(plan: LaunchPlan) -> dict[str, ArrayType]:
    """The inputs by name, in the order of the graph."""
    items = [item for _, item in plan.of_kind(BufferKind.INPUT)]
    return {item.name: ArrayType(item.element, item.shape) for item in items}


def output_types(plan: LaunchPlan) -> dict[str, ArrayType]:
    """The results by name, in the order of the graph."""
    items = [item for item in plan.outputs if not is_check(item.name)]
    return {item.name: ArrayType(item.element, item.shape) for item in items}


def described(plan: LaunchPlan, device: str) -> str:
    """The graph's signature, its launches and the device, on a line."""
    given = ", ".join(f"{name}: {type}" for name, type in input_types(plan).items())
    made = ", ".join(f"{name}: {type}" for name, type in output_types(plan).items())
    launches = len(plan.launches)
    said = f"{launches} launch{'' if launches == 1 else 'es'} on {device}"
    return one_line(f"{plan.name}({given}) -> ({made}), {said}", MOST_SAID)


def check_all_named(unnamed: Sequence[object], plan: LaunchPlan) -> None:
    """WrongType where arrays are handed over without the names of their inputs."""
    if unnamed:
        named = ", ".join(f"{name}=…" for name in input_types(plan))
        raise WrongType(one_line(f"give the inputs of {plan.name} by name: ({named})", MOST_SAID))
