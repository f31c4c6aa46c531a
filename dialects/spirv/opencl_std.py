"""The instructions of `OpenCL.std`, the set that OpenCL devices extend SPIR-V by.

In: the specification of OpenCL's extended instruction set. Out: `OPENCL_STD` by name, `BY_NUMBER`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mgn.dialects.spirv.table import Field

SET_NAME = "OpenCL.std"

_LANE_BY_LANE: dict[int, str] = {
    1: """
acos=0 acosh=1 acospi=2 asin=3 asinh=4 asinpi=5 atan=6 atanh=8 atanpi=9 cbrt=11 ceil=12 cos=14
cosh=15 cospi=16 erfc=17 erf=18 exp=19 exp2=20 exp10=21 expm1=22 fabs=23 floor=25 lgamma=35
log=37 log2=38 log10=39 log1p=40 logb=41 rint=53 round=55 rsqrt=56 sin=57 sinh=59 sinpi=60
sqrt=61 tan=62 tanh=63 tanpi=64 tgamma=65 trunc=66 half_cos=67 half_exp=69 half_exp2=70
half_exp10=71 half_log=72 half_log2=73 half_log10=74 half_recip=76 half_rsqrt=77 half_sin=78
half_sqrt=79 half_tan=80 native_cos=81 native_exp=83 native_exp2=84 native_exp10=85
native_log=86 native_log2=87 native_log10=88 native_recip=90 native_rsqrt=91 native_sin=92
native_sqrt=93 native_tan=94 s_abs=141 clz=151 ctz=152 popcount=166 u_abs=201 degrees=96
radians=100 sign=103
    """,
    2: """
atan2=7 atan2pi=10 copysign=13 fdim=24 fmax=27 fmin=28 fmod=29 hypot=32 maxmag=43 minmag=44
nextafter=47 pow=48 powr=50 remainder=51 half_divide=68 half_powr=75 native_divide=82
native_powr=89 s_abs_diff=142 s_add_sat=143 u_add_sat=144 s_hadd=145 u_hadd=146 s_rhadd=147
u_rhadd=148 s_max=156 u_max=157 s_min=158 u_min=159 s_mul_hi=160 rotate=161 s_sub_sat=162
u_sub_sat=163 s_mul24=169 u_mul24=170 u_abs_diff=202 u_mul_hi=203 fmax_common=97 fmin_common=98
step=101
    """,
    3: """
fma=26 mad=42 s_clamp=149 u_clamp=150 s_mad_hi=153 u_mad_sat=154 s_mad_sat=155 s_mad24=167
u_mad24=168 u_mad_hi=204 fclamp=95 mix=99 smoothstep=102 bitselect=186
    """,
}
"""Functions of so many operands, all of the result's type: `name=number`."""

_OTHERS = """
30 fract x ptr
31 frexp x exp
33 ilogb x
34 ldexp x k
36 lgamma_r x signp
45 modf x iptr
46 nan nancode
49 pown x y
52 remquo x y quo
54 rootn x y
58 sincos x cosval
164 u_upsample hi lo
165 s_upsample hi lo
104 cross p0 p1
105 distance p0 p1
106 length p
107 normalize p
108 fast_distance p0 p1
109 fast_length p
110 fast_normalize p
187 select a b c
171 vloadn offset p n:int
172 vstoren data offset p
173 vload_half offset p
174 vload_halfn offset p n:int
175 vstore_half data offset p
176 vstore_half_r data offset p mode:FPRoundingMode
177 vstore_halfn data offset p
178 vstore_halfn_r data offset p mode:FPRoundingMode
179 vloada_halfn offset p n:int
180 vstorea_halfn data offset p
181 vstorea_halfn_r data offset p mode:FPRoundingMode
182 shuffle x shuffle_mask
183 shuffle2 x y shuffle_mask
184 printf format additional_arguments*
185 prefetch ptr num_elements
"""
"""The rest: `number name operands…`, where an operand is an id or `name:kind`."""


@dataclass(frozen=True)
class ExtendedInstruction:
    """One function; where it is `lane_by_lane` all operands have the type of the result."""

    number: int
    name: str
    fields: tuple[Field, ...]
    lane_by_lane: bool


def _rows() -> Iterator[ExtendedInstruction]:
    for arity, text in _LANE_BY_LANE.items():
        fields = tuple(Field(name) for name in "xyz"[:arity])
        for item in text.split():
            name, _, number = item.partition("=")
            yield ExtendedInstruction(int(number), name, fields, True)
    for line in _OTHERS.strip().splitlines():
        number, name, *words = line.split()
        yield ExtendedInstruction(int(number), name, tuple(map(_field, words)), False)


def _field(word: str) -> Field:
    name, _, kind = word.rstrip("*").partition(":")
    return Field(name, kind or "id", variadic=word.endswith("*"))


OPENCL_STD: dict[str, ExtendedInstruction] = {row.name: row for row in _rows()}
"""Functions by name."""

BY_NUMBER: dict[int, ExtendedInstruction] = {row.number: row for row in OPENCL_STD.values()}
"""Functions by number."""
