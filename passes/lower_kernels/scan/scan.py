"""The scan template, by its schedule's variant."""

from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.scan.groups import lower_groups
from mgn.passes.lower_kernels.scan.rows import lower_rows
from mgn.passes.schedules.scan import ScanVariant


def lower_scan(job: Job) -> Launch:
    """Writes a scan kernel as its schedule says."""
    match job.variant(ScanVariant):
        case ScanVariant.ROWS:
            return lower_rows(job)
        case ScanVariant.GROUPS:
            return lower_groups(job)
