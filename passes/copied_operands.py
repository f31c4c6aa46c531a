"""Large products on a matrix unit whose operands are copied first, as the unit takes them.

Before:
    %y = fusion.kernel contraction (%a = %x : tensor<4096x4096xf32>, %b = %w : …) -> (…) {
      %0 = mgn.round_tf32(%a) …   %1 = mgn.round_tf32(%b) …
      %2 = mgn.matmul(%0, %1) …
      fusion.return %2 : tensor<4096x4096xf32>
    }
After:
    %p = fusion.kernel pointwise (%a = %x : tensor<4096x4096xf32>) -> (…) { … mgn.round_tf32 … }
    %q = fusion.kernel pointwise (%b = %w : …) -> (…) { … mgn.round_tf32 … mgn.transpose … }
    %y = fusion.kernel contraction (%a = %p : …, %b = %q : …) -> (…) {
      … mgn.matmul … transpose_b = true …
    }

Copies run along the shared axis, rounded, with lines that begin at multiples of 16 bytes. The unit
then reads tiles that no work-item has touched, which pays for the copies where there are many
operations for each number.
"""

from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.types import ELEMENT_TYPES, element_of
from mgn.passes.kernel_pieces import KernelPieces
from mgn.passes.lower_kernels.template import dividing_lanes
from mgn.passes.lower_kernels.tensor_panels import MOVED
from mgn.passes.lower_kernels.tensor_tiling import CHUNK_BYTES
from mgn.passes.rewriting import erase_dead

STAGED = {16: 1.4, 8: 1.5, 4: 3.0, 2: 5.0}
"""Bytes of an operand that lie together → the time of a product whose operands pass through
registers, in the time of one whose operands do not."""

SCATTERED = 5.0
"""How much longer a copy takes that turns an operand and fills up its lines."""


@dataclass(frozen=True)
class _Operand:
    """An operand of a product: whether memory runs along another axis than the shared one, how many
    bytes lie together, and whether the unit can have it as it lies.
    """

    value: SSAValue
    turned: bool
    together: int
    direct: bool

    def seconds(self, device: Device, padded: bool) -> float:
        """What its copy takes."""
        size = 2 * prod(_shape(self.value)) * element_of(self.value.type).bytes
        slower = SCATTERED if self.turned and padded else 1.0
        return slower * size / device.bandwidth + device.launch_cost


def copy_operands(fused: FusedKernelOp, device: Device, unit: str | None) -> list[FusedKernelOp]:
    """The kernels that replace a large product on a unit; the kernel itself where none do."""
    if unit is None or device.matrix_unit != "wgmma":
        return [fused]
    (product,) = (op for op in fused.block.ops if _is_product(op))
    assert isinstance(product, TensorOp)
    if any(len(_shape(value)) < 2 for value in product.operands):
        return [fused]
    operands = [_operand(fused, product, number, unit) for number in range(2)]
    padded = _depth(product) % _chunk(unit) != 0
    copied = {n: item for n, item in enumerate(operands) if padded or not item.direct}
    cost = sum(item.seconds(device, padded) for item in copied.values())
    if not copied or _saved(list(copied.values()), product, device, unit) < cost:
        return [fused]
    return _copy(fused, product, copied, unit)


def comes_rounded(fused: FusedKernelOp) -> bool:
    """Whether tf32 operands of a product lie in memory as kernels before have rounded them."""
    (product,) = (op for op in fused.block.ops if _is_product(op))
    return all(_is_rounded(fused, _source(value)) for value in product.operands)


def _is_rounded(fused: FusedKernelOp, source: SSAValue) -> bool:
    if source not in fused.block.args:
        return False
    before = fused.inputs[fused.block.args.index(source)]  # type: ignore
    if not isinstance(before.owner, FusedKernelOp):
        return False
    value = before.owner.written[before.owner.outputs.index(before)]  # type: ignore
    return _moved(value, (*MOVED, "pad")).owner in _named(before.owner, "round_tf32")


def _named(fused: FusedKernelOp, name: str) -> list[Operation]:
    return [op for op in fused.block.ops if isinstance(op, TensorOp) and op.spec.name == name]


def _is_product(op: Operation) -> bool:
    return isinstance(op, TensorOp) and op.spec.kind is Kind.CONTRACTION


def _shape(value: SSAValue) -> tuple[int, ...]:
    return value.type.get_shape()  # type: ignore


def _depth(product: TensorOp) -> int:
    return _shape(product.operands[0])[-2 if product.values["transpose_a"] else -1]


def _chunk(unit: str) -> int:
    """Numbers in what a work-item copies at once."""
    return CHUNK_BYTES // (4 if unit == "tf32" else 2)


def _moved(value: SSAValue, names: tuple[str, ...]) -> SSAValue:
    """What a value was before operations of certain names."""
    while isinstance(value.owner, TensorOp) and value.owner.spec.name in names:
        value = value.owner.operands[0]
    return value


def _source(value: SSAValue) -> SSAValue:
    """What an operand is before it is rounded or widened."""
    return _moved(value, ("cast", "round_tf32"))


def _operand(fused: FusedKernelOp, product: TensorOp, number: int, unit: str) -> _Operand:
    flag = bool(product.values[("transpose_a", "transpose_b")[number]])
    turned = flag != (number == 1)
    value = product.operands[number]
    source = _moved(value, (*MOVED, "cast", "round_tf32"))
    if unit == "tf32":
        stored = _is_rounded(fused, source) and not turned
    else:
        stored = source in fused.block.args and element_of(source.type).name == unit
    bytes = CHUNK_BYTES // _chunk(unit)
    together = CHUNK_BYTES
    if source is _source(value):
        together = bytes * dividing_lanes(_shape(source)[-1], _chunk(unit))
    return _Operand(value, turned, together, stored and together == CHUNK_BYTES)


def _saved(copied: list[_Operand], product: TensorOp, device: Device, unit: str) -> float:
    """Seconds by which a product of copies is faster."""
    operations = 2 * prod(_shape(product.results[0])) * _depth(product)
    slower = max(STAGED[item.together] for item in copied)
    return (slower - 1.0) * operations / device.matrix_rates[unit]


def _copy(
    fused: FusedKernelOp, product: TensorOp, copied: dict[int, _Operand], unit: str
) -> list[FusedKernelOp]:
    pieces = KernelPieces(fused, lambda _, __, partial: partial)
    for item in copied.values():
        (copy,) = pieces.add(
            KernelKind.POINTWISE,
            [item.value],
            finish=lambda b, values, item=item: [_arranged(b, values[0], item, unit)],
        )
        pieces.known[item.value] = copy
    wanted = list(dict.fromkeys(fused.written))
    results = pieces.add(KernelKind.CONTRACTION, wanted)
    (clone,) = (op for op in pieces.kernels[-1].block.ops if _is_product(op))
    assert isinstance(clone, TensorOp)
    _multiply(clone, copied, unit, element_of(product.operands[0].type).name)
    pieces.known.update(zip(wanted, results, strict=True))
    return pieces.replace()


def _arranged(b: Emitter, value: SSAValue, operand: _Operand, unit: str) -> SSAValue:
    """The operand as it is copied: in the unit's type, along the shared axis, in whole chunks."""
    if unit != "tf32" and element_of(value.type).name != unit:
        value = b.cast(value, ELEMENT_TYPES[unit])
    rank = len(_shape(value))
    if operand.turned:
        value = b.transpose(value, [*range(rank - 2), rank - 1, rank - 2])
    missing = -_shape(value)[-1] % _chunk(unit)
    return b.pad(value, [[0, 0]] * (rank - 1) + [[0, missing]], 0.0) if missing else value


def _multiply(clone: TensorOp, copied: dict[int, _Operand], unit: str, element: str) -> None:
    """Puts the product of the copies in the place of one that was cloned."""
    block = clone.parent
    assert block is not None
    b = Emitter(lambda op: block.insert_op_before(op, clone), clone.location)
    operands = list(clone.operands)
    flags = {"transpose_a": clone.values["transpose_a"], "transpose_b": clone.values["transpose_b"]}
    for number in copied:
        value = operands[number]
        if unit == "tf32":
            operands[number] = b.round_tf32(value)
        elif element != unit:
            operands[number] = b.cast(value, ELEMENT_TYPES[element])
        flags[("transpose_a", "transpose_b")[number]] = number == 1
    result = b.matmul(*operands, **flags)
    clone.results[0].replace_all_uses_with(result)
    erase_dead(block)
