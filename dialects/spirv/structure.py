"""What the specification demands of a module as a whole: layout, capabilities, control flow.

In: the instructions of a module in order. Out: nothing, or a `VerifyException` that names the
first instruction that breaks a rule. Section 2.4 (layout), 2.8 (types), 2.11 (blocks), 2.16.1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.spirv.capabilities import declared_capabilities, needed_capabilities
from mgn.dialects.spirv.dominance import Dominance
from mgn.dialects.spirv.instruction import InstructionOp, defining

TERMINATORS = frozenset(
    ("OpBranch", "OpBranchConditional", "OpReturn", "OpReturnValue", "OpUnreachable")
)

_LAYOUT: tuple[tuple[str, ...], ...] = (
    ("OpCapability",),
    ("OpExtension",),
    ("OpExtInstImport",),
    ("OpMemoryModel",),
    ("OpEntryPoint",),
    ("OpExecutionMode",),
    ("OpString", "OpSourceExtension", "OpSource"),
    ("OpName", "OpMemberName"),
    ("OpDecorate", "OpMemberDecorate", "OpGroupDecorate", "OpDecorationGroup"),
)
"""Instructions by their place in a module; then come types, constants and variables."""

_RANK = {name: rank for rank, names in enumerate(_LAYOUT) for name in names}
_GLOBAL_RANK = len(_LAYOUT)
_FREE = frozenset(("OpLine", "OpNoLine", "OpNop"))


@dataclass
class BasicBlock:
    """A block of a function: its label, what follows, and the blocks that it goes to."""

    label: InstructionOp
    body: list[InstructionOp] = field(default_factory=list["InstructionOp"])

    @property
    def targets(self) -> list[SSAValue]:
        """The labels of the blocks that this one may go to."""
        last = self.body[-1]
        if last.row.name == "OpBranch":
            return list(last.ids)
        return list(last.ids[1:]) if last.row.name == "OpBranchConditional" else []


def verify_structure(instructions: Sequence[InstructionOp]) -> None:
    """All checks of a module, cheapest first."""
    heads, functions = _split(instructions)
    _verify_layout(heads)
    _verify_types(heads)
    _verify_capabilities(instructions)
    known: set[SSAValue] = set()
    for operation in heads:
        if _rank(operation) >= _GLOBAL_RANK:
            _verify_known(operation, operation.operands, known)
        known.update(operation.results)
    known.update(function[0].result for function in functions)
    for function in functions:
        _verify_function(function, known)


def _fail(operation: InstructionOp, message: str) -> VerifyException:
    hint = operation.results[0].name_hint if operation.results else None
    name = f"{operation.row.name} %{hint}" if hint else operation.row.name
    return VerifyException(f"{name} {message}")


def _rank(operation: InstructionOp) -> int:
    return _RANK.get(operation.row.name, _GLOBAL_RANK)


def _split(
    instructions: Sequence[InstructionOp],
) -> tuple[list[InstructionOp], list[list[InstructionOp]]]:
    """What comes before the functions, and each function's instructions."""
    heads: list[InstructionOp] = []
    functions: list[list[InstructionOp]] = []
    inside = False
    for operation in instructions:
        name = operation.row.name
        if name == "OpFunction":
            if inside:
                raise _fail(operation, "inside a function")
            inside = True
            functions.append([operation])
        elif inside:
            functions[-1].append(operation)
            inside = name != "OpFunctionEnd"
        elif functions and name not in _FREE:
            raise _fail(operation, "stands after a function")
        else:
            heads.append(operation)
    if inside:
        raise _fail(functions[-1][0], "has no OpFunctionEnd")
    return heads, functions


def _verify_layout(heads: Iterable[InstructionOp]) -> None:
    rank, models = 0, 0
    for operation in heads:
        if operation.row.name in _FREE:
            continue
        if _rank(operation) < rank:
            raise _fail(operation, "stands too far below")
        rank = _rank(operation)
        models += operation.row.name == "OpMemoryModel"
        declares = operation.row.name.startswith(("OpType", "OpConstant", "OpUndef", "OpVariable"))
        if rank == _GLOBAL_RANK and not declares:
            raise _fail(operation, "stands outside a function")
    if models != 1:
        raise VerifyException(f"a module has one OpMemoryModel, not {models}")


def _verify_types(heads: Iterable[InstructionOp]) -> None:
    seen: set[object] = set()
    for operation in heads:
        name = operation.row.name
        if not name.startswith("OpType") or name in ("OpTypeStruct", "OpTypeArray"):
            continue
        key = (name, tuple(operation.operands), operation.literals)
        if key in seen:
            raise _fail(operation, "declares a type for the second time")
        seen.add(key)


def _verify_capabilities(instructions: Sequence[InstructionOp]) -> None:
    declared = declared_capabilities(instructions)
    for operation in instructions:
        for alternatives in needed_capabilities(operation):
            if not declared.intersection(alternatives):
                raise _fail(operation, f"needs the capability {' or '.join(alternatives)}")


def _verify_known(
    operation: InstructionOp, operands: Iterable[SSAValue], known: set[SSAValue]
) -> None:
    for value in operands:
        if value not in known:
            owner = defining(value)
            what = owner.row.name if owner is not None else "id"
            raise _fail(operation, f"uses the result of an {what} that is not known there")


def _verify_function(function: list[InstructionOp], known: set[SSAValue]) -> None:
    head, *rest = function
    _verify_known(head, head.operands, known)
    parameters = [item for item in rest if item.row.name == "OpFunctionParameter"]
    signature = defining(head.ids[0])
    if signature is not None and [*signature.ids[1:]] != [item.type_id for item in parameters]:
        raise _fail(head, "has other parameters than its type")
    blocks = _blocks(head, rest)
    if not blocks:
        return
    labels = {block.label.result for block in blocks}
    predecessors: dict[SSAValue, list[SSAValue]] = {label: [] for label in labels}
    for block in blocks:
        for target in dict.fromkeys(block.targets):
            if target not in labels:
                raise _fail(block.body[-1], "goes to a block of another function")
            predecessors[target].append(block.label.result)
    if predecessors[blocks[0].label.result]:
        raise _fail(blocks[0].label, "is the first block and is branched to")
    _verify_phis(blocks, predecessors)
    inside = known | {item.result for item in parameters} | labels
    _verify_dominance(blocks, inside)


def _blocks(head: InstructionOp, rest: list[InstructionOp]) -> list[BasicBlock]:
    blocks: list[BasicBlock] = []
    is_open = False
    for operation in rest:
        name = operation.row.name
        if name == "OpLabel":
            if is_open:
                raise _fail(operation, "begins a block before the last one has ended")
            blocks.append(BasicBlock(operation))
            is_open = True
        elif name in ("OpFunctionParameter", "OpFunctionEnd"):
            if is_open or (name == "OpFunctionParameter" and blocks):
                raise _fail(operation, "stands inside a block")
        elif not is_open:
            if name not in _FREE:
                raise _fail(operation, "stands outside a block")
        else:
            blocks[-1].body.append(operation)
            is_open = name not in TERMINATORS
    if is_open:
        raise _fail(head, "has a block without an end")
    for block in blocks:
        names = [item.row.name for item in block.body]
        for position, name in enumerate(names):
            late = name == "OpPhi" and any(other != "OpPhi" for other in names[:position])
            if late and not set(names[:position]) <= {"OpPhi", *_FREE}:
                raise _fail(block.body[position], "stands below other instructions of its block")
            merges = name in ("OpSelectionMerge", "OpLoopMerge")
            if merges and names[position + 1] not in ("OpBranch", "OpBranchConditional"):
                raise _fail(block.body[position], "stands apart from its branch")
    return blocks


def _verify_phis(
    blocks: Iterable[BasicBlock], predecessors: dict[SSAValue, list[SSAValue]]
) -> None:
    for block in blocks:
        for operation in block.body:
            if operation.row.name != "OpPhi":
                continue
            if set(operation.ids[1::2]) != set(predecessors[block.label.result]):
                raise _fail(operation, "does not name the blocks that come before its own")


def _verify_dominance(blocks: Sequence[BasicBlock], known: set[SSAValue]) -> None:
    """A value is used only where every way from the entry has passed its definition."""
    targets: dict[SSAValue, list[SSAValue]] = {
        block.label.result: block.targets for block in blocks
    }
    dominance = Dominance(blocks[0].label.result, targets)
    home: dict[SSAValue, SSAValue] = {
        result: block.label.result
        for block in blocks
        for operation in block.body
        for result in operation.results
    }
    for block in blocks:
        label = block.label.result
        if not dominance.reaches(label):
            continue
        seen: set[SSAValue] = set()
        for operation in block.body:
            if operation.row.name == "OpPhi":
                _verify_phi_values(operation, known, home, dominance)
            else:
                for value in operation.operands:
                    place = home.get(value)
                    if value in known or value in seen:
                        continue
                    if place is None or place is label or not dominance.dominates(place, label):
                        _verify_known(operation, [value], known)
            seen.update(operation.results)


def _verify_phi_values(
    operation: InstructionOp,
    known: set[SSAValue],
    home: dict[SSAValue, SSAValue],
    dominance: Dominance,
) -> None:
    """Each value of a phi is known at the end of the block that it comes from."""
    for value, parent in zip(operation.ids[::2], operation.ids[1::2], strict=True):
        if value in known or not dominance.reaches(parent):
            continue
        place = home.get(value)
        if place is None or not dominance.dominates(place, parent):
            _verify_known(operation, [value], known)
