"""What `mgn-opt -t` can print, one row each.

In: a verified module. Out: text, or the bytes of a binary. A target that needs a certain form of
the program says which passes bring it there.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from mgn.commands.options.errors import UsageError


@dataclass(frozen=True)
class Target:
    """A form of programs: text, or a binary."""

    summary: str
    translate: Callable[[ModuleOp], str | bytes]

    def text(self, module: ModuleOp) -> str:
        """The program in a form that is text."""
        text = self.translate(module)
        assert isinstance(text, str), self.summary
        return text


def _mlir(module: ModuleOp) -> str:
    from mgn.modules.mlir_text import print_mlir

    return print_mlir(module)


def _mgn(module: ModuleOp) -> str:
    from mgn.frontend.print_mgn import print_mgn

    return print_mgn(module)


def _egglog(module: ModuleOp) -> str:
    from mgn.commands.printing.egraph_text import egglog_program

    return egglog_program(module)


def _egraph_json(module: ModuleOp) -> str:
    from mgn.commands.printing.egraph_text import egraph_json

    return egraph_json(module)


def _plan(module: ModuleOp) -> str:
    from mgn.dialects.plan import ProgramOp
    from mgn.modules.mlir_text import print_mlir

    programs = [op for op in module.body.block.ops if isinstance(op, ProgramOp)]
    if not programs:
        raise UsageError("the program has no plan yet; -p default brings it there")
    return "".join(print_mlir(program) for program in programs)


def _opencl(module: ModuleOp) -> str:
    from mgn.codegen.opencl.opencl import emit
    from mgn.dialects.kernel import FuncOp
    from mgn.dialects.kernel.device import Device
    from mgn.dialects.plan import ProgramOp
    from mgn.driver.kernel_targets import plan_signatures

    kernels = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    if not kernels:
        raise UsageError("the program has no kernels yet; -p default brings it there")
    programs = [op for op in module.body.block.ops if isinstance(op, ProgramOp)]
    if not any(any(program.residents) for program in programs):
        return "\n".join(emit(kernel) for kernel in kernels)
    texts: dict[str, str] = {}
    for program in programs:
        found = plan_signatures(module, program, Device.of(module), "opencl")
        texts |= {name: signature.source for name, signature in found.items()}
    return "\n".join(texts.values())


def _dot(module: ModuleOp) -> str:
    from mgn.commands.printing.dot import dot
    from mgn.dialects.mgn.structure import graphs_of

    if not any(graphs_of(module)):
        raise UsageError("the program has no graph any more; -p simplify,saturate stops in time")
    return dot(module)


def _explain(module: ModuleOp) -> str:
    from mgn.commands.printing.egraph_text import only_graph
    from mgn.dialects.kernel.device import Device
    from mgn.explain import explain_graph, page_of

    only_graph(module)
    return page_of(explain_graph(module, Device.of(module)))


def _spirv(module: ModuleOp) -> bytes:
    from mgn.modules.spirv_module import spirv_words

    return spirv_words(module)


def _spirv_assembly(module: ModuleOp) -> str:
    from mgn.modules.spirv_module import spirv_assembly

    return spirv_assembly(module)


TARGETS: dict[str, Target] = {
    "mlir": Target("MLIR text", _mlir),
    "mgn": Target("the language, pretty-printed", _mgn),
    "egglog": Target("what saturate tells the e-graph engine, as an egglog program", _egglog),
    "egraph-json": Target("the saturated e-graph as JSON, for e-graph viewers", _egraph_json),
    "explain": Target("a page of HTML that says how each kernel came about", _explain),
    "dot": Target("the operations as a Graphviz graph, kernels as boxes", _dot),
    "plan": Target("the memory plan and the launches, of a planned program", _plan),
    "opencl": Target("the OpenCL C programs of all kernels, of a lowered program", _opencl),
    "spirv": Target("the SPIR-V binary of all kernels, of a lowered program", _spirv),
    "spirv-asm": Target("the same as SPIR-V assembly", _spirv_assembly),
}
"""Targets by name."""


def find_target(name: str) -> Target:
    """The target of a name. UsageError, with the nearest name, where there is none."""
    if name in TARGETS:
        return TARGETS[name]
    nearest = difflib.get_close_matches(name, TARGETS, 1)
    hint = f"did you mean '{nearest[0]}'?" if nearest else f"there are {', '.join(TARGETS)}"
    raise UsageError(f"unknown target '{name}'; {hint}")
