"""The backend: graphs that Dynamo captures, through AOT autograd, to kernels.

In: an FX graph with example inputs. Out: a function of tensors, through which gradients flow: AOT
autograd traces forward and backward together, and each becomes a program of mgn. Operators of mgn's
table are kept as they are, and PyTorch's core decompositions take others apart.
"""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from mgn.diagnostics import MgnWarning
from mgn.frontend.torch.decompositions import own_decompositions
from mgn.frontend.torch.library import library
from mgn.frontend.torch.operators import OPERATORS
from mgn.torch.cutting import RANDOM
from mgn.torch.families import Family, family_of
from mgn.torch.known_numbers import items_of, known_numbers
from mgn.torch.options import Options, options_of
from mgn.torch.running import Running

NAME = "mgn"

built: list[Running] = []
"""What was built since a test has emptied it."""


@cache
def decompositions() -> dict[Any, Any]:
    """PyTorch's core decompositions, without what mgn has and without what draws; and its own."""
    found = dict(library("torch._decomp").core_aten_decompositions().items())
    rest = {
        operator: function
        for operator, function in found.items()
        if str(operator) not in OPERATORS and str(operator).split(".")[1] not in RANDOM
    }
    return rest | own_decompositions() | {library().ops.aten.native_dropout.default: dropout}


def dropout(x: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """Dropout with its mask, which is drawn as PyTorch does, before anything else is computed: of x
    it needs the shape alone.
    """
    torch = library()
    if train is False or p == 0:
        return x, torch.ones_like(x, dtype=torch.bool)
    empty = torch.ops.aten.empty.memory_format(x.shape, dtype=torch.bool, device=x.device)
    mask = torch.ops.aten.bernoulli.p(empty, 1 - p)
    return x * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


def compile_graph(
    graph: Any,
    example_inputs: Sequence[Any],
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """A function for a graph that Dynamo has captured. Where its sizes are dynamic, it compiles for
    each size that comes.
    """
    chosen = options_of(mode, options)
    is_dynamic = any(map(_is_dynamic, example_inputs))
    reason = _foreign(graph, example_inputs, is_dynamic)
    if reason is not None:
        warnings.warn(f"PyTorch runs a graph that has {reason}", MgnWarning, stacklevel=2)
        return graph
    family = family_of(example_inputs)
    if is_dynamic:
        return BySize(graph, chosen, family)
    return _compiled(graph, example_inputs, chosen, family)


def _foreign(graph: Any, inputs: Sequence[Any], is_dynamic: bool) -> str | None:
    """What a graph has that AOT autograd does not trace: a tensor that is given other memory, or of
    a class of its own, unless it is made of plain ones of fixed sizes; None where it has none.
    """
    torch = library()
    if any(str(node.target) == "aten.shallow_copy_data_" for node in graph.graph.nodes):
        return "a tensor whose `.data` is set"
    is_wrapper = library("torch.utils._python_dispatch").is_traceable_wrapper_subclass
    plain = (torch.Tensor, torch.nn.Parameter, library("torch._subclasses").FakeTensor)
    for item in inputs:
        is_foreign = isinstance(item, torch.Tensor) and type(item) not in plain
        if is_foreign and (is_dynamic or not is_wrapper(item)):
            return f"a tensor of class {type(item).__name__}"
    return None


def _is_dynamic(value: Any) -> bool:
    torch = library()
    if isinstance(value, torch.Tensor):
        sizes = [*value.shape, *(value.stride() if value.layout is torch.strided else ())]
        return any(isinstance(size, torch.SymInt) for size in sizes)
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def _compiled(
    graph: Any, inputs: Sequence[Any], options: Options, family: Family
) -> Callable[..., Any]:
    """A function for a graph of fixed sizes."""
    aot_autograd = library("torch._dynamo.backends.common").aot_autograd
    backend = aot_autograd(
        fw_compiler=partial(_running, "forward", options, family),
        bw_compiler=partial(_running, "backward", options, family),
        inference_compiler=partial(_running, "inference", options, family),
        decompositions=decompositions(),
        partition_fn=library("functorch.compile").min_cut_rematerialization_partition,
    )
    return backend(graph, inputs)


def _running(role: str, options: Options, family: Family, graph: Any, inputs: Sequence[Any]) -> Any:
    frozen: Sequence[int] = ()
    seen = 0
    context = library("torch._guards").TracingContext.try_get()
    if role != "backward" and context and context.fw_metadata:
        seen = context.fw_metadata.num_forward_returns
        if options.freeze and role == "inference":
            frozen = context.fw_metadata.static_input_indices
    running = Running(role, graph, options, family, frozen, seen)
    built.append(running)
    return library("functorch.compile").make_boxed_func(running)


class BySize:
    """A graph with dynamic sizes: one compilation for each size, which is searched by the first of
    its function, up to a bound; beyond it PyTorch runs the graph, and a warning says so once.
    """

    def __init__(self, graph: Any, options: Options, family: Family) -> None:
        self.graph, self.options, self.family = graph, options, family
        self.known = known_numbers(graph)
        self.compiled: dict[Any, Callable[..., Any]] = {}
        self._has_warned = False

    def __call__(self, *arguments: Any) -> Any:
        torch = library()
        values = [
            item.item() if number in self.known else item for number, item in enumerate(arguments)
        ]
        key = tuple(
            (tuple(item.shape), item.stride()) if isinstance(item, torch.Tensor) else repr(item)
            for item in values
        )
        function = self.compiled.get(key)
        if function is None and len(self.compiled) >= self.options.sizes:
            return self._eager(arguments)
        if function is None:
            function = self.compiled[key] = torch._dynamo.disable(self._compile)(values)
        rest = [item for item in values if isinstance(item, torch.Tensor)]
        return function(*rest)

    def _eager(self, arguments: Sequence[Any]) -> Any:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"mgn has compiled a graph for {self.options.sizes} sizes, and PyTorch runs it for "
                "others; options={'sizes': …} is the bound",
                MgnWarning,
                stacklevel=2,
            )
        return self.graph(*arguments)

    def _compile(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        """The graph with its numbers filled in, compiled for the sizes of these tensors."""
        torch = library()
        graph = torch.fx.GraphModule(self.graph, copy.deepcopy(self.graph.graph))
        _hand_on(self.graph, graph)
        places = [node for node in graph.graph.nodes if node.op == "placeholder"]
        for number, (node, value) in enumerate(zip(places, arguments, strict=True)):
            if isinstance(value, torch.Tensor):
                continue
            for read in items_of(node) if number in self.known else [node]:
                _fill_in(read, value)
                if read is not node:
                    graph.graph.erase_node(read)
            graph.graph.erase_node(node)
        for node in graph.graph.nodes:
            node.meta.pop("example_value", None)
        graph.recompile()
        shapes = library("torch.fx.experimental.symbolic_shapes").ShapeEnv()
        fake = library("torch._subclasses").FakeTensorMode(
            allow_non_fake_inputs=True, shape_env=shapes, static_shapes=True
        )
        inputs = [fake.from_tensor(item) for item in arguments if isinstance(item, torch.Tensor)]
        return _compiled(graph, inputs, self.options, self.family)


def _hand_on(graph: Any, copied: Any) -> None:
    """Notes at a copy of a graph what Dynamo says of it: which of its inputs are parameters. AOT
    autograd then keeps these for the backward pass, and no copies that are turned.
    """
    copied.meta.update(graph.meta)
    copied._param_name_to_source = getattr(graph, "_param_name_to_source", {})
    places = (item.graph.find_nodes(op="placeholder") for item in (graph, copied))
    for node, other in zip(*places, strict=True):
        other._dynamo_source = getattr(node, "_dynamo_source", None)


def _fill_in(node: Any, value: Any) -> None:
    """A number in the place of a node, wherever it is used."""
    map_arg = library("torch.fx.node").map_arg
    for user in list(node.users):
        user.args = map_arg(user.args, lambda item: value if item is node else item)
        user.kwargs = map_arg(user.kwargs, lambda item: value if item is node else item)
