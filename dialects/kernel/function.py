"""`kernel.func` and `kernel.return`: one device kernel and its end."""

from collections.abc import Sequence

from xdsl.dialects import memref, scf, vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    IntegerType,
    MemRefType,
    StringAttr,
    UnitAttr,
    VectorType,
    i64,
)
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsTerminator,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.isolation import Isolated
from mgn.dialects.kernel.combining import CombineAtOp
from mgn.dialects.kernel.types import (
    Access,
    AccessAttr,
    Space,
    space_of,
    verify_buffer,
    verify_vector,
)

_RESERVED = ("sym_name", "access", "global_size", "local_size", "noalias")


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A kernel: what each work-item of a launch does with the buffers it is given.

    ```
    kernel.func @double(%x : memref<64xf32>, %y : memref<64xf32>) access [read, write]
        global [64, 1, 1] local [16, 1, 1] noalias { … kernel.return }
    ```
    `global` counts work-items, and is a multiple of `local` in each dimension. `noalias` promises
    that no two arguments share memory. Errors: an argument that is not a flat global memref, or
    has no access; sizes that are not positive or not a multiple; vectors of another width than 2,
    4, 8, 16. A store through a `read` argument is an error, too, and so is a load through a `write`
    argument that nothing is stored to.
    """

    name = "kernel.func"

    sym_name = prop_def(StringAttr)
    access = prop_def(ArrayAttr[AccessAttr])
    global_size = prop_def(DenseArrayBase.constr(i64))
    local_size = prop_def(DenseArrayBase.constr(i64))
    noalias = opt_prop_def(UnitAttr)
    body = region_def("single_block")

    traits = traits_def(Isolated(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        arguments: Sequence[tuple[MemRefType, Access | str]],
        global_size: Sequence[int],
        local_size: Sequence[int] = (1, 1, 1),
        *,
        noalias: bool = False,
        names: Sequence[str] = (),
        body: Region | None = None,
    ):
        """A kernel without operations yet (or with `body`); sizes are padded with ones to three."""
        if body is None:
            body = Region(Block(arg_types=[type for type, _ in arguments]))
        for argument, hint in zip(body.block.args, names, strict=False):
            argument.name_hint = hint
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "access": ArrayAttr(AccessAttr(Access(access)) for _, access in arguments),
                "global_size": DenseArrayBase.from_list(i64, _three(global_size)),
                "local_size": DenseArrayBase.from_list(i64, _three(local_size)),
                "noalias": UnitAttr() if noalias else None,
            },
            regions=[body],
        )

    @property
    def arguments(self) -> Sequence[BlockArgument]:
        """The buffers, in the order of a launch's arguments."""
        return self.body.block.args

    @property
    def accesses(self) -> tuple[Access, ...]:
        return tuple(access.data for access in self.access)

    @property
    def global_sizes(self) -> tuple[int, int, int]:
        return _triple(self.global_size)

    @property
    def local_sizes(self) -> tuple[int, int, int]:
        return _triple(self.local_size)

    def verify_(self) -> None:
        self._verify_sizes()
        arguments = self.body.block.args
        if len(self.access) != len(arguments):
            raise VerifyException(
                f"access lists {len(self.access)} entries for {len(arguments)} arguments"
            )
        for number, argument in enumerate(arguments):
            verify_buffer(argument.type, f"argument {number}")
            assert isinstance(argument.type, MemRefType)
            if (space := space_of(argument.type)) is not None:
                raise VerifyException(f"argument {number} lies in {space} memory, not in global")
        if not isinstance(self.body.block.last_op, ReturnOp):
            raise VerifyException("a kernel ends with kernel.return")
        for operation in self.body.walk():
            _verify_inner(operation)
        for number, (argument, access) in enumerate(zip(arguments, self.accesses, strict=True)):
            _verify_uses(argument, access, number)

    def _verify_sizes(self) -> None:
        global_size = tuple(self.global_size.get_values())
        local_size = tuple(self.local_size.get_values())
        for what, sizes in (("global", global_size), ("local", local_size)):
            if len(sizes) != 3 or any(size < 1 for size in sizes):
                raise VerifyException(f"{what} size must be three positive numbers: {list(sizes)}")
        for dimension, (items, group) in enumerate(zip(global_size, local_size, strict=True)):
            if items % group:
                raise VerifyException(
                    f"global size {items} is not a multiple of local size {group}"
                    f" in dimension {dimension}"
                )

    @classmethod
    def parse(cls, parser: Parser) -> "FuncOp":
        name = parser.parse_symbol_name().data
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=True)
        )
        parser.parse_keyword("access")
        accesses = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_str_enum(Access)
        )
        parser.parse_keyword("global")
        global_size = _parse_sizes(parser)
        parser.parse_keyword("local")
        local_size = _parse_sizes(parser)
        noalias = parser.parse_optional_keyword("noalias") is not None
        extra = parser.parse_optional_attr_dict_with_keyword(_RESERVED)
        body = parser.parse_region(arguments)
        func = FuncOp(name, [], global_size, local_size, noalias=noalias, body=body)
        func.properties["access"] = ArrayAttr(AccessAttr(access) for access in accesses)
        if extra is not None:
            func.attributes |= extra.data
        return func

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        with printer.in_parens():
            printer.print_list(self.body.block.args, printer.print_block_argument)
        printer.print_string(f" access [{', '.join(self.accesses)}]")
        printer.print_string(f" global {list(self.global_size.get_values())}")
        printer.print_string(f" local {list(self.local_size.get_values())}")
        if self.noalias is not None:
            printer.print_string(" noalias")
        printer.print_op_attributes(
            self.attributes, reserved_attr_names=_RESERVED, print_keyword=True
        )
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The end of a kernel: `kernel.return`."""

    name = "kernel.return"

    traits = traits_def(HasParent(FuncOp), IsTerminator(), Pure())

    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


def _three(sizes: Sequence[int]) -> list[int]:
    return [*sizes, *[1] * (3 - len(sizes))]


def _triple(sizes: DenseArrayBase[IntegerType]) -> tuple[int, int, int]:
    first, second, third = sizes.get_values()
    return int(first), int(second), int(third)


def _parse_sizes(parser: Parser) -> list[int]:
    return parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
    )


_LOOKED_AT = (vector.ExtractOp, vector.InsertOp, memref.AllocOp, memref.AllocaOp)
"""Operations of other dialects of which a kernel asks more than they do."""


def _verify_inner(operation: Operation) -> None:
    for number, result in enumerate(operation.results):
        if isinstance(result.type, VectorType):
            verify_vector(result.type, f"result {number} of {operation.name}")
    if type(operation) not in _LOOKED_AT:
        return
    if isinstance(operation, vector.ExtractOp | vector.InsertOp):
        _verify_lane(operation)
    if isinstance(operation, memref.AllocOp):
        raise VerifyException("memref.alloc in a kernel: use kernel.local_alloc or memref.alloca")
    if not isinstance(operation, memref.AllocaOp):
        return
    made = operation.memref.type
    verify_buffer(made, "memref.alloca")
    if space_of(made) is not Space.PRIVATE:
        raise VerifyException(
            "memref.alloca makes #kernel.space<private> memory; local memory comes from"
            " kernel.local_alloc"
        )


def _verify_lane(operation: vector.ExtractOp | vector.InsertOp) -> None:
    whole = operation.vector if isinstance(operation, vector.ExtractOp) else operation.dest
    assert isinstance(whole.type, VectorType)
    (count,) = whole.type.get_shape()
    for lane in operation.static_position.get_values():
        if lane != DYNAMIC_INDEX and not 0 <= lane < count:
            raise VerifyException(f"{operation.name} of lane {lane}, and {whole.type} has {count}")


_WRITING = memref.StoreOp | vector.StoreOp | CombineAtOp


def _verify_uses(argument: BlockArgument, access: Access, number: int) -> None:
    users = [use.operation for use in argument.uses]
    stored = any(isinstance(user, _WRITING) for user in users)
    loaded = any(isinstance(user, memref.LoadOp | vector.LoadOp) for user in users)
    if stored and not access.writes:
        raise VerifyException(f"argument {number} is stored to, but its access is {access}")
    if loaded and not stored and not access.reads:
        raise VerifyException(f"argument {number} is loaded from, but its access is {access}")


def dividing_branch(operation: Operation) -> Operation | None:
    """The nearest `scf.while` around an operation inside its kernel, or `scf.if` whose test some
    work-items of a group may find to be another than others do.
    """
    parent = operation.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        if isinstance(parent, scf.WhileOp):
            return parent
        if isinstance(parent, scf.IfOp) and not is_alike_in_group(parent.cond):
            return parent
        parent = parent.parent_op()
    return None


def is_alike_in_group(value: SSAValue) -> bool:
    """Whether all work-items of a group surely have the same value: a constant, the group's number,
    what lies at such a place of a buffer that the kernel does not write, or arithmetic on these.
    """
    owner = value.owner
    if isinstance(owner, Block):
        return False
    if isinstance(owner, memref.LoadOp):
        return _stays(owner.memref) and all(map(is_alike_in_group, owner.indices))
    known = owner.name in _ALIKE or owner.name.startswith("arith.")
    return known and all(map(is_alike_in_group, owner.operands))


_ALIKE = ("kernel.group_id", "kernel.num_groups", "kernel.global_size", "kernel.local_size")


def _stays(buffer: SSAValue) -> bool:
    """Whether a buffer is an argument of the kernel that it only reads, through which nobody sees
    what it writes.
    """
    if not isinstance(buffer, BlockArgument):
        return False
    kernel = buffer.block.parent_op()
    if not isinstance(kernel, FuncOp) or kernel.noalias is None:
        return False
    return kernel.accesses[buffer.index] is Access.READ


def verify_converged(operation: Operation) -> None:
    """What a whole work-group must reach together cannot lie in a branch that divides it."""
    branch = dividing_branch(operation)
    if branch is not None:
        raise VerifyException(
            f"{operation.name} inside {branch.name}: every work-item of the group must reach it"
        )
