"""Quantised operators of the domain com.microsoft, by those on floats."""

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.block_formats import BLOCK, CODES, MINIMUMS, SCALES, join_parts
from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define
from mgn.frontend.onnx.operators.microsoft import DOMAIN
from mgn.frontend.onnx.operators.microsoft_attention import attention_of
from mgn.frontend.onnx.operators.pooling import averaged
from mgn.frontend.onnx.operators.products import centred, product
from mgn.frontend.onnx.operators.quantised import (
    dequantised,
    dynamically_quantised,
    quantised,
)


def _real(c: Call, number: int) -> SSAValue:
    """A quantised input, followed by its scale and zero point, as floats."""
    return dequantised(c, c[number], c[number + 1], c.get(number + 2), element(c[number + 1]))


def _quantised(c: Call, x: SSAValue, number: int, like: SSAValue) -> SSAValue:
    """Floats quantised by a scale and a zero point among the inputs."""
    zero = c.get(number + 1)
    kind = c.type_of(like if zero is None else zero)
    return quantised(c, x, c[number], zero, kind)


def _of_two(name: str) -> Callable[[Call], SSAValue]:
    def function(c: Call) -> SSAValue:
        return _quantised(c, c.b.call(name, _real(c, 0), _real(c, 3)), 6, c[0])

    function.__doc__ = f"`{name}` of the dequantised values, quantised"
    return function


define("QLinearAdd", domain=DOMAIN)(_of_two("add"))
define("QLinearMul", domain=DOMAIN)(_of_two("mul"))


@define("QLinearSigmoid", domain=DOMAIN)
def quantised_sigmoid(c: Call) -> SSAValue:
    """`sigmoid` of the dequantised value, quantised"""
    return _quantised(c, c.b.sigmoid(_real(c, 0)), 3, c[0])


@define("QLinearLeakyRelu", domain=DOMAIN)
def quantised_leaky_relu(c: Call) -> SSAValue:
    """`leaky_relu` of the dequantised value, quantised"""
    return _quantised(c, c.b.leaky_relu(_real(c, 0), slope=c.attribute("alpha", 0.01)), 3, c[0])


@define("QLinearGlobalAveragePool", domain=DOMAIN)
def quantised_global_average_pool(c: Call) -> SSAValue:
    """the mean of each channel of the dequantised value, quantised"""
    last = bool(c.attribute("channels_last", 0))
    first = 1 if last else 2
    axes = list(range(first, rank(c[0]) - int(last)))
    return _quantised(c, c.b.mean(_real(c, 0), axis=axes, keepdims=True), 3, c[0])


@define("QLinearAveragePool", domain=DOMAIN)
def quantised_average_pool(c: Call) -> SSAValue:
    """`avg_pool1d`, `avg_pool2d` or `avg_pool3d` of the dequantised value, quantised"""
    _refuse_channels_last(c)
    return _quantised(c, averaged(c, _real(c, 0)), 3, c[0])


@define("QLinearSoftmax", domain=DOMAIN)
def quantised_softmax(c: Call) -> SSAValue:
    """`softmax` of the dequantised value, quantised; up to opset 12 over all axes from `axis` on"""
    b, x = c.b, _real(c, 0)
    axis = c.axis(x, -1)
    sizes = shape(x)
    if c.attribute("opset", 13) < 13:
        lines = b.reshape(x, [*sizes[:axis], -1])
        found = b.reshape(b.softmax(lines, axis=-1), list(sizes))
    else:
        found = b.softmax(x, axis=axis)
    return _quantised(c, found, 3, c[0])


@define("QLinearWhere", domain=DOMAIN)
def quantised_where(c: Call) -> SSAValue:
    """`where` of the dequantised values, quantised"""
    return _quantised(c, c.b.where(c[0], _real(c, 1), _real(c, 4)), 7, c[1])


def _refuse_channels_last(c: Call) -> None:
    if c.attribute("channels_last", 0):
        c.fail("'channels_last' is not supported")


@define("QAttention", domain=DOMAIN)
def quantised_attention(c: Call) -> Any:
    """`matmul` in i32 for q, k and v, times both scales, and `attention` after a cache"""
    x, y = centred(c, c[0], c.get(6), axis=-2), centred(c, c[1], c.get(7), axis=-1)
    whole = _scaled(c, product(c, x, y), c[3], c[4], c.get(2))
    return attention_of(c, whole, c.get(5), c.get(8))


@define("QLinearConcat", domain=DOMAIN)
def quantised_concat(c: Call) -> SSAValue:
    """`concat` of the dequantised values, quantised"""
    if len(c) < 5 or len(c) % 3 != 2:
        c.fail(f"{len(c)} inputs are no scale, zero point, and three for each value")
    values = [_real(c, number) for number in range(2, len(c), 3)]
    found = c.b.concat(values, axis=c.axis(values[0], 0))
    return quantised(c, found, c[0], c[1], c.type_of(c[1]))


@define("MatMulIntegerToFloat", domain=DOMAIN)
def integer_matmul_to_float(c: Call) -> SSAValue:
    """`matmul` in i32, times both scales, and a bias"""
    x, y = centred(c, c[0], c.get(4), axis=-2), centred(c, c[1], c.get(5), axis=-1)
    return _scaled(c, product(c, x, y), c[2], c[3], c.get(6))


@define("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamically_quantised_matmul(c: Call) -> SSAValue:
    """the value quantised by its range, `matmul` in i32, times both scales, and a bias"""
    found, scale, zero = dynamically_quantised(c, c[0])
    x, y = centred(c, found, zero, axis=-2), centred(c, c[1], c.get(3), axis=-1)
    return _scaled(c, product(c, x, y), scale, c[2], c.get(4))


def _scaled(
    c: Call, total: SSAValue, one: SSAValue, other: SSAValue, bias: SSAValue | None
) -> SSAValue:
    b = c.b
    found = b.mul(b.cast(total, "f32"), b.mul(one, other))
    return found if bias is None else b.add(found, bias)


@define("QGemm", domain=DOMAIN)
def quantised_gemm(c: Call) -> SSAValue:
    """`matmul` in i32 with its transposes and C, times both scales; quantised where asked"""
    b = c.b
    if rank(c[1]) and shape(c[1]) != (1,):
        c.fail("a scale for each row is not supported")
    flags = [bool(c.attribute(name, 0)) for name in ("transA", "transB")]
    x = centred(c, c[0], c.get(2), axis=-1 if flags[0] else -2)
    y = centred(c, c[3], c.get(5), axis=-2 if flags[1] else -1)
    total = b.matmul(x, y, transpose_a=flags[0], transpose_b=flags[1])
    total = total if c.get(6) is None else b.add(total, c[6])
    scale = b.mul(c[1], c[4])
    scale = b.mul(scale, c.like(c.attribute("alpha", 1.0), scale))
    real = b.mul(b.cast(total, "f32"), scale)
    return real if c.get(7) is None else _quantised(c, real, 7, c[0])


@define("MatMulNBits", domain=DOMAIN)
def matmul_of_blocks(c: Call) -> SSAValue:
    """`matmul` with weights of 2, 4 or 8 bits: in `q4_1` where that has their values, else f32"""
    if len(c) < 3:
        c.fail("x, B and scales are wanted")
    b, x = c.b, c[0]
    kind, name = element(x).name, c.node.inputs[1]
    codes, scales, zeros = _weights_in_blocks(c)
    packed = None if c.get(4) is not None else _as_q4_1(c, codes, scales, zeros)
    if packed is None:
        of_column = np.arange(codes.shape[1]) // c.required("block_size")
        of_column = of_column if c.get(4) is None else c.known(4).reshape(-1)
        floats = (codes - zeros[:, of_column]) * scales[:, of_column]
        weights = c.importer.tensor(name, floats[:, : c.required("K")].astype(np.float32))
    else:
        weights = c.importer.blocks(name, packed, "q4_1")
    wide = x if kind == "f32" else b.cast(x, "f32")
    found = b.matmul(wide, weights, transpose_b=True)
    found = found if kind == "f32" else b.cast(found, kind)
    return found if c.get(5) is None else b.add(found, c[5])


def _weights_in_blocks(c: Call) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of all columns `[N, columns]`, and scales and zero points of blocks `[N, blocks]`."""
    rows, bits, block = c.required("N"), c.attribute("bits", 4), c.required("block_size")
    if bits not in (2, 4, 8):
        c.fail(f"weights of {bits} bits are not supported")
    scales = c.known(2).reshape(rows, -1).astype(np.float32)
    count = scales.shape[1]
    codes = _codes(c.known(1).reshape(rows, -1), bits)[:, : count * block].astype(np.float32)
    if codes.shape != (rows, count * block):
        c.fail(f"{count} blocks of {block} are scaled, and B has {codes.shape[1]} columns")
    if c.get(3) is None:
        return codes, scales, np.full_like(scales, 1 << (bits - 1))
    zeros = c.known(3).reshape(rows, -1)
    zeros = _codes(zeros, bits)[:, :count] if zeros.dtype == np.uint8 else zeros
    return codes, scales, zeros.astype(np.float32)


def _codes(packed: np.ndarray, bits: int) -> np.ndarray:
    """The codes in bytes, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(*packed.shape[:-1], -1)


def _as_q4_1(
    c: Call, codes: np.ndarray, scales: np.ndarray, zeros: np.ndarray
) -> np.ndarray | None:
    """The weights in blocks of 32 with a scale and a minimum in f16; None where these are not the
    model's own.
    """
    block, bits = c.required("block_size"), c.attribute("bits", 4)
    if bits != 4 or block % BLOCK or c.required("K") != codes.shape[1]:
        return None
    lowest = -zeros * scales
    with np.errstate(over="ignore"):
        narrow = [part.astype(np.float16) for part in (scales, lowest)]
    same = (np.array_equal(one, two) for one, two in zip(narrow, (scales, lowest), strict=True))
    if not all(same):
        return None
    low, high = np.split(codes.astype(np.uint8).reshape(len(codes), -1, BLOCK), 2, axis=-1)
    parts = {
        SCALES: np.repeat(narrow[0], block // BLOCK, axis=1),
        MINIMUMS: np.repeat(narrow[1], block // BLOCK, axis=1),
        CODES: (low | (high << 4)).reshape(len(codes), -1),
    }
    return join_parts(parts, "q4_1")
