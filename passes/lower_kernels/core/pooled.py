"""What comes of a group of neighbouring results of a product: combined behind what follows each.

In: the sums of the members of a group, one or a vector of them each. Out: what the group comes to,
and its results, stored.
"""

from collections.abc import Iterable
from functools import reduce

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.passes.kernels.index import Index, constant
from mgn.passes.kernels.pooled_products import Group, ProductPool
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.scalar import combine, narrowed, term, total_of
from mgn.passes.lower_kernels.core.template import Job


def pool_of(product: Product) -> ProductPool:
    """The pool of a product that has one."""
    assert product.pool is not None, "the product's kernel combines neighbours"
    return product.pool


def need_whole_groups(product: Product, *counts: int) -> None:
    """VerifyException where neighbours that a template has in such counts are not whole groups."""
    members = product.pool.members if product.pool is not None else 1
    if any(count % members for count in counts):
        raise VerifyException("fusion.kernel contraction: a tile has parts of groups it combines")


def member_value(
    job: Job, product: Product, evaluator: Evaluator, group: Group, member: Index, total: SSAValue
) -> SSAValue:
    """What follows from the sum of one member of a group, in the type that is combined."""
    pool = pool_of(product)
    value = narrowed(job.code, total, product.element)
    evaluator.given[product.node] = lambda _: value
    (operand,) = pool.node.operands
    found = evaluator.lanes_at(operand, pool.operand_index(group, member))
    return term(job.code, pool.node, found)


def combined(job: Job, product: Product, values: Iterable[SSAValue]) -> SSAValue:
    """Values of members of a group as one, in the type that is combined."""
    node = pool_of(product).node

    def both(left: SSAValue, right: SSAValue) -> SSAValue:
        return combine(job.code, node.name, node.element, left, right)

    return reduce(both, values)


def group_value(
    job: Job, product: Product, evaluator: Evaluator, group: Group, totals: Iterable[SSAValue]
) -> SSAValue:
    """What a group comes to, of the sums of all members."""
    values = [
        member_value(job, product, evaluator, group, constant(number), total)
        for number, total in enumerate(totals)
    ]
    return combined(job, product, values)


def write_group(
    job: Job, product: Product, evaluator: Evaluator, group: Group, value: SSAValue
) -> None:
    """Evaluates what follows from what a group came to, and stores it."""
    pool = pool_of(product)
    total = total_of(job.code, pool.node, value)
    evaluator.given[pool.node] = lambda _: total
    job.write_at(evaluator, lambda node: pool.result_index(node, group))
