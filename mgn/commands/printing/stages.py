"""`mgn-run --emit=STAGE`: the program as a stage of the compiler leaves it, without running it.

In: the arguments of `mgn-run`. Out: text. The device's own figures are used where there is a
device, and those of a plain CPU where there is none.
"""

import argparse
import difflib
from collections.abc import Callable, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from mgn.api import describe_device, from_onnx
from mgn.commands.options.arguments import (
    budget_of,
    parse_constants,
    parse_dimensions,
    parse_shapes,
    passes_of,
    saturation_of,
)
from mgn.commands.options.errors import UsageError
from mgn.commands.options.modes import in_mode
from mgn.commands.options.sources import read_source
from mgn.commands.printing.targets import TARGETS
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.driver.compilation import compile_graph
from mgn.driver.residency import residing
from mgn.modules.files import check_apart, check_target
from mgn.modules.mlir_text import print_mlir
from mgn.modules.module import Module, load_program

STAGES: dict[str, tuple[str | None, Callable[[ModuleOp], str]]] = {
    "mgn": (None, lambda module: TARGETS["mgn"].text(module)),
    "mlir": (None, print_mlir),
    "simplified": ("simplify", print_mlir),
    "fusion": ("saturate", print_mlir),
    "scheduled": ("choose-schedules", print_mlir),
    "kernel": ("lower-kernels", print_mlir),
    "plan": ("merge-launches", lambda module: TARGETS["plan"].text(module)),
    "opencl": ("merge-launches", lambda module: TARGETS["opencl"].text(module)),
    "spirv-asm": ("merge-launches", lambda module: TARGETS["spirv-asm"].text(module)),
}
"""Stages: the pass after which the program is printed (None: before all), and how."""

PACKAGE = "package"
"""The last stage of all, which is a binary file."""


def emit_stage(arguments: argparse.Namespace) -> str:
    """The text of the stage that `--emit` names."""
    name = arguments.emit
    if name not in STAGES:
        names = [*STAGES, PACKAGE]
        nearest = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean '{nearest[0]}'?" if nearest else f"there are {', '.join(names)}"
        raise UsageError(f"--emit: unknown stage '{name}'; {hint}")
    last_pass, print_stage = STAGES[name]
    program = program_of(arguments, arguments.shape, arguments.constant)
    graph = program.choose_graph(arguments.graph)
    mode = in_mode(program, graph, parse_dimensions(arguments.dim), arguments)
    module = mode.program.lower(graph, mode.dimensions)
    if last_pass is None:
        return print_stage(module)
    texts: dict[str, str] = {}

    def keep(pass_name: str, after: ModuleOp) -> None:
        if pass_name == last_pass:
            texts[pass_name] = print_stage(after)

    compile_graph(
        module,
        residing(device_of(arguments.device), arguments.resident),
        keep,
        saturation=saturation_of(arguments),
        precision=arguments.precision,
        pipeline=passes_of(arguments),
        memory=budget_of(arguments),
    )
    if last_pass not in texts:
        raise UsageError(f"--emit={name} shows what '{last_pass}' leaves, and --passes lacks it")
    return texts[last_pass]


def program_of(
    arguments: argparse.Namespace, shapes: Sequence[str] = (), constants: Sequence[str] = ()
) -> Module:
    """The program that the arguments name; `shapes` and `constants` are of inputs of an ONNX model,
    as options give them. MgnError where `-o` would take its place.
    """
    if arguments.file == "-" and arguments.frontend is None:
        arguments.frontend = "mgn"
    path = None if arguments.file == "-" else Path(arguments.file)
    if path is not None and path.suffix.lower() == ".onnx" and arguments.frontend is None:
        program = from_onnx(path, None, parse_shapes(shapes), parse_constants(constants))
    else:
        if shapes or constants:
            raise UsageError("--shape and --constant are about inputs of an .onnx file")
        readable = (".mgn", ".mlir", ".onnx", ".mgnpkg")
        source = read_source(arguments.file, arguments.frontend, readable)
        program = load_program(source.language, source.text, source.name, path)
    if arguments.output is not None:
        given = (path, arguments.inputs, arguments.params)
        check_target(arguments.output)
        check_apart(arguments.output, [*program.files, *filter(None, given)])
    return program


def device_of(selector: str) -> Device:
    """What to compile for: a device of the table by its name, one that is here, or a plain CPU."""
    from mgn.runtime.devices import choose
    from mgn.runtime.errors import DeviceError

    if selector in DEVICES and selector != "cpu":
        return DEVICES[selector]
    try:
        return describe_device(choose(selector))
    except DeviceError as error:
        if selector not in ("auto", "cpu"):
            described = ", ".join(name for name in DEVICES if name != "cpu")
            raise DeviceError(f"{error}\n--emit compiles for these, too: {described}") from None
        return DEVICES["cpu"]
