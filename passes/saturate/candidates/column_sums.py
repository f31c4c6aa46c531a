"""Which kernels add up columns, so that kernels of the same rows may do it besides.

In: a template. Out: whether it is one. What is made of them is in `horizontal_fusion`.
"""

from collections.abc import Sequence
from math import prod

from mgn.dialects.fusion import KernelKind
from mgn.dialects.mgn.operation import Kind
from mgn.passes.arrangements.split_reductions import LEAST_ELEMENTS
from mgn.passes.saturate.candidates.candidates import Template
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.forms import ONE_A_ROW, Place


def is_column_sum(template: Template, signatures: Sequence[Signature]) -> bool:
    """Whether a kernel adds up all rows of what it reads or computes of that, and writes values of
    columns.
    """
    form = template.form
    if form.kind is not KernelKind.REDUCTION or not form.leading or template.facts:
        return False
    if len(form.axes) == len(form.shape) or prod(form.shape) < LEAST_ELEMENTS:
        return False
    sums = [node for node in template.body if signatures[node[1]].kind is Kind.REDUCTION]
    plain = all(
        signatures[number].name == "sum" and form.places.get(item, Place.BEFORE) is Place.BEFORE
        for _, number, (item,) in sums
    )
    return plain and all(form.places[name] in ONE_A_ROW for name in template.results)
