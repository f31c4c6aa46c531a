"""Convolutions, and what pads them."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define
from mgn.frontend.onnx.operators.products import centred

AUTO_PAD = ("NOTSET", "", "SAME_UPPER", "SAME_LOWER", "VALID")
"""Ways to say how an image is padded."""


def padding_of(c: Call, sizes: Sequence[int], kernel: Sequence[int]) -> list[list[int]]:
    """Low and high padding of each axis, by `pads` or `auto_pad`."""
    count = len(kernel)
    auto = c.choice("auto_pad", *AUTO_PAD)
    if auto in ("NOTSET", ""):
        pads = c.attribute("pads") or [0] * (2 * count)
        if len(pads) != 2 * count:
            c.fail(f"{count} axes have {len(pads)} numbers in 'pads'")
        return [[pads[axis], pads[axis + count]] for axis in range(count)]
    if auto == "VALID":
        return [[0, 0]] * count
    strides, dilations = axes_of(c, "strides", count), axes_of(c, "dilations", count)
    found: list[list[int]] = []
    for size, window, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        places = -(-size // stride)
        whole = max((places - 1) * stride + (window - 1) * dilation + 1 - size, 0)
        less = whole // 2
        found.append([less, whole - less] if auto == "SAME_UPPER" else [whole - less, less])
    return found


def axes_of(c: Call, name: str, count: int, default: int = 1) -> list[int]:
    """An attribute with a number for each axis; ones, or others, where it is left out."""
    found = list(c.attribute(name) or [default] * count)
    if len(found) != count:
        c.fail(f"{count} axes have {len(found)} numbers in '{name}'")
    return found


def _kernel_of(c: Call, x: SSAValue, w: SSAValue) -> Sequence[int]:
    """The sizes of a kernel, which `kernel_shape` may only repeat."""
    if rank(w) != rank(x):
        c.fail(f"an input of {rank(x)} axes, and a kernel of {rank(w)}")
    kernel = shape(w)[2:]
    said = list(c.attribute("kernel_shape") or kernel)
    if said != list(kernel):
        c.fail(f"kernel_shape is {said}, and the kernel has {list(kernel)}")
    return kernel


def convolved(c: Call, x: SSAValue, w: SSAValue, bias: SSAValue | None) -> SSAValue:
    """The convolution that the attributes describe."""
    count = rank(x) - 2
    if count not in (1, 2, 3):
        c.fail(f"{count} axes are not supported")
    kernel = _kernel_of(c, x, w)
    more = [] if bias is None else [bias]
    return c.b.call(
        f"conv{count}d",
        x,
        w,
        *more,
        stride=axes_of(c, "strides", count),
        padding=padding_of(c, shape(x)[2:], kernel),
        dilation=axes_of(c, "dilations", count),
        groups=c.attribute("group", 1),
    )


@define("Conv")
def conv(c: Call) -> SSAValue:
    """`conv1d`, `conv2d` or `conv3d`"""
    return convolved(c, c[0], c[1], c.get(2))


@define("ConvInteger", since=10)
def conv_integer(c: Call) -> SSAValue:
    """a convolution in i32 of what is left of the zero points"""
    x = centred(c, c[0], c.get(2), axis=1)
    return convolved(c, x, centred(c, c[1], c.get(3), axis=0), None)


@define("ConvTranspose")
def conv_transpose(c: Call) -> SSAValue:
    """`conv_transpose1d`, `conv_transpose2d` or `conv_transpose3d`"""
    x, w, b = c[0], c[1], c.b
    count = rank(x) - 2
    if count not in (1, 2, 3):
        c.fail(f"{count} axes are not supported")
    kernel = _kernel_of(c, x, w)
    strides, dilations = axes_of(c, "strides", count), axes_of(c, "dilations", count)
    more = axes_of(c, "output_padding", count, 0)
    sizes = shape(x)[2:]
    reach = [
        (size - 1) * stride + (window - 1) * dilation + 1
        for size, stride, window, dilation in zip(sizes, strides, kernel, dilations, strict=True)
    ]
    wanted, auto = c.attribute("output_shape"), c.choice("auto_pad", *AUTO_PAD)
    if wanted is None and auto.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    if wanted is None:
        padding = padding_of(c, sizes, kernel)
    else:
        padding = []
        for axis, size in enumerate(wanted[-count:]):
            whole = reach[axis] + more[axis] - size
            if whole < 0:
                more[axis], whole = more[axis] - whole, 0
            less = whole // 2
            upper = auto == "SAME_UPPER"
            padding.append([less, whole - less] if upper else [whole - less, less])
    extra = [
        max(item - max(stride, dilation) + 1, 0)
        for item, stride, dilation in zip(more, strides, dilations, strict=True)
    ]
    bias = [] if c.get(2) is None else [c[2]]
    if any(extra):
        bias = []
    found = b.call(
        f"conv_transpose{count}d",
        x,
        w,
        *bias,
        stride=strides,
        padding=padding,
        output_padding=[item - over for item, over in zip(more, extra, strict=True)],
        dilation=dilations,
        groups=c.attribute("group", 1),
    )
    if not any(extra):
        return found
    found = b.pad(found, [[0, 0], [0, 0], *([0, item] for item in extra)], 0.0)
    if c.get(2) is None:
        return found
    return b.add(found, b.reshape(c[2], [shape(found)[1], *[1] * count]))


def is_float(x: SSAValue) -> bool:
    """Whether a value has floats."""
    return element(x).is_float
