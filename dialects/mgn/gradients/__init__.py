"""Gradients: the tables of rules, a file for each kind of operation, and the walk that uses them.

Importing this package enters all rows.
"""

from mgn.dialects.mgn.gradients import activations as activations
from mgn.dialects.mgn.gradients import attention as attention
from mgn.dialects.mgn.gradients import convolution as convolution
from mgn.dialects.mgn.gradients import elementwise as elementwise
from mgn.dialects.mgn.gradients import indexing as indexing
from mgn.dialects.mgn.gradients import losses as losses
from mgn.dialects.mgn.gradients import movement as movement
from mgn.dialects.mgn.gradients import normalisation as normalisation
from mgn.dialects.mgn.gradients import pooling as pooling
from mgn.dialects.mgn.gradients import products as products
from mgn.dialects.mgn.gradients import reductions as reductions
