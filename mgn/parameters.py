"""The parameters of compiled graphs as Python sees them, and the first values of their states.

In: what graphs declare, and the session in which they run. Out: `Parameters`, a mapping. Those that
a training step writes are states of the session; here they are parameters like others.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakMethod

import numpy as np

from mgn.codegen.launch_plan import BufferKind, BufferPlan
from mgn.diagnostics import WrongType
from mgn.dialects.mgn.build import RANDOM_STATE
from mgn.dialects.mgn.structure import ParamOp
from mgn.dialects.types import spelling
from mgn.driver.compilation import Compiled
from mgn.modules.call_arguments import check_arguments
from mgn.modules.initialisers import initial_value
from mgn.runtime.checkpoints.load import LoadReport, load_params
from mgn.runtime.checkpoints.renaming import Rename
from mgn.runtime.errors import InputError
from mgn.runtime.host_arrays import as_array, shown
from mgn.runtime.launching.session import Session
from mgn.runtime.weights import save_params
from mgn.tasks import task


class Parameters(MutableMapping[str, np.ndarray]):
    """The parameters of a session's executables by external name, on the device.

    Reading gives a copy. Setting checks name, shape and dtype; executables that take parameters to
    be moderate are told after it. Parameters cannot be deleted. Those in `trained` are held as
    states, of which nothing is taken for granted. `loaded` says what was loaded last, `given`
    are those whose values came with the program.
    """

    loaded: LoadReport | None = None

    def __init__(
        self, session: Session, seed: int, trained: Mapping[str, ParamOp] | None = None
    ) -> None:
        self.session = session
        self._seed = seed
        self.given: set[str] = set()
        self._trained = dict(trained or {})
        self._declared: dict[str, ParamOp] = dict(self._trained)
        self._admit: list[WeakMethod[Callable[[np.ndarray], None]]] = []
        session.trained |= self._trained.keys()
        for name in self._trained:
            session.begin_with(name, partial(self._first, name))

    def check_untrained(self, compiled: Compiled) -> None:
        """InputError where a graph reads as a parameter what is trained here, which is a state."""
        for name in compiled.parameters:
            if name in self._trained:
                raise InputError(
                    f"parameter {shown(name)} is trained, and other programs do not share it; "
                    "exe.params.update(trained.params) copies the values into one compiled without "
                    "params"
                )

    def declare(self, compiled: Compiled, admit: Callable[[np.ndarray], None]) -> None:
        """Adds what a graph declares; `admit`, a method, is called with each value that is set from
        now on, for as long as its executable lives.
        """
        self._admit = [held for held in self._admit if held() is not None]
        self._admit.append(WeakMethod(admit))
        for name, parameter in compiled.parameters.items():
            known = self._declared.setdefault(name, parameter)
            if known.initialiser is None:
                self._declared[name] = parameter
        for name, state in compiled.states.items():
            if name in self._trained:
                continue
            if state.initialiser is not None or name == RANDOM_STATE:
                self.session.begin_with(name, partial(initial_value, state, self._seed))

    def __getitem__(self, name: str) -> np.ndarray:
        kind = self._kind(name)
        is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        if is_text and name in self._unset:
            if self._declared[name].initialiser is None:
                raise InputError(f"parameter {shown(name)} has no value; load or set it first")
            self.initialise(name)
        return self.session.get(kind, name)

    def __setitem__(self, name: str, value: Any) -> None:
        kind = self._kind(name)
        self.session.set(kind, name, value)
        if kind is BufferKind.STATE:
            return
        array = as_array(value)
        for held in self._admit:
            if (admit := held()) is not None:
                admit(array)

    def __delitem__(self, name: str) -> None:
        raise WrongType("parameters cannot be deleted")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        listing = ", ".join(f"{name}: {spelling(self._declared[name].type)}" for name in self)
        return f"Parameters({listing})"

    @property
    def types(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name to element and shape of every parameter."""
        return {name: (item.element, item.shape) for name, item in self._held.items()}

    @property
    def trained_types(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The same of those that a training step writes."""
        return {name: type for name, type in self.types.items() if name in self._trained}

    @property
    def _held(self) -> dict[str, BufferPlan]:
        held, states = self.session.held(BufferKind.PARAM), self.session.held(BufferKind.STATE)
        return {**{name: plan for name, plan in states.items() if name in self._trained}, **held}

    def _kind(self, name: object) -> BufferKind:
        is_trained = isinstance(name, str) and name in self._trained
        return BufferKind.STATE if is_trained else BufferKind.PARAM

    def _first(self, name: str) -> np.ndarray:
        """The first value of a trained parameter. InputError where none is said."""
        declared = self._trained[name]
        if declared.initialiser is None:
            raise InputError(f"parameter {shown(name)} has no value; load or set it first")
        return initial_value(declared, self._seed)

    def give(self, values: Mapping[str, np.ndarray]) -> None:
        """Sets those without a value to what a program came with."""
        for name in self.without_value:
            if name in values:
                self[name] = values[name]
                self.given.add(name)

    def load(
        self,
        path: str | Path,
        wanted: Mapping[str, tuple[str, tuple[int, ...]]],
        rename: Rename = None,
        dtype: str | None = None,
    ) -> LoadReport:
        """Sets those that are wanted, of these types, from a checkpoint; what was loaded.
        WeightsError, before one is set, where one is missing, or of a type that is not converted.
        """
        check_arguments("load_params", path=path)
        loaded = load_params(path, wanted, rename, dtype)
        with task("load", f"loading {path}", len(loaded)) as loading:
            for number, name in enumerate(loaded):
                loading.at(name, number)
                self[name] = loaded[name]
        self.loaded = loaded.report
        return loaded.report

    def save(self, path: str | Path) -> None:
        """Writes all to a .safetensors file."""
        check_arguments("save_params", path=path)
        save_params(path, self)

    @property
    def _unset(self) -> set[str]:
        unset = self.session.unset
        return self.session.unset_parameters | {
            name for name in self._trained if (BufferKind.STATE, name) in unset
        }

    def initialise(self, name: str) -> None:
        """Draws a parameter's first value; normal(0, 0.02) where it has no initialiser."""
        if name not in self._held:
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
