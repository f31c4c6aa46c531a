"""Several graphs compiled together: one device, one set of parameters, one set of states.

In: an executable for each graph. Out: `Program`:

    lm = mgn.compile(module, graph=["prefill", "decode"])
    lm.load_params("model.safetensors")
    logits = lm["prefill"](tokens=ids)["logits"]
    logits = lm["decode"](token=next)["logits"]
"""

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from mgn.diagnostics import MgnError, WrongType
from mgn.executable import Executable
from mgn.parameters import Parameters
from mgn.runtime.checkpoints.renaming import Rename
from mgn.runtime.host_arrays import nearest, shown
from mgn.runtime.launching.session import States
from mgn.runtime.memory import bytes_together


class NoGraph(MgnError, KeyError):
    """A program has no graph of a name."""

    def __str__(self) -> str:
        return str(self.args[0])


class Program(Mapping[str, Executable]):
    """The executables of several graphs by name, which share parameters and states.

    Each of these is on the device once, and so is what is made of parameters alike. `params` and
    `state` hold those of all graphs. `companions` are executables that were compiled to
    work on what these graphs give; `turn` is whoever began anew with the states last.
    """

    def __init__(self, executables: Mapping[str, Executable], params: Parameters) -> None:
        self._executables = dict(executables)
        self.params = params
        self.state = States(params.session)
        self.companions: dict[Hashable, Executable] = {}
        self.turn: object = None

    def __getitem__(self, graph: str) -> Executable:
        if graph not in self._executables:
            names = list(self._executables)
            hint = nearest(graph, names) or f"; there are {', '.join(names)}"
            raise NoGraph(f"there is no graph {shown(graph)}{hint}")
        return self._executables[graph]

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        first = next(iter(self._executables))
        raise WrongType(f"several graphs are called by their names, such as program[{first!r}](…)")

    def __contains__(self, graph: object) -> bool:
        return graph in self._executables

    def __iter__(self) -> Iterator[str]:
        return iter(self._executables)

    def __len__(self) -> int:
        return len(self._executables)

    def __repr__(self) -> str:
        return f"Program(graphs={list(self._executables)})"

    @property
    def allocated(self) -> int:
        """Bytes of device memory in use; what graphs share counts once."""
        found = self._executables.values()
        return bytes_together(memory for item in found for memory in item.memories)

    def reset(self) -> None:
        """Gives every state its first value."""
        self.params.session.reset()

    def load_params(self, path: str | Path, rename: Rename = None, dtype: str | None = None) -> int:
        """Loads all parameters from a checkpoint; the number of arrays left over.

        The path is a .safetensors, .npz, .gguf or PyTorch file, an index of several, or a folder of
        Hugging Face. Floats of any type become those of the parameter; `dtype` says what they are
        rounded to before. `rename` is a mapping from the file's names to the parameters', or rules
        `PATTERN=NAME`. The report of each graph lists what was converted.
        WeightsError, before one is set, where one is missing, or of a type that is not converted.
        """
        loaded = self.params.load(path, self.params.types, rename, dtype)
        for executable in self.values():
            executable.report.loaded = loaded
        return loaded.extra

    def save_params(self, path: str | Path) -> None:
        """Writes all parameters to a .safetensors file."""
        self.params.save(path)
