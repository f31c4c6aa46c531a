"""Layers: operations with their parameters, named as PyTorch's `state_dict` names them.

In: sizes. Out: objects that are called with values of a graph being built. The attribute that
holds a layer gives its parameters their prefix:

    class Mlp(nn.Module):
        def __init__(self) -> None:
            self.fc1 = nn.Linear(784, 128)        # fc1.weight, fc1.bias
            self.blocks = [nn.RMSNorm(128)]       # blocks.0.weight

        def forward(self, x):
            return self.blocks[0](ops.relu(self.fc1(x)))

A layer without a holder and without `name=` is numbered: linear, linear_1, ….
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from mgn.builder import GraphBuilder, Value, current_graph, graph_of
from mgn.builder_arguments import fail
from mgn.dialects.mgn.initialiser import InitialiserAttr

__all__ = [
    "BatchNorm",
    "Embedding",
    "GroupNorm",
    "LayerNorm",
    "Linear",
    "Module",
    "RMSNorm",
    "Sequential",
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "normal",
    "ones",
    "uniform",
    "zeros",
]

_numbers: "WeakKeyDictionary[GraphBuilder, dict[str, Iterator[int]]]" = WeakKeyDictionary()


class Module:
    """Base of layers. Subclasses define `forward`; other modules in attributes become parts."""

    _scope: str | None = None
    _numbered = False

    def __setattr__(self, name: str, value: Any) -> None:
        for suffix, part in _parts(value):
            if part._scope is None:
                part._scope = f"{name}{suffix}"
        super().__setattr__(name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer computes."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        graph = graph_of([*args, *kwargs.values()])
        if self._scope is None and self._numbered:
            self._scope = _numbered_name(graph, type(self).__name__.lower())
        if not self._scope:
            return self.forward(*args, **kwargs)
        with graph.scope(self._scope):
            return self.forward(*args, **kwargs)

    def param(self, name: str, type: str, initialiser: InitialiserAttr | None = None) -> Value:
        """A parameter of this layer, in the graph that is open."""
        return current_graph().param(name, type, initialiser, owner=self)


class _Layer(Module):
    """A layer of this file: takes a `name`, and is numbered where nothing names it."""

    _numbered = True

    def __init__(self, name: str | None = None, T: str = "f32") -> None:
        if not isinstance(name, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(f"{name!r:.80} is no name for a layer")
        self._scope = name
        self.T = T


class Linear(_Layer):
    """`y = x @ weight.T + bias`, with weight `[n_out, n_in]`."""

    def __init__(
        self, n_in: int, n_out: int, bias: bool = True, *, name: str | None = None, T: str = "f32"
    ) -> None:
        super().__init__(name, T)
        self.n_in, self.n_out, self.bias = n_in, n_out, bias

    def forward(self, x: Value) -> Value:
        """The affine map of the last axis."""
        weight = self.param("weight", f"{self.T}[{self.n_out}, {self.n_in}]", glorot_uniform())
        if not self.bias:
            return graph_of([x]).call("linear", x, weight)
        bias = self.param("bias", f"{self.T}[{self.n_out}]", zeros())
        return graph_of([x]).call("linear", x, weight, bias)


class Embedding(_Layer):
    """Rows of `weight[count, size]` by integer ids."""

    def __init__(self, count: int, size: int, *, name: str | None = None, T: str = "f32") -> None:
        super().__init__(name, T)
        self.count, self.size = count, size

    def forward(self, ids: Value) -> Value:
        """The rows, on a new last axis."""
        weight = self.param("weight", f"{self.T}[{self.count}, {self.size}]", normal(std=0.02))
        return graph_of([ids]).call("embedding", ids, weight)


class LayerNorm(_Layer):
    """Normalises the last axis to mean 0 and variance 1, then scales and shifts it."""

    def __init__(
        self, size: int, eps: float = 1e-5, *, name: str | None = None, T: str = "f32"
    ) -> None:
        super().__init__(name, T)
        self.size, self.eps = size, eps

    def forward(self, x: Value) -> Value:
        """The normalised value."""
        weight = self.param("weight", f"{self.T}[{self.size}]", ones())
        bias = self.param("bias", f"{self.T}[{self.size}]", zeros())
        return graph_of([x]).call("layer_norm", x, weight, bias, eps=self.eps)


class RMSNorm(_Layer):
    """Divides the last axis by its root mean square, then scales it."""

    def __init__(
        self, size: int, eps: float = 1e-5, *, name: str | None = None, T: str = "f32"
    ) -> None:
        super().__init__(name, T)
        self.size, self.eps = size, eps

    def forward(self, x: Value) -> Value:
        """The normalised value."""
        weight = self.param("weight", f"{self.T}[{self.size}]", ones())
        return graph_of([x]).call("rms_norm", x, weight, eps=self.eps)


class GroupNorm(_Layer):
    """Normalises each group of channels of `[N, C, …]`, then scales and shifts each channel."""

    def __init__(
        self,
        groups: int,
        channels: int,
        eps: float = 1e-5,
        *,
        name: str | None = None,
        T: str = "f32",
    ) -> None:
        super().__init__(name, T)
        self.groups, self.channels, self.eps = groups, channels, eps

    def forward(self, x: Value) -> Value:
        """The normalised value."""
        weight = self.param("weight", f"{self.T}[{self.channels}]", ones())
        bias = self.param("bias", f"{self.T}[{self.channels}]", zeros())
        how = {"groups": self.groups, "eps": self.eps}
        return graph_of([x]).call("group_norm", x, weight, bias, **how)


class BatchNorm(_Layer):
    """Normalises each channel of `[N, C, …]`: in training by the batch, whose mean and variance go
    into the states `running_mean` and `running_var`; else by these states. As PyTorch's
    BatchNorm1d to 3d.
    """

    def __init__(
        self,
        channels: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        *,
        training: bool = False,
        name: str | None = None,
        T: str = "f32",
    ) -> None:
        super().__init__(name, T)
        self.channels, self.eps, self.momentum = channels, eps, momentum
        self.training = training

    def forward(self, x: Value) -> Value:
        """The normalised value."""
        graph, line = graph_of([x]), f"{self.T}[{self.channels}]"
        weight, bias = self.param("weight", line, ones()), self.param("bias", line, zeros())
        mean = current_graph().state("running_mean", line, zeros())
        var = current_graph().state("running_var", line, ones())
        if not self.training:
            return graph.call("batch_norm", x, weight, bias, mean.value, var.value, eps=self.eps)
        axes = [axis for axis in range(x.ndim) if axis != 1]
        count = x.size // max(self.channels, 1)
        own = [graph.call(name, x, axis=axes) for name in ("mean", "var")]
        unbiased = own[1] * (count / max(count - 1, 1))
        for state, found in ((mean, own[0]), (var, unbiased)):
            state.write(state.value * (1.0 - self.momentum) + found * self.momentum)
        return graph.call("batch_norm", x, weight, bias, *own, eps=self.eps)


class Sequential(Module):
    """Calls its parts, layers or functions, one after the other. Layers are named 0, 1, ….

    >>> nn.Sequential(nn.Linear(784, 128), ops.relu, nn.Linear(128, 10))
    """

    def __init__(self, *parts: Callable[[Any], Any], name: str | None = None) -> None:
        self._scope = name
        for index, part in enumerate(parts):
            if not callable(part):
                fail(f"part {index} of a Sequential is no layer and no function: {part!r:.80}")
            if isinstance(part, Module) and part._scope is None:
                part._scope = str(index)
        self.parts = parts

    def forward(self, x: Any) -> Any:
        """The last part's result."""
        for part in self.parts:
            x = part(x)
        return x


def _parts(value: Any) -> Iterator[tuple[str, Module]]:
    """The modules that an attribute holds, with what follows its name."""
    if isinstance(value, Module):
        yield "", value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast(Sequence[Any], value)):
            yield from ((f".{index}{suffix}", part) for suffix, part in _parts(item))


def _numbered_name(graph: GraphBuilder, kind: str) -> str:
    counters = _numbers.setdefault(graph, {})
    number = next(counters.setdefault(kind, itertools.count()))
    return kind if number == 0 else f"{kind}_{number}"


# ---- initialisers, as in the language


def zeros() -> InitialiserAttr:
    """Zero everywhere."""
    return InitialiserAttr.of("zeros")


def ones() -> InitialiserAttr:
    """One everywhere."""
    return InitialiserAttr.of("ones")


def constant(v: float) -> InitialiserAttr:
    """One value everywhere."""
    return _initialiser("constant", v)


def uniform(low: float = 0.0, high: float = 1.0) -> InitialiserAttr:
    """Uniform between two bounds."""
    return _initialiser("uniform", low, high)


def normal(mean: float = 0.0, std: float = 1.0) -> InitialiserAttr:
    """Normal with a mean and a standard deviation."""
    return _initialiser("normal", mean, std)


def glorot_uniform() -> InitialiserAttr:
    """Uniform, scaled by fan-in and fan-out (Glorot and Bengio, 2010)."""
    return InitialiserAttr.of("glorot_uniform")


def glorot_normal() -> InitialiserAttr:
    """Normal, scaled by fan-in and fan-out (Glorot and Bengio, 2010)."""
    return InitialiserAttr.of("glorot_normal")


def he_uniform() -> InitialiserAttr:
    """Uniform, scaled by fan-in (He et al., 2015)."""
    return InitialiserAttr.of("he_uniform")


def he_normal() -> InitialiserAttr:
    """Normal, scaled by fan-in (He et al., 2015)."""
    return InitialiserAttr.of("he_normal")


def _initialiser(name: str, *numbers: float) -> InitialiserAttr:
    """An initialiser of numbers. DiagnosticsError where one is none, or no float can hold it."""
    for number in cast("tuple[object, ...]", numbers):
        if isinstance(number, bool) or not isinstance(number, int | float | np.number):
            fail(f"{name} takes numbers, not {number!r:.80}")
    try:
        return InitialiserAttr.of(name, *map(float, numbers))
    except (OverflowError, TypeError) as error:
        fail(f"{name}: {error}")


def __dir__() -> list[str]:
    return __all__
