"""The templates of what attention's gradient is made of, no score of which is in memory."""

from mgn.passes.lower_kernels.attention_gradient.matrix_sums import MatrixSums
from mgn.passes.lower_kernels.attention_gradient.matrix_totals import MatrixTotals
from mgn.passes.lower_kernels.attention_gradient.node import AttentionGradient
from mgn.passes.lower_kernels.attention_gradient.sums import Sums
from mgn.passes.lower_kernels.attention_gradient.totals import Totals
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.attention.gradient import GradientVariant, Walk


def lower_attention_gradient(job: Job) -> Launch:
    """Writes a kernel of one operation of attention's gradient."""
    attention = AttentionGradient.of_body(job.body)
    if job.variant(GradientVariant) is GradientVariant.MATRIX:
        on_unit = MatrixTotals if attention.of_totals else MatrixSums
        return on_unit(job, attention, str(job.schedule["matrix"])).write()
    template = Totals if attention.of_totals else Sums
    return template(job, attention, Walk.of(job.schedule, attention)).write()
