"""One run of `mgn-opt` after its arguments are read: parse, verify, run passes, translate.

In: the arguments. Out: the text or the bytes to write, or None after the errors went to stderr.
"""

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp

from mgn.commands.actions.expectations import compare, expectations_in
from mgn.commands.actions.watchers import EachVerifier, IRPrinter, Stopwatch
from mgn.commands.options.arguments import parse_dimensions
from mgn.commands.options.errors import UsageError, diagnose, say
from mgn.commands.options.sources import LANGUAGES, SEPARATOR, Source, read_source
from mgn.commands.printing.targets import Target, find_target
from mgn.diagnostics import Diagnostic, render
from mgn.driver.pipelines import Watcher, parse_passes, run_passes
from mgn.modules.dialect_table import make_context
from mgn.modules.files import check_apart, check_target
from mgn.modules.mlir_text import check_module, print_mlir
from mgn.modules.module import load_program

_Result = TypeVar("_Result")

_BEGINS_AS_MGN = re.compile(
    r"(?:\s|//[^\n]*|/\*.*?\*/)*(?:const|fn|graph|import|param|state)\s", re.DOTALL
)
"""A text that begins with a word of the language's top level."""


def process(arguments: argparse.Namespace) -> str | bytes | None:
    """The result of a run; None where something is wrong, which stderr then says."""
    run = _Run(arguments)
    source = read_source(arguments.file, arguments.frontend, tuple(LANGUAGES))
    results: list[str | bytes] = []
    failures: list[Diagnostic] = []
    for piece in source.pieces(arguments.split_input_file):
        diagnostics: list[Diagnostic] = []
        result = run.process_piece(source, piece, diagnostics)
        if arguments.verify_diagnostics:
            failures += _compare(source, piece, diagnostics)
            continue
        failures += diagnostics
        results.append(result)
    if arguments.timing:
        say(run.stopwatch.report())
    if failures:
        say(render(failures))
        if source.language == "mlir" and _BEGINS_AS_MGN.match(source.text):
            say(f"note: {source.name} is read as MLIR; -f mgn reads programs of the language")
        return None
    if arguments.verify_diagnostics:
        return ""
    if len(results) == 1:
        return results[0]
    if any(isinstance(result, bytes) for result in results):
        raise UsageError(f"-t {arguments.target} writes a binary, which does not come in pieces")
    return f"{SEPARATOR}\n".join(map(str, results))


class _Run:
    """The steps of one run, and their times."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.target: Target = find_target(arguments.target)
        self.generic: bool = arguments.print_op_generic
        if self.generic and arguments.target != "mlir":
            raise UsageError(f"--print-op-generic is for MLIR text, not for -t {arguments.target}")
        self.passes = parse_passes(arguments.passes)
        self.dimensions = parse_dimensions(arguments.dim)
        self.graph: str | None = arguments.graph
        self.device: str | None = arguments.device
        self.output: str | None = None if arguments.output == "-" else arguments.output
        self.stopwatch = Stopwatch()
        self.watchers: list[Watcher] = [self.stopwatch]
        self.watchers.append(
            IRPrinter(
                arguments.print_ir_before_all,
                arguments.print_ir_after_all,
                arguments.print_ir_after_change,
                self.generic,
            )
        )
        if arguments.verify_each:
            self.watchers.append(EachVerifier())

    def process_piece(
        self, source: Source, piece: str, diagnostics: list[Diagnostic]
    ) -> str | bytes:
        """One piece's result; what is wrong with it goes to `diagnostics`."""
        try:
            return self._translate(source, piece)
        except Exception as error:
            found = diagnose(error, {source.name: piece})
            if found is None:
                raise
            diagnostics += found
            return ""

    def _translate(self, source: Source, piece: str) -> str | bytes:
        context = make_context()
        path = None if source.name.startswith("<") else Path(source.name)
        program = self._timed(
            "parse", lambda: load_program(source.language, piece, source.name, path)
        )
        if self.output is not None:
            check_target(self.output)
            check_apart(self.output, [*program.files, *([path] if path else [])])
        module = self._timed("lower", lambda: program.lower(self.graph, self.dimensions))
        self._set_device(module)
        self._timed("verify", lambda: check_module(module))
        run_passes(self.passes, module, context, self.watchers)
        if self.passes:
            self._timed("verify", lambda: check_module(module))
        return self._timed("translate", lambda: self._translated(module))

    def _translated(self, module: ModuleOp) -> str | bytes:
        return print_mlir(module, True) if self.generic else self.target.translate(module)

    def _set_device(self, module: ModuleOp) -> None:
        if self.device is None:
            return
        from mgn.dialects.kernel.device import DEVICES
        from mgn.driver.residency import residing

        if self.device not in DEVICES:
            known = ", ".join(DEVICES)
            raise UsageError(f"--device: unknown device '{self.device}'; there are {known}")
        module.attributes["mgn.device"] = residing(DEVICES[self.device], "auto").to_attribute()

    def _timed(self, name: str, step: Callable[[], _Result]) -> _Result:
        start = time.perf_counter()
        result = step()
        self.stopwatch.add(name, time.perf_counter() - start)
        return result


def _compare(source: Source, piece: str, diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    try:
        expected = expectations_in(piece)
    except ValueError as error:
        return [Diagnostic(str(error), source.name)]
    return compare(source.name, expected, diagnostics)
