//! The compute shader in SPIR-V, so that the example needs no compiler of shaders.
//!
//! ```glsl
//! layout(local_size_x = 64) in;
//! layout(set = 0, binding = 0) buffer Data { uint data[]; };
//! layout(push_constant) uniform Push { uint frame; };
//! void main() { data[gl_GlobalInvocationID.x] = gl_GlobalInvocationID.x * 3 + frame; }
//! ```

/// The number of invocations in a workgroup.
pub(crate) const WORKGROUP: u32 = 64;

// The numbers of the results.
const MAIN: u32 = 1;
const GLOBAL_ID: u32 = 2;
const WORDS: u32 = 3;
const DATA: u32 = 4;
const BUFFER: u32 = 5;
const PUSH: u32 = 6;
const VOID: u32 = 7;
const VOID_FUNCTION: u32 = 8;
const UINT: u32 = 9;
const UINT3: u32 = 10;
const INPUT_UINT3: u32 = 11;
const BUFFER_DATA: u32 = 12;
const BUFFER_UINT: u32 = 13;
const PUSH_STRUCT: u32 = 14;
const PUSH_POINTER: u32 = 15;
const PUSH_UINT: u32 = 16;
const ZERO: u32 = 17;
const THREE: u32 = 18;
const LABEL: u32 = 19;
const ID: u32 = 20;
const I: u32 = 21;
const FRAME_PLACE: u32 = 22;
const FRAME: u32 = 23;
const PRODUCT: u32 = 24;
const SUM: u32 = 25;
const PLACE: u32 = 26;
const BOUND: u32 = 27;

// The storage classes.
const INPUT: u32 = 1;
const UNIFORM: u32 = 2;
const PUSH_CONSTANT: u32 = 9;

/// Each instruction: its opcode, and its operands.
const INSTRUCTIONS: &[(u32, &[u32])] = &[
    // OpCapability Shader
    (17, &[1]),
    // OpMemoryModel Logical GLSL450
    (14, &[0, 1]),
    // OpEntryPoint GLCompute %main "main" %global_id
    (15, &[5, MAIN, u32::from_le_bytes(*b"main"), 0, GLOBAL_ID]),
    // OpExecutionMode %main LocalSize 64 1 1
    (16, &[MAIN, 17, WORKGROUP, 1, 1]),
    // OpDecorate: BuiltIn GlobalInvocationId, ArrayStride 4, BufferBlock, DescriptorSet 0, Binding
    // 0
    (71, &[GLOBAL_ID, 11, 28]),
    (71, &[WORDS, 6, 4]),
    (72, &[DATA, 0, 35, 0]),
    (71, &[DATA, 3]),
    (71, &[BUFFER, 34, 0]),
    (71, &[BUFFER, 33, 0]),
    // OpMemberDecorate Offset 0, OpDecorate Block
    (72, &[PUSH_STRUCT, 0, 35, 0]),
    (71, &[PUSH_STRUCT, 2]),
    // OpTypeVoid, OpTypeFunction, OpTypeInt, OpTypeVector, OpTypePointer, OpVariable
    (19, &[VOID]),
    (33, &[VOID_FUNCTION, VOID]),
    (21, &[UINT, 32, 0]),
    (23, &[UINT3, UINT, 3]),
    (32, &[INPUT_UINT3, INPUT, UINT3]),
    (59, &[INPUT_UINT3, GLOBAL_ID, INPUT]),
    // OpTypeRuntimeArray, OpTypeStruct
    (29, &[WORDS, UINT]),
    (30, &[DATA, WORDS]),
    (32, &[BUFFER_DATA, UNIFORM, DATA]),
    (59, &[BUFFER_DATA, BUFFER, UNIFORM]),
    (32, &[BUFFER_UINT, UNIFORM, UINT]),
    (30, &[PUSH_STRUCT, UINT]),
    (32, &[PUSH_POINTER, PUSH_CONSTANT, PUSH_STRUCT]),
    (59, &[PUSH_POINTER, PUSH, PUSH_CONSTANT]),
    (32, &[PUSH_UINT, PUSH_CONSTANT, UINT]),
    // OpConstant
    (43, &[UINT, ZERO, 0]),
    (43, &[UINT, THREE, 3]),
    // OpFunction, OpLabel
    (54, &[VOID, MAIN, 0, VOID_FUNCTION]),
    (248, &[LABEL]),
    // OpLoad, OpCompositeExtract
    (61, &[UINT3, ID, GLOBAL_ID]),
    (81, &[UINT, I, ID, 0]),
    // OpAccessChain, OpLoad
    (65, &[PUSH_UINT, FRAME_PLACE, PUSH, ZERO]),
    (61, &[UINT, FRAME, FRAME_PLACE]),
    // OpIMul, OpIAdd
    (132, &[UINT, PRODUCT, I, THREE]),
    (128, &[UINT, SUM, PRODUCT, FRAME]),
    // OpAccessChain, OpStore
    (65, &[BUFFER_UINT, PLACE, BUFFER, ZERO, I]),
    (62, &[PLACE, SUM]),
    // OpReturn, OpFunctionEnd
    (253, &[]),
    (56, &[]),
];

/// Returns the module.
pub(crate) fn spir_v() -> Vec<u32> {
    // The magic number, the version, no generator, the bound of the results, and a reserved word.
    let mut words = vec![0x0723_0203, 0x0001_0000, 0, BOUND, 0];
    for (opcode, operands) in INSTRUCTIONS {
        words.push((operands.len() as u32 + 1) << 16 | opcode);
        words.extend_from_slice(operands);
    }
    words
}
