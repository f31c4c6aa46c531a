"""The two pictures of the page: the program's operations, and the kernels that they became.

In: an `Explanation`. Out: SVG. Nodes carry the numbers of their kernels in `data-k`, by which the
page's script finds what belongs together. Layers that repeat are drawn once, and a node says how
many more there are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from mgn.driver.report import phase_text
from mgn.explain.explanation import Explanation
from mgn.explain.layers import Layout, Node, lay_out
from mgn.explain.repeats import Repeat, find_repeats

LAYER, BOX, LETTER, MARGIN = 54.0, 34.0, 6.6, 10.0
MOST_NODES = 700
"""More operations than this are not drawn: no one reads such a picture."""


@dataclass(frozen=True)
class Box:
    """A node of a picture: two lines of text, its class in the style sheet, and its kernels."""

    title: str
    subtitle: str
    style: str
    kernels: tuple[int, ...] = ()
    hint: str = ""

    @property
    def width(self) -> float:
        return max(len(self.title), len(self.subtitle), 6) * LETTER + 16


def folding(explanation: Explanation) -> list[Repeat]:
    """The stretches of equal kernels."""
    return find_repeats([kernel.function for kernel in explanation.kernels])


def picture_before(explanation: Explanation) -> str:
    """The program's operations, each with the kernel that computes it."""
    hidden = _hidden(folding(explanation))
    kernels_of: dict[int, list[int]] = {}
    for kernel in explanation.kernels:
        for number in kernel.sources:
            kernels_of.setdefault(number, []).append(kernel.number)
    boxes: dict[Node, Box] = {}
    stand_in: dict[Node, Node] = {}
    producer: dict[int, Node] = {}
    for name, handle in explanation.inputs.items():
        boxes[("input", name)] = Box(name, "input", "io")
        producer[handle] = ("input", name)
    edges: list[tuple[Node, Node]] = []
    for number, operation in enumerate(explanation.operations):
        node: Node = ("op", number)
        mine = kernels_of.get(number, [])
        folds = {hidden[k] for k in mine if k in hidden}
        if mine and folds and all(k in hidden for k in mine):
            stand_in[node] = ("fold", min(folds, key=lambda fold: fold.start))
        else:
            style = _style(explanation, mine)
            tag = " ".join(f"#{k}" for k in mine[:3]) or "folded away"
            place = "" if operation.place is None else f"line {operation.place.line}: "
            part = f"{operation.phase}, " if explanation.has_phases else ""
            hint = f"{part}{place}{operation.name} {operation.attributes} : {operation.type}"
            title = f"{operation.name}  {tag}"
            boxes[node] = Box(title, operation.type, style, tuple(mine), hint)
        for handle in operation.operands:
            if handle in producer:
                edges.append((producer[handle], node))
        for handle in operation.results:
            producer.setdefault(handle, node)
    for name, handle in explanation.outputs.items():
        boxes[("output", name)] = Box(name, "output", "io")
        if handle in producer:
            edges.append((producer[handle], ("output", name)))
    _add_folds(explanation, boxes)
    return _drawn(boxes, [(stand_in.get(a, a), stand_in.get(b, b)) for a, b in edges])


def picture_after(explanation: Explanation) -> str:
    """The kernels."""
    hidden = _hidden(folding(explanation))
    boxes: dict[Node, Box] = {}
    edges: list[tuple[Node, Node]] = []

    def node_of(item: int | str) -> Node:
        if isinstance(item, str):
            return ("input", item)
        return ("fold", hidden[item]) if item in hidden else ("kernel", item)

    for name in explanation.inputs:
        boxes[("input", name)] = Box(name, "input", "io")
    for kernel in explanation.kernels:
        node = node_of(kernel.number)
        if kernel.number not in hidden:
            names = list(dict.fromkeys(kernel.operations))
            short = " ".join(names[:3]) + (" …" if len(names) > 3 else "")
            part = f"{phase_text(kernel.phases)}: " if explanation.has_phases else ""
            boxes[node] = Box(
                f"#{kernel.number} {kernel.kind}",
                short,
                f"k-{kernel.kind}",
                (kernel.number,),
                f"{part}{' '.join(kernel.operations)}",
            )
        edges += [(node_of(item), node) for item in kernel.reads]
        for name in kernel.writes:
            boxes[("output", name)] = Box(name, "output", "io")
            edges.append((node, ("output", name)))
    _add_folds(explanation, boxes)
    return _drawn(boxes, edges)


def _hidden(repeats: Sequence[Repeat]) -> dict[int, Repeat]:
    """The kernels that are not drawn, with the repeat they are in."""
    return {number: repeat for repeat in repeats for number in repeat.folded}


def _add_folds(explanation: Explanation, boxes: dict[Node, Box]) -> None:
    for repeat in folding(explanation):
        times = f"{repeat.count - 1} × the same"
        last = repeat.folded[-1]
        title = f"kernels #{repeat.folded[0]} to #{last}"
        hint = f"the {repeat.period} kernels from #{repeat.start} on, {repeat.count - 1} more times"
        boxes[("fold", repeat)] = Box(title, times, "fold", tuple(repeat.folded), hint)


def _style(explanation: Explanation, kernels: Sequence[int]) -> str:
    return f"k-{explanation.kernels[kernels[0]].kind}" if kernels else "gone"


def _drawn(boxes: Mapping[Node, Box], edges: Sequence[tuple[Node, Node]]) -> str:
    if len(boxes) > MOST_NODES:
        return f'<p class="muted">{len(boxes)} nodes are too many for a picture.</p>'
    layout = lay_out({node: box.width for node, box in boxes.items()}, edges)
    width = layout.width + 2 * MARGIN
    height = (layout.layers - 1) * LAYER + BOX + 2 * MARGIN
    parts = [
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
        ' role="img">',
        *_lines(layout),
        *_boxes(layout, boxes),
        "</svg>",
    ]
    return "\n".join(parts)


def _lines(layout: Layout) -> Iterator[str]:
    def point(node: Node) -> tuple[float, float]:
        return layout.across[node] + MARGIN, layout.layer[node] * LAYER + BOX / 2 + MARGIN

    for (source, target), route in layout.routes.items():
        x, y = point(source)
        y += BOX / 2
        path = [f"M{x:.0f} {y:.0f}"]
        for number, node in enumerate([*route, target]):
            to_x, to_y = point(node)
            to_y -= BOX / 2 if number == len(route) else 0
            middle = (y + to_y) / 2
            path.append(f"C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}")
            x, y = to_x, to_y
        yield f'<path class="edge" d="{"".join(path)}"/>'


def _boxes(layout: Layout, boxes: Mapping[Node, Box]) -> Iterator[str]:
    for node, box in boxes.items():
        x = layout.across[node] + MARGIN - box.width / 2
        y = layout.layer[node] * LAYER + MARGIN
        kernels = " ".join(map(str, box.kernels))
        yield (
            f'<g class="node {box.style}" data-k="{kernels}" '
            f'transform="translate({x:.0f} {y:.0f})">'
            f"<title>{escape(box.hint or box.title)}</title>"
            f'<rect width="{box.width:.0f}" height="{BOX:.0f}" rx="5"/>'
            f'<text x="{box.width / 2:.0f}" y="14">{escape(box.title)}</text>'
            f'<text class="sub" x="{box.width / 2:.0f}" y="27">{escape(box.subtitle)}</text></g>'
        )
