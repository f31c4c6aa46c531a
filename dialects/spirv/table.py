"""Every instruction that the dialect knows, as the Khronos specification of SPIR-V lists it.

In: the specification. Out: `INSTRUCTIONS` by name and `BY_OPCODE`: number, operands, what it needs
and what is checked. The classes of operations, the text form, the words and the checks all come
from here.

A line is `opcode name operands… [@capability] [-> rule]`. The operand `type` is the id of the
result's type and `result` the result. Any other operand is an id, or `name:kind`. A kind is one of
`enums.py`, `int`, `string`, `number` (of the width of the type), or `extended` (an instruction of
an imported set). `?` may be left out, `*` is any number. A rule is a name of `rules.RULES`.
"""

from dataclasses import dataclass

_TABLE: dict[str, str] = {
    "3.32.1 Miscellaneous Instructions": """
0 OpNop
1 OpUndef type result
    """,
    "3.32.2 Debug Instructions": """
3 OpSource source_language:SourceLanguage version:int file? source:string?
4 OpSourceExtension extension:string
5 OpName target name:string
6 OpMemberName type member:int name:string
7 OpString result string:string
8 OpLine file line:int column:int
317 OpNoLine
    """,
    "3.32.3 Annotation Instructions": """
71 OpDecorate target decoration:Decoration
72 OpMemberDecorate structure_type member:int decoration:Decoration
73 OpDecorationGroup result
74 OpGroupDecorate decoration_group targets*
    """,
    "3.32.4 Extension Instructions": """
10 OpExtension name:string
11 OpExtInstImport result name:string
12 OpExtInst type result set instruction:extended arguments* -> ext_inst
    """,
    "3.32.5 Mode-Setting Instructions": """
14 OpMemoryModel addressing_model:AddressingModel memory_model:MemoryModel
15 OpEntryPoint execution_model:ExecutionModel entry_point name:string interface* -> entry_point
16 OpExecutionMode entry_point mode:ExecutionMode -> execution_mode
17 OpCapability capability:Capability
    """,
    "3.32.6 Type-Declaration Instructions": """
19 OpTypeVoid result
20 OpTypeBool result
21 OpTypeInt result width:int signedness:int -> integer_type
22 OpTypeFloat result width:int -> float_type
23 OpTypeVector result component_type component_count:int -> vector_type
28 OpTypeArray result element_type length -> array_type
30 OpTypeStruct result members* -> struct_type
32 OpTypePointer result storage_class:StorageClass type -> pointer_type
33 OpTypeFunction result return_type parameters* -> function_type
34 OpTypeEvent result @Kernel
    """,
    "3.32.7 Constant-Creation Instructions": """
41 OpConstantTrue type result -> truth
42 OpConstantFalse type result -> truth
43 OpConstant type result value:number -> constant
44 OpConstantComposite type result constituents* -> constant_composite
46 OpConstantNull type result
    """,
    "3.32.8 Memory Instructions": """
59 OpVariable type result storage_class:StorageClass initializer? -> variable
61 OpLoad type result pointer memory_access:MemoryAccess? -> load
62 OpStore pointer object memory_access:MemoryAccess? -> store
63 OpCopyMemory target source memory_access:MemoryAccess?
64 OpCopyMemorySized target source size memory_access:MemoryAccess? @Addresses
65 OpAccessChain type result base indexes* -> access_chain
66 OpInBoundsAccessChain type result base indexes* -> access_chain
67 OpPtrAccessChain type result base element indexes* @Addresses -> pointer_access_chain
70 OpInBoundsPtrAccessChain type result base element indexes* @Addresses -> pointer_access_chain
    """,
    "3.32.9 Function Instructions": """
54 OpFunction type result function_control:FunctionControl function_type -> function
55 OpFunctionParameter type result
56 OpFunctionEnd
57 OpFunctionCall type result function arguments* -> call
    """,
    "3.32.11 Conversion Instructions": """
109 OpConvertFToU type result value -> float_to_integer
110 OpConvertFToS type result value -> float_to_integer
111 OpConvertSToF type result value -> integer_to_float
112 OpConvertUToF type result value -> integer_to_float
113 OpUConvert type result value -> convert_integer
114 OpSConvert type result value -> convert_integer
115 OpFConvert type result value -> convert_float
117 OpConvertPtrToU type result pointer @Addresses -> pointer_to_integer
118 OpSatConvertSToU type result value @Kernel -> saturate_integer
119 OpSatConvertUToS type result value @Kernel -> saturate_integer
120 OpConvertUToPtr type result value @Addresses -> integer_to_pointer
121 OpPtrCastToGeneric type result pointer @Kernel -> recast_pointer
122 OpGenericCastToPtr type result pointer @Kernel -> recast_pointer
124 OpBitcast type result operand -> bitcast
    """,
    "3.32.12 Composite Instructions": """
77 OpVectorExtractDynamic type result vector index -> extract_dynamic
78 OpVectorInsertDynamic type result vector component index -> insert_dynamic
79 OpVectorShuffle type result vector_1 vector_2 components:int* -> shuffle
80 OpCompositeConstruct type result constituents* -> construct
81 OpCompositeExtract type result composite indexes:int* -> extract
82 OpCompositeInsert type result object composite indexes:int* -> insert
83 OpCopyObject type result operand -> copy
    """,
    "3.32.13 Arithmetic Instructions": """
126 OpSNegate type result operand -> integers
127 OpFNegate type result operand -> floats
128 OpIAdd type result left right -> integers
129 OpFAdd type result left right -> floats
130 OpISub type result left right -> integers
131 OpFSub type result left right -> floats
132 OpIMul type result left right -> integers
133 OpFMul type result left right -> floats
134 OpUDiv type result left right -> integers
135 OpSDiv type result left right -> integers
136 OpFDiv type result left right -> floats
137 OpUMod type result left right -> integers
138 OpSRem type result left right -> integers
139 OpSMod type result left right -> integers
140 OpFRem type result left right -> floats
141 OpFMod type result left right -> floats
142 OpVectorTimesScalar type result vector scalar -> times_scalar
148 OpDot type result vector_1 vector_2 -> dot
    """,
    "3.32.14 Bit Instructions": """
194 OpShiftRightLogical type result base shift -> shift
195 OpShiftRightArithmetic type result base shift -> shift
196 OpShiftLeftLogical type result base shift -> shift
197 OpBitwiseOr type result left right -> integers
198 OpBitwiseXor type result left right -> integers
199 OpBitwiseAnd type result left right -> integers
200 OpNot type result operand -> integers
205 OpBitCount type result base -> integers
    """,
    "3.32.15 Relational and Logical Instructions": """
154 OpAny type result vector -> reduce_booleans
155 OpAll type result vector -> reduce_booleans
156 OpIsNan type result x -> compare_floats
157 OpIsInf type result x -> compare_floats
158 OpIsFinite type result x @Kernel -> compare_floats
159 OpIsNormal type result x @Kernel -> compare_floats
160 OpSignBitSet type result x @Kernel -> compare_floats
161 OpLessOrGreater type result x y @Kernel -> compare_floats
162 OpOrdered type result x y @Kernel -> compare_floats
163 OpUnordered type result x y @Kernel -> compare_floats
164 OpLogicalEqual type result left right -> booleans
165 OpLogicalNotEqual type result left right -> booleans
166 OpLogicalOr type result left right -> booleans
167 OpLogicalAnd type result left right -> booleans
168 OpLogicalNot type result operand -> booleans
169 OpSelect type result condition object_1 object_2 -> select
170 OpIEqual type result left right -> compare_integers
171 OpINotEqual type result left right -> compare_integers
172 OpUGreaterThan type result left right -> compare_integers
173 OpSGreaterThan type result left right -> compare_integers
174 OpUGreaterThanEqual type result left right -> compare_integers
175 OpSGreaterThanEqual type result left right -> compare_integers
176 OpULessThan type result left right -> compare_integers
177 OpSLessThan type result left right -> compare_integers
178 OpULessThanEqual type result left right -> compare_integers
179 OpSLessThanEqual type result left right -> compare_integers
180 OpFOrdEqual type result left right -> compare_floats
181 OpFUnordEqual type result left right -> compare_floats
182 OpFOrdNotEqual type result left right -> compare_floats
183 OpFUnordNotEqual type result left right -> compare_floats
184 OpFOrdLessThan type result left right -> compare_floats
185 OpFUnordLessThan type result left right -> compare_floats
186 OpFOrdGreaterThan type result left right -> compare_floats
187 OpFUnordGreaterThan type result left right -> compare_floats
188 OpFOrdLessThanEqual type result left right -> compare_floats
189 OpFUnordLessThanEqual type result left right -> compare_floats
190 OpFOrdGreaterThanEqual type result left right -> compare_floats
191 OpFUnordGreaterThanEqual type result left right -> compare_floats
    """,
    "3.32.17 Control-Flow Instructions": """
245 OpPhi type result pairs* -> phi
246 OpLoopMerge merge_block continue_target loop_control:LoopControl -> branch
247 OpSelectionMerge merge_block selection_control:SelectionControl -> branch
248 OpLabel result
249 OpBranch target_label -> branch
250 OpBranchConditional condition true_label false_label weights:int* -> branch_conditional
253 OpReturn
254 OpReturnValue value
255 OpUnreachable
256 OpLifetimeStart pointer size:int @Kernel
257 OpLifetimeStop pointer size:int @Kernel
    """,
    "3.32.18 Atomic Instructions": """
227 OpAtomicLoad type result pointer memory semantics -> atomic
228 OpAtomicStore pointer memory semantics value -> atomic_store
229 OpAtomicExchange type result pointer memory semantics value -> atomic
230 OpAtomicCompareExchange type result pointer memory equal unequal value comparator -> atomic
232 OpAtomicIIncrement type result pointer memory semantics -> atomic
233 OpAtomicIDecrement type result pointer memory semantics -> atomic
234 OpAtomicIAdd type result pointer memory semantics value -> atomic
235 OpAtomicISub type result pointer memory semantics value -> atomic
236 OpAtomicSMin type result pointer memory semantics value -> atomic
237 OpAtomicUMin type result pointer memory semantics value -> atomic
238 OpAtomicSMax type result pointer memory semantics value -> atomic
239 OpAtomicUMax type result pointer memory semantics value -> atomic
240 OpAtomicAnd type result pointer memory semantics value -> atomic
241 OpAtomicOr type result pointer memory semantics value -> atomic
242 OpAtomicXor type result pointer memory semantics value -> atomic
6035 OpAtomicFAddEXT type result pointer memory semantics value @AtomicFloat32AddEXT -> atomic
    """,
    "3.32.20 Barrier Instructions": """
224 OpControlBarrier execution memory semantics -> barrier
225 OpMemoryBarrier memory semantics -> barrier
    """,
    "3.32.21 Group Instructions": """
259 OpGroupAsyncCopy type result scope destination source count stride event @Kernel -> async_copy
260 OpGroupWaitEvents execution num_events events_list @Kernel -> wait_events
261 OpGroupAll type result execution predicate @Groups -> group_vote
262 OpGroupAny type result execution predicate @Groups -> group_vote
263 OpGroupBroadcast type result execution value local_id @Groups -> group_broadcast
264 OpGroupIAdd type result execution operation:GroupOperation x @Groups -> group_integers
265 OpGroupFAdd type result execution operation:GroupOperation x @Groups -> group_floats
266 OpGroupFMin type result execution operation:GroupOperation x @Groups -> group_floats
267 OpGroupUMin type result execution operation:GroupOperation x @Groups -> group_integers
268 OpGroupSMin type result execution operation:GroupOperation x @Groups -> group_integers
269 OpGroupFMax type result execution operation:GroupOperation x @Groups -> group_floats
270 OpGroupUMax type result execution operation:GroupOperation x @Groups -> group_integers
271 OpGroupSMax type result execution operation:GroupOperation x @Groups -> group_integers
345 OpGroupNonUniformShuffle type result execution value id @GroupNonUniformShuffle -> group_shuffle
5571 OpSubgroupShuffleINTEL type result value lane @SubgroupShuffleINTEL -> sub_group_shuffle
    """,
}
"""Lines by section of the specification, in its numbering for SPIR-V 1.0 to 1.4."""


@dataclass(frozen=True)
class Field:
    """An operand of an instruction: its name, its kind, and how many of it there may be."""

    name: str
    kind: str = "id"
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True)
class Instruction:
    """One instruction. `fields` leaves out the type and the result."""

    opcode: int
    name: str
    has_type: bool
    has_result: bool
    fields: tuple[Field, ...]
    capability: str | None
    rule: str | None
    section: str


def _field(text: str) -> Field:
    variadic, optional = text.endswith("*"), text.endswith("?")
    name, _, kind = text.rstrip("*?").partition(":")
    return Field(name, kind or "id", optional, variadic)


def _instruction(line: str, section: str) -> Instruction:
    line, _, rule = line.partition(" -> ")
    opcode, name, *words = line.split()
    capability = words.pop()[1:] if words and words[-1].startswith("@") else None
    has_type, has_result = words[:1] == ["type"], "result" in words[:2]
    fields = tuple(_field(word) for word in words[has_type + has_result :])
    return Instruction(
        int(opcode), name, has_type, has_result, fields, capability, rule or None, section
    )


INSTRUCTIONS: dict[str, Instruction] = {
    row.name: row
    for section, lines in _TABLE.items()
    for row in (_instruction(line, section) for line in lines.strip().splitlines())
}
"""Instructions by name."""

BY_OPCODE: dict[int, Instruction] = {row.opcode: row for row in INSTRUCTIONS.values()}
"""Instructions by number."""
