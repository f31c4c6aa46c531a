"""The tables of operations: a row is a specification, and a file holds the rows of one kind.

Importing this package enters all of them into `OPERATIONS`.
"""

from mgn.dialects.mgn.operations import activations as activations
from mgn.dialects.mgn.operations import attention as attention
from mgn.dialects.mgn.operations import attention_gradients as attention_gradients
from mgn.dialects.mgn.operations import contraction as contraction
from mgn.dialects.mgn.operations import convolution as convolution
from mgn.dialects.mgn.operations import digits as digits
from mgn.dialects.mgn.operations import einsum as einsum
from mgn.dialects.mgn.operations import elementwise as elementwise
from mgn.dialects.mgn.operations import indexing as indexing
from mgn.dialects.mgn.operations import losses as losses
from mgn.dialects.mgn.operations import masks as masks
from mgn.dialects.mgn.operations import movement as movement
from mgn.dialects.mgn.operations import normalisation as normalisation
from mgn.dialects.mgn.operations import order as order
from mgn.dialects.mgn.operations import pooling as pooling
from mgn.dialects.mgn.operations import random as random
from mgn.dialects.mgn.operations import rearrangement as rearrangement
from mgn.dialects.mgn.operations import recurrence as recurrence
from mgn.dialects.mgn.operations import recurrent as recurrent
from mgn.dialects.mgn.operations import reductions as reductions
from mgn.dialects.mgn.operations import resizing as resizing
from mgn.dialects.mgn.operations import rope as rope
from mgn.dialects.mgn.operations import scans as scans
from mgn.dialects.mgn.operations import scatter as scatter
from mgn.dialects.mgn.operations import scatter_runs as scatter_runs
from mgn.dialects.mgn.operations import slices as slices
from mgn.dialects.mgn.operations import statistics as statistics
from mgn.dialects.mgn.operations import transposed_convolution as transposed_convolution
from mgn.dialects.mgn.operations import windows as windows
