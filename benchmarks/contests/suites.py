"""Which kernels are timed on which kind of device.

In: a device's kind and the name of a suite. Out: its cases: `kernels` is the table of the README,
`odd` thirty products whose sizes fit no tile, on a GPU at every precision of its matrix unit,
`language` kernels of language models.
"""

from benchmarks.contests.cases import (
    Case,
    attention,
    chain,
    decoding,
    gelu_matmul,
    layer_norm,
    matmul,
    product,
    residual,
    softmax,
    spelled_attention,
)
from benchmarks.contests.language_model_cases import (
    argmax,
    column_mean,
    grouped_attention,
    log_softmax,
)
from benchmarks.contests.memory_cases import (
    column_sum,
    cross_entropy,
    depthwise,
    rms_norm,
    swiglu,
    transpose,
)

CPU: tuple[Case, ...] = (
    *(matmul(size) for size in (512, 1024, 2048, 4096)),
    gelu_matmul(512, 768, 3072),
    residual(4096, 4096),
    chain(4096, 4096),
    softmax(4096, 1024),
    softmax(16384, 64),
    layer_norm(4096, 1024),
    rms_norm(4096, 1024),
    attention(1, 9, 128, 64),
    attention(1, 8, 1024, 64),
    spelled_attention(1, 8, 1024, 64),
)

_SHORT_TO_LONG = ((1 << 20, 64), (1 << 18, 256), (65536, 1024), (4096, 16384), (1024, 65536))

GPU: tuple[Case, ...] = (
    *(matmul(size) for size in (512, 1024, 2048, 4096, 8192)),
    gelu_matmul(512, 768, 3072),
    residual(4096, 4096),
    chain(4096, 4096),
    *(make(16384, 4096) for make in (softmax, rms_norm, layer_norm, swiglu, cross_entropy)),
    transpose(16384, 4096),
    transpose(8191, 8193),
    column_sum(16384, 4096),
    *(depthwise(32, 96, 112, 3, precision) for precision in ("f32", "bf16")),
    *(softmax(rows, columns) for rows, columns in _SHORT_TO_LONG),
    attention(1, 9, 128, 64),
    *(attention(4, 16, 2048, 64, precision) for precision in ("f32", "tf32", "bf16", "f16")),
    *(attention(4, 8, 2048, 128, precision) for precision in ("f32", "bf16")),
    *(spelled_attention(1, 16, 2048, 64, precision) for precision in ("f32", "tf32")),
    *(decoding(8, 8192, 128, precision) for precision in ("f32", "bf16")),
)

_SIZES: tuple[tuple[int, int, int], ...] = (
    *((8191, 512, 513), (16384, 1024, 96), (30000, 300, 300)),
    *((100, 1024, 16384), (513, 512, 8191), (200, 2000, 20000)),
    *((4096, 65, 4096), (4096, 33, 4099), (2048, 100, 8192)),
    *((1500, 8000, 700), (333, 9999, 777), (64, 20000, 1000)),
)
"""Tall, wide, of a short shared axis, of a long one."""

_BATCHED: tuple[tuple[int, int, int, int], ...] = (
    *((30, 500, 500, 500), (30, 129, 257, 511), (30, 1000, 64, 1000)),
    *((96, 197, 64, 197), (96, 197, 197, 64)),
)

_LAYERS: tuple[tuple[int, int, int], ...] = (
    *((1000, 1000, 1000), (2047, 768, 3001), (4095, 1023, 511)),
    *((5000, 384, 1536), (777, 3072, 768)),
)


def odd(precision: str) -> tuple[Case, ...]:
    """Thirty products of operands that are rounded to a precision."""
    squares = (1000, 1023, 1025, 2047, 2050, 3000, 4095, 4097)
    return (
        *(matmul(size, precision) for size in squares),
        *(product(*sizes, precision=precision) for sizes in _SIZES),
        *(product(*sizes, batch=n, precision=precision) for n, *sizes in _BATCHED),
        *(gelu_matmul(*sizes, precision) for sizes in _LAYERS),
    )


PRECISE: tuple[Case, ...] = tuple(
    case
    for precision in ("tf32", "bf16")
    for case in (*(matmul(size, precision) for size in (4096, 8192)), *odd(precision))
)
"""Products on a GPU's matrix unit."""

LANGUAGE: tuple[Case, ...] = (
    *(product(1, 4096, 14336, precision=precision) for precision in ("f32", "tf32", "bf16")),
    product(257, 4096, 11008, precision="bf16"),
    argmax(4096, 50257),
    log_softmax(4096, 50257),
    column_mean(50257, 512),
    grouped_attention(8, (32, 8), 1, 2048, 128, "bf16"),
    attention(4, 16, 2048, 80),
)
"""One row of a layer, an odd number of rows, a vocabulary, one query of shared heads."""

LONG_CONTEXT = grouped_attention(1, (32, 8), 4096, 4096, 128, "bf16")

SUITES: dict[tuple[str, str], tuple[Case, ...]] = {
    ("cpu", "kernels"): CPU,
    ("gpu", "kernels"): GPU,
    ("cpu", "odd"): odd("f32"),
    ("gpu", "odd"): (*odd("f32"), *PRECISE),
    ("cpu", "language"): LANGUAGE,
    ("gpu", "language"): (*LANGUAGE, LONG_CONTEXT),
}
"""Cases by the device's kind and the suite's name."""
