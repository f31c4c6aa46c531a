"""store-activations: what lies in memory between kernels of products is of half precision.

Before, with `store-activations{precision=bf16}`:
    %y = mgn.matmul(%h, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %z = mgn.add(%x, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %n = mgn.rms_norm(%z, %g) eps = 1.000000e-05 : …
After, each `rounded` being a cast to bf16 and one back to f32:
    %0 = rounded(%h)
    %y = mgn.matmul(%0, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = rounded(%y)
    %z = mgn.add(%x, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = rounded(%z)
    %n = mgn.rms_norm(%2, %g) eps = 1.000000e-05 : …

Rounded are what products read and give, as in `mixed-precision`, and besides: the sums of a
residual stream, and what a product reads wherever else it is read. A kernel then stores them in
two bytes, and all that is computed is in f32: norms and their statistics, softmaxes, sums. In bf16,
attention multiplies values by `rounded_weights`.

Left as they are: parameters, states, what a graph is given and what it returns, scores, and what is
put in order or compared, as logits are before a token is drawn. `f32` and `tf32` change nothing.
"""

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.passes import ModulePass

from mgn.dialects.mgn.attributes import BOOL
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.states import ReadStateOp, WriteStateOp
from mgn.dialects.mgn.structure import STORED, ReturnOp, graphs_of
from mgn.dialects.types import element_of
from mgn.passes.convert_precision import PRECISIONS, Roundings, check_known
from mgn.passes.mixed_precision import PASSING, PRODUCTS, ROUNDED, moved_from, reaches
from mgn.passes.rewriting import erase_dead

DECIDING = frozenset(
    {
        *("softmax", "log_softmax", "logsumexp", "cross_entropy", "nll", "max_reduce"),
        *("argmax", "argmin", "topk", "sort", "argsort", "categorical"),
    }
)
"""Operations whose results a rounding of all that they compare would turn over."""


@dataclass(frozen=True)
class StoreActivations(ModulePass):
    """Rounds what kernels of a module's graphs hand to one another."""

    name = "store-activations"
    precision: str = "f32"

    def __post_init__(self) -> None:
        check_known(self.precision)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rounding = PRECISIONS[self.precision]
        if self.precision not in ROUNDED or rounding is None:
            return
        op.attributes[STORED] = StringAttr(self.precision)
        for graph in graphs_of(op):
            _Activations(Roundings(self.precision, rounding)).store(graph.block)


@dataclass
class _Activations:
    """Rounds the activations of one block. `made` are values that come of what a run is given,
    `stored` those that are rounded, or come of such by operations on each element.
    """

    roundings: Roundings
    made: set[SSAValue] = field(default_factory=set[SSAValue])
    stored: set[SSAValue] = field(default_factory=set[SSAValue])

    def store(self, block: Block) -> None:
        """One walk over a block."""
        self.made.update(block.args)
        for op in list(block.ops):
            if isinstance(op, ReadStateOp):
                self.made.update(op.results)
            if not isinstance(op, TensorOp) or not any(item in self.made for item in op.operands):
                continue
            self.made.update(op.results)
            if op.spec.name in PRODUCTS:
                self._product(op)
            elif op.spec.kind in PASSING and any(item in self.stored for item in op.operands):
                self.stored.update(op.results)
                if self._is_residual(op):
                    self._round(op.results[0])
        erase_dead(block)

    def _product(self, op: TensorOp) -> None:
        """Rounds what a product reads, for whoever else reads it too, and what it gives."""
        if op.spec.name == "attention" and self.roundings.precision == "bf16":
            op.properties["rounded_weights"] = BOOL.encode(True)
        for number, operand in enumerate(op.operands[: PRODUCTS[op.spec.name]]):
            if not self._is_kept(operand):
                rounded = self._round_where_made(operand)
                op.operands[number] = rounded
        result = self._with_bias(op.results[0])
        if element_of(result.type).name == "f32" and not reaches(result, DECIDING):
            self._round(result)
        self.stored.add(result)

    def _with_bias(self, result: SSAValue) -> SSAValue:
        """A product's result and what parameters add to it, which is rounded once."""
        uses = list(result.uses)
        if len(uses) != 1 or not isinstance(uses[0].operation, TensorOp):
            return result
        op = uses[0].operation
        if op.spec.name != "add" or op.operands[1 - uses[0].index] in self.made:
            return result
        self.made.update(op.results)
        return op.results[0]

    def _is_kept(self, value: SSAValue) -> bool:
        """Whether a product's operand stays as it is: another type, a parameter, shares."""
        if element_of(value.type).name != "f32" or value not in self.made:
            return True
        source = moved_from(value)
        if isinstance(source.owner, ReadStateOp):
            return True
        return isinstance(source.owner, TensorOp) and source.owner.spec.name == "softmax"

    def _round_where_made(self, value: SSAValue) -> SSAValue:
        """A value as a product reads it. What it is moved from is rounded for its other readers,
        unless the run was given it.
        """
        source = moved_from(value)
        rounded = self.roundings.of(value)
        if not isinstance(source.owner, Block) and source in self.roundings.rounded:
            self._replace(source, self.roundings.rounded[source])
        self.stored.add(rounded)
        return rounded

    def _round(self, value: SSAValue) -> None:
        """Has all that reads a value read it as it is stored."""
        readers = [use for use in value.uses if not _is_end(use.operation)]
        if readers and value not in self.roundings.rounded:
            hint = value.name_hint
            stored = self.roundings.of(value)
            stored.name_hint = hint
            self._replace(value, stored)
            self.stored.add(stored)

    def _replace(self, value: SSAValue, stored: SSAValue) -> None:
        """Gives the readers of a value what is stored of it; the first cast is one of them."""
        for use in _readers(value):
            if not self._makes(use, stored):
                use.operation.operands[use.index] = stored
        self.made.add(stored)

    def _makes(self, use: Use, stored: SSAValue) -> bool:
        """Whether a use is the cast of which the stored value is made."""
        owner = stored.owner
        return isinstance(owner, TensorOp) and owner.operands[0].owner is use.operation

    def _is_residual(self, op: TensorOp) -> bool:
        """Whether an operation adds two activations of one shape for more than another sum."""
        (result,) = op.results
        if op.spec.name != "add" or element_of(result.type).name != "f32":
            return False
        shape = shape_of(result)
        if not shape or any(shape_of(item) != shape for item in op.operands):
            return False
        if not all(item in self.made for item in op.operands) or reaches(result, DECIDING):
            return False
        return any(
            not (isinstance(reader, TensorOp) and reader.spec.name == "add")
            for reader in (use.operation for use in _readers(result))
        )


def _readers(value: SSAValue) -> list[Use]:
    """The uses of a value inside its graph."""
    return [use for use in value.uses if not _is_end(use.operation)]


def _is_end(op: Operation) -> bool:
    """Whether an operation hands a value out of the graph, as it is."""
    return isinstance(op, ReturnOp | WriteStateOp)
