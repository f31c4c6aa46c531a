"""Operators that AOT autograd leaves in backward graphs.

In: the gradient of a result, and what the forward operator had. Out: the gradients of its operands,
by mgn's own rules of differentiation, or by the formula where it is short.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from xdsl.ir import Operation, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.gradients.reverse import Tape
from mgn.frontend.torch.convolution import Ints, check_scales, convolved, pooled, window_options
from mgn.frontend.torch.table import Call, Unsupported, as_element, aten, reshaped


def pulled_back(
    b: Emitter,
    grad: SSAValue,
    operands: Sequence[SSAValue],
    forward: Callable[..., SSAValue],
) -> list[SSAValue]:
    """What the result of `forward(emitter, *operands)` sends back to each operand."""
    made: list[Operation] = []

    def insert(op: Operation) -> None:
        b.insert(op)
        made.append(op)

    own = Emitter(insert, b.location)
    stand_ins = [own.identity(item) for item in operands]
    result = forward(own, *stand_ins)
    found = Tape(made).pull(b, [(result, as_element(b, grad, element_type_of(result)))], stand_ins)
    return [
        b.full(shape_of(item), 0.0, T=element_type_of(item)) if sent is None else sent
        for item, sent in zip(operands, found, strict=True)
    ]


@aten("convolution_backward")
def convolution_backward(
    b: Emitter,
    call: Call,
    grad: SSAValue,
    x: SSAValue,
    weight: SSAValue,
    bias_sizes: Sequence[int] | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: Sequence[bool],
) -> list[SSAValue | None]:
    """The gradients of the image, of the weights and of the bias, those that are asked for."""
    options = (stride, padding, dilation, transposed, output_padding, groups)
    wanted = [item for item, is_wanted in zip((x, weight), output_mask, strict=False) if is_wanted]

    def forward(own: Emitter, *values: SSAValue) -> SSAValue:
        given = list(values)
        image = given.pop(0) if output_mask[0] else x
        kernel = given.pop(0) if output_mask[1] else weight
        return convolved(own, image, kernel, None, *options)

    found = pulled_back(b, grad, wanted, forward) if wanted else []
    result: list[SSAValue | None] = [
        found.pop(0) if is_wanted else None for is_wanted in output_mask[:2]
    ]
    if not output_mask[2]:
        return [*result, None]
    channel = len(shape_of(grad)) - (len(shape_of(weight)) - 2) - 1
    axes = tuple(axis for axis in range(len(shape_of(grad))) if axis != channel)
    return [*result, b.sum(grad, axis=axes, keepdims=False)]


@aten("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(
    b: Emitter,
    call: Call,
    grad: SSAValue,
    x: SSAValue,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: SSAValue,
) -> SSAValue:
    """To the first maximum of each window, which the indices name too."""
    axes = int(call.name[len("aten.max_pool")])
    options = window_options(axes, kernel_size, stride, padding, dilation, ceil_mode)
    return pulled_back(
        b, grad, [x], lambda own, item: pooled(own, call, "max_pool", item, axes, **options)
    )[0]


@aten("adaptive_max_pool2d_backward")
def adaptive_max_pool_backward(
    b: Emitter, call: Call, grad: SSAValue, x: SSAValue, indices: SSAValue
) -> SSAValue:
    """To the element of each window that the indices name."""
    lead, plane = shape_of(x)[:-2], prod(shape_of(x)[-2:])
    flat, ids = b.reshape(grad, (*lead, -1)), b.reshape(indices, (*lead, -1))
    zeros = b.full((*lead, plane), 0.0, T=element_type_of(grad))
    return b.reshape(b.scatter_add(zeros, ids, flat, axis=len(lead)), shape_of(x))


@aten("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(
    b: Emitter,
    call: Call,
    grad: SSAValue,
    x: SSAValue,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> SSAValue:
    """The same share to each element of a window."""
    if divisor_override is not None:
        raise Unsupported("a divisor of one's own")
    axes = int(call.name[len("aten.avg_pool")])
    options = window_options(axes, kernel_size, stride, padding, 1, ceil_mode)
    options["count_include_pad"] = count_include_pad
    return pulled_back(
        b, grad, [x], lambda own, item: pooled(own, call, "avg_pool", item, axes, **options)
    )[0]


@aten("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool_backward(b: Emitter, call: Call, grad: SSAValue, x: SSAValue) -> SSAValue:
    """The same share to each element of a window."""
    size = shape_of(grad)[-2:]
    line = [1] * (4 - len(shape_of(x)))

    def forward(own: Emitter, item: SSAValue) -> SSAValue:
        whole = reshaped(own, item, (*line, *shape_of(item)))
        return reshaped(own, own.adaptive_avg_pool2d(whole, size), shape_of(grad))

    return pulled_back(b, grad, [x], forward)[0]


@aten("upsample_nearest2d_backward", "upsample_bilinear2d_backward")
def upsample_backward(
    b: Emitter,
    call: Call,
    grad: SSAValue,
    output_size: Sequence[int],
    input_size: Sequence[int],
    *rest: Any,
    **named: Any,
) -> SSAValue:
    """Back to the elements that were read."""
    is_bilinear = "bilinear" in call.name
    corners = bool(rest[0]) if is_bilinear else False
    x = b.full(tuple(input_size), 0.0, T=element_type_of(grad))
    options: dict[str, Any] = {"mode": "nearest"}
    if is_bilinear:
        options = {"mode": "bilinear", "align_corners": corners}
    if not corners:
        sized = Call(call.name, [(element_type_of(grad), shape_of(grad))])
        check_scales(x, sized, [*rest[is_bilinear:], *named.values()])
    size = tuple(shape_of(grad)[2:])
    return pulled_back(b, grad, [x], lambda own, item: own.upsample(item, size=size, **options))[0]
