"""PyTorch and mgn: modules as programs, and mgn as a backend of `torch.compile`.

In: a `torch.nn.Module`. Out: a `Module` for `mgn.compile`; or, after `import mgn.torch`, kernels
behind `torch.compile(model, backend="mgn")`, for inference and for training.

    module = mgn.from_torch(net, (example,))
    logits = mgn.compile(module)(x=images)["output"]

    fast = torch.compile(net, backend="mgn")
    fast(images).sum().backward()
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from mgn.frontend.torch.exported import import_module
from mgn.frontend.torch.library import library
from mgn.modules.module import Module
from mgn.torch.backend import NAME, compile_graph


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
    name: str = "forward",
) -> Module:
    """A program of one graph from a `torch.nn.Module`, or from what `torch.export` gave.

    Sizes are those of the example inputs and `keywords`. Inputs have the names of the arguments of
    `forward`. Results have their keys, or are `output`, or `output_0` and so on. Parameters and
    buffers have their names in the state_dict and their values; one that has several names has the
    first. Training leaves buffers, and parameters without `requires_grad`, as they are, unless it
    is told to train them. DiagnosticsError that names each operator that mgn does not have, with
    its line.
    """
    imported = import_module(module, example_inputs, keywords, name)
    return Module(imported.module, imported.values, imported.fixed)


def register() -> None:
    """Makes `backend="mgn"` known to torch.compile, unless PyTorch knows of the installed package's
    entry point. Whoever loads that comes here too, and PyTorch refuses a name that is there.
    """
    registry = library("torch._dynamo.backends.registry")
    if NAME not in registry._BACKENDS:
        registry.register_backend(compile_graph, name=NAME)


if find_spec("torch") is not None:
    register()
