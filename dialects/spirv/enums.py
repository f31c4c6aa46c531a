"""The enumerations of SPIR-V that our instructions take, with the operands that a member brings.

In: the specification. Out: `ENUMS` by kind. Members that only graphics uses are left out.
"""

from dataclasses import dataclass

from mgn.dialects.spirv.table import Field

_TEXT: dict[str, str] = {
    "SourceLanguage": "Unknown=0 OpenCL_C=3 OpenCL_CPP=4",
    "AddressingModel": "Logical=0 Physical32=1 Physical64=2",
    "MemoryModel": "Simple=0 OpenCL=2",
    "ExecutionModel": "Kernel=6",
    "ExecutionMode": """
LocalSize=17(int,int,int) LocalSizeHint=18(int,int,int) VecTypeHint=30(int) ContractionOff=31
Initializer=33 Finalizer=34 SubgroupSize=35(int) SubgroupsPerWorkgroup=36(int)
DenormPreserve=4459(int) DenormFlushToZero=4460(int) SignedZeroInfNanPreserve=4461(int)
RoundingModeRTE=4462(int) RoundingModeRTZ=4463(int)
    """,
    "StorageClass": """
UniformConstant=0 Input=1 Workgroup=4 CrossWorkgroup=5 Private=6 Function=7 Generic=8
    """,
    "Decoration": """
SpecId=1(int) CPacked=10 BuiltIn=11(BuiltIn) Restrict=19 Aliased=20 Volatile=21 Constant=22
Coherent=23 NonWritable=24 NonReadable=25 SaturatedConversion=28
FuncParamAttr=38(FunctionParameterAttribute) FPRoundingMode=39(FPRoundingMode)
FPFastMathMode=40(FPFastMathMode) LinkageAttributes=41(string,LinkageType) NoContraction=42
Alignment=44(int) MaxByteOffset=45(int) NoSignedWrap=4469 NoUnsignedWrap=4470
    """,
    "BuiltIn": """
NumWorkgroups=24 WorkgroupSize=25 WorkgroupId=26 LocalInvocationId=27 GlobalInvocationId=28
LocalInvocationIndex=29 WorkDim=30 GlobalSize=31 EnqueuedWorkgroupSize=32 GlobalOffset=33
GlobalLinearId=34 SubgroupSize=36 SubgroupMaxSize=37 NumSubgroups=38 NumEnqueuedSubgroups=39
SubgroupId=40 SubgroupLocalInvocationId=41
    """,
    "FunctionControl": "None=0 Inline=1 DontInline=2 Pure=4 Const=8",
    "LoopControl": """
None=0 Unroll=1 DontUnroll=2 DependencyInfinite=4 DependencyLength=8(int) MinIterations=16(int)
MaxIterations=32(int) IterationMultiple=64(int) PeelCount=128(int) PartialCount=256(int)
    """,
    "SelectionControl": "None=0 Flatten=1 DontFlatten=2",
    "MemoryAccess": "None=0 Volatile=1 Aligned=2(int) Nontemporal=4",
    "GroupOperation": "Reduce=0 InclusiveScan=1 ExclusiveScan=2",
    "FPFastMathMode": "None=0 NotNaN=1 NotInf=2 NSZ=4 AllowRecip=8 Fast=16",
    "LinkageType": "Export=0 Import=1 LinkOnceODR=2",
    "FunctionParameterAttribute": """
Zext=0 Sext=1 ByVal=2 Sret=3 NoAlias=4 NoCapture=5 NoWrite=6 NoReadWrite=7
    """,
    "FPRoundingMode": "RTE=0 RTZ=1 RTP=2 RTN=3",
    "Capability": """
Matrix=0 Shader=1 Addresses=4 Linkage=5 Kernel=6 Vector16=7 Float16Buffer=8 Float16=9 Float64=10
Int64=11 Int64Atomics=12 ImageBasic=13 Pipes=17 Groups=18 DeviceEnqueue=19 LiteralSampler=20
Int16=22 GenericPointer=38 Int8=39 SubgroupDispatch=58 NamedBarrier=59 PipeStorage=60
GroupNonUniform=61 GroupNonUniformVote=62 GroupNonUniformArithmetic=63 GroupNonUniformBallot=64
GroupNonUniformShuffle=65 GroupNonUniformShuffleRelative=66 DenormPreserve=4464
DenormFlushToZero=4465 SignedZeroInfNanPreserve=4466 RoundingModeRTE=4467 RoundingModeRTZ=4468
SubgroupShuffleINTEL=5568 AtomicFloat32AddEXT=6033 AtomicFloat64AddEXT=6034
    """,
}
"""Members by kind: `name=value(kinds of the operands that follow)`."""

_MASKS = frozenset(
    ("FunctionControl", "LoopControl", "SelectionControl", "MemoryAccess", "FPFastMathMode")
)

IMPLIED: dict[str, tuple[str, ...]] = {
    "Vector16": ("Kernel",),
    "Float16Buffer": ("Kernel",),
    "Float16": ("Float16Buffer",),
    "Int64Atomics": ("Int64",),
    "DeviceEnqueue": ("Kernel",),
    "GenericPointer": ("Addresses",),
    "SubgroupDispatch": ("DeviceEnqueue",),
    "GroupNonUniformShuffle": ("GroupNonUniform",),
    "GroupNonUniformArithmetic": ("GroupNonUniform",),
    "Shader": ("Matrix",),
}
"""Capability → the capabilities that it declares with itself."""


@dataclass(frozen=True)
class Member:
    """A member of an enumeration, and the operands that follow where it is used."""

    name: str
    value: int
    parameters: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Enumeration:
    """An enumeration by name and by value; several members of a mask hold together."""

    kind: str
    is_mask: bool
    by_name: dict[str, Member]
    by_value: dict[int, Member]

    def members(self, value: int) -> tuple[Member, ...]:
        """The members that a value is made of. KeyError where a bit or the value is unknown."""
        if not self.is_mask or value == 0:
            return (self.by_value[value],)
        bits = (1 << bit for bit in range(value.bit_length()) if value >> bit & 1)
        return tuple(self.by_value[bit] for bit in bits)

    def text(self, value: int) -> str:
        """The names of a value, joined by `|`."""
        return "|".join(member.name for member in self.members(value))


def _member(text: str) -> Member:
    head, _, kinds = text.rstrip(")").partition("(")
    name, _, value = head.partition("=")
    parameters = tuple(Field(name.lower(), kind) for kind in kinds.split(",") if kind)
    return Member(name, int(value), parameters)


def _enumeration(kind: str, text: str) -> Enumeration:
    members = [_member(word) for word in text.split()]
    return Enumeration(
        kind,
        kind in _MASKS,
        {member.name: member for member in members},
        {member.value: member for member in members},
    )


ENUMS: dict[str, Enumeration] = {kind: _enumeration(kind, text) for kind, text in _TEXT.items()}
"""Enumerations by kind."""
