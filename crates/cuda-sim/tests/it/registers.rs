//! The register estimate: occupancy results include it, but no launch fails because of it.

use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{
    CUfunction, CUfunction_attribute as F, CUjit_option, CUjitInputType, CUlaunchAttribute,
    CUlaunchAttributeID, CUlaunchConfig,
};

use crate::occupancy::{blocks, get};
use crate::support::{TestDevice, ok, test_device};

const NULL: cuda_sys::CUstream = ptr::null_mut();

/// PTX of a kernel in which `registers` registers are live at once. It writes the sum of their
/// numbers.
fn sum(directives: &str, registers: u32) -> String {
    let all = 1..registers;
    let make = all.clone().map(|i| format!("mov.u32 %r{i}, {i};\n"));
    let uses = all.map(|i| format!("add.u32 %r0, %r0, %r{i};\n"));
    let body: String = make.chain(uses).collect();
    format!(
        ".version 7.8\n.target sm_75\n.address_size 64\n\
         .visible .entry sum(.param .u64 out) {directives} {{\n\
         .reg .b32 %r<{registers}>;\n.reg .b64 %rd<2>;\nmov.u32 %r0, 0;\n{body}\
         ld.param.u64 %rd1, [out];\nst.global.u32 [%rd1], %r0;\nret;\n}}"
    )
}

fn load(sim: &TestDevice, directives: &str, registers: u32) -> CUfunction {
    sim.function(sim.load(&sum(directives, registers)), "sum")
}

/// The results of `cuOccupancyMaxPotentialBlockSize`: blocks and threads.
fn potential(sim: &TestDevice, function: CUfunction, limit: i32) -> [i32; 2] {
    let (mut grid, mut block) = (-1, -1);
    let status = unsafe {
        let (grid, block) = (&raw mut grid, &raw mut block);
        sim.cuOccupancyMaxPotentialBlockSize(grid, block, function, None, 0, limit)
    };
    ok(status);
    [grid, block]
}

/// Launches cooperatively, or in clusters of a given number of blocks.
fn launch_ex(
    sim: &TestDevice,
    function: CUfunction,
    [grid, block]: [u32; 2],
    cluster: Option<u32>,
    mut out: u64,
) -> R {
    // SAFETY: all fields are integers, pointers, or a union of these.
    let mut attribute: CUlaunchAttribute = unsafe { std::mem::zeroed() };
    match cluster {
        None => {
            attribute.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
            attribute.value.cooperative = 1;
        }
        Some(x) => {
            attribute.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            attribute.value.clusterDim =
                cuda_sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y: 1, z: 1 };
        }
    }
    // SAFETY: all fields are integers or pointers.
    let mut config: CUlaunchConfig = unsafe { std::mem::zeroed() };
    (config.gridDimX, config.gridDimY, config.gridDimZ) = (grid, 1, 1);
    (config.blockDimX, config.blockDimY, config.blockDimZ) = (block, 1, 1);
    (config.attrs, config.numAttrs) = (&raw mut attribute, 1);
    let mut params = [(&raw mut out).cast()];
    let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
    unsafe { sim.cuLaunchKernelEx(&raw const config, function, params, none) }
}

#[test]
fn many_live_registers_do_not_refuse_1024_threads() {
    let sim = test_device(Builder::new());
    let out = sim.upload(&[0_u32]);
    for registers in [8, 79, 100, 200, 251] {
        let function = load(&sim, "", registers);
        let most = get(&sim, function, F::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
        assert_eq!(most, 1024, "{registers}");
        ok(sim.launch(function, [1, 1024], NULL, &mut [out]));
        ok(sim.sync());
        assert_eq!(
            sim.download::<u32>(out, 1),
            [(0..registers).sum::<u32>()],
            "{registers}"
        );
    }
}

#[test]
fn directives_refuse_launches_and_estimates_do_not() {
    let sim = test_device(Builder::new());
    let out = sim.upload(&[0_u32]);
    let invalid = R::CUDA_ERROR_INVALID_VALUE;
    for (directives, most, refused) in [
        (".maxntid 512, 1, 1", 512, Some(544)),
        (".reqntid 256, 1, 1", 256, Some(128)),
        // The number that the assembler needs is not known.
        (".maxnreg 200", 1024, None),
        (".maxntid 1024, 1, 1 .minnctapersm 2", 1024, None),
    ] {
        let function = load(&sim, directives, 200);
        let attribute = F::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        assert_eq!(get(&sim, function, attribute), most, "{directives}");
        ok(sim.launch(function, [1, most as u32], NULL, &mut [out]));
        if let Some(threads) = refused {
            let status = sim.launch(function, [1, threads], NULL, &mut [out]);
            assert_eq!(status, invalid, "{directives}");
        }
    }
    ok(sim.sync());
}

/// A multiprocessor has four partitions of 16384 registers each, and a warp belongs to one of them.
#[test]
fn occupancy_counts_registers_by_parts_of_an_sm() {
    let sim = test_device(Builder::new());
    let out = sim.upload(&[0_u32]);
    for (registers, block, expected) in [
        // 1280 registers per warp: 12 warps per partition, 48 in all, not 51.
        (40, 96, 16),
        (32, 64, 32),
        (64, 1024, 1),
        // 2304 registers per warp: 7 warps per partition, 28 in all.
        (65, 896, 1),
        (68, 448, 2),
        // By the estimate not even one block fits; but it can be launched.
        (72, 1024, 1),
        (73, 768, 1),
        // 6656 registers per warp: 2 warps per partition.
        (204, 256, 1),
        (204, 128, 2),
    ] {
        let function = load(&sim, &format!(".maxnreg {registers}"), 250);
        let attribute = F::CU_FUNC_ATTRIBUTE_NUM_REGS;
        assert_eq!(get(&sim, function, attribute), registers);
        assert_eq!(blocks(&sim, function, block, 0), expected, "{registers}");
        let status = sim.launch(function, [1, block as u32], NULL, &mut [out]);
        assert_eq!(status, R::CUDA_SUCCESS, "{registers}");
    }
    ok(sim.sync());
}

#[test]
fn the_potential_block_size_can_be_launched() {
    let sim = test_device(Builder::new());
    let out = sim.upload(&[0_u32]);
    for directives in [
        "",
        ".maxnreg 40",
        ".maxntid 200, 1, 1",
        ".maxntid 96, 2, 1 .minnctapersm 4",
        ".reqntid 96, 1, 1",
        ".reqntid 1000, 1, 1",
    ] {
        for registers in [8, 90, 250] {
            let function = load(&sim, directives, registers);
            for limit in [0, 1000, 100, 1] {
                let [grid, block] = potential(&sim, function, limit);
                let which = format!("{directives} {registers} {limit}: {grid} of {block}");
                assert!(limit == 0 || block <= limit, "{which}");
                if directives.contains("reqntid") && block == 0 {
                    assert!(limit != 0, "{which}");
                    continue;
                }
                assert!(block > 0 && grid > 0, "{which}");
                let status = sim.launch(function, [1, block as u32], NULL, &mut [out]);
                assert_eq!(status, R::CUDA_SUCCESS, "{which}");
                // All blocks of that grid are resident, so it can be launched cooperatively.
                assert_eq!(grid, 16 * blocks(&sim, function, block, 0), "{which}");
                let status = launch_ex(&sim, function, [grid as u32, block as u32], None, out);
                assert_eq!(status, R::CUDA_SUCCESS, "{which}");
            }
        }
    }
    ok(sim.sync());
}

#[test]
fn cooperative_grids_are_refused_by_certain_limits_only() {
    let sim = test_device(Builder::new());
    let out = sim.upload(&[0_u32]);
    let function = load(&sim, "", 200);
    // 16 multiprocessors of 2048 threads, independent of the registers.
    assert_eq!(blocks(&sim, function, 512, 0), 1);
    ok(launch_ex(&sim, function, [16 * 4, 512], None, out));
    let status = launch_ex(&sim, function, [16 * 4 + 1, 512], None, out);
    assert_eq!(status, R::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    // The dynamic memory that is available to each block does not depend on them either.
    let left = |blocks| {
        let mut bytes = 0;
        let bytes = &raw mut bytes;
        unsafe { sim.cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, 512) }
    };
    ok(left(4));
    assert_eq!(left(5), R::CUDA_ERROR_INVALID_VALUE);
    ok(sim.sync());
}

#[test]
fn a_linked_image_keeps_the_register_limit_of_its_link() {
    let sim = test_device(Builder::new());
    let text = std::ffi::CString::new(sum("", 200)).unwrap();
    let registers = |limit: usize| {
        let (mut state, mut image, mut size) = (ptr::null_mut(), ptr::null_mut(), 0);
        let mut option = CUjit_option::CU_JIT_MAX_REGISTERS;
        let mut value = ptr::without_provenance_mut(limit);
        let kind = CUjitInputType::CU_JIT_INPUT_PTX;
        let data = text.as_ptr().cast_mut().cast();
        let length = text.as_bytes_with_nul().len();
        let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
        let mut module = ptr::null_mut();
        unsafe {
            ok(sim.cuLinkCreate_v2(1, &raw mut option, &raw mut value, &raw mut state));
            let name = c"part".as_ptr();
            ok(sim.cuLinkAddData_v2(state, kind, data, length, name, 0, none, nothing));
            ok(sim.cuLinkComplete(state, &raw mut image, &raw mut size));
            ok(sim.cuModuleLoadData(&raw mut module, image));
            ok(sim.cuLinkDestroy(state));
        }
        get(
            &sim,
            sim.function(module, "sum"),
            F::CU_FUNC_ATTRIBUTE_NUM_REGS,
        )
    };
    assert!(registers(0) >= 200);
    assert_eq!(registers(38), 38);
}

#[test]
fn registers_do_not_refuse_clusters() {
    let sim = test_device(Builder::new());
    let out = sim.upload(&[0_u32]);
    let function = load(&sim, "", 200);
    ok(launch_ex(&sim, function, [8, 1024], Some(8), out));
    ok(sim.sync());
    assert_eq!(sim.download::<u32>(out, 1), [199 * 200 / 2]);
}
