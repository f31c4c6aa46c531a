"""A compiled graph that takes any size of a dimension's range.

In: a `SizePlan` and the way to compile a recipe. Out: `SizedExecutable`, called like any other. A
run goes to the program for the least bucket that has room for it: inputs are padded, results are
cut. A size that no bucket does for gets a program of its own. Parameters and states are shared, and
what is made of parameters alike.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mgn.codegen.launch_plan import BufferPlan
from mgn.dialects.shapes import Shape
from mgn.driver.compilation import Compiled
from mgn.executable import Executable
from mgn.parameters import Parameters
from mgn.program_cache.references import Reference
from mgn.recipe import LengthenedRecipe, Recipe
from mgn.runtime.devices import ComputeDevice
from mgn.runtime.host_arrays import check_inputs, fitting
from mgn.runtime.launching.device_arrays import DeviceArray
from mgn.runtime.launching.profile import LaunchTime
from mgn.runtime.memory import DeviceMemory
from mgn.sizes.plan import SizePlan, Way

MOST_OWN = 8
"""Programs for single sizes that are kept; the one unused for longest is dropped."""

Maker = Callable[[Recipe, Parameters], Executable]
"""Compiles a recipe to an executable that shares parameters."""


class SizedExecutable(Executable):
    """A graph on a device, for a range of sizes. `sizes` says which programs run which of them.

    It is itself the program for one of the sizes: `report`, `plan` and `kernels` are of that one.
    `ran` is the program that ran last.
    """

    def __init__(
        self,
        compiled: Compiled,
        device: ComputeDevice,
        recipe: Recipe,
        seed: int = 0,
        cautious: Callable[[], Compiled] | None = None,
        params: Parameters | None = None,
        *,
        sizes: SizePlan,
        first: int,
        make: Maker,
    ) -> None:
        super().__init__(compiled, device, recipe, seed, cautious, params)
        self.sizes = sizes
        self._make = make
        self._choosing = threading.RLock()
        self._buckets: dict[int, Executable] = {}
        self._own: OrderedDict[int, Executable] = OrderedDict()
        self._first = first
        self._ran: Executable = self

    @property
    def ran(self) -> Executable:
        """The program that ran last."""
        return self._ran

    @property
    def told_names(self) -> frozenset[str]:
        """The inputs of the plan that callers do not give."""
        return self.sizes.told_names

    @property
    def programs(self) -> dict[int, Executable]:
        """The programs that are compiled by now, by their sizes."""
        with self._choosing:
            return {self._first: self, **self._buckets, **self._own}

    def compile_all(self) -> None:
        """Compiles the programs of all buckets now, and not when they are first needed."""
        for bucket in self.sizes.buckets:
            self._program(bucket, True)

    def _program(self, size: int, is_bucket: bool) -> Executable:
        """The program for a size, compiled where there is none yet."""
        with self._choosing:
            if size == self._first:
                return self
            kept = self._buckets if is_bucket else self._own
            if size not in kept:
                kept[size] = self._make(recipe_at(self.recipe, self.sizes, size), self.params)
            if not is_bucket:
                self._own.move_to_end(size)
                while len(self._own) > MOST_OWN:
                    self._own.popitem(last=False)
            return kept[size]

    @property
    def memories(self) -> list[DeviceMemory]:
        """The buffers of all programs' plans."""
        others = [item for item in self.programs.values() if item is not self]
        return [*super().memories, *(memory for item in others for memory in item.memories)]

    def run(
        self, inputs: Mapping[str, Any], *, profile: bool = False, seed: int | None = None
    ) -> dict[str, np.ndarray]:
        """The results by name for inputs of any size of the range; with `profile`, each launch is
        timed.
        """
        size, way, arrays = self._way_of(inputs)
        program = self._program_of(size, way)
        given = self._given(arrays, size, way)
        outputs = Executable.run(program, given, profile=profile, seed=seed)
        self._ran = program
        return {name: _cut(array, way.outputs[name]) for name, array in outputs.items()}

    def run_on_device(self, /, **inputs: Any) -> dict[str, DeviceArray]:
        """The same with results that stay on the device. Those are not cut: where one would have to
        be, the size runs in a program of its own.
        """
        seed = self._seed_among(inputs)
        size, way, arrays = self._way_of(inputs)
        if way.bucket not in (None, size) and self.sizes.way(way.bucket).outputs != way.outputs:
            way = replace(way, bucket=None)
        program = self._program_of(size, way)
        if seed is not None:
            self.seed(seed)
        found = Executable.run_on_device(program, **self._given(arrays, size, way))
        self._ran = program
        return found

    def _program_of(self, size: int, way: Way) -> Executable:
        return self._program(size if way.bucket is None else way.bucket, way.bucket is not None)

    def _way_of(self, inputs: Mapping[str, Any]) -> tuple[int, Way, dict[str, Any]]:
        """The size of a run's inputs, how it runs, and the inputs as arrays. InputError where they
        have no size, or are not what the graph takes at the size.
        """
        shapes = {name: tuple(np.shape(value)) for name, value in inputs.items()}
        size = self.sizes.size_of(shapes)
        with self._choosing:
            way = self.sizes.way(size)
        arrays = check_inputs(way.inputs, inputs, self._taken)
        names = [planned.name for planned in way.inputs]
        return size, way, dict(zip(names, arrays, strict=True))

    def _taken(self, value: Any, planned: BufferPlan) -> Any:
        """An input as it is, on the device or as an array. InputError where it is another."""
        if isinstance(value, DeviceArray):
            value.check(planned, self.params.session)
            return value
        return fitting(value, planned.element, planned.shape)

    def _given(self, arrays: Mapping[str, Any], size: int, way: Way) -> dict[str, Any]:
        """What the program takes: inputs with padding, and what it is told of the size."""
        if way.bucket is None:
            return dict(arrays)
        if way.bucket == size:
            return {**arrays, **way.told}
        wanted = {planned.name: planned.shape for planned in self.sizes.way(way.bucket).inputs}
        wide = {name: padded(value, wanted[name]) for name, value in arrays.items()}
        return {**wide, **way.told}

    @property
    def profile(self) -> list[LaunchTime]:
        """The launches of the last run with `profile=True`."""
        return super().profile if self._ran is self else self._ran.profile

    def replay(self, *, profile: bool = False, times: int = 1) -> list[LaunchTime]:
        """Runs the launches of the last run again; see `Executable.replay`."""
        return Executable.replay(self._ran, profile=profile, times=times)

    def trace(self, path: str | Path) -> None:
        """Writes the last profiled run as a trace for Perfetto."""
        Executable.trace(self._ran, path)

    def explain(self, path: str | Path) -> None:
        """Writes a page of HTML that says how each kernel of the last run's program came about."""
        Executable.explain(self._ran, path)


def recipe_at(recipe: Recipe, plan: SizePlan, size: int) -> Recipe:
    """How the program for a size is compiled, as others are; that of a bucket runs shorter sizes
    too, and its kernels are looked for among the operations of the plan's reference.
    """
    dims = {**(recipe.dims or {}), plan.dimension: size}
    told = plan.told if size in plan.buckets else ()
    found = LengthenedRecipe(
        recipe.module,
        recipe.graph,
        dims,
        recipe.device,
        recipe.saturation,
        recipe.precision,
        recipe.pipeline,
        recipe.memory,
        told=told,
    )
    if size not in plan.buckets or size == plan.reference:
        return found
    if plan.searched is None:
        assert plan.reference is not None
        plan.searched = Reference(recipe_at(recipe, plan, plan.reference).lower)
    return replace(found, reference=plan.searched)


def padded(value: Any, shape: Shape) -> Any:
    """An array with zeros behind its elements, in a shape that is not smaller."""
    if value.shape == shape:
        return value
    array: np.ndarray = value.numpy() if isinstance(value, DeviceArray) else value
    wide = np.zeros(shape, array.dtype)
    wide[tuple(slice(size) for size in array.shape)] = array
    return wide


def _cut(array: np.ndarray, shape: Shape) -> np.ndarray:
    """The leading corner of an array."""
    if array.shape == shape:
        return array
    return np.ascontiguousarray(array[tuple(slice(size) for size in shape)])
