"""Chosen kernels without what nobody reads.

In: a view and the chosen kernels, in an order in which each value is there when it is read. Out:
the same without the kernels, results and operations of which nothing is read.

A kernel of several results may be chosen for one of them alone: a choice need not be the best one,
and where kernels are many the kernel of that result alone may be no candidate. What is left is
judged afresh, as a kernel that no longer writes means may be no reduction any more. Where it is no
kernel, or a dearer one, the kernel stays whole and writes all that it was priced for.
"""

from collections.abc import Sequence
from dataclasses import replace

from mgn.dialects.kernel.device import Device
from mgn.dialects.stabilising_maximum import MAXIMUM
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet, Template
from mgn.passes.saturate.candidates.commits import commit_seconds
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies, body_order, leaves_of
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.selection import Selection
from mgn.passes.saturate.prices.prices import price_kernel, price_per_run
from mgn.passes.schedules.core.figures import MATRIX


def drop_unread(view: View, found: CandidateSet, selection: Selection, device: Device) -> Selection:
    """The selection without what nobody reads; kernels that write less are new candidates."""
    narrower = _Narrower(view, device)
    read, writer = {*view.outputs}, dict(selection.writer)
    kernels: list[int] = []
    for number in reversed(selection.kernels):
        candidate = found.candidates[number]
        wanted = [item for item in candidate.results if item in read and writer[item] == number]
        if not wanted:
            continue
        if len(wanted) < len(candidate.results):
            candidate = narrower.narrowed(found, candidate, wanted)
            writer.update(dict.fromkeys(wanted, candidate.number))
        kernels.append(candidate.number)
        read.update(candidate.inputs)
    kernels.reverse()
    if kernels == selection.kernels:
        return selection
    return Selection(writer, kernels, sum(found.candidates[number].price for number in kernels))


class _Narrower:
    """Kernels that write some of their results, each template once."""

    def __init__(self, view: View, device: Device) -> None:
        self.view, self.device = view, device
        self.priced = PricedBodies(view.signatures, device)
        self.known: dict[tuple[Template, tuple[int, ...]], Template | None] = {}

    def narrowed(
        self, found: CandidateSet, candidate: Candidate, wanted: Sequence[int]
    ) -> Candidate:
        """A new candidate that writes what is wanted; the candidate where there is no such kernel,
        or where it costs more.
        """
        template = candidate.template
        pairs = zip(template.results, candidate.results, strict=True)
        key = template, tuple(name for name, item in pairs if item in wanted)
        if key not in self.known:
            self.known[key] = self._template(candidate, key[1])
        made = self.known[key]
        if made is None:
            return candidate
        trial = Candidate(-1, made, candidate.classes)
        price = made.price + commit_seconds(self.view, trial, self.device)
        if price > candidate.price:
            return candidate
        added = found.add(made, candidate.classes)
        added.price = price
        return added

    def _template(self, candidate: Candidate, results: tuple[int, ...]) -> Template | None:
        """What computes those results of a template alone; None where no kernel does."""
        template, signatures = candidate.template, self.view.signatures
        nodes = {node[0]: node for node in template.body}
        ordered = body_order(nodes, results)
        assert ordered is not None, "a kernel's body is in order"
        body = tuple(ordered)
        form = self.priced.form(body)
        roots = [signatures[nodes[name][1]] for name in results]
        if form is None or not all(
            form.writable(name, root, roots[0]) for name, root in zip(results, roots, strict=True)
        ):
            return None
        leaves = leaves_of(body)
        classes = [self.view.classes[item] for item in candidate.classes]
        types = {name: classes[name].type for name in template.reads if name in leaves}
        facts = self.priced.facts(body, results, types)
        facts += tuple(fact for fact in template.facts if fact[0] not in (MATRIX, MAXIMUM))
        price = price_kernel(body, form, results, types, signatures, self.device, facts)
        return replace(
            template,
            body=body,
            form=form,
            results=results,
            reads=tuple(types),
            inputs=tuple(name for name in template.inputs if name in types),
            price=price_per_run(price, all(classes[name].prepared for name in results)),
            facts=facts,
        )
