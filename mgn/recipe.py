"""How a graph was compiled, so that it can be compiled again: for an explanation.

In: a program, the graph, and all that its compilation depended on. Out: `Recipe`, which gives the
graph's IR afresh.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from mgn.codegen.opencl.opencl import BUILD_OPTIONS
from mgn.dialects.kernel.device import Device
from mgn.driver.pipelines import is_default
from mgn.modules.files import check_apart, write_whole
from mgn.modules.module import Module
from mgn.sizes.lengthen import Told, lengthened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mgn.driver.pipelines import Step
    from mgn.passes.saturate import SaturateOptions
    from mgn.program_cache.references import Reference
    from mgn.runtime.devices import ComputeDevice


@dataclass(frozen=True)
class Recipe:
    """A graph of a program, its dimensions, the device, the options, the passes where these are not
    the default ones, and the bytes of the device that it may take, where these are limited. Where
    there is a `reference`, another size, kernels are looked for among the operations chosen there.
    """

    module: Module
    graph: str
    dims: Mapping[str, int] | None
    device: Device
    saturation: "SaturateOptions | None" = None
    precision: str = "f32"
    pipeline: "Sequence[Step] | None" = None
    memory: int | None = None
    reference: "Reference | None" = None

    @property
    def is_exact(self) -> bool:
        """Whether only exact rules may act, so that results have the bits of separate kernels."""
        return self.saturation is not None and all(
            item == "exact" for item in self.saturation.classes
        )

    @property
    def cautious(self) -> "SaturateOptions":
        """The options without what is taken for granted of parameters."""
        from mgn.passes.saturate import SaturateOptions

        return replace(self.saturation or SaturateOptions(), moderate=False)

    def build_options(self, device: "ComputeDevice") -> tuple[str, ...]:
        """Options for the driver. A quotient that it may round as it likes, it rounds by what
        stands beside it.
        """
        return (BUILD_OPTIONS,) if self.is_exact and device.rounds_divisions else ()

    def search_options(self) -> "SaturateOptions | None":
        """The options of the search, as a compilation has them."""
        if self.reference is None or self.pipeline is not None or not is_default():
            return self.saturation
        from mgn.program_cache.cache import program_cache
        from mgn.program_cache.references import SearchSettings

        settings = SearchSettings(self.device, self.saturation, self.precision)
        return self.reference.options(settings, program_cache())

    def lower(self) -> ModuleOp:
        """A fresh module of the graph."""
        return self.module.lower(self.graph, self.dims)

    def page(self, times: "Sequence[tuple[str, float]]" = ()) -> str:
        """The page that explains the kernels; `times` are the launches of a run."""
        from mgn.explain import explain_graph, page_of

        explanation = explain_graph(
            self.lower(),
            self.device,
            saturation=self.search_options(),
            precision=self.precision,
            times=times,
            texts=self.module.texts,
            pipeline=self.pipeline,
            memory=self.memory,
        )
        return page_of(explanation)

    def write_page(self, path: str | Path, times: "Sequence[tuple[str, float]]" = ()) -> None:
        """Writes the page to a file, whole or not at all. MgnError where that cannot be, and where
        the program was read from that file.
        """
        check_apart(path, self.module.files)
        write_whole(path, self.page(times).encode())


@dataclass(frozen=True)
class LengthenedRecipe(Recipe):
    """A recipe whose program runs shorter sizes too, and is told of them."""

    told: "tuple[Told, ...]" = ()

    def lower(self) -> ModuleOp:
        """A fresh module of the graph."""
        return lengthened(super().lower(), self.told)
