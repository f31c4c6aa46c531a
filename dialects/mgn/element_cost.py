"""What one element of an elementwise operation costs, in multiply-adds at a device's rate.

In: an operation's name. Out: two numbers that compare ways to compute the same: on a CPU as was
measured on chains of the operation through Intel's OpenCL (AVX-512), and on a GPU, whose units for
functions make some of them cheap. A test names the elementwise operation that has no row here.
"""

from typing import NamedTuple


class Cost(NamedTuple):
    """Multiply-adds in whose time a CPU and a GPU do one element."""

    cpu: float
    gpu: float


ELEMENT_COST: dict[str, Cost] = {
    "exp": Cost(63, 4),
    "expm1": Cost(104, 20),
    "log": Cost(78, 4),
    "log1p": Cost(125, 20),
    "pow": Cost(209, 40),
    "sin": Cost(76, 20),
    "cos": Cost(86, 20),
    "tan": Cost(124, 30),
    "tanh": Cost(76, 20),
    "erf": Cost(156, 24),
    "sigmoid": Cost(82, 4),
    "silu": Cost(82.5, 4),
    "gelu": Cost(159, 28),
    "softplus": Cost(198, 28),
    "elu": Cost(105, 22),
    "swiglu": Cost(83, 18),
    "geglu": Cost(160, 29),
    "div": Cost(34, 4),
    "mod": Cost(76, 8),
    "sqrt": Cost(19, 4),
    "rsqrt": Cost(34, 4),
    "recip": Cost(19, 4),
    "identity": Cost(0.5, 0.25),
    "stop_gradient": Cost(0.5, 0.25),
    "neg": Cost(1, 1),
    "abs": Cost(1, 1),
    "sign": Cost(7.6, 1),
    "floor": Cost(7.6, 1),
    "ceil": Cost(7.6, 1),
    "round": Cost(7.6, 1),
    "round_tf32": Cost(7.6, 4),
    "logical_not": Cost(1, 1),
    "isnan": Cost(1.5, 1),
    "add": Cost(1, 1),
    "sub": Cost(1, 1),
    "mul": Cost(1, 1),
    "max": Cost(11, 1),
    "min": Cost(11, 1),
    "logical_and": Cost(1, 1),
    "logical_or": Cost(1, 1),
    "eq": Cost(1, 1),
    "ne": Cost(1, 1),
    "lt": Cost(1, 1),
    "le": Cost(1, 1),
    "gt": Cost(1, 1),
    "ge": Cost(1, 1),
    "where": Cost(1.5, 1),
    "pick": Cost(1.5, 1),
    "philox": Cost(60, 60),
    "cast": Cost(6.6, 1),
    "relu": Cost(5.7, 1),
    "leaky_relu": Cost(3.4, 1),
    "hard_sigmoid": Cost(19, 1),
    "hard_swish": Cost(21, 1),
    "clamp": Cost(19, 1),
}
"""An operation costs no more than the parts that it is put together from."""

BY_TANH: dict[str, Cost] = {"gelu": Cost(83, 28), "geglu": Cost(84, 29)}
"""The same of those that `approx = "tanh"` computes by a tanh in place of an erf."""

FUNCTION = 12.0
"""The cost on a CPU from which on an operation is a function: a unit is long busy with it."""
