"""What the compiler knows of a device: the figures that prices and schedules come from.

In: a name of `DEVICES`, a probed description, or the `#kernel.device` attribute of a module.
Out: a `Device`.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

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
from xdsl.utils.exceptions import VerifyException

from mgn.diagnostics import WrongType


@irdl_attr_definition
class DeviceAttr(ParametrizedAttribute):
    """A device description inside the IR: `#kernel.device<{name = "cpu", …}>`."""

    name = "kernel.device"
    description: DictionaryAttr = param_def()

    def verify(self) -> None:
        entries = self.description.data
        for listed, words in (
            (FIGURES.keys() - OPTIONAL_FIGURES - entries.keys(), "lacks"),
            (entries.keys() - FIGURES.keys(), "has no figure"),
        ):
            if listed:
                raise VerifyException(f"a device description {words} '{min(listed)}'")
        try:
            problem = Device.from_attribute(self).problem()
        except TypeError as error:
            problem = str(error)
        if problem:
            raise VerifyException(f"a device description: {problem}")


@dataclass(frozen=True)
class Device:
    """A device's description: sizes in bytes, bandwidth in bytes/s, rates in operations/s.

    `matrix_rates` are those of products on the matrix unit, by what operands are rounded to: bf16,
    f16, tf32. It is empty where there is no unit that `kernel.mma` reaches. `matrix_unit` says by
    which instructions it is reached: none, mma, or wgmma besides. What a kernel reads and writes
    moves `cache_gain` times as fast if all of it fits into `cache`. `l1_cache` and `l2_cache` are
    those of one core, `l3_cache` the one that cores share: what the system says, 0 for unknown.
    `function_share` is what functions such as tanh take on a CPU in the time that a chain of them
    takes, by `ELEMENT_COST`: a core computes the next elements while one waits, as far as it sees.
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
    function_share: float = 1.0
    barrier_cost: float = 0.0

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

    def problem(self) -> str:
        """What is wrong with a figure, which it names; nothing where all are sound."""
        for name, allowed in FIGURES.items():
            value = getattr(self, name)
            if isinstance(allowed, dict):
                if not isinstance(value, dict):
                    return f"{name} must be an object of rates, not {value!r}"
                rates = cast(dict[str, Any], value)
                wrong = [f"{name}.{key}" for key, rate in rates.items() if not RATE.allows(rate)]
                if wrong:
                    return f"{wrong[0]} must be {RATE}, not {rates[wrong[0].partition('.')[2]]!r}"
            elif not allowed.allows(value):
                return f"{name} must be {allowed}, not {value!r}"
        if "f32" not in self.rates:
            return "rates.f32 is missing, which stands for those that are not there"
        if self.vendor == "nvidia" and self.kind == "gpu" and self.sub_group_size != 32:
            return f"sub_group_size must be 32 on NVIDIA's GPUs, not {self.sub_group_size}"
        return self._too_little()

    def _too_little(self) -> str:
        """What there is too little of for the smallest tiles."""
        for wanted, where, least_of in (
            (self.kind == "gpu", "on a GPU", LEAST_ON_GPU),
            (self.matrix_unit != "none", f"with the matrix unit {self.matrix_unit}", LEAST_OF_UNIT),
        ):
            for name, least in least_of.items() if wanted else ():
                if getattr(self, name) < least:
                    return f"{name} must be at least {least} {where}, not {getattr(self, name)}"
        if self.matrix_rates and self.matrix_unit == "none":
            return f"matrix_rates has {min(self.matrix_rates)}, and matrix_unit is none"
        return ""

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


@dataclass(frozen=True)
class Numbers:
    """The values of a figure: numbers of a kind from `low` to `high`."""

    kind: type
    low: float
    high: float

    def allows(self, value: Any) -> bool:
        """Whether a value is one of them."""
        if type(value) is not self.kind and not (self.kind is float and type(value) is int):
            return False
        return self.low <= value <= self.high

    def __str__(self) -> str:
        what = "a whole number" if self.kind is int else "a number"
        return f"{what} from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Choices:
    """The values of a figure that has few, or any text where none are listed."""

    values: tuple[Any, ...] = ()

    def allows(self, value: Any) -> bool:
        """Whether a value is one of them."""
        if not self.values:
            return isinstance(value, str)
        return any(type(value) is type(known) and value == known for known in self.values)

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.values))}" if self.values else "a text"


RATE = Numbers(float, 1.0, 1e40)
_SIZE = Numbers(int, 0, (1 << 63) - 1)
_TRUTH = Choices((True, False))

FIGURES: dict[str, Numbers | Choices | dict[str, Numbers]] = {
    "name": Choices(),
    "kind": Choices(("cpu", "gpu")),
    "vendor": Choices(),
    "compute_units": Numbers(int, 1, 1 << 30),
    "vector_bits": Choices(tuple(32 << n for n in range(8))),
    "local_memory": Numbers(int, 1, (1 << 63) - 1),
    "max_work_group_size": Numbers(int, 1, 1 << 30),
    "sub_group_size": Choices(tuple(1 << n for n in range(8))),
    "global_memory": Numbers(int, 1, (1 << 63) - 1),
    "bandwidth": RATE,
    "launch_cost": Numbers(float, 0.0, 1e6),
    "has_fp16": _TRUTH,
    "has_fp64": _TRUTH,
    "rates": {"f32": RATE},
    "matrix_rates": {},
    "matrix_unit": Choices(("none", "mma", "wgmma")),
    "cache": _SIZE,
    "cache_gain": Numbers(float, 1e-6, 1e6),
    "l1_cache": _SIZE,
    "l2_cache": _SIZE,
    "l3_cache": _SIZE,
    "function_share": Numbers(float, 1e-3, 1e3),
    "barrier_cost": Numbers(float, 0.0, 1e6),
}
"""The values that each figure of a device may have; rates are numbers by element type. Within them
no price overflows, and each template has a schedule.
"""

OPTIONAL_FIGURES = frozenset(
    ("rates", "matrix_rates", "matrix_unit", "cache", "cache_gain", "l1_cache", "l2_cache")
) | {"l3_cache", "function_share", "barrier_cost"}

LEAST_ON_GPU = {"local_memory": 4096, "max_work_group_size": 32}
"""What the smallest tiles of attention and of products take."""

LEAST_OF_UNIT = {"local_memory": 48 * 1024, "max_work_group_size": 256}
"""The same of the groups that feed a matrix unit."""


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
    raise WrongType(f"not a figure of a device: {attribute}")


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
            barrier_cost=1.3e-6,
        ),
    )
}
