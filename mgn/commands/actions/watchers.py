"""What `mgn-opt` shows on stderr while passes run: the IR around them, and their times.

In: the calls of `run_passes`. Out: text on stderr.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from mgn.commands.options.errors import say
from mgn.modules.mlir_text import check_module, print_mlir


@dataclass
class IRPrinter:
    """Prints the module before each pass, after each, or after those that changed it, in MLIR's
    generic form where that is asked for.
    """

    before_all: bool
    after_all: bool
    after_change: bool
    generic: bool = False
    _previous: str = ""

    def before(self, name: str, module: ModuleOp) -> None:
        if self.before_all:
            _dump("Before", name, self._text(module))
        if self.after_change:
            self._previous = self._text(module)

    def after(self, name: str, module: ModuleOp, seconds: float) -> None:
        if not (self.after_all or self.after_change):
            return
        text = self._text(module)
        if self.after_all or text != self._previous:
            _dump("After", name, text)

    def _text(self, module: ModuleOp) -> str:
        return print_mlir(module, self.generic)


class EachVerifier:
    """Verifies the module after each pass, and names the pass that broke it."""

    def before(self, name: str, module: ModuleOp) -> None:
        """Nothing to check: the module was verified already."""

    def after(self, name: str, module: ModuleOp, seconds: float) -> None:
        try:
            check_module(module)
        except Exception:
            say(f"the module does not verify after '{name}'")
            raise


@dataclass
class Stopwatch:
    """Adds up the times of named steps, in the order of their first appearance."""

    steps: dict[str, float] = field(default_factory=dict[str, float])

    def before(self, name: str, module: ModuleOp) -> None:
        """Nothing to note."""

    def after(self, name: str, module: ModuleOp, seconds: float) -> None:
        self.add(name, seconds)

    def add(self, name: str, seconds: float) -> None:
        """Adds time to a step."""
        self.steps[name] = self.steps.get(name, 0.0) + seconds

    def report(self) -> str:
        """The times as a table with shares of their sum."""
        return time_table(list(self.steps.items()))


def time_table(steps: Sequence[tuple[str, float]]) -> str:
    """Named times as a table with shares of their sum."""
    total = sum(seconds for _, seconds in steps)
    rows = [*steps, ("total", total)]
    lines = ["   seconds   share  step"]
    for name, seconds in rows:
        share = 100.0 * seconds / total if total else 0.0
        lines.append(f"  {seconds:8.4f}  {share:5.1f}%  {name}")
    return "\n".join(lines)


def _dump(when: str, name: str, text: str) -> None:
    say(f"// -----// IR Dump {when} {name} //----- //\n{text}")
