"""Programs that `torch.export` captures, as modules with the values of their parameters.

In: a `torch.nn.Module` with example inputs, or a `torch.export.ExportedProgram`. Out: the module of
one graph, and its parameters' values by their names in the state_dict. Operators of the table are
kept as they are; PyTorch's core decompositions take the others apart.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from mgn.diagnostics import MgnError, one_line
from mgn.frontend.torch.arrays import array_of_tensor
from mgn.frontend.torch.decompositions import own_decompositions
from mgn.frontend.torch.graph import Source, import_graph, is_tensor
from mgn.frontend.torch.library import library
from mgn.frontend.torch.operators import OPERATORS

_MOST_SAID = 300


@dataclass(frozen=True)
class Imported:
    """A module of one graph, and the values of its parameters. `fixed` are those that PyTorch does
    not train: buffers, and parameters without `requires_grad`.
    """

    module: ModuleOp
    values: Mapping[str, np.ndarray]
    fixed: frozenset[str]


def kept(table: Any) -> Any:
    """A table of decompositions without the operators that mgn has, and with its own."""
    for operator in [item for item in table if str(item) in OPERATORS]:
        table.pop(operator)
    table.update(own_decompositions())
    return table


def export_module(
    module: Any, example_inputs: Sequence[Any], keywords: Mapping[str, Any] | None = None
) -> Any:
    """What `torch.export` makes of a module, its sizes those of the example."""
    torch = library()
    if isinstance(module, torch.export.ExportedProgram):
        return module
    if not isinstance(module, torch.nn.Module):
        raise MgnError(f"from_torch takes a torch.nn.Module, not {type(module).__name__}")
    if not isinstance(example_inputs, tuple | list):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MgnError("from_torch takes the example inputs as a tuple, such as (x,)")
    try:
        with torch.no_grad():
            return torch.export.export(module, tuple(example_inputs), dict(keywords or {}))
    except Exception as error:  # PyTorch raises many kinds, and those of the module itself
        said = one_line(str(error).strip().partition("\n\n")[0], _MOST_SAID)
        raise MgnError(
            f"torch.export cannot capture the module: {type(error).__name__}: {said}"
        ) from error


def import_module(
    module: Any,
    example_inputs: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
    name: str = "forward",
) -> Imported:
    """The graph of a module's forward pass. DiagnosticsError that names what is not supported, with
    its line; MgnError where the module changes its buffers, as in training.
    """
    exported = export_module(module, example_inputs, keywords)
    torch = library()
    with torch.no_grad():
        exported = exported.run_decompositions(kept(torch.export.default_decompositions()))
    signature = exported.graph_signature
    buffers = [*signature.buffers_to_mutate.values()]
    inputs = [*signature.user_inputs_to_mutate.values()]
    for changed, hint in (
        (buffers, "module.eval() may prevent that"),
        (inputs, "it takes a copy first, as in x = x.clone()"),
    ):
        if changed:
            what = "its input " * (changed is inputs)
            listing = ", ".join(f"'{item}'" for item in changed[:8])
            raise MgnError(f"the module changes {what}{listing} when it runs; {hint}")
    sources, values, fixed = _sources(exported)
    nodes = {node.name: node for node in exported.graph.nodes}
    labels = _result_names(exported)
    results = [
        (label, nodes[spec.arg.name])
        for label, spec in zip(labels, signature.output_specs, strict=True)
        if type(spec.arg).__name__ == "TensorArgument"
        and is_tensor(nodes[spec.arg.name].meta.get("val"))
    ]
    if not results:
        raise MgnError("the module gives no tensor")
    return Imported(import_graph(name, exported.graph.nodes, sources, results), values, fixed)


def _sources(
    exported: Any,
) -> tuple[dict[str, Source], dict[str, np.ndarray], frozenset[str]]:
    """Where placeholders' values come from, the parameters' values, and which of these are not
    trained. What has one place in memory is one parameter, and what the state_dict does not hold is
    a constant.
    """
    kinds = library("torch.export.graph_signature").InputKind
    user_input = kinds.USER_INPUT
    trained: set[str] = set()
    users = {node.name: bool(node.users) for node in exported.graph.nodes}
    sources: dict[str, Source] = {}
    values: dict[str, np.ndarray] = {}
    known: dict[Any, str] = {}
    for name, held in exported.state_dict.items():
        known.setdefault(_memory_of(held) if held.numel() else name, name)
    for spec in exported.graph_signature.input_specs:
        place = getattr(spec.arg, "name", None)
        if place is None or not hasattr(spec.arg, "name"):
            continue
        if spec.kind is user_input:
            if type(spec.arg).__name__ == "TensorArgument":
                sources[place] = Source(input=place)
            continue
        if not users[place]:
            continue
        held = exported.state_dict.get(spec.target)
        if held is None:
            constant = exported.constants[spec.target]
            sources[place] = Source(array=array_of_tensor(constant))
            continue
        name = known[_memory_of(held) if held.numel() else spec.target]
        sources[place] = Source(parameter=name)
        values.setdefault(name, array_of_tensor(held))
        if spec.kind is kinds.PARAMETER and held.requires_grad:
            trained.add(name)
    return sources, values, frozenset(values.keys() - trained)


def _memory_of(held: Any) -> tuple[Any, ...]:
    """What tells one tensor from another: where it lies, and how."""
    return (
        held.untyped_storage().data_ptr(),
        held.storage_offset(),
        tuple(held.shape),
        held.stride(),
        held.dtype,
    )


def _result_names(exported: Any) -> list[str]:
    """A name for each result: its key where the module gives them by key, else `output` with its
    place where there are several.
    """
    pytree = library("torch.utils._pytree")
    spec = exported.call_spec.out_spec
    leaves = [None] * spec.num_leaves
    paths = pytree.tree_flatten_with_path(pytree.tree_unflatten(leaves, spec),
                                          is_leaf=lambda item: item is None)[0]  # fmt: skip
    names: list[str] = []
    for path, _ in paths:
        parts = re.findall(r"\w+", pytree.keystr(path))
        named = [part for part in parts if not part.isdigit()]
        label = "_".join(parts) if named else "_".join(["output", *parts])
        while label in names:
            label += "_"
        names.append(label)
    return names if len(names) > 1 or names[0] != "output_0" else ["output"]
