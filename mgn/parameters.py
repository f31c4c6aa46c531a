"""The parameters of compiled graphs as Python sees them, and the first values of their states.

In: what graphs declare, and the session in which they run. Out: `Parameters`, a mapping.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mgn.codegen.launch_plan import BufferKind
from mgn.dialects.mgn.build import RANDOM_STATE
from mgn.dialects.mgn.structure import ParamOp
from mgn.dialects.types import spelling
from mgn.driver.compilation import Compiled
from mgn.modules.call_arguments import check_arguments
from mgn.modules.initialisers import initial_value
from mgn.runtime.host_arrays import as_array
from mgn.runtime.launching.session import Session
from mgn.runtime.weights import load_params, save_params


class Parameters(MutableMapping[str, np.ndarray]):
    """The parameters of a session's executables by external name, on the device.

    Reading gives a copy. Setting checks name, shape and dtype; executables that take parameters to
    be moderate are told after it. Parameters cannot be deleted.
    """

    def __init__(self, session: Session, seed: int) -> None:
        self.session = session
        self._seed = seed
        self._declared: dict[str, ParamOp] = {}
        self._admit: list[Callable[[np.ndarray], None]] = []

    def declare(self, compiled: Compiled, admit: Callable[[np.ndarray], None]) -> None:
        """Adds what a graph declares; `admit` is called with each value that is set from now on."""
        self._admit.append(admit)
        for name, parameter in compiled.parameters.items():
            known = self._declared.setdefault(name, parameter)
            if known.initialiser is None:
                self._declared[name] = parameter
        for name, state in compiled.states.items():
            if state.initialiser is not None or name == RANDOM_STATE:
                self.session.begin_with(name, partial(initial_value, state, self._seed))

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._unset and self._declared[name].initialiser is not None:
            self.initialise(name)
        return self.session.get(BufferKind.PARAM, name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.session.set(BufferKind.PARAM, name, value)
        array = as_array(value)
        for admit in self._admit:
            admit(array)

    def __delitem__(self, name: str) -> None:
        raise TypeError("parameters cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self.session.held(BufferKind.PARAM))

    def __len__(self) -> int:
        return len(self.session.held(BufferKind.PARAM))

    def __repr__(self) -> str:
        listing = ", ".join(f"{name}: {spelling(self._declared[name].type)}" for name in self)
        return f"Parameters({listing})"

    @property
    def types(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name to element and shape of every parameter."""
        held = self.session.held(BufferKind.PARAM)
        return {name: (item.element, item.shape) for name, item in held.items()}

    def load(self, path: str | Path, wanted: Mapping[str, tuple[str, tuple[int, ...]]]) -> int:
        """Sets those that are wanted, of these types, from a .safetensors or .npz file; the number
        of arrays left over. WeightsError where one is missing or of another type.
        """
        check_arguments("load_params", path=path)
        loaded = load_params(path, wanted)
        self.update(loaded.arrays)
        return loaded.extra

    def save(self, path: str | Path) -> None:
        """Writes all to a .safetensors file."""
        check_arguments("save_params", path=path)
        save_params(path, dict(self))

    @property
    def _unset(self) -> set[str]:
        return self.session.unset_parameters

    def initialise(self, name: str) -> None:
        """Draws a parameter's first value; normal(0, 0.02) where it has no initialiser."""
        if name not in self.session.held(BufferKind.PARAM):
            self.session.get(BufferKind.PARAM, name)
        self[name] = initial_value(self._declared[name], self._seed)

    def initialise_declared(self) -> None:
        """Draws every unset parameter that has an initialiser."""
        unset = self._unset
        if not unset:
            return
        for name in [name for name in self if name in unset]:
            if self._declared[name].initialiser is not None:
                self.initialise(name)

    @property
    def without_value(self) -> list[str]:
        """Parameters that have neither a value nor an initialiser."""
        unset = self._unset
        return [name for name in self if name in unset and not self._declared[name].initialiser]
