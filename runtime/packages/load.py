"""Runs a package: a graph that was compiled ahead of time, on any device that it fits.

In: a `.mgnpkg` file (see `format.py`) and a device's selector. Out: `PackagedExecutable`,
which is called like the executable that `mgn.compile` gives. No part of the compiler is imported.
"""

from collections.abc import Iterator, MutableMapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from mgn.codegen.signature import KernelSignature
from mgn.diagnostics import WrongType
from mgn.runtime.cache import KernelCache
from mgn.runtime.checkpoints.load import LoadReport, load_params
from mgn.runtime.checkpoints.renaming import Rename
from mgn.runtime.devices import ComputeDevice, choose
from mgn.runtime.errors import DeviceError, PackageError
from mgn.runtime.host_arrays import shown
from mgn.runtime.launching.description import Described, check_all_named
from mgn.runtime.launching.executable import Executable
from mgn.runtime.launching.session import States
from mgn.runtime.memory import planned_bytes
from mgn.runtime.packages.format import Package
from mgn.runtime.packages.reader import read_package
from mgn.runtime.weights import save_params
from mgn.runtime.whole_files import as_path
from mgn.tasks import task


def load_package(path: str | Path, device: str = "auto") -> "PackagedExecutable":
    """The executable of a package. PackageError where the file is none, or is damaged.

    DeviceError where the device cannot run it. Kernels are built from SPIR-V where the device takes
    it, else from OpenCL C.
    """
    try:
        data = as_path(path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PackageError(f"cannot open {shown(str(path), 4096)}: {reason}") from None
    except MemoryError:
        raise PackageError(f"{shown(str(path), 4096)} is larger than the memory") from None
    if not isinstance(device, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise WrongType(f"load_package: 'device' takes a selector, not {type(device).__name__}")
    return PackagedExecutable(read_package(data, str(path)), device)


class PackagedExecutable(Described, Executable):
    """A packaged graph on a device: `out = exe(x=array)`.

    `params` holds its parameters; those that the package lacks have to be loaded or set. `state`
    holds its states, which begin with the values that the package has. `loaded` says what was
    loaded last.
    """

    loaded: LoadReport | None = None

    def __init__(
        self,
        package: Package,
        device: ComputeDevice | str = "auto",
        *,
        cache: KernelCache | None = None,
        guard: bool = False,
    ) -> None:
        chosen = choose(device) if isinstance(device, str) else device
        self.kernels = kernels_for(package, chosen)
        super().__init__(package.plan, self.kernels, chosen, cache=cache, guard=guard)
        self.params = PackagedParameters(self)
        self.state = States(self.session)
        self.params.update(package.parameters)

    def __call__(self, /, *unnamed: Any, **inputs: Any) -> dict[str, np.ndarray]:
        """Runs the graph on arrays by input name and gives its results by name."""
        check_all_named(unnamed, self.plan)
        return self.run(inputs)

    def reset(self) -> None:
        """Gives every state its first value."""
        self.session.reset()

    def load_params(self, path: str | Path, rename: Rename = None, dtype: str | None = None) -> int:
        """Loads all parameters from a checkpoint; the number of arrays left over.

        The path is a .safetensors, .npz, .gguf or PyTorch file, an index of several, or a folder of
        Hugging Face. Floats of any type become those of the parameter; `dtype` says what they are
        rounded to before. `rename` is a mapping from the file's names to the parameters', or rules
        `PATTERN=NAME`.
        WeightsError, before one is set, where one is missing, or of a type that is not converted.
        """
        loaded = load_params(path, self.parameters, rename, dtype)
        with task("load", f"loading {path}", len(loaded)) as loading:
            for number, name in enumerate(loaded):
                loading.at(name, number)
                self.params[name] = loaded[name]
        self.loaded = loaded.report
        return loaded.report.extra

    def save_params(self, path: str | Path) -> None:
        """Writes all parameters to a .safetensors file."""
        save_params(path, self.params)


class PackagedParameters(MutableMapping[str, np.ndarray]):
    """The parameters of a packaged graph by external name, on the device.

    Reading gives a copy. Setting checks name, shape and dtype. Parameters cannot be deleted.
    """

    def __init__(self, executable: Executable) -> None:
        self._executable = executable

    def __getitem__(self, name: str) -> np.ndarray:
        return self._executable.get_param(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._executable.set_param(name, value)

    def __delitem__(self, name: str) -> None:
        raise WrongType("parameters cannot be deleted")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._executable.parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self._executable.parameters)

    def __len__(self) -> int:
        return len(self._executable.parameters)


def kernels_for(package: Package, device: ComputeDevice) -> dict[str, KernelSignature]:
    """Each kernel in the form that a device takes. DeviceError where it cannot run the package."""
    handle, plan = device.handle, package.plan
    origin = f"'{plan.name}' was compiled for {package.device}, and {device.name}"
    needed = planned_bytes(plan)
    if needed > handle.global_mem_size:
        raise DeviceError(f"{origin} has {handle.global_mem_size} bytes, not {needed}")
    chosen: dict[str, KernelSignature] = {}
    for name, kernel in package.kernels.items():
        form = kernel.form(device.accepts_spirv)
        if form is None:
            raise DeviceError(f"{origin} takes no SPIR-V, the only form of kernel '{name}'")
        items = prod(form.local_size)
        if items > handle.max_work_group_size:
            raise DeviceError(
                f"{origin} has work-groups of at most {handle.max_work_group_size} items; "
                f"kernel '{name}' needs {items}"
            )
        if form.local_memory > handle.local_mem_size:
            raise DeviceError(
                f"{origin} has {handle.local_mem_size} bytes of local memory; "
                f"kernel '{name}' needs {form.local_memory}"
            )
        chosen[name] = form
    return chosen
