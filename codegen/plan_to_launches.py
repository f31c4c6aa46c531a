"""From the `plan` dialect to plain data.

In: a `plan.program`. Out: a `LaunchPlan`, which the runtime takes together with the signatures of
the kernels that it launches.
"""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.codegen.launch_plan import (
    BufferKind,
    BufferPlan,
    CopyStep,
    LaunchPlan,
    LaunchStep,
    OutputPlan,
)
from mgn.diagnostics import WrongType
from mgn.dialects import plan
from mgn.dialects.mgn.structure import array_of
from mgn.dialects.plan import buffers as plan_buffers
from mgn.dialects.plan import states as plan_states
from mgn.dialects.plan import steps as plan_steps
from mgn.dialects.plan.resident import ResidentOp
from mgn.dialects.types import element_of


def launch_plan(program: plan.ProgramOp) -> LaunchPlan:
    """The launch plan of a verified program."""
    buffers: list[BufferPlan] = []
    steps: list[LaunchStep | CopyStep] = []
    prepare: list[LaunchStep] = []
    outputs: list[OutputPlan] = []
    numbers: dict[SSAValue, int] = {}
    for op in program.body.block.ops:
        match op:
            case plan_steps.LaunchOp():
                steps.append(_launch(op, numbers))
            case ResidentOp():
                steps.append(LaunchStep(op.sym_name.data, _numbers(op.arguments, numbers)))
            case plan_steps.PrepareOp():
                prepare.append(_launch(op, numbers))
            case plan_steps.CopyOp():
                steps.append(CopyStep(numbers[op.source], numbers[op.target]))
            case plan_steps.OutputOp():
                element, shape = _tensor(op.tensor)
                outputs.append(OutputPlan(op.label.data, numbers[op.source], element, shape))
            case plan_states.NextOp():
                numbers[op.result] = numbers[op.state]
            case _:
                numbers[op.results[0]] = len(buffers)
                buffers.append(_buffer(op, len(buffers)))
    return LaunchPlan(
        name=program.sym_name.data,
        arena=program.arena_bytes,
        buffers=tuple(buffers),
        steps=tuple(steps),
        outputs=tuple(outputs),
        tensor_bytes=program.statistic("tensor_bytes") or 0,
        lower_bound=program.statistic("lower_bound") or 0,
        prepare=tuple(prepare),
        budget=program.statistic("budget") or 0,
    )


def _launch(op: plan_steps.KernelCallOp, numbers: dict[SSAValue, int]) -> LaunchStep:
    return LaunchStep(op.kernel_name, _numbers(op.arguments, numbers))


def _numbers(values: Sequence[SSAValue], numbers: dict[SSAValue, int]) -> tuple[int, ...]:
    return tuple(numbers[value] for value in values)


def _buffer(op: Operation, number: int) -> BufferPlan:
    hint = f"%{op.results[0].name_hint or number}"
    match op:
        case plan_buffers.InputOp():
            return BufferPlan(BufferKind.INPUT, op.label.data, *_tensor(op.tensor))
        case plan_buffers.ParamOp():
            return BufferPlan(BufferKind.PARAM, op.external_name, *_tensor(op.tensor))
        case plan_states.StateOp():
            return BufferPlan(BufferKind.STATE, op.external_name, *_tensor(op.tensor))
        case plan_buffers.ConstantOp():
            value = array_of(op.value)
            return BufferPlan(BufferKind.CONSTANT, hint, *_tensor(op.value.type), value=value)
        case plan_buffers.ViewOp():
            type = op.result.type
            element = element_of(type.element_type).name
            return BufferPlan(BufferKind.VIEW, hint, element, type.get_shape(), op.start)
        case plan_buffers.DerivedOp():
            type = op.result.type
            element = element_of(type.element_type).name
            return BufferPlan(BufferKind.DERIVED, hint, element, type.get_shape())
        case _:
            raise WrongType(f"{op.name} is no buffer")


def _tensor(type: Attribute) -> tuple[str, tuple[int, ...]]:
    return element_of(type).name, cast(TensorType[Attribute], type).get_shape()
