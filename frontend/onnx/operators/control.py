"""Control flow: what is decided while the model is read, and what a choice of values can say."""

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.shapes import normalise_axis
from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.model import Graph
from mgn.frontend.onnx.core.operator import define

MOST_TURNS = 4096
"""Of a loop that is unrolled."""


@define("If")
def branch(c: Call) -> Any:
    """the branch that is taken; where that is not known, both, and `where`"""
    then, other = c.required("then_branch"), c.required("else_branch")
    if c.is_known(0):
        return tuple(_run(c, then if c.number(0) else other, []))
    if len(then.outputs) != len(other.outputs):
        c.fail(f"its branches give {len(then.outputs)} and {len(other.outputs)} values")
    condition = c.b.reshape(c[0], [])
    results: list[Any] = []
    for one, two in zip(_run(c, then, []), _run(c, other, []), strict=True):
        if not (isinstance(one, SSAValue) and isinstance(two, SSAValue) and one.type == two.type):
            c.known(0)  # says which inputs decide
        results.append(c.b.where(condition, one, two))
    return tuple(results)


def _run(c: Call, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a graph of this node."""
    names = [item.name for item in graph.inputs]
    if len(names) != len(inputs):
        c.fail(f"its graph takes {len(names)} values, and has to take {len(inputs)}")
    return c.importer.run_graph(graph, c.scope.inner(dict(zip(names, inputs, strict=True))))


@define("Loop")
def loop(c: Call) -> Any:
    """unrolled; after an end that is not known, values stay by `where`"""
    b, graph = c.b, c.required("body")
    turns = c.number(0) if c.get(0) is not None else None
    known = c.get(1) is None or c.is_known(1)
    going: Any = c.number(1, True) if known else b.reshape(c[1], [])
    carried = list(c.inputs[2:])
    _check_outputs(c, graph, 1 + len(carried))
    scanned: list[list[SSAValue]] = [[] for _ in graph.outputs[1 + len(carried) :]]
    turn = 0
    while (turns is None or turn < turns) and going is not False and going != 0:
        if turn >= MOST_TURNS:
            c.fail(f"it runs more than {MOST_TURNS} times")
        condition = c.constant(True) if isinstance(going, bool | int) else going
        outputs = _run(c, graph, [c.constant(turn, "int64"), condition, *carried])
        after, found = outputs[1 : 1 + len(carried)], outputs[1 + len(carried) :]
        if not isinstance(going, bool | int):
            if found or turns is None or not all(isinstance(item, SSAValue) for item in carried):
                c.array(going, "the condition")
            carried = [b.where(going, new, old) for new, old in zip(after, carried, strict=True)]
        else:
            carried = after
        for items, value in zip(scanned, found, strict=True):
            items.append(value)
        going = _condition(c, going, outputs[0])
        turn += 1
    if not turn and scanned:
        outputs = _run(c, graph, [c.constant(0, "int64"), c.constant(True), *carried])
        return (*carried, *(_nothing_of(c, item, 0) for item in outputs[1 + len(carried) :]))
    return (*carried, *(b.stack(items, axis=0) for items in scanned))


def _check_outputs(c: Call, graph: Graph, least: int) -> None:
    """CallError of a graph that does not give what the next turn takes."""
    if len(graph.outputs) < least:
        c.fail(f"its graph gives {len(graph.outputs)} values, and has to give {least} or more")


def _nothing_of(c: Call, value: SSAValue, axis: int) -> SSAValue:
    """What no turn collects, of such values: an empty axis says that there is nothing."""
    sizes = list(shape(value))
    sizes.insert(axis % (len(sizes) + 1), 0)
    return c.b.full(sizes, 0, T=element(value).name)


def _condition(c: Call, before: Any, after: SSAValue) -> Any:
    """Whether a loop goes on: a truth value, or one of the program."""
    known = c.importer.known.array(after)
    if isinstance(before, bool | int):
        return bool(known.reshape(-1)[0]) if known is not None else c.b.reshape(after, [])
    return c.b.logical_and(before, c.b.reshape(after, []))


@define("Scan", since=8)
def scan_of_batches(c: Call) -> Any:
    """unrolled, for each sample of a batch"""
    if c.get(0) is not None:
        c.fail("sequence_lens is not supported")
    b, count = c.b, c.required("num_scan_inputs")
    inputs = [c[number] for number in range(1, len(c))]
    if not all(map(rank, inputs)) or len({shape(value)[0] for value in inputs}) != 1:
        c.fail("its inputs have to be batches of one size")
    turned = c.attribute("directions") or [0] * count
    runs: list[list[SSAValue]] = []
    for sample in range(shape(inputs[0])[0]):
        own = [_at(c, value, 0, sample) for value in inputs]
        axes = [0] * count
        runs.append(_scanned(c, own, count, axes, turned, [], []))
    return tuple(b.stack(list(parts), axis=0) for parts in zip(*runs, strict=True))


@define("Scan", since=9)
def scan(c: Call) -> Any:
    """unrolled"""
    count = c.required("num_scan_inputs")
    axes = c.attribute("scan_input_axes") or [0] * count
    turned = c.attribute("scan_input_directions") or [0] * count
    out_axes = c.attribute("scan_output_axes") or []
    out_turned = c.attribute("scan_output_directions") or []
    inputs = [c[number] for number in range(len(c))]
    return tuple(_scanned(c, inputs, count, axes, turned, out_axes, out_turned))


def _scanned(
    c: Call,
    inputs: Sequence[SSAValue],
    count: int,
    axes: Sequence[int],
    turned: Sequence[int],
    out_axes: Sequence[int],
    out_turned: Sequence[int],
) -> list[SSAValue]:
    """The states after all steps, and what each step gave."""
    graph = c.required("body")
    if not 1 <= count <= len(inputs):
        c.fail(f"num_scan_inputs is {count}, of {len(inputs)} inputs")
    states, scans = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    if (len(axes), len(turned)) != (count, count):
        c.fail(f"{count} scanned inputs have {len(axes)} axes and {len(turned)} directions")
    _check_outputs(c, graph, len(states))
    places = [normalise_axis(axis, rank(value)) for axis, value in zip(axes, scans, strict=True)]
    lengths = [shape(value)[axis] for axis, value in zip(places, scans, strict=True)]
    steps = lengths[0]
    if len(set(lengths)) != 1:
        c.fail(f"scanned inputs have different numbers of steps: {lengths}")
    if steps > MOST_TURNS:
        c.fail(f"it has {steps} steps; up to {MOST_TURNS} are unrolled")
    if not steps:
        return [*states, *_of_no_step(c, graph, states, scans, places, out_axes)]
    collected: list[list[SSAValue]] = [[] for _ in graph.outputs[len(states) :]]
    for step in range(steps):
        now = [
            _at(c, value, axis, steps - 1 - step if back else step)
            for value, axis, back in zip(scans, places, turned, strict=True)
        ]
        outputs = _run(c, graph, [*states, *now])
        states = outputs[: len(states)]
        for items, value in zip(collected, outputs[len(states) :], strict=True):
            items.append(value)
    results: list[SSAValue] = []
    for number, items in enumerate(collected):
        items = items[::-1] if number < len(out_turned) and out_turned[number] else items
        axis = out_axes[number] if number < len(out_axes) else 0
        results.append(c.b.stack(items, axis=axis))
    return [*states, *results]


def _of_no_step(
    c: Call,
    graph: Graph,
    states: Sequence[SSAValue],
    scans: Sequence[SSAValue],
    places: Sequence[int],
    out_axes: Sequence[int],
) -> list[SSAValue]:
    """What no step gave: the graph is made of zeros once, for the shapes."""
    zeros = [
        c.b.full(sizes[:axis] + sizes[axis + 1 :], 0, T=element(value).name)
        for value, axis, sizes in zip(scans, places, map(list, map(shape, scans)), strict=True)
    ]
    outputs = _run(c, graph, [*states, *zeros])[len(states) :]
    axes = [*out_axes, *[0] * (len(outputs) - len(out_axes))]
    return [_nothing_of(c, value, axis) for value, axis in zip(outputs, axes, strict=False)]


def _at(c: Call, value: SSAValue, axis: int, place: int) -> SSAValue:
    """One step of a value along an axis."""
    low, high = [0] * rank(value), list(shape(value))
    low[axis], high[axis] = place, place + 1
    return c.b.squeeze(c.b.slice(value, starts=low, stops=high), axis=axis)
