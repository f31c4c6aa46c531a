"""A compiled graph as Python sees it: call it with arrays, get arrays.

In: a `Compiled` graph and a device. Out: `Executable`, with its parameters and states as mappings.
"""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mgn.codegen.launch_plan import BufferKind
from mgn.diagnostics import MgnError
from mgn.dialects.mgn.build import RANDOM_STATE
from mgn.dialects.mgn.philox import key_of
from mgn.dialects.moderate import is_moderate
from mgn.driver.compilation import Compiled
from mgn.driver.report import OptimizeReport
from mgn.modules.call_arguments import check_arguments
from mgn.parameters import Parameters
from mgn.recipe import Recipe
from mgn.runtime.checkpoints.renaming import Rename
from mgn.runtime.devices import ComputeDevice
from mgn.runtime.launching.description import Described, check_all_named
from mgn.runtime.launching.device_arrays import DeviceArray
from mgn.runtime.launching.profile import LaunchTime
from mgn.runtime.launching.session import Session, States
from mgn.runtime.launching.watched import WatchedExecutable as DeviceExecutable
from mgn.runtime.memory import DeviceMemory, bytes_together

MOST_SEEDS = 1 << 64


class Executable(Described):
    """A graph on a device: `out = exe(x=array)`.

    `params` holds the parameters and `state` the states: those of all graphs that were compiled
    together with this one. `report` says how the kernels came about. Where these take
    parameters to be moderate and one is set that is not, `cautious` compiles the graph again,
    without that.
    """

    def __init__(
        self,
        compiled: Compiled,
        device: ComputeDevice,
        recipe: Recipe,
        seed: int = 0,
        cautious: Callable[[], Compiled] | None = None,
        params: Parameters | None = None,
    ) -> None:
        self.recipe = recipe
        self._cautious = cautious
        self._lock = threading.Lock()
        self.params = Parameters(Session(device), seed) if params is None else params
        self.state = States(self.params.session)
        self.params.check_untrained(compiled)
        self._executable = self._built(compiled)
        self.params.declare(compiled, self._admit)
        self._admit_all(compiled)

    def _built(self, compiled: Compiled) -> DeviceExecutable:
        """The kernels built for the device; this executable reports of them from now on."""
        self.report: OptimizeReport = compiled.report
        self.kernels = compiled.kernels
        self.plan = compiled.plan
        start = time.perf_counter()
        session = self.params.session
        options = self.recipe.build_options(session.device)
        executable = DeviceExecutable(
            compiled.plan, compiled.kernels, session.device, options=options, session=session
        )
        seconds = time.perf_counter() - start
        built = executable.build
        self.report.from_cache = built.from_cache
        self.report.times += [("build", built.seconds), ("bind", seconds - built.seconds)]
        return executable

    def _admit(self, value: np.ndarray) -> None:
        """Compiles the graph again where a parameter's value is not what the kernels take."""
        with self._lock:
            if self._cautious is None or not self._assumes_moderate or is_moderate(value):
                return
            self._executable = self._built(self._cautious())

    def _admit_all(self, compiled: Compiled) -> None:
        """The same for the values that parameters of another compilation have already."""
        valued = self.params.keys() - self.params.session.unset_parameters
        for name in compiled.parameters.keys() & valued:
            if self._cautious is not None and self._assumes_moderate:
                self._admit(self.params[name])

    @property
    def _assumes_moderate(self) -> bool:
        return bool(getattr(self.report.saturation, "assumes_moderate", False))

    @property
    def device(self) -> ComputeDevice:
        """The device it runs on."""
        return self._executable.device

    @property
    def launched(self) -> DeviceExecutable:
        """The launches as they are now; a graph that is compiled again has others."""
        return self._executable

    @property
    def memories(self) -> list[DeviceMemory]:
        """The buffers of each plan that it runs."""
        return [self._executable.memory]

    @property
    def allocated(self) -> int:
        """Bytes of device memory in use; what several plans share counts once."""
        return bytes_together(self.memories)

    @property
    def held_bytes(self) -> int:
        """Those of parameters and states."""
        return self._executable.held_bytes

    @property
    def state_types(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name to element and shape of every state that the graph reads or writes, but of those
        that are parameters.
        """
        states, own = self._executable.states, {*self.state}
        return {name: type for name, type in states.items() if name in own}

    def reset(self) -> None:
        """Gives every state its first value."""
        self.params.session.reset()

    @property
    def profile(self) -> list[LaunchTime]:
        """The launches of the last run with `profile=True`."""
        return self._executable.profile

    def __call__(self, /, *unnamed: Any, **inputs: Any) -> dict[str, np.ndarray]:
        """Runs the graph on arrays by input name and gives its results by name.

        In a graph that draws random numbers, `seed = 7` begins the numbers of that seed; a run
        without one goes on with others.
        """
        check_all_named(unnamed, self.plan)
        seed = self._seed_among(inputs)
        return self.run(inputs, seed=seed)

    def run(
        self, inputs: Mapping[str, Any], *, profile: bool = False, seed: int | None = None
    ) -> dict[str, np.ndarray]:
        """The same with a mapping; with `profile`, each launch is timed."""
        if seed is not None:
            self.seed(seed)
        self.params.initialise_declared()
        outputs = self._executable.run(inputs, profile=profile)
        if self.plan.prepare:
            self.report.prepare_seconds = self._executable.preparation.seconds
        if profile:
            self.report.measured_seconds = sum(item.seconds for item in self.profile)
        return outputs

    def run_on_device(self, /, **inputs: Any) -> dict[str, DeviceArray]:
        """Runs the graph and leaves its results on the device, for `numpy()` or as inputs of the
        graphs that were compiled together with this one: then nothing crosses to the host.
        """
        self.params.initialise_declared()
        seed = self._seed_among(inputs)
        if seed is not None:
            self.seed(seed)
        return self._executable.run_on_device(inputs)

    def _seed_among(self, inputs: dict[str, Any]) -> int | None:
        """The seed among the arguments of a call, where the graph draws and has no such input."""
        if "seed" not in inputs:
            return None
        names = {buffer.name for _, buffer in self.plan.of_kind(BufferKind.INPUT)}
        draws = RANDOM_STATE in self._executable.states and "seed" not in names
        return inputs.pop("seed") if draws else None

    def seed(self, seed: int) -> None:
        """Begins the random numbers of a seed. MgnError where the graph draws none."""
        check_arguments("seed", seed=seed)
        if not 0 <= seed < MOST_SEEDS:
            raise MgnError("seed takes a number from 0 to 2**64 - 1")
        if RANDOM_STATE not in self._executable.states:
            raise MgnError(f"graph '{self.plan.name}' draws no random numbers")
        self.state[RANDOM_STATE] = key_of(seed)

    def replay(self, *, profile: bool = False, times: int = 1) -> list[LaunchTime]:
        """Runs the launches again on what is on the device, and waits: for timing.

        `times` runs follow one another without a wait between them. With `profile`, gives the
        device's own time of each launch, in the last run; else an empty list.
        """
        check_arguments("replay", times=times)
        self._executable.replay(profile=profile, times=times)
        return self._executable.profile if profile else []

    def trace(self, path: str | Path) -> None:
        """Writes the last profiled run as a trace for Perfetto."""
        check_arguments("trace", path=path)
        self._executable.trace(path)

    def explain(self, path: str | Path) -> None:
        """Writes a page of HTML that says how each kernel came about.

        It has the times of the last profiled run, where there was one. The graph is compiled again.
        """
        check_arguments("explain", path=path)
        times = [(item.kernel, item.seconds) for item in self.profile if item.kernel != "copy"]
        self.recipe.write_page(path, times)

    def load_params(self, path: str | Path, rename: Rename = None, dtype: str | None = None) -> int:
        """Loads all parameters from a checkpoint; the number of arrays left over.

        The path is a .safetensors, .npz, .gguf or PyTorch file, an index of several, or a folder of
        Hugging Face. Floats of any type become those of the parameter; `dtype` says what they are
        rounded to before. `rename` is a mapping from the file's names to the parameters', or rules
        `PATTERN=NAME`. `report.loaded` lists what was converted.
        WeightsError, before one is set, where one is missing, or of a type that is not converted.
        """
        wanted = self._executable.parameters | self.params.trained_types
        loaded = self.params.load(path, wanted, rename, dtype)
        self.report.loaded = loaded
        return loaded.extra

    def save_params(self, path: str | Path) -> None:
        """Writes all parameters to a .safetensors file."""
        self.params.save(path)
