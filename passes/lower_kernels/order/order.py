"""The order template, by its schedule's variant."""

from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.order.best import lower_best
from mgn.passes.lower_kernels.order.digit_counts import lower_counts
from mgn.passes.lower_kernels.order.digit_places import lower_digits
from mgn.passes.lower_kernels.order.digit_ranks import lower_ranks
from mgn.passes.lower_kernels.order.lane_networks import lower_lanes
from mgn.passes.lower_kernels.order.merges import lower_merges
from mgn.passes.lower_kernels.order.networks import lower_groups
from mgn.passes.lower_kernels.order.own_runs import lower_rows
from mgn.passes.lower_kernels.order.selections import lower_selections
from mgn.passes.schedules.order import OrderVariant


def lower_order(job: Job) -> Launch:
    """Writes an order kernel as its schedule says."""
    match job.variant(OrderVariant):
        case OrderVariant.GROUPS:
            return lower_groups(job)
        case OrderVariant.ROWS:
            return lower_rows(job)
        case OrderVariant.LANES:
            return lower_lanes(job)
        case OrderVariant.SELECTIONS:
            return lower_selections(job)
        case OrderVariant.BEST:
            return lower_best(job)
        case OrderVariant.MERGES:
            return lower_merges(job)
        case OrderVariant.COUNTS:
            return lower_counts(job)
        case OrderVariant.DIGITS:
            return lower_digits(job)
        case OrderVariant.RANKS:
            return lower_ranks(job)
