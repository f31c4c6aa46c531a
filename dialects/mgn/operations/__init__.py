"""The tables of operations: a row is a specification, and a file holds the rows of one kind.

Importing this package enters all of them into `OPERATIONS`.
"""

from mgn.dialects.mgn.operations.elements import activations as activations
from mgn.dialects.mgn.operations.elements import elementwise as elementwise
from mgn.dialects.mgn.operations.elements import masks as masks
from mgn.dialects.mgn.operations.elements import random as random
from mgn.dialects.mgn.operations.images import convolution as convolution
from mgn.dialects.mgn.operations.images import pooling as pooling
from mgn.dialects.mgn.operations.images import resizing as resizing
from mgn.dialects.mgn.operations.images import transposed_convolution as transposed_convolution
from mgn.dialects.mgn.operations.images import windows as windows
from mgn.dialects.mgn.operations.places import indexing as indexing
from mgn.dialects.mgn.operations.places import movement as movement
from mgn.dialects.mgn.operations.places import rearrangement as rearrangement
from mgn.dialects.mgn.operations.places import scatter as scatter
from mgn.dialects.mgn.operations.places import scatter_buckets as scatter_buckets
from mgn.dialects.mgn.operations.places import scatter_runs as scatter_runs
from mgn.dialects.mgn.operations.places import slices as slices
from mgn.dialects.mgn.operations.products import attention as attention
from mgn.dialects.mgn.operations.products import attention_gradients as attention_gradients
from mgn.dialects.mgn.operations.products import contraction as contraction
from mgn.dialects.mgn.operations.products import einsum as einsum
from mgn.dialects.mgn.operations.products import rope as rope
from mgn.dialects.mgn.operations.recurrences import recurrence as recurrence
from mgn.dialects.mgn.operations.recurrences import recurrent as recurrent
from mgn.dialects.mgn.operations.rows import block_sums as block_sums
from mgn.dialects.mgn.operations.rows import digits as digits
from mgn.dialects.mgn.operations.rows import losses as losses
from mgn.dialects.mgn.operations.rows import normalisation as normalisation
from mgn.dialects.mgn.operations.rows import order as order
from mgn.dialects.mgn.operations.rows import reductions as reductions
from mgn.dialects.mgn.operations.rows import scans as scans
from mgn.dialects.mgn.operations.rows import statistics as statistics
