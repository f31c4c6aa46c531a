"""A plan's launches, checked against their kernels, and the parts in which a run does its steps.

In: a `LaunchPlan` and the signatures of its kernels. Out: RuntimeFaults, and three lists of steps.
"""

from collections.abc import Mapping, Sequence

from mgn.codegen.launch_plan import LaunchPlan
from mgn.codegen.signature import KernelSignature
from mgn.runtime.errors import RuntimeFault
from mgn.runtime.launching.launches import Copy, Launch
from mgn.runtime.memory import buffer_bytes


def phases(
    plan: LaunchPlan,
    accesses: Mapping[str, Sequence[str]],
    steps: Sequence[Launch | Copy],
    checks: Sequence[int],
) -> tuple[Sequence[Launch | Copy], ...]:
    """The steps of a run: those before checks are looked at, those up to the results, and those
    that write states last. Checks wait for the results, unless a state is written in between.
    """
    last = plan.commits(accesses)
    checked = plan.written_up_to(accesses, checks) if checks else last
    written = min(plan.written_states(accesses).values(), default=last)
    middle = checked if checked <= written < last else last
    return steps[:middle], steps[middle:last], steps[last:]


def check_launches(plan: LaunchPlan, kernels: Mapping[str, KernelSignature]) -> None:
    """Every launch must name a kernel and give it buffers of the sizes that it wants."""
    for step in (*plan.prepare, *plan.launches):
        signature = kernels.get(step.kernel)
        if signature is None:
            raise RuntimeFault(f"'{plan.name}' launches '{step.kernel}', which was not given")
        if len(step.arguments) != len(signature.arguments):
            raise RuntimeFault(
                f"'{step.kernel}' takes {len(signature.arguments)} buffers, "
                f"not {len(step.arguments)}"
            )
        for number, wanted in zip(step.arguments, signature.arguments, strict=True):
            given = buffer_bytes(plan.buffers[number])
            if given != wanted.bytes:
                raise RuntimeFault(
                    f"'{step.kernel}' wants {wanted.bytes} bytes where "
                    f"{plan.buffers[number].name} has {given}"
                )
