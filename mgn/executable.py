"""A compiled graph as Python sees it: call it with arrays, get arrays.

In: a `Compiled` graph and a device. Out: `Executable`, with its parameters as a mapping.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np

from mgn.dialects.moderate import is_moderate
from mgn.dialects.types import spelling
from mgn.driver.compilation import Compiled
from mgn.driver.report import OptimizeReport
from mgn.modules.call_arguments import check_arguments
from mgn.modules.initialisers import initial_value
from mgn.recipe import Recipe
from mgn.runtime.devices import ComputeDevice
from mgn.runtime.host_arrays import as_array
from mgn.runtime.launching.executable import Executable as DeviceExecutable
from mgn.runtime.launching.profile import LaunchTime
from mgn.runtime.weights import load_params, save_params


class Parameters(MutableMapping[str, np.ndarray]):
    """The parameters of an executable by external name, on the device.

    Reading gives a copy. Setting checks name, shape and dtype; `admit` is called after it, with
    the value. Parameters cannot be deleted.
    """

    def __init__(
        self,
        executable: DeviceExecutable,
        compiled: Compiled,
        seed: int,
        admit: Callable[[np.ndarray], None],
    ) -> None:
        self._executable = executable
        self._declared = compiled.parameters
        self._seed = seed
        self._admit = admit
        self._unset = set(executable.parameters)

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._unset and self._declared[name].initialiser is not None:
            self.initialise(name)
        return self._executable.get_param(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._executable.set_param(name, value)
        self._unset.discard(name)
        self._admit(as_array(value))

    def move_to(self, executable: DeviceExecutable) -> None:
        """Gives another executable of the same graph the values, and stands for its parameters."""
        for name in [name for name in self if name not in self._unset]:
            executable.set_param(name, self._executable.get_param(name))
        self._executable = executable

    def __delitem__(self, name: str) -> None:
        raise TypeError("parameters cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._executable.parameters)

    def __len__(self) -> int:
        return len(self._executable.parameters)

    def __repr__(self) -> str:
        listing = ", ".join(f"{name}: {spelling(self._declared[name].type)}" for name in self)
        return f"Parameters({listing})"

    def initialise(self, name: str) -> None:
        """Draws a parameter's first value; normal(0, 0.02) where it has no initialiser."""
        if name not in self._executable.parameters:
            self._executable.get_param(name)
        self[name] = initial_value(self._declared[name], self._seed)

    def initialise_declared(self) -> None:
        """Draws every unset parameter that has an initialiser."""
        for name in [name for name in self if name in self._unset]:
            if self._declared[name].initialiser is not None:
                self.initialise(name)

    @property
    def without_value(self) -> list[str]:
        """Parameters that have neither a value nor an initialiser."""
        return [
            name for name in self if name in self._unset and not self._declared[name].initialiser
        ]


class Executable:
    """A graph on a device: `out = exe(x=array)`.

    `params` holds the parameters, `report` says how the kernels came about. Where these take
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
    ) -> None:
        self.recipe = recipe
        self._cautious = cautious
        self._lock = threading.Lock()
        self._executable = self._built(compiled, device)
        self.params = Parameters(self._executable, compiled, seed, self._admit)

    def _built(self, compiled: Compiled, device: ComputeDevice) -> DeviceExecutable:
        """The kernels built for the device; this executable reports of them from now on."""
        self.report: OptimizeReport = compiled.report
        self.kernels = compiled.kernels
        self.plan = compiled.plan
        start = time.perf_counter()
        options = self.recipe.build_options(device)
        executable = DeviceExecutable(compiled.plan, compiled.kernels, device, options=options)
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
            self._executable = self._built(self._cautious(), self.device)
            self.params.move_to(self._executable)

    @property
    def _assumes_moderate(self) -> bool:
        return bool(getattr(self.report.saturation, "assumes_moderate", False))

    @property
    def device(self) -> ComputeDevice:
        """The device it runs on."""
        return self._executable.device

    @property
    def profile(self) -> list[LaunchTime]:
        """The launches of the last run with `profile=True`."""
        return self._executable.profile

    def __call__(self, /, **inputs: Any) -> dict[str, np.ndarray]:
        """Runs the graph on arrays by input name and gives its results by name."""
        return self.run(inputs)

    def run(self, inputs: Mapping[str, Any], *, profile: bool = False) -> dict[str, np.ndarray]:
        """The same with a mapping; with `profile`, each launch is timed."""
        self.params.initialise_declared()
        outputs = self._executable.run(inputs, profile=profile)
        if self.plan.prepare:
            self.report.prepare_seconds = self._executable.preparation.seconds
        if profile:
            self.report.measured_seconds = sum(item.seconds for item in self.profile)
        return outputs

    def replay(self, *, profile: bool = False) -> list[LaunchTime]:
        """Runs the launches again on what is on the device, and waits: for timing.

        With `profile`, gives the device's own time of each launch; else an empty list.
        """
        self._executable.replay(profile=profile)
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

    def load_params(self, path: str | Path) -> int:
        """Loads all parameters from a .safetensors or .npz file; the number of arrays left over.

        WeightsError where one is missing or of another type.
        """
        check_arguments("load_params", path=path)
        loaded = load_params(path, self._executable.parameters)
        for name, array in loaded.arrays.items():
            self.params[name] = array
        return loaded.extra

    def save_params(self, path: str | Path) -> None:
        """Writes all parameters to a .safetensors file."""
        check_arguments("save_params", path=path)
        save_params(path, dict(self.params))
