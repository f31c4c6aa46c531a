"""What the compiler knows of a device: the figures that prices and schedules come from.

In: a name of `DEVICES`, a probed description, or the `#kernel.device` attribute of a module.
Out: a `Device`.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from xdsl.dialects.builtin import (
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def


@irdl_attr_definition
class DeviceAttr(ParametrizedAttribute):
    """A device description inside the IR: `#kernel.device<{name = "cpu", …}>`."""

    name = "kernel.device"
    description: DictionaryAttr = param_def()


@dataclass(frozen=True)
class Device:
    """A device's description: sizes in bytes, bandwidth in bytes/s, rates in operations/s.

    `matrix_rates` are those of products on the matrix unit, by what operands are rounded to: bf16,
    f16, tf32. It is empty where there is no unit that `kernel.mma` reaches. `matrix_unit` says by
    which instructions it is reached: none, mma, or wgmma besides. What a kernel reads and writes
    moves `cache_gain` times as fast if all of it fits into `cache`. `l1_cache` and `l2_cache` are
    those of one core, `l3_cache` the one that cores share: what the system says, 0 for unknown.
    """

    name: str
    kind: str
    vendor: str
    compute_units: int
    vector_bits: int
    local_memory: int
    max_work_group_size: int
    sub_group_size: int
    global_memory: int
    bandwidth: float
    launch_cost: float
    has_fp16: bool
    has_fp64: bool
    rates: dict[str, float] = field(default_factory=dict[str, float])
    matrix_rates: dict[str, float] = field(default_factory=dict[str, float])
    matrix_unit: str = "none"
    cache: int = 0
    cache_gain: float = 1.0
    l1_cache: int = 0
    l2_cache: int = 0
    l3_cache: int = 0

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    def rate(self, element: str) -> float:
        """Operations per second on an element type; f32's where it has no figure of its own."""
        return self.rates.get(element, self.rates["f32"])

    def seconds_to_move(self, moved: float) -> float:
        """The time in which a kernel reads and writes so many bytes; from one to two times the
        size of the cache, less and less of it is found there.
        """
        missed = min(max(moved / self.cache - 1.0, 0.0), 1.0) if self.cache else 1.0
        return moved / self.bandwidth * (missed + (1.0 - missed) / self.cache_gain)

    def lanes(self, element_bytes: int) -> int:
        """Elements of that size in one vector register."""
        return max(self.vector_bits // (8 * element_bytes), 1)

    @property
    def vector_registers(self) -> int:
        """Vector registers of a work-item on a CPU; those of 512 bits come with twice as many."""
        return 32 if self.vector_bits >= 512 else 16

    def with_figures(self, **figures: Any) -> "Device":
        """The same device with other figures: for measured values and for experiments."""
        return replace(self, **figures)

    def to_attribute(self) -> DeviceAttr:
        entries = {item.name: _encode(getattr(self, item.name)) for item in fields(self)}
        return DeviceAttr(DictionaryAttr(entries))

    @staticmethod
    def from_attribute(attribute: DeviceAttr) -> "Device":
        """The description an attribute holds. TypeError where a field is missing or unknown."""
        entries = attribute.description.data
        return Device(**{name: _decode(value) for name, value in entries.items()})

    @staticmethod
    def of(module: ModuleOp) -> "Device":
        """The device a module is compiled for, its `mgn.device`; the plain CPU if none."""
        attribute = module.attributes.get("mgn.device")
        if isinstance(attribute, DeviceAttr):
            return Device.from_attribute(attribute)
        return DEVICES["cpu"]


def _encode(value: Any) -> Attribute:
    if isinstance(value, dict):
        return DictionaryAttr({name: _encode(item) for name, item in value.items()})
    if isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    return StringAttr(value)


def _decode(attribute: Attribute) -> Any:
    if isinstance(attribute, DictionaryAttr):
        return {name: _decode(item) for name, item in attribute.data.items()}
    if isinstance(attribute, IntegerAttr):
        value = attribute.value.data
        return bool(value) if attribute.type == i1 else value
    if isinstance(attribute, FloatAttr):
        return attribute.value.data
    if isinstance(attribute, StringAttr):
        return attribute.data
    raise TypeError(f"not a figure of a device: {attribute}")


DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        Device(
            name="cpu",
            kind="cpu",
            vendor="generic",
            compute_units=2,
            vector_bits=512,
            local_memory=256 * 1024,
            max_work_group_size=8192,
            sub_group_size=1,
            global_memory=8 << 30,
            bandwidth=2.0e10,
            launch_cost=2.0e-5,
            has_fp16=True,
            has_fp64=True,
            rates={"f32": 4.0e11, "f64": 2.0e11, "f16": 2.5e10, "bf16": 2.5e10},
            cache=8 << 20,
            cache_gain=2.0,
            l1_cache=32 * 1024,
            l2_cache=1 << 20,
            l3_cache=32 << 20,
        ),
        Device(
            name="nvidia-h200",
            kind="gpu",
            vendor="nvidia",
            compute_units=132,
            vector_bits=128,
            local_memory=48 * 1024,
            max_work_group_size=1024,
            sub_group_size=32,
            global_memory=139 << 30,
            bandwidth=4.28e12,
            launch_cost=5.0e-6,
            has_fp16=False,
            has_fp64=True,
            rates={"f32": 5.1e13, "f64": 2.5e13, "f16": 5.1e13, "bf16": 5.1e13},
            matrix_rates={"bf16": 5.5e14, "f16": 5.5e14, "tf32": 3.0e14},
            matrix_unit="wgmma",
        ),
    )
}
