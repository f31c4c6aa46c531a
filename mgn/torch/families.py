"""The sizes that one function is called with: further ones are searched by the first.

In: the parts of the graphs that Dynamo captures of a function, with the sizes of a call. Out: an
executable for each. The first part of each structure is searched whole, and is the reference of
those that come later: they are looked for among the operations chosen there, as the programs of a
range are. So what a size is compiled to depends on the first size of the function, and on nothing
else that was compiled before.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from xdsl.dialects.builtin import TensorType

from mgn.api import compile_lowered, describe_device, recipe_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.dialects.shapes import Shape
from mgn.driver.precision import check_precision
from mgn.executable import Executable
from mgn.frontend.torch.library import library
from mgn.modules.module import Module
from mgn.plugins.loading import load_plugins
from mgn.program_cache.references import Reference, SearchSettings
from mgn.recipe import Recipe
from mgn.torch.options import Options


class Family:
    """The graphs of one function and one set of shapes of its parameters, whose sizes differ."""

    def __init__(self) -> None:
        self._first: dict[Hashable, Reference] = {}

    def compiled(self, part: str, module: Module, options: Options) -> Executable:
        """An executable for a part of a graph, by the name that it has at every size."""
        from mgn.runtime.devices import choose

        load_plugins()
        check_precision(options.precision)
        device = choose(options.device)
        described = describe_device(device)
        recipe = recipe_of(module, None, None, described, precision=options.precision)
        if options.share:
            recipe = replace(recipe, reference=self._reference(part, recipe))
        return compile_lowered(recipe.lower(), device, recipe)

    def _reference(self, part: str, recipe: Recipe) -> Reference | None:
        """What a part is searched by; None where it is the first of its structure, or is that one
        again, or has few operations.
        """
        from mgn.passes.saturate.sharing.names import structure_of

        (graph,) = graphs_of(recipe.lower())
        own = Reference(recipe.lower)
        first = self._first.setdefault((part, structure_of(graph), places_of(graph)), own)
        settings = SearchSettings(recipe.device, recipe.saturation, recipe.precision)
        is_first = first is own or first.key(settings) == own.key(settings)
        return None if is_first or first.is_small(settings) else first


def places_of(graph: GraphOp) -> tuple[Shape, ...]:
    """The places, without samples and channels, of what convolutions of a graph read. How a
    convolution is best computed depends on them, so images of other sizes are no further size.
    """
    return tuple(
        [
            tuple(operand.type.get_shape())[2:]
            for op in graph.block.ops
            if isinstance(op, TensorOp) and "conv" in op.spec.name
            for operand in op.operands
            if isinstance(operand.type, TensorType)
        ]
    )


_Key = tuple[Hashable, tuple[tuple[int, ...], ...]]

_families: "WeakValueDictionary[_Key, Family]" = WeakValueDictionary()
"""Families by Dynamo's number of the function, and the shapes of parameters. They live as long as
what Dynamo keeps of the function.
"""


def family_of(inputs: Sequence[Any]) -> Family:
    """The family of the graph that Dynamo compiles now, with these example inputs. What Dynamo
    compiles for the first time has a new one.
    """
    torch = library()
    now = library("torch._guards").CompileContext.current_compile_id()
    if now is None:
        return Family()
    function = (now.compiled_autograd_id, now.frame_id)
    if now.frame_compile_id == 0:
        for key in [key for key in _families if key[0] == function]:
            del _families[key]
    parameters = [item for item in inputs if isinstance(item, torch.nn.Parameter)]
    key: _Key = (function, tuple([tuple(item.shape) for item in parameters]))
    family = _families.get(key)
    if family is None:
        family = _families[key] = Family()
    return family
