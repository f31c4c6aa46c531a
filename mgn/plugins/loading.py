"""Loads what other packages bring to mgn, once a process.

In: the entry points of the group `mgn.plugins` of what is installed. Each names a module, which is
imported, or a function of one, which is called without arguments. Out: nothing; what they register
is there. A plugin that fails is a `PluginError`, each time it is needed: nothing goes on without a
part that somebody installed. `MGN_PLUGINS=off` loads none.

    [project.entry-points."mgn.plugins"]
    cubes = "mgn_cubes:register"
"""

import hashlib
import threading
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from mgn.diagnostics import MgnError, WrongType, one_line
from mgn.runtime.switches import switched_on

GROUP = "mgn.plugins"
VARIABLE = "MGN_PLUGINS"


class PluginError(MgnError):
    """A plugin cannot be loaded."""


@dataclass(frozen=True)
class Plugin:
    """A plugin that was loaded: its name, its entry point, and the package that brought it."""

    name: str
    value: str
    package: str

    def digest(self) -> str:
        """What its files are, so that what was compiled with others is not taken for its own."""
        found = import_module(self.value.partition(":")[0].partition(".")[0])
        folders = [Path(folder) for folder in getattr(found, "__path__", ())]
        files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
        single = getattr(found, "__file__", None)
        if not files and single is not None:
            files = [Path(single)]
        digest = hashlib.sha256(f"{self.name}\0{self.value}\0{self.package}".encode())
        for path in files:
            digest.update(path.read_bytes())
        return digest.hexdigest()


_lock = threading.RLock()
_loaded: dict[str, Plugin] = {}
_begun: set[str] = set()
_whole = False


def load_plugins() -> None:
    """Loads every plugin that is not loaded yet. PluginError where one fails."""
    global _whole
    if _whole:
        return
    with _lock:
        if switched_on(VARIABLE, True):
            for point in sorted(entry_points(group=GROUP), key=lambda item: item.name):
                _load(point)
        _whole = not _begun


def loaded_plugins() -> list[Plugin]:
    """The plugins that are there, by name."""
    return [_loaded[name] for name in sorted(_loaded)]


def _load(point: EntryPoint) -> None:
    """Loads one; what it calls of mgn meanwhile does not load it again."""
    if point.name in _begun or point.name in _loaded:
        return
    package = _package_of(point)
    _begun.add(point.name)
    try:
        found = point.load()
        if callable(found):
            found()
        elif not isinstance(found, ModuleType):
            said = f"'{point.value}' is a {type(found).__name__}"
            raise WrongType(f"{said}, and an entry point is a module or a function")
    except Exception as error:
        raise PluginError(
            f"the plugin '{point.name}' of {package} fails with {type(error).__name__}: "
            f"{one_line(str(error), 400)}; mend or uninstall it, or set {VARIABLE}=off to go on "
            "without plugins"
        ) from error
    finally:
        _begun.discard(point.name)
    _loaded[point.name] = Plugin(point.name, point.value, package)


def _package_of(point: EntryPoint) -> str:
    """Name and version of what brought an entry point."""
    if point.dist is None:
        return f"'{point.value}'"
    return f"{point.dist.name} {point.dist.version}"
