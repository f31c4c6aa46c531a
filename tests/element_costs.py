"""What functions cost a CPU, measured: `python -m tests.element_costs [name …]`.

In: names of elementwise operations of one float; those of all functions where there are none. Out:
the multiply-adds in whose time the device computes one element, beside those of `ELEMENT_COST`. A
sum of the operation at some multiples of its operand is timed against the sum of those multiples,
and both in turns with `tanh`, whose row gives the unit. The rows were measured in chains, one
element after another: what the divider of a core does (`sqrt`, `rsqrt`) gains less beside others
than a function does, and so is up to three times its row here.
"""

import math
import sys
from collections.abc import Sequence
from functools import cache

import numpy as np

import mgn
from mgn.dialects.mgn import OPERATIONS
from mgn.dialects.mgn.element_cost import ELEMENT_COST
from mgn.dialects.mgn.operation import FLOATS, Kind
from mgn.executable import Executable
from mgn.passes.saturate import RuleClass, SaturateOptions
from tests.support.ulps import FUNCTION_ULPS

UNIT = "tanh"
"""The operation whose row is taken as it stands."""

FUNCTIONS = tuple(
    name
    for name, spec in OPERATIONS.items()
    if spec.kind is Kind.ELEMENTWISE
    and spec.is_core
    and len(spec.signature) == 1
    and spec.operands[0].accepts == FLOATS
    and name in FUNCTION_ULPS
)
"""The core operations of one float for which OpenCL has a function; of what is cheaper, memory and
additions take most of a run.
"""

ELEMENTS, TERMS, TURNS = 1 << 16, 12, 15


def measured(names: Sequence[str]) -> dict[str, float]:
    """The multiply-adds in whose time a CPU computes an element of each operation."""
    plain, *functions = [_sum_of(name) for name in ("", UNIT, *names)]
    best = [math.inf] * (len(functions) + 1)
    for _ in range(TURNS):
        for number, executable in enumerate((plain, *functions)):
            best[number] = min(best[number], _seconds(executable))
    unit, *others = (seconds - best[0] for seconds in best[1:])
    factor = ELEMENT_COST[UNIT].cpu / unit
    return {name: seconds * factor for name, seconds in zip(names, others, strict=True)}


@cache
def _sum_of(name: str) -> Executable:
    """The sum of an operation at multiples of x, which are between 0.2 and 0.9."""
    terms = [f"{name}(x * {0.4 + 0.5 * number / TERMS:.4f})" for number in range(TERMS)]
    text = f"graph g(x: f32[{ELEMENTS}]) {{ return y = {' + '.join(terms)} }}"
    exact = SaturateOptions(classes=frozenset({RuleClass.EXACT}))
    executable = mgn.compile(mgn.parse(text), device="cpu", saturation=exact)
    executable(x=np.random.default_rng(0).uniform(0.5, 1.0, ELEMENTS).astype(np.float32))
    return executable


def _seconds(executable: Executable) -> float:
    return sum(launch.seconds for launch in executable.replay(profile=True))


def main(names: Sequence[str]) -> None:
    """Prints a line for each operation."""
    for name, cost in measured(names or FUNCTIONS).items():
        print(f"{name:12} {cost:6.1f}   {ELEMENT_COST[name].cpu:6.1f} in ELEMENT_COST")


if __name__ == "__main__":
    main(sys.argv[1:])
