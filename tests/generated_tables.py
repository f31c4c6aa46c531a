"""Tables of `docs/`, and `mgn/ops.pyi`, made from the code; `python -m tests.generated_tables`
renews them.

In: the operations' specifications, and the commands' parsers. Out: the text between the marks
`<!-- made from …: NAME -->` and `<!-- end of NAME -->` of each page.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from mgn.commands import bench, fmt, generate, opt, run, train
from mgn.dialects.mgn import OPERATIONS
from mgn.dialects.mgn.operation import Kind, OperandSpec, OperationSpec
from mgn.dialects.types import Family
from mgn.frontend.onnx.core.operator import OPERATORS as ONNX_OPERATORS
from mgn.frontend.onnx.operators import load_operators
from mgn.frontend.torch.operators import grouped
from mgn.lsp.operation_help import operation_help
from mgn.op_functions import signature_of
from tests.onnx_models.failures import FAILURES as ONNX_FAILURES

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARKED = re.compile(
    r"(?P<begin><!-- made from [^:>]+: (?P<name>[\w-]+) -->\n).*?"
    r"(?P<end><!-- end of (?P=name) -->)",
    re.DOTALL,
)
TITLES: dict[Kind, str] = {
    Kind.ELEMENTWISE: "Elementwise",
    Kind.REDUCTION: "Reductions",
    Kind.SCAN: "Scans",
    Kind.SCATTER: "Scatters",
    Kind.ORDER: "Order",
    Kind.CONTRACTION: "Products",
    Kind.MOVEMENT: "Movement",
    Kind.INDEXING: "Indexing",
    Kind.CONSTANT: "Constants",
    Kind.COMPOSITE: "Composites",
}
FAMILIES = {
    Family.FLOAT: "float",
    Family.SIGNED: "int",
    Family.UNSIGNED: "uint",
    Family.BOOL: "bool",
    Family.BLOCK: "block",
}


def operations() -> str:
    """A table for each kind of operation: how it is called, element types, what it computes."""
    parts: list[str] = []
    for kind, title in TITLES.items():
        rows = [spec for spec in OPERATIONS.values() if spec.kind is kind]
        parts += [
            f"\n### {title}\n",
            "| call | elements | value | defined by |",
            "|---|---|---|---|",
        ]
        parts += [_row(spec) for spec in sorted(rows, key=lambda spec: spec.name)]
    return "\n".join(parts) + "\n\n"


def options(parser: argparse.ArgumentParser) -> str:
    """A table of a command's options, as its `--help` has them."""
    rows = [
        f"| {_cell(_spelling(action))} | {_plain(action.help or '')} |"
        for action in parser._actions
        if action.option_strings != ["-h", "--help"]
    ]
    return "\n".join(["", "| option | effect |", "|---|---|", *rows]) + "\n\n"


def onnx_operators() -> str:
    """A table of the operators of ONNX, each with what it becomes."""
    load_operators()
    rows = ["", "| domain | operator | from version | becomes |", "|---|---|---|---|"]
    for (domain, name), versions in sorted(ONNX_OPERATORS.items()):
        for row in versions:
            rows.append(f"| {domain} | `{name}` | {row.since} | {_plain(row.summary)} |")
    return "\n".join(rows) + "\n\n"


def pytorch_operators() -> str:
    """A row for each group of PyTorch's operators: the overloads of each that are not the default
    one stand behind it.
    """
    rows: list[str] = []
    for title, names in grouped().items():
        overloads: dict[str, list[str]] = {}
        for name in names:
            space, operator, overload = name.split(".")
            whole = operator if space == "aten" else f"{space}.{operator}"
            overloads.setdefault(whole, []).append(overload)
        told: list[str] = []
        for operator, found in sorted(overloads.items()):
            rest = ", ".join(item for item in found if item != "default")
            told.append(f"`{operator}`" + (f" ({rest})" if rest else ""))
        rows.append(f"| {title} | {', '.join(told)} |")
    return "\n".join(["", "| group | operators |", "|---|---|", *rows]) + "\n\n"


def onnx_node_tests() -> str:
    """A table of the tests of ONNX that do not pass, by reason."""
    rows = ["", "| reason | tests |", "|---|---|"]
    for reason, names in ONNX_FAILURES.items():
        listed = ", ".join(f"`{name.removeprefix('test_')}`" for name in names)
        rows.append(f"| {reason} ({len(names)}) | {listed} |")
    return "\n".join(rows) + "\n\n"


TABLES: dict[str, Callable[[], str]] = {
    "operations": operations,
    "onnx-operators": onnx_operators,
    "pytorch-operators": pytorch_operators,
    "onnx-node-tests": onnx_node_tests,
    "mgn-run": lambda: options(run.make_parser()),
    "mgn-opt": lambda: options(opt.make_parser()),
    "mgn-bench": lambda: options(bench.make_parser()),
    "mgn-train": lambda: options(train.make_parser()),
    "mgn-generate": lambda: options(generate.make_parser()),
    "mgn-fmt": lambda: options(fmt.make_parser()),
}
"""Each table by the name that its marks have."""


def renewed(text: str) -> str:
    """A page with its tables made anew."""
    return MARKED.sub(lambda found: found["begin"] + TABLES[found["name"]]() + found["end"], text)


def pages() -> Iterator[Path]:
    """The pages that hold such tables."""
    for path in sorted(DOCS.glob("*.md")):
        if MARKED.search(path.read_text(encoding="utf-8")):
            yield path


STUB = DOCS.parent / "mgn" / "ops.pyi"

ATTRIBUTE_TYPES = {
    "int": "int",
    "float": "float",
    "number": "float",
    "bool": "bool",
    "str": "str",
    "ints": "Sequence[int]",
    "int or ints": "int | Sequence[int]",
    "int, ints or none": "int | Sequence[int] | None",
    "pairs": "Sequence[Sequence[int]]",
    "padding": "int | str | Sequence[int] | Sequence[Sequence[int]]",
    "element type": "Any",
}
"""Python's type of each kind of attribute."""


def stub() -> str:
    """The functions of `mgn.ops` with their types, for editors and type checkers."""
    head = (
        "# Made from the operations' specifications by `python -m tests.generated_tables`.\n"
        "from collections.abc import Sequence\nfrom typing import Any\n\n"
        "import numpy as np\n\nfrom mgn.builder import Value\n\n"
        "Tensor = Value | np.ndarray | float\n\n"
        "def constant(value: Any, T: Any = None) -> Value: ...\n"
        "def grad(loss: Value, values: Any) -> Any: ...\n"
        "def jvp(y: Value, x: Any, v: Any) -> Value: ...\n"
    )
    return head + "".join(_stub_of(spec) for _, spec in sorted(OPERATIONS.items()))


def _stub_of(spec: OperationSpec) -> str:
    """One function; its arguments below each other where they do not fit on a line."""
    items: list[str] = []
    for parameter, item in zip(signature_of(spec).parameters.values(), spec.signature, strict=True):
        starred = parameter.kind is parameter.VAR_POSITIONAL
        if parameter.kind is parameter.KEYWORD_ONLY and not any(i.startswith("*") for i in items):
            items.append("*")
        if isinstance(item, OperandSpec):
            type = "Sequence[Tensor]" if item.variadic and not starred else "Tensor"
            type = f"Tensor | {type}" if item.bare else type
            type = f"{type} | None" if item.optional else type
        else:
            type = ATTRIBUTE_TYPES[item.kind.name]
            optional = item.default is None and not type.endswith("None") and type != "Any"
            type = f"{type} | None" if optional else type
        default = "" if parameter.default is parameter.empty else " = ..."
        items.append(f"{'*' if starred else ''}{item.name}: {type}{default}")
    result = "tuple[Value, ...]" if spec.several_results else "Value"
    line = f"def {spec.name}({', '.join(items)}) -> {result}: ...\n"
    if len(line) <= 101:
        return line
    rows = "".join(f"    {item},\n" for item in items)
    return f"def {spec.name}(\n{rows}) -> {result}: ...\n"


def main() -> None:
    """Writes the pages and the stub anew."""
    STUB.write_text(stub(), encoding="utf-8")
    for path in pages():
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")


def _row(spec: OperationSpec) -> str:
    example, _, rest = spec.summary.partition("`: ")
    value = rest or example
    defined = "NumPy" if spec.is_core else "decomposition"
    accepts = dict.fromkeys(_elements(item) for item in spec.operands)
    return f"| {_cell(_call(spec))} | {', '.join(accepts)} | {_plain(value)} | {defined} |"


def _call(spec: OperationSpec) -> str:
    known = operation_help(spec.name)
    assert known is not None
    return known.signature


def _elements(item: OperandSpec) -> str:
    if item.element is not None:
        return item.element
    names = [name for family, name in FAMILIES.items() if family in item.accepts]
    return "any" if len(names) >= 4 else " ".join(names)


def _spelling(action: argparse.Action) -> str:
    names = [name for name in action.option_strings if not name.startswith("--mlir-")]
    if not names:
        return action.dest
    if action.nargs == 0:
        return ", ".join(names)
    word = action.metavar or (f"{{{','.join(map(str, action.choices or ()))}}}")
    return f"{', '.join(names)} {word}"


def _cell(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    main()
