"""The section of one kernel on the page: its origin, the rules, the rivals, its time, its text.

In: an `Explanation` and a group of kernels. Out: HTML.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from mgn.dialects.places import BACKWARD, FORWARD, UPDATE
from mgn.driver.quantities import bytes_text, counted, seconds_text
from mgn.explain.explanation import ExplainedKernel, Explanation, Group, Rival
from mgn.passes.saturate.explain.derivation import Step
from mgn.passes.saturate.explain.trace import Place, SourceOperation
from mgn.passes.saturate.prices.prices import PREPARED_RUNS

MOST_LINES = 12
MOST_PLACES = 24

PHASE_TITLES = {
    FORWARD: "From the program: forward",
    BACKWARD: "From the gradients of these lines: backward",
    UPDATE: "From what training adds: update",
}
"""What a list of operations is called, by the part of a training step."""


def kernel_section(explanation: Explanation, group: Group, number: int) -> str:
    """What is to be known of a kernel."""
    first = group.first
    when, spread = (" when parameters change", " a run") if first.prepared else ("", "")
    times = f"{len(group.kernels)} ×{when} · predicted {seconds_text(group.predicted)}{spread}"
    if group.measured is not None:
        times += f" · measured {seconds_text(group.measured)}"
    numbers = " ".join(str(kernel.number) for kernel in group.kernels)
    parts = [
        f'<details id="kernel-{number}" data-kernels="{numbers}"><summary>'
        f'<span class="chip k-{first.kind}">{first.kind}</span> '
        f"<b class=mono>{escape(first.function)}</b><span class=right>{times}</span></summary>",
        *_origin(explanation, first),
        *_steps(group),
        *_arrangements(first),
        *_rivals(group),
        *_times(explanation, group),
        *_texts(explanation, first),
        "</details>",
    ]
    return "\n".join(parts)


def change_text(seconds: float, plus: str = "+") -> str:
    """A difference of times, with its sign."""
    if seconds < 0:
        return f"−{seconds_text(-seconds)}"
    return f"{plus}{seconds_text(seconds)}" if seconds else "0 s"


def _origin(explanation: Explanation, kernel: ExplainedKernel) -> Iterator[str]:
    operations = [explanation.operations[number] for number in kernel.sources]
    if not explanation.has_phases:
        yield "<h3>From the program</h3>"
        yield from _listed(explanation, operations)
        return
    for phase, title in PHASE_TITLES.items():
        found = [operation for operation in operations if operation.phase == phase]
        if found:
            yield f"<h3>{title}</h3>"
            yield from _listed(explanation, found)


def _listed(explanation: Explanation, operations: Sequence[SourceOperation]) -> Iterator[str]:
    """Operations by name, and the lines that they are of."""
    places: dict[Place, list[str]] = {}
    for operation in operations:
        if operation.place is not None:
            names = places.setdefault(Place(operation.place.file, operation.place.line, 0), [])
            names.append(operation.name)
    names = Counter(operation.name for operation in operations)
    listing = ", ".join(f"{name} × {n}" if n > 1 else name for name, n in names.items())
    yield f"<p>{counted(len(operations), 'operation')}: {escape(listing) or 'none'}</p>"
    if not places:
        return
    ordered = sorted(places.items(), key=lambda item: (item[0].file, item[0].line))
    shown = [_source_line(explanation, *item) for item in ordered[:MOST_LINES]]
    more = "…" if len(places) > MOST_LINES else ""
    yield f"<pre>{''.join(shown)}{more}</pre>"


def _source_line(explanation: Explanation, place: Place, names: list[str]) -> str:
    lines = _lines_of(explanation, place.file)
    text = lines[place.line - 1].rstrip() if 0 < place.line <= len(lines) else ""
    shown = text or " ".join(names)
    return (
        f'<span class="source" title="{escape(place.file)}: {escape(" ".join(names))}">'
        f'<span class="no">{place.line}</span>{escape(shown)}</span>'
    )


def _lines_of(explanation: Explanation, name: str) -> list[str]:
    text = explanation.texts.get(name)
    if text is None:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, ValueError):
            text = ""
    return text.splitlines()


def _steps(group: Group) -> Iterator[str]:
    yield "<h3>Rules that led to it</h3>"
    if not group.steps:
        yield '<p class="muted">None: operations as written, composites by their definition.</p>'
        return
    counts = Counter(_key(step) for step in group.steps)
    shown = {_key(step): step for step in group.steps}
    for key, step in shown.items():
        yield _step(step, counts[key])


def _key(step: Step) -> tuple[str, int]:
    return step.rule.name, step.place.line if step.place is not None else 0


def _step(step: Step, count: int) -> str:
    rule = step.rule
    bindings = ", ".join(f"{name} = {value}" for name, value in step.bindings)
    times = f" × {count}" if count > 1 else ""
    line = f" at line {step.place.line}" if step.place is not None else ""
    condition = f" when {rule.when}" if rule.when else ""
    return (
        f'<div class="rule"><b>{escape(rule.name)}</b>{times}{line} '
        f'<span class="muted">({rule.equality}: {escape(rule.reason)})</span><br>'
        f"<code>{escape(rule.left)} ⟶ {escape(rule.right)}{escape(condition)}</code>"
        f'<br><span class="muted">{escape(bindings)}</span></div>'
    )


def _arrangements(kernel: ExplainedKernel) -> Iterator[str]:
    """How it came to be one kernel, or the last of several, and what that would cost otherwise."""
    if kernel.arranged is None:
        return
    yield "<h3>Arrangement</h3>"
    yield '<table><tr><th>arrangement</th><th class="n">all its kernels</th></tr>'
    chosen = (f"<b>chosen</b>: {escape(kernel.arranged.text)}", kernel.arranged.price)
    others = [(escape(text), price) for text, price in kernel.arranged.dearer]
    for text, price in (chosen, *others):
        yield f'<tr><td>{text}</td><td class="n">{seconds_text(price)}</td></tr>'
    yield "</table>"


def _rivals(group: Group) -> Iterator[str]:
    yield "<h3>What was not chosen</h3>"
    yield (
        '<table><tr><th>instead</th><th class="n">its price</th><th class="n">the program</th>'
        "<th>what else would be needed</th></tr>"
    )
    yield (
        f"<tr><td><b>chosen</b>: {escape(' '.join(group.first.operations))}</td>"
        f'<td class="n">{seconds_text(group.first.predicted)}</td><td class="n">0 s</td>'
        "<td></td></tr>"
    )
    for rival in group.rivals:
        yield _rival(rival)
    if group.separate is not None and len(group.first.operations) > 1:
        change = group.separate - group.first.predicted
        yield (
            f'<tr><td>a kernel an operation</td><td class="n">{seconds_text(group.separate)}</td>'
            f'<td class="n">{change_text(change)}</td><td></td></tr>'
        )
    yield "</table>"
    if group.rival_count > len(group.rivals):
        more = group.rival_count - len(group.rivals)
        yield f'<p class="muted">{more} more would make the program dearer still.</p>'


def _rival(rival: Rival) -> str:
    change = "waits for itself" if rival.change is None else change_text(rival.change)
    needed = "; ".join(rival.added[:3]) + (" …" if len(rival.added) > 3 else "")
    if rival.dropped > 1:
        spared = f"in place of {rival.dropped} kernels"
        needed = f"{needed} ({spared})" if needed else spared
    kind = rival.kind if rival.results == 1 else f"{rival.kind}, writes {rival.results} values"
    return (
        f"<tr><td>{escape(' '.join(rival.operations))} "
        f'<span class="muted">{kind}</span></td>'
        f'<td class="n">{seconds_text(rival.price)}</td><td class="n">{change}</td>'
        f'<td class="ops">{escape(needed)}</td></tr>'
    )


def _times(explanation: Explanation, group: Group) -> Iterator[str]:
    device = explanation.report.device
    first = group.first
    least = first.work.roofline_seconds(device)
    yield "<h3>Time</h3>"
    runs = PREPARED_RUNS if first.prepared else 1
    borne = f", of which each run bears {seconds_text(first.predicted)}" if first.prepared else ""
    moved, computed = bytes_text(first.work.bytes), f"{first.work.operations:.3g}"
    yield (
        f"<p>A launch moves at least {moved} and computes {computed} operations in "
        f"{first.work.element}: {seconds_text(least)} by the roofline, "
        f"{seconds_text(runs * first.predicted)} predicted with "
        f"{seconds_text(device.launch_cost)} for the launch{borne}.</p>"
    )
    shown = group.kernels[:MOST_PLACES]
    if len(group.kernels) > 1 or first.measured is not None:
        cells = [
            f"#{kernel.number} "
            + ("" if kernel.measured is None else seconds_text(kernel.measured))
            for kernel in shown
        ]
        rest = " …" if len(group.kernels) > MOST_PLACES else ""
        yield f"<p>Launches: {', '.join(cells)}{rest}</p>"


def _texts(explanation: Explanation, kernel: ExplainedKernel) -> Iterator[str]:
    yield _folded("What it computes", kernel.text)
    function = explanation.functions[kernel.function]
    sizes = " × ".join(str(size) for size in function.global_size)
    local = " × ".join(str(size) for size in function.local_size)
    title = f"OpenCL C of {kernel.function}: {sizes} work-items in groups of {local}"
    yield _folded(title, f"// {kernel.schedule}\n{function.source}")


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"
