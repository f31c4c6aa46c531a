"""A key of everything that decides what a graph is compiled to.

In: an xDSL module, not yet compiled, and the settings of a compilation. Out: a digest that differs
where anything differs that the compiler may look at: the program with its names and places, the
device's figures, the options, the rules, mgn's own files, and the packages that it stands on.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mgn.dialects.mgn.user_operations import USER_OPERATIONS
from mgn.plugins.loading import loaded_plugins

_PACKAGES = ("xdsl", "egglog", "highspy", "numpy", "ml-dtypes")
"""What the compiler's decisions are made with."""

_FOLDERS = (
    *("dialects", "passes", "codegen", "runtime"),
    *("modules", "driver", "plugins", "program_cache"),
)
_RULES = "mgn.passes.saturate.rules.table"


class NoKey(Exception):
    """Something cannot be told from its like in another process."""


def program_key(module: ModuleOp, settings: Mapping[str, object]) -> str:
    """The key of a module and settings. NoKey where one of them, or mgn itself, has none."""
    if USER_OPERATIONS:
        raise NoKey("operations of the user's own mean what their Python functions build")
    digest = hashlib.sha256()
    parts = (compiler_digest(), _stable(dict(settings)), _stable(_rules_of_the_user()))
    for part in (*parts, *_Describer().operation(module)):
        text = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d " % len(text))
        digest.update(text)
    return digest.hexdigest()


def plugin_digests() -> list[str]:
    """What plugins there are, down to their files."""
    return [plugin.digest() for plugin in loaded_plugins()]


@cache
def compiler_digest() -> str:
    """A digest of mgn's own files, of Python's version and of the packages that mgn uses."""
    first, *_ = roots = [Path(entry) for entry in sys.modules["mgn"].__path__]
    digest = hashlib.sha256(sys.version.encode())
    try:
        for name in _PACKAGES:
            digest.update(f"{name} {metadata.version(name)}\0".encode())
        for folder in (first, *(root / name for name in _FOLDERS for root in roots)):
            for path in sorted(folder.glob("*.py" if folder is first else "**/*.py")):
                digest.update(f"{folder.name}/{path.relative_to(folder)}\0".encode())
                digest.update(path.read_bytes())
    except (OSError, metadata.PackageNotFoundError) as error:
        raise NoKey(f"mgn's files: {error}") from None
    return digest.hexdigest()


def _rules_of_the_user() -> object:
    """The table of rules where it is not mgn's own. A module that is not loaded is as it was."""
    rules = sys.modules.get(_RULES)
    if rules is None or list(rules.RULES.values()) == list(rules.BUILT_IN):
        return ()
    return list(rules.RULES.values())


def _stable(value: object) -> str:
    """A text that is the same in every process, and differs where values do."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = {item.name: getattr(value, item.name) for item in fields(value)}
        return f"{type(value).__qualname__}{_stable(inner)}"
    if isinstance(value, Mapping):
        entries = cast(Mapping[object, object], value).items()
        return f"{{{', '.join(sorted(f'{_stable(k)}: {_stable(v)}' for k, v in entries))}}}"
    if isinstance(value, (set, frozenset)):
        return f"<{', '.join(sorted(map(_stable, cast(set[object], value))))}>"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_stable, cast(list[object], value)))}]"
    if isinstance(value, (str, bytes, bool, int, float, type(None))):
        return repr(value)
    raise NoKey(f"a setting of type {type(value).__name__}")


class _Describer:
    """Texts that say all of an operation; values are numbered, attributes described once."""

    def __init__(self) -> None:
        self._numbers: dict[SSAValue, int] = {}
        self._texts: dict[int, str] = {}

    def operation(self, op: Operation) -> Iterator[str]:
        """Its name, operands, results, attributes, place, and the operations in it."""
        numbers = self._numbers
        if op.successors or not all(operand in numbers for operand in op.operands):
            raise NoKey(f"{op.name} in a module that is no sequence of definitions and uses")
        yield op.name
        yield " ".join(str(numbers[operand]) for operand in op.operands)
        for entries in (op.properties, op.attributes):
            yield str(len(entries))
            for name, attribute in entries.items():
                yield name
                yield self._attribute(attribute)
        yield self._attribute(op.location)
        yield str(len(op.results))
        yield from map(self._value, op.results)
        yield str(len(op.regions))
        for region in op.regions:
            yield str(len(region.blocks))
            for block in region.blocks:
                yield from self._block(block)

    def _block(self, block: Block) -> Iterator[str]:
        yield str(len(block.args))
        yield from map(self._value, block.args)
        for op in block.ops:
            yield from self.operation(op)
        yield "end"

    def _value(self, value: SSAValue) -> str:
        self._numbers[value] = len(self._numbers)
        return f"{value.name_hint}: {self._attribute(value.type)}"

    def _attribute(self, attribute: Attribute) -> str:
        """Described once for each object: an attribute of a module lives as long as it does."""
        found = self._texts.get(id(attribute))
        if found is None:
            found = self._texts[id(attribute)] = repr(attribute)
        return found
