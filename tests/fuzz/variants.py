"""The ways in which a program is compiled: targets, classes of rules, precisions, device figures.

In: a generator and a device's description. Out: `Variant`s, each of which compiles a program to a
plan and kernels, or only optimises it.
"""

import random
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mgn.dialects.kernel import DEVICES, Device
from mgn.driver.compilation import Compiled, compile_graph, optimize_graph
from mgn.passes.saturate import RuleClass, SaturateOptions
from mgn.passes.saturate.rules.table import CLASS_SETS, DEFAULT_CLASSES
from tests.fuzz.program import Program

EXACT = frozenset({RuleClass.EXACT})
CLASSES = {"exact": EXACT, "default": DEFAULT_CLASSES, "fast": CLASS_SETS["fast"]}


@dataclass(frozen=True)
class Variant:
    """One way to compile. `figures` are those of the description that differ from the device's."""

    rules: str = "default"
    fuse: bool = True
    prepare: bool = True
    target: str = "opencl"
    precision: str = "f32"
    figures: tuple[tuple[str, Any], ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether only exact rules act."""
        return self.rules == "exact"

    @property
    def saturation(self) -> SaturateOptions:
        """The options of `saturate`."""
        classes = CLASSES[self.rules]
        return SaturateOptions(classes=classes, fuse=self.fuse, prepare=self.prepare)

    def described(self, device: Device) -> Device:
        """The device's description with this variant's figures."""
        return device.with_figures(**dict(self.figures))

    def compile(self, module: ModuleOp, device: Device) -> Compiled:
        """A plan and kernels in OpenCL C; the module then holds the kernels."""
        return compile_graph(
            module, self.described(device), saturation=self.saturation, precision=self.precision
        )

    def optimise(self, program: Program, device: Device, lower: bool) -> ModuleOp:
        """The program cut into kernels, which the interpreter runs; with `lower`, the kernels are
        written out too.
        """
        module, taken = program.build(), list[ModuleOp]()

        def take(name: str, after: ModuleOp) -> None:
            if name == "saturate":
                taken.append(after.clone())

        compile_or_optimise = compile_graph if lower else optimize_graph
        compile_or_optimise(
            module,
            self.described(device),
            take,
            saturation=self.saturation,
            precision=self.precision,
        )
        return taken[0]

    def call(self) -> str:
        """The call of `mgn.compile` that does the same, but for the figures."""
        given = [f'precision="{self.precision}"'] if self.precision != "f32" else []
        if self.target == "spirv":
            given.append('target="spirv"')
        options = [] if self.rules == "default" else [f'classes=CLASS_SETS["{self.rules}"]']
        if self.rules == "exact":
            options = ["classes=frozenset({RuleClass.EXACT})"]
        options += [f"{name}=False" for name in ("fuse", "prepare") if not getattr(self, name)]
        if options:
            given.append(f"saturation=SaturateOptions({', '.join(options)})")
        return f"mgn.compile({', '.join(['mgn.parse(text)', *given])})"

    def __str__(self) -> str:
        words = [f"rules={self.rules}", f"target={self.target}"]
        words += [] if self.fuse else ["fuse=false"]
        words += [] if self.prepare else ["prepare=false"]
        words += [] if self.precision == "f32" else [f"precision={self.precision}"]
        words += [f"{name}={value}" for name, value in self.figures]
        return " ".join(words)


SEPARATE = Variant(rules="exact", fuse=False)
"""One kernel an operation: what exact rules are compared with, to the bit."""

FUSED = Variant(rules="exact")
PLAIN = Variant()

FIGURES: dict[str, tuple[Any, ...]] = {
    "compute_units": (1, 2, 3, 7, 64, 500),
    "vector_bits": (128, 256, 512),
    "bandwidth": (1e8, 2e10, 5e12),
    "launch_cost": (1e-8, 1e-6, 2e-5, 1e-2),
    "cache": (0, 1 << 12, 1 << 20, 1 << 30),
    "cache_gain": (1.0, 4.0),
    "function_share": (0.1, 1.0, 4.0),
    "l1_cache": (0, 1 << 10, 1 << 15, 48 << 10),
    "l2_cache": (0, 1 << 14, 1 << 20),
    "l3_cache": (0, 1 << 16, 32 << 20),
    "rates": ({"f32": 1e8}, {"f32": 4e11, "f64": 1e9}, {"f32": 1e15}),
}
"""Figures that change what is chosen, on any kind of device."""

GROUPS: dict[str, tuple[Any, ...]] = {
    "max_work_group_size": (64, 128, 256),
    "local_memory": (16 << 10, 48 << 10, 128 << 10),
    "sub_group_size": (8, 16, 32),
}
"""Figures of groups of work-items."""


def random_figures(rng: random.Random, grouped: bool) -> tuple[tuple[str, Any], ...]:
    """An odd description; `grouped` ones take the forms of templates for GPUs, which a CPU runs."""
    names = rng.sample(sorted(FIGURES), rng.randint(1, 4))
    figures = {name: rng.choice(FIGURES[name]) for name in names}
    if grouped:
        figures |= {"kind": "gpu", "vector_bits": 128}
        figures |= {name: rng.choice(values) for name, values in GROUPS.items()}
    return tuple(figures.items())


def other_variant(rng: random.Random, device: Device, takes_spirv: bool) -> Variant:
    """One of the ways that are tried beside the plain ones."""
    is_cpu = device.kind == "cpu"
    kinds = ["figures", "figures", "precision", "precision", "unprepared", "fast", "target"]
    kind = rng.choice([*kinds, "groups", "groups"] if is_cpu else kinds)
    rules = rng.choice(("default", "default", "exact"))
    target = rng.choice(("opencl", "opencl", "spirv")) if takes_spirv else "opencl"
    plain = Variant(rules=rules, target=target)
    if kind == "precision":
        return replace(plain, rules="default", precision=rng.choice(("tf32", "bf16", "f16")))
    if kind == "unprepared":
        return replace(plain, prepare=False)
    if kind == "fast":
        return replace(plain, rules="fast")
    if kind == "target":
        return replace(plain, target="spirv" if takes_spirv else "opencl")
    return replace(plain, figures=random_figures(rng, kind == "groups"))


def described_devices() -> list[Device]:
    """Descriptions that need no device: modules are optimised for them and interpreted."""
    return list(DEVICES.values())
