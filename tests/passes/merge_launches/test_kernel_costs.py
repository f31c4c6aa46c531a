"""What a stage costs besides its time: registers, and groups that wait for the longest one."""

import random
from dataclasses import replace

import pytest
from xdsl.parser import Parser

from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.kernel.function import FuncOp
from mgn.modules.dialect_table import make_context
from mgn.passes.merge_launches.prices import (
    BEGIN,
    ITEM_SECONDS,
    ROUND,
    UNEVEN,
    CoreCost,
    KernelCost,
    kernel_cost,
)
from mgn.passes.merge_launches.registers import words_in_use

HEAD = (
    "kernel.func @k(%in: memref<4096xf32>, %out: memref<4096xf32>) "
    "access [read, write] global [{all}, 1, 1] local [{items}, 1, 1] {{"
)


def kernel(body: str, items: int = 256, groups: int = 1) -> FuncOp:
    """A kernel of one input and one output."""
    text = "\n".join([HEAD.format(items=items, all=items * groups), body, "kernel.return", "}"])
    found = Parser(make_context(), text).parse_module().body.block.first_op
    assert isinstance(found, FuncOp)
    return found


def words(body: str) -> int:
    return words_in_use(kernel(body))


LOADED = """
  %c = arith.constant 8 : index
  %i = kernel.local_id 0
  %x = vector.load %in[%i] : memref<4096xf32>, vector<16xf32>
  %y = vector.load %in[%c] : memref<4096xf32>, vector<8xf32>
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", 0),
        # the place, 16 and 8 words; the constant takes none
        (
            LOADED
            + """vector.store %x, %out[%i] : memref<4096xf32>, vector<16xf32>
            vector.store %y, %out[%i] : memref<4096xf32>, vector<8xf32>""",
            1 + 16 + 8,
        ),
        # what is not read is there for a moment
        (LOADED + "vector.store %y, %out[%i] : memref<4096xf32>, vector<8xf32>", 1 + 16),
        # what a loop reads is held until it ends: 16 + 1, and the loop's counter and 8 words
        (
            LOADED.replace("%y", "%z")
            + """scf.for %n = %c to %i step %c {
              %y = vector.load %in[%n] : memref<4096xf32>, vector<8xf32>
              vector.store %y, %out[%n] : memref<4096xf32>, vector<8xf32>
              vector.store %x, %out[%i] : memref<4096xf32>, vector<16xf32>
            }""",
            16 + 1 + 1 + 8,
        ),
        # the branches are not there at the same time
        (
            """
            %i = kernel.local_id 0
            %b = arith.cmpi slt, %i, %i : index
            %r = scf.if %b -> (vector<8xf32>) {
              %x = vector.load %in[%i] : memref<4096xf32>, vector<8xf32>
              scf.yield %x : vector<8xf32>
            } else {
              %y = vector.load %in[%i] : memref<4096xf32>, vector<8xf32>
              scf.yield %y : vector<8xf32>
            }
            vector.store %r, %out[%i] : memref<4096xf32>, vector<8xf32>
            """,
            1 + 8,
        ),
        # two bytes each
        (
            """
            %i = kernel.local_id 0
            %x = vector.load %in[%i] : memref<4096xf32>, vector<16xf32>
            %h = arith.truncf %x : vector<16xf32> to vector<16xbf16>
            %y = vector.load %in[%i] : memref<4096xf32>, vector<16xf32>
            %w = arith.extf %h : vector<16xbf16> to vector<16xf32>
            %s = arith.addf %w, %y : vector<16xf32>
            vector.store %s, %out[%i] : memref<4096xf32>, vector<16xf32>
            """,
            1 + 16 + 16,
        ),
    ],
)
def test_words_are_the_most_in_use_at_a_time(body: str, expected: int) -> None:
    assert words(body) == expected


@pytest.mark.parametrize("seed", range(10))
def test_words_of_drawn_lines_are_those_counted_line_by_line(seed: int) -> None:
    draw = random.Random(seed)
    widths, lines, reads = [1], ["%v0 = kernel.local_id 0"], [set[int]()]
    for number in range(1, 30):
        sums = [n for n in range(1, number) if widths[n] > 1]
        if sums and draw.random() < 0.5:
            one = draw.choice(sums)
            other = draw.choice([n for n in sums if widths[n] == widths[one]])
            widths.append(widths[one])
            reads.append({one, other})
            kind = f"vector<{widths[one]}xf32>"
            lines.append(f"%v{number} = arith.addf %v{one}, %v{other} : {kind}")
        else:
            widths.append(draw.choice([2, 4, 8]))
            reads.append({0})
            kind = f"memref<4096xf32>, vector<{widths[-1]}xf32>"
            lines.append(f"%v{number} = vector.load %in[%v0] : {kind}")
    live = [
        sum(
            width
            for n, width in enumerate(widths)
            if n <= at and (n == at or any(n in read for read in reads[at + 1 :]))
        )
        for at in range(30)
    ]
    assert words("\n".join(lines)) == max(live)


@pytest.mark.parametrize(("items", "most"), [(64, 255), (256, 255), (512, 128), (1024, 64)])
def test_a_kernel_fits_a_group_of_its_own_size_and_no_larger_one_if_it_holds_much(
    items: int, most: int
) -> None:
    lines = [f"%v{n} = vector.load %in[%i] : memref<4096xf32>, vector<16xf32>" for n in range(30)]
    writes = [f"vector.store %v{n}, %out[%i] : memref<4096xf32>, vector<16xf32>" for n in range(30)]
    held = kernel("\n".join(["%i = kernel.local_id 0", *lines, *writes]), items)
    cost = kernel_cost(held, DEVICES["nvidia-h200"])
    assert isinstance(cost, KernelCost) and cost.registers == most
    assert cost.fits(max(items, 256)) and not cost.fits(2 * max(items, 256))


LOOP = """
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 16 : index
  %g = kernel.{place} 0
  %last = arith.addi %g, %one : index
  scf.for %n = %zero to {end} step %one {{
    %x = memref.load %in[%n] : memref<4096xf32>
    memref.store %x, %out[%n] : memref<4096xf32>
  }}
"""


@pytest.mark.parametrize(
    ("place", "end", "uneven"),
    [("group_id", "%last", True), ("group_id", "%end", False), ("local_id", "%last", False)],
)
def test_work_groups_are_uneven_where_a_loop_ends_by_the_group(
    place: str, end: str, uneven: bool
) -> None:
    device = DEVICES["nvidia-h200"]
    cost = kernel_cost(kernel(LOOP.format(place=place, end=end)), device)
    assert isinstance(cost, KernelCost) and cost.uneven is uneven


def test_uneven_groups_take_longer_as_a_stage_only_where_not_all_run_at_once() -> None:
    device = DEVICES["nvidia-h200"]

    def stage(groups: int, uneven: bool) -> float:
        return cost_of(groups, uneven=uneven).as_stage(256, 1, device)

    few, many = device.compute_units, device.compute_units + 1
    assert stage(few, True) == stage(few, False)
    longer = UNEVEN * (stage(many, False) - ITEM_SECONDS * 256)
    assert stage(many, True) == pytest.approx(stage(many, False) + longer)


def cost_of(groups: int, own: int = 256, uneven: bool = False, **figures: float) -> KernelCost:
    """A kernel that waits for 10 µs and computes for 5."""
    cost = KernelCost(10e-6, 5e-6, 0.0, groups, own, 64, 0, 0.0, uneven)
    return replace(cost, **figures)


def test_a_stage_takes_rounds_by_the_work_groups_that_it_has_room_for() -> None:
    """Of three groups on each unit, all run at once, or one after another."""
    device = DEVICES["nvidia-h200"]
    cost = cost_of(3 * device.compute_units, own=128, computing=0.0)
    items = ITEM_SECONDS * 384
    assert cost.as_stage(384, 3, device) == pytest.approx(10e-6 + items)
    assert cost.as_stage(384, 1, device) == pytest.approx(10e-6 * (1 + 2 * ROUND) + items)
    assert cost.alone(device) == pytest.approx(10e-6 + BEGIN)
    crowded = replace(cost, local=120 * 1024)
    assert crowded.alone(device) == pytest.approx(10e-6 * (1 + 2 * ROUND) + BEGIN)


def test_one_group_more_than_there_are_units_takes_two_turns_of_computing() -> None:
    device = DEVICES["nvidia-h200"]

    def seconds(groups: int) -> float:
        computing = 1e-6 * groups / device.compute_units
        return cost_of(groups, computing=computing, waiting=0.0).as_stage(256, 1, device)

    one, two = seconds(device.compute_units), seconds(device.compute_units + 1)
    assert two - ITEM_SECONDS * 256 == pytest.approx(2 * (one - ITEM_SECONDS * 256))


SELDOM = """
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 100 : index
  %i = kernel.local_id 0
  %x = memref.load %in[%i] : memref<4096xf32>
  %none = arith.cmpf uno, %x, %x : f32
  scf.if %none {{
    scf.for %n = %zero to %end step %one {{
      %y = memref.load %in[%n] : memref<4096xf32>
      memref.store %y, %out[%n] : memref<4096xf32>
    }}
  }} else {{
    {usual}
    memref.store %x, %out[%i] : memref<4096xf32>
  }}
"""


def test_of_two_ways_the_one_without_loops_is_the_usual_one() -> None:
    device = DEVICES["nvidia-h200"]
    usual = kernel_cost(kernel(SELDOM.format(usual="")), device)
    again = kernel_cost(kernel(SELDOM.format(usual="%z = arith.addf %x, %x : f32")), device)
    assert usual.moved == again.moved == 2 * 4 * 256
    assert isinstance(again, KernelCost) and again.computing * device.rate("f32") == 256
    assert isinstance(usual, KernelCost) and usual.computing == 0.0


def test_what_is_done_or_left_counts_with_its_loops() -> None:
    """As a product does that writes its results behind its last block."""
    device = DEVICES["nvidia-h200"]
    body = SELDOM.format(usual="")
    nothing_else = body[: body.index("memref.store %x")] + "}"
    cost = kernel_cost(kernel(nothing_else), device)
    assert cost.moved > kernel_cost(kernel(body), device).moved


SQUARES = """
  %x = vector.load %in[%i] : memref<4096xf32>, vector<8xf32>
  %y = arith.mulf %x, %x : vector<8xf32>
  vector.store %y, %out[%i] : memref<4096xf32>, vector<8xf32>
"""


def test_a_core_does_in_a_resident_launch_what_all_cores_share_in_one_of_its_own() -> None:
    cpu = DEVICES["cpu"].with_figures(compute_units=4)
    items = 64
    one = kernel("%i = kernel.local_id 0\n" + SQUARES, items)
    many = kernel("%i = kernel.global_id 0\n" + SQUARES, items, groups=8)
    alone, shared = kernel_cost(one, cpu), kernel_cost(many, cpu)
    assert isinstance(alone, CoreCost) and isinstance(shared, CoreCost)
    assert (alone.cores, shared.cores) == (1, 4)
    assert alone.alone(cpu) == cpu.launch_cost + alone.seconds
    assert shared.alone(cpu) == cpu.launch_cost + shared.seconds / 4
    assert shared.seconds <= shared.as_stage(64, 1, cpu) < 1.1 * shared.seconds + 1e-7
    assert shared.seconds >= alone.seconds > 0


def test_a_function_and_an_operation_on_one_value_take_a_core_longer() -> None:
    cpu = DEVICES["cpu"]
    scalar = """
      %i = kernel.local_id 0
      %x = memref.load %in[%i] : memref<4096xf32>
      %y = {operation} : f32
      memref.store %y, %out[%i] : memref<4096xf32>
    """
    costs = [
        kernel_cost(kernel(body, 4096), cpu)
        for body in (
            scalar.format(operation="arith.mulf %x, %x"),
            scalar.format(operation="math.exp %x"),
        )
    ]
    counted = [cost.seconds for cost in costs if isinstance(cost, CoreCost)]
    lanes, rate = cpu.lanes(4), cpu.rate("f32") / cpu.compute_units
    assert counted[0] >= 4096 * lanes / rate and counted[1] >= 20 * 4096 * lanes / rate
