"""A CPU's work-item sorts as many rows side by side as vectors have lanes, by a bitonic network.

A lane has a row, so that one exchange is the least and the largest of two vectors, and no step
depends on what the rows hold. The network is that of register_networks.py: in local memory, where
the records of a place are neighbours, some steps at a time in registers.
"""

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import ZERO, Index, lanes
from mgn.passes.kernels.index_maps import bounded
from mgn.passes.lower_kernels.core.pure_code import INDEX, lane_of
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.keys import LaneRecords
from mgn.passes.lower_kernels.order.register_networks import RegisterNetwork
from mgn.passes.lower_kernels.order.rows import OrderedRows


def lower_lanes(job: Job) -> Launch:
    """Writes the kernel of work-items that sort some rows each."""
    code, rows = job.code, OrderedRows(job)
    runs = rows.runs
    slots, width, steps = (job.entry(name) for name in ("slots", "width", "steps"))
    records = LaneRecords(rows.keys, width)
    items = ceil_div(runs.rows, width)
    first = code.counter(kernel.GlobalIdOp, 0, items) * width
    arrays = records.local(slots * width)
    evaluator = job.evaluator(width)

    def at(place: Index) -> Index:
        return place * width

    def fill(place: Index) -> None:
        own = code.known(place, runs.length)
        index = rows.index(bounded(first + lanes(width), runs.rows, 1), own)
        record = records.of(evaluator.lanes_at(rows.values, index), own)
        records.store(record, arrays, code.index(at(own)))

    def fill_up(place: Index) -> None:
        own = code.known(place, slots)
        records.store(records.absent(), arrays, code.index(at(own)))

    def put(place: Index) -> None:
        own = code.known(place, rows.kept)
        positions = records.positions(records.load(arrays, code.index(at(own))))
        for lane in range(width):
            source: SSAValue = code.convert("index_cast", lane_of(code, positions, lane), INDEX)
            rows.write(bounded(first + lane, runs.rows, 1), own, source)

    code.each(0, runs.length, fill)
    code.each(runs.length, slots, fill_up)
    RegisterNetwork(code, records, arrays, slots, slots, ZERO, 1, steps, at, alone=True).sort()
    code.each(0, rows.kept, put)
    return Launch((items,))
