"""The text formats that mgn reads, for the driver of `driver.py`.

In: the examples and tests of the repository, mutated. Out: `TARGETS`. A program has to verify, or
is refused with a place in it; what is no file (a pipeline, an option, a rule) is refused with a
sentence. None of it needs OpenCL.
"""

import json
import os
import random
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

from mgn.diagnostics import Diagnostic, DiagnosticsError, MgnError
from mgn.runtime.errors import RuntimeFault
from tests.frontend.operation_examples import EXAMPLES, HEADER
from tests.fuzz.bad_inputs.driver import Finding, Target, apart
from tests.fuzz.bad_inputs.text_mutations import mutate, tokens_of

ROOT = Path(__file__).resolve().parents[3]

LARGEST_COMPILED = 60
"""Operations of a program that is taken all the way to kernels."""

MOST_UNROLLED = 20_000
"""Operations that a program may come to here: each takes some 0.2 ms of a processor to be read,
verified and printed.
"""

ONE_IN = 40
"""Of the right programs, so many are taken through the passes."""

SMALL_PROGRAMS = (
    'const N = 3\nparam s: f32[3] as "s.{N}" = normal(std = 0.02)\n'
    "fn f(x, n: int = 2) {\n  if n > 1 { return x * n } else { return x }\n}\n"
    "graph g[B = 2](x: f32[B, N], c: bool[3]) {\n"
    '  scope "a.{B}" { param w: f32[N] = ones() }\n  y = x\n'
    "  for i in 0..3 { y = f(y, n = i) + where(c, w, 0.5) }\n"
    "  a, b = split(y, [1, 1])\n  z = -a[0, ::-1, none] ** 2 @ b.T\n  return z, t = y + s\n}\n",
    "graph g(x: f32[4]) { t = [1, 2]; for i in 0..3 { t = t + t }\n return y = x + t[0] }",
    'const A = [1, 2, 3], B = A + A\nfn g(t: ints) { for i in t { param p: f32[i] as "p{i}" } }\n'
    "graph m[S](x: f32[S, 2]) { g(A); return loss = mean(x, axis = [0, 1]), x }",
)


def _pieces(folder: str, pattern: str) -> list[str]:
    paths = sorted((ROOT / folder).rglob(pattern))
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return [piece for text in texts for piece in text.split("// -----") if piece.strip()]


def _mgn_texts() -> list[str]:
    calls = [f"graph g({HEADER}) {{\n  y = {call}\n}}\n" for call in EXAMPLES.values()]
    calls = [text.replace("\n}", "\n  return x\n}") for text in calls]
    return [*SMALL_PROGRAMS, *_pieces("filecheck", "*.mgn"), *calls]


def _example_texts() -> list[str]:
    return _pieces("examples", "*.mgn")


@lru_cache(maxsize=1)
def _mlir_texts() -> list[str]:
    """The tests' texts, and small programs as the stages print them."""
    texts = [piece for piece in _pieces("filecheck", "*.mlir") if len(piece) < 4000]
    texts += apart(_stages)
    return [text for text in texts if len(text) < 12_000]


def _stages() -> list[str]:
    from mgn.driver.pipelines import PIPELINES, parse_passes, run_passes
    from mgn.modules.dialect_table import make_context
    from mgn.modules.mlir_text import print_mlir
    from mgn.modules.module import load_program

    texts: list[str] = []
    for program in (
        "graph g(x: f32[4, 8], w: f32[8, 8]) { return y = softmax(relu(x @ w) + 1.0) }",
        "graph g(x: f32[2, 3, 8]) { return y = sum(x, axis = 1), z = concat([x, x[:, ::-1]]) }",
        "graph g(q: f32[1, 4, 8]) { return y = attention(q, q, q, heads = 2, causal = true) }",
    ):
        module = load_program("mgn", program, "p.mgn").lower()
        for name in PIPELINES["default"]:
            texts.append(print_mlir(module))
            run_passes(parse_passes(name), module, make_context())
        texts.append(print_mlir(module))
    return texts


PIPELINE_TEXTS = (
    *("default", "simplify,saturate", "saturate{rules=exact}", "plan-memory{alignment=512}"),
    *('saturate{rules="exact+reassociates" time=2.5 prepare=false}', "convert-precision{to=bf16}"),
    *("simplify,saturate{fuse=false},choose-schedules,lower-kernels,plan-memory", "inference"),
)
DIMENSION_TEXTS = ("B=32", "S=0x10", "long_name=128", "N = 3", "B=1_000")
SATURATION_TEXTS = ("rules=exact time=2 prepare=false", "rules=exact+reassociates", "time=0.5")
ARGUMENT_TEXTS = (
    "mlp.mgn -p simplify,saturate -t opencl --graph g --dim B=32 --verify-each",
    "mlp.mgn --inputs in.npz --params w.safetensors --outputs out.npz --seed 7 --repeat 20",
    "mlp.mgn --emit=fusion --precision tf32 --device cpu --target spirv --saturation rules=exact",
    "--list-devices -v --probe",
    "a.mlir -f mlir --split-input-file --verify-diagnostics --print-ir-after-change --timing -o x",
)
FIGURES = (
    {"bandwidth": 4e12, "rates": {"f32": 5e13}},
    {
        "kind": "gpu",
        "vendor": "nvidia",
        "compute_units": 132,
        "cache": 1 << 20,
        "launch_cost": 1e-6,
    },
    {
        "vector_bits": 512,
        "sub_group_size": 32,
        "matrix_unit": "wgmma",
        "matrix_rates": {"tf32": 4e14},
    },
)


def _check_program(language: str) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        try:
            _take_through(language, data)
        except DiagnosticsError as error:
            _check_places(error.diagnostics)
        except RecursionError:
            raise
        except Exception as error:
            from mgn.modules.mlir_errors import diagnostics_of

            found = diagnostics_of(error, {"t": ""})
            if found is None:
                raise
            _check_places(found)

    return check


def _take_through(language: str, data: bytes) -> None:
    """Parses, verifies and lowers; of the right ones, takes a few through all passes."""
    from mgn.driver.pipelines import parse_passes, run_passes
    from mgn.frontend.lowering import context
    from mgn.frontend.syntax.source import decode_source
    from mgn.modules.dialect_table import make_context
    from mgn.modules.mlir_text import check_module, print_mlir
    from mgn.modules.module import load_program

    text = decode_source(data, f"t.{language}").text
    with patch.object(context, "MOST_OPERATIONS", MOST_UNROLLED):
        program = load_program(language, text, f"t.{language}")
        dims: dict[str, int] = {}
        if language == "mgn":
            graphs = program.source.graphs  # type: ignore[union-attr]
            dims = {name: 3 for graph in graphs for name in graph.required}
        module = program.lower(dims=dims)
    check_module(module)
    print_mlir(module)
    if zlib.crc32(data) % ONE_IN == 0 and sum(1 for _ in module.walk()) < LARGEST_COMPILED:
        run_passes(parse_passes("default"), module, make_context())
        check_module(module)


def _check_places(diagnostics: Iterable[Diagnostic]) -> None:
    for item in diagnostics:
        if item.line < 1 or item.column < 1:
            raise Finding(f"no place: {item.message[:300]}")
        if len(str(item)) > 20_000:
            raise Finding(f"a message of {len(str(item))} characters: {item.message[:300]}")


def _refused_by(reads: Callable[[str], object]) -> Callable[[bytes], None]:
    """A check of what is no file: it is taken, or refused with a sentence."""

    def check(data: bytes) -> None:
        try:
            reads(data.decode("utf-8", "surrogateescape"))
        except (MgnError, RuntimeFault) as error:
            if not str(error).strip() or len(str(error)) > 20_000:
                raise Finding(f"a message of {len(str(error))} characters") from error

    return check


def _read_pipeline(text: str) -> object:
    from mgn.driver.pipelines import parse_passes

    return parse_passes(text)


def _read_dimensions(text: str) -> object:
    from mgn.commands.options.arguments import parse_dimensions

    return parse_dimensions(text.split("\n"))


def _read_saturation(text: str) -> object:
    from mgn.commands.options.arguments import parse_saturation

    return parse_saturation(text)


def _read_arguments(text: str) -> None:
    from mgn.commands import opt, run, train

    for parser in (opt.make_parser(), run.make_parser(), train.make_parser()):
        try:
            parser.parse_args([item for item in re.split(r"[ \0]+", text) if item])
        except MgnError:
            continue
        except SystemExit as end:  # --help
            if end.code not in (0, None):
                raise Finding(f"exit: {end.code}") from end


def _rule_texts() -> list[str]:
    from mgn.passes.saturate.rules.table import RULES

    return ["\n".join((row.left, row.right, row.when)) for row in RULES.values()]


def _read_rule(text: str) -> None:
    from mgn.passes.saturate import Rule, RuleClass, forget_rule, register_rule

    left, right, when = (*text.split("\n"), "", "")[:3]
    row = Rule("a-mutated-row", left, right, RuleClass.EXACT, "none", when)
    register_rule(row)
    forget_rule(row.name)


def _read_figures(text: str) -> None:
    from mgn.dialects.kernel.device import DEVICES
    from mgn.runtime.measurement import figures

    with tempfile.NamedTemporaryFile("w", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        os.environ[figures.FIGURES_VARIABLE] = file.name
        known = {"name": "a", "kind": "gpu", "cache": 1 << 20, "rates": dict(DEVICES["cpu"].rates)}
        figures._with_overrides(known)  # pyright: ignore[reportPrivateUsage]


def _target(
    name: str,
    texts: Callable[[], Sequence[str]],
    check: Callable[[bytes], None],
    share: float,
) -> Target:
    @lru_cache(maxsize=1)
    def others() -> list[list[str]]:
        return [tokens for text in texts() if (tokens := tokens_of(text))]

    def corpus() -> list[bytes]:
        others()  # before the driver starts its processes
        return [text.encode() for text in texts()]

    def change(random_: random.Random, data: bytes) -> bytes:
        text = mutate(random_, data.decode(), others())
        changed = text.encode("utf-8", "surrogatepass")
        if random_.randrange(100) == 0 and changed:
            place = random_.randrange(len(changed))
            return changed[:place] + random_.randbytes(3) + changed[place:]
        return changed

    return Target(name, corpus, change, check, share)


TARGETS = [
    _target("mgn", _mgn_texts, _check_program("mgn"), 40),
    _target("mgn-examples", _example_texts, _check_program("mgn"), 1),
    _target("mlir", _mlir_texts, _check_program("mlir"), 20),
    _target("pipeline", lambda: PIPELINE_TEXTS, _refused_by(_read_pipeline), 8),
    _target("dimension", lambda: DIMENSION_TEXTS, _refused_by(_read_dimensions), 3),
    _target("saturation", lambda: SATURATION_TEXTS, _refused_by(_read_saturation), 4),
    _target("arguments", lambda: ARGUMENT_TEXTS, _refused_by(_read_arguments), 2),
    _target("rule", _rule_texts, _refused_by(_read_rule), 12),
    _target(
        "figures",
        lambda: [json.dumps(item) for item in FIGURES],
        _refused_by(_read_figures),
        6,
    ),
]
