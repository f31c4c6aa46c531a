"""The page: an `Explanation` as one file of HTML that needs no network and no other file.

In: an `Explanation`. Out: text. Light or dark follow the reader's system. Kernels that became the
same functions share a section.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from mgn.dialects.places import PHASES
from mgn.driver.quantities import bytes_text, counted, seconds_text
from mgn.driver.report import ROOFLINE, memory_line, phase_text
from mgn.explain.drawing import picture_after, picture_before
from mgn.explain.explanation import Explanation, Group
from mgn.explain.sections import change_text, kernel_section

KINDS = (
    "pointwise",
    "reduction",
    "contraction",
    "scan",
    "gather",
    "attention",
    "scatter",
    "update",
    "order",
    "recurrence",
    "attention_gradient",
    "row_blocks",
)


def page_of(explanation: Explanation) -> str:
    """The page of one graph."""
    report = explanation.report
    title = f"{report.graph} on {report.device.name}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}: explained</title>",
        f"<style>{_resource('page.css')}</style></head><body>",
        f"<h1>graph {escape(report.graph)}</h1>",
        f'<p class="muted">compiled by mgn for {escape(report.device.name)}</p>',
        *_tiles(explanation),
        *_parts(explanation),
        *_kernel_table(explanation),
        *_pictures(explanation),
        "<h2>Kernel by kernel</h2>",
        *(
            kernel_section(explanation, group, number)
            for number, group in enumerate(explanation.groups)
        ),
        *_rules(explanation),
        *_compilation(explanation),
        f"<script>{_resource('page.js')}</script>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


@cache
def _resource(name: str) -> str:
    return (files("mgn.explain") / name).read_text(encoding="utf-8")


def _tiles(explanation: Explanation) -> Iterator[str]:
    report, saturation = explanation.report, explanation.saturation
    measured = [kernel.measured for kernel in explanation.kernels if not kernel.prepared]
    total = None if None in measured else sum(item for item in measured if item is not None)
    tiles = [
        (
            f"{report.operations_before} → {len(report.kernels)}",
            f"{report.operations_text} → {report.kernels_text}",
        ),
        (seconds_text(saturation.cost_after), f"predicted; {saturation.extraction.proof}"),
        (seconds_text(total) if total else "–", "measured, all launches of a run"),
        (seconds_text(saturation.cost_before), "predicted, a kernel an operation"),
        (seconds_text(saturation.bound), "lower bound of any choice of these candidates"),
        (
            f"{saturation.classes} / {saturation.nodes}",
            f"e-classes / e-nodes after {counted(saturation.iterations, 'iteration')}, "
            f"saturated: {saturation.fixpoint}",
        ),
        (f"{saturation.candidates}", f"candidates from {saturation.considered} distinct cuts"),
        (seconds_text(report.compile_seconds), "to compile"),
    ]
    yield '<div class="tiles">'
    for value, label in tiles:
        yield f'<div class="tile"><b>{escape(value)}</b><span>{escape(label)}</span></div>'
    yield "</div>"
    if explanation.remark:
        yield f'<p class="muted">{escape(explanation.remark)}</p>'


def _parts(explanation: Explanation) -> Iterator[str]:
    """What the parts of a training step take; nothing where there is one."""
    if not explanation.has_phases:
        return
    yield "<h2>Parts of the step</h2>"
    yield (
        '<p class="muted">The forward pass is the program as it is written, the backward pass its '
        "gradients, the update what training adds. A kernel may belong to several.</p>"
    )
    heads = ("kernels", "predicted", "measured")
    yield "<table><tr><th>part</th>" + "".join(f'<th class="n">{item}</th>' for item in heads)
    for phases in sorted({kernel.phases for kernel in explanation.kernels}, key=_in_order):
        found = [kernel for kernel in explanation.kernels if kernel.phases == phases]
        times = [kernel.measured for kernel in found if not kernel.prepared]
        measured = None if None in times else sum(item for item in times if item is not None)
        cells = [
            str(len(found)),
            seconds_text(sum(kernel.predicted for kernel in found)),
            seconds_text(measured) if measured else "–",
        ]
        row = "".join(f'<td class="n">{cell}</td>' for cell in cells)
        yield f"</tr><tr><td>{escape(phase_text(phases)) or '–'}</td>{row}"
    yield "</tr></table>"


def _in_order(phases: Sequence[str]) -> list[int]:
    return [PHASES.index(phase) for phase in phases]


def _kernel_table(explanation: Explanation) -> Iterator[str]:
    groups = list(enumerate(explanation.groups))
    groups.sort(key=lambda item: -(item[1].measured or item[1].predicted))
    most = max(
        [*(g.predicted for _, g in groups), *(g.measured or 0.0 for _, g in groups)], default=1.0
    )
    yield "<h2>Kernels</h2>"
    yield (
        '<p class="muted">The longest first.<i class="key" style="background:var(--predicted)"></i>'
        'predicted<i class="key" style="background:var(--measured)"></i>measured. The roofline is '
        f"{escape(ROOFLINE)}.</p>"
    )
    heads = ("launches in a run", "predicted", "measured", "roofline share", "bytes")
    part = "<th>part</th>" * explanation.has_phases
    yield f'<div class="scroll"><table><tr><th>kernel</th>{part}<th></th>'
    yield "".join(f'<th class="n">{head}</th>' for head in heads) + "<th>computes</th></tr>"
    for number, group in groups:
        yield _kernel_row(explanation, group, number, most)
    yield "</table></div>"


def _kernel_row(explanation: Explanation, group: Group, number: int, most: float) -> str:
    first = group.first
    measured = group.measured
    least = sum(k.work.roofline_seconds(explanation.report.device) for k in group.kernels)
    bars = f'<div class="bar p" style="width:{100 * group.predicted / most:.1f}%"></div>'
    if measured is not None:
        bars += f'<div class="bar m" style="width:{100 * measured / most:.1f}%"></div>'
    cells = [
        f"{len(group.kernels)} prepared" if first.prepared else str(len(group.kernels)),
        seconds_text(group.predicted),
        "–" if measured is None else seconds_text(measured),
        "–" if not measured else f"{100 * least / measured:.0f} %",
        bytes_text(sum(kernel.work.bytes for kernel in group.kernels)),
    ]
    phases = [kernel.phases for kernel in group.kernels]
    met = tuple(phase for phase in PHASES if any(phase in item for item in phases))
    part = f"<td>{escape(phase_text(met))}</td>" * explanation.has_phases
    return (
        f'<tr><td><a href="#kernel-{number}">{escape(first.function)}</a></td>{part}'
        f'<td class="bars">{bars}</td>'
        + "".join(f'<td class="n">{cell}</td>' for cell in cells)
        + f'<td class="ops">{escape(_shown(first.operations))}</td></tr>'
    )


def _shown(operations: Sequence[str], most: int = 10) -> str:
    return " ".join(operations[:most]) + (" …" if len(operations) > most else "")


def _pictures(explanation: Explanation) -> Iterator[str]:
    yield "<h2>The graph, before and after</h2>"
    keys = "".join(f'<i class="key" style="background:var(--{kind})"></i>{kind}' for kind in KINDS)
    yield (
        f'<p class="muted">Left the operations of the program, simplified, with the numbers of the '
        f"kernels that compute them; right the kernels. A click leads to the kernel.{keys}</p>"
    )
    yield f'<div class="pictures"><div class="picture">{picture_before(explanation)}</div>'
    yield f'<div class="picture">{picture_after(explanation)}</div></div>'


def _rules(explanation: Explanation) -> Iterator[str]:
    yield "<h2>Rules that fired</h2>"
    fired = explanation.saturation.fired.most_common()
    if not fired:
        yield '<p class="muted">None.</p>'
        return
    yield "<table><tr><th>rule</th><th class=n>times</th></tr>"
    for name, count in fired:
        yield f'<tr><td>{escape(name)}</td><td class="n">{count}</td></tr>'
    yield "</table>"


def _compilation(explanation: Explanation) -> Iterator[str]:
    report, saturation = explanation.report, explanation.saturation
    yield "<h2>Compilation</h2><table><tr><th>step</th><th class=n>time</th></tr>"
    for name, seconds in report.times:
        yield f'<tr><td>{escape(name)}</td><td class="n">{seconds_text(seconds)}</td></tr>'
        if name == "saturate":
            for stage, taken in saturation.seconds.items():
                yield (
                    f'<tr><td class="muted">&emsp;{escape(stage)}</td>'
                    f'<td class="n muted">{seconds_text(taken)}</td></tr>'
                )
    yield "</table>"
    parts = counted(saturation.components, "component")
    yield (
        f'<p class="muted">Extraction: {saturation.extraction.proof}, {parts}, '
        f"{saturation.distinct_components} solved; cost {change_text(saturation.cost_after, '')}, "
        f"bound {change_text(saturation.bound, '')}.</p>"
    )
    if saturation.passed_over:
        yield f'<p class="muted">Left out: {escape(saturation.left_out_text)}.</p>'
    if report.memory is not None:
        yield f'<p class="muted">{escape(memory_line(report.memory))}</p>'
