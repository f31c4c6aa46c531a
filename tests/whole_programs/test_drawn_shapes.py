"""Every operation on 20 drawn cases: odd sizes, axes of 1 and 0, axes that count from the back.

The interpreter and the device, on both targets, give what `tests.fuzz.bounds` allows: what comes of
the arithmetic in f64 and of its roundings. All cases of an operation are one program. What is built
of SPIR-V is not optimised by the driver, which optimises the same kernels in OpenCL C, but for
those of elementwise operations: it optimises each row of them in `tests/codegen`. Operations whose
own tests draw as many are not here.
"""

import random

import pytest

from mgn.dialects.mgn.operation import OPERATIONS as REGISTERED
from mgn.dialects.mgn.operation import Kind
from tests.conftest import targets_of_the_device
from tests.dialects.spatial_cases import SPATIAL
from tests.fuzz import trial
from tests.fuzz.device import Runner
from tests.fuzz.draw import REFUSALS, Draw
from tests.fuzz.makers import MAKERS
from tests.fuzz.program import Program
from tests.fuzz.trial import Trials
from tests.fuzz.variants import Variant
from tests.support.opencl_fixture import UNOPTIMISED
from tests.whole_programs.test_written_and_ordered import MAKERS as WRITTEN_AND_ORDERED

CASES = 20
SIZES = (30, 300, 3000)
"""The most elements of what is given."""

OWN_TESTS = {*SPATIAL, *WRITTEN_AND_ORDERED, "uniform", "normal"}
OPERATIONS = sorted(name for name in {*MAKERS} - OWN_TESTS if not name.startswith("attention_"))


def drawn(name: str) -> list[Program]:
    """Programs of one call of an operation each, and of what keeps its operands in its domain."""
    rng, found = random.Random(name), list[Program]()
    for _ in range(10 * CASES):
        draw = Draw(rng, "tame", SIZES[len(found) % len(SIZES)], empty=0.08)
        try:
            MAKERS[name](draw)
        except REFUSALS:
            continue
        found.append(draw.program())
        if len(found) == CASES:
            break
    assert len(found) == CASES and all(name in program.names for program in found)
    return found


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_of_any_shape_gives_what_its_arithmetic_allows(
    name: str, device_runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "ALONE", 0.0)
    monkeypatch.setattr(trial, "TEXTS", 0.0)
    monkeypatch.setattr(device_runner, "spirv_options", [UNOPTIMISED])
    if REGISTERED[name].kind is Kind.ELEMENTWISE:
        monkeypatch.setattr(device_runner, "opencl_options", [UNOPTIMISED])
    programs = [(f"{name}:{number}", program) for number, program in enumerate(drawn(name))]
    variants = [Variant(target=target) for target in targets_of_the_device()]
    trials = Trials(device_runner, modules=0)
    findings = trials.batch(programs, variants=variants)
    assert [(item.seed, item.where, item.what) for item in findings] == []
    assert trials.counts.programs == CASES and trials.counts.runs == len(variants)
