//! Occupancy of a multiprocessor: mostly valid calls whose results are compared.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use cuda_sys::{
    CUfunction, CUfunction_attribute, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchConfig,
    CUresult,
};

use crate::fixture::{Fixture, cases, made, with_number};

const MAX_DYNAMIC: CUfunction_attribute =
    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
const CARVEOUT: CUfunction_attribute =
    CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
/// The most shared memory of a block, in bytes, on a GPU of compute capability 9.0.
const MOST: i32 = 232_448;

/// The number of blocks of `threads` threads that are resident on a multiprocessor.
fn blocks(g: &Fixture<'_>, function: CUfunction, threads: i32, dynamic: usize) -> CUresult {
    let mut count = -1;
    let status = unsafe {
        g.d.cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut count, function, threads, dynamic)
    };
    with_number(status, count)
}

/// The dynamic shared memory that is available to each of `blocks` blocks.
fn left(g: &Fixture<'_>, function: CUfunction, blocks: i32, threads: i32) -> CUresult {
    let mut bytes = 0;
    let status = unsafe {
        g.d.cuOccupancyAvailableDynamicSMemPerBlock(&raw mut bytes, function, blocks, threads)
    };
    with_number(status, i32::try_from(bytes).unwrap())
}

fn attribute(g: &Fixture<'_>, function: CUfunction, attribute: CUfunction_attribute) -> CUresult {
    let mut value = 0;
    let status = unsafe { g.d.cuFuncGetAttribute(&raw mut value, attribute, function) };
    with_number(status, value)
}

/// Makes a call with a function of a new module after setting some attributes.
fn with(
    g: &Fixture<'_>,
    ptx: &CStr,
    name: &CStr,
    attributes: &[(CUfunction_attribute, i32)],
    call: impl FnOnce(CUfunction) -> CUresult,
) -> CUresult {
    let (mut module, mut function) = (null_mut(), null_mut());
    unsafe {
        let loaded = g.d.cuModuleLoadData(&raw mut module, ptx.as_ptr().cast());
        if !loaded.is_success() {
            return loaded;
        }
        let found =
            g.d.cuModuleGetFunction(&raw mut function, module, name.as_ptr());
        assert!(found.is_success(), "{found}");
        for &(attribute, value) in attributes {
            let set = g.d.cuFuncSetAttribute(function, attribute, value);
            if !set.is_success() {
                return set;
            }
        }
        let status = call(function);
        let _ = g.d.cuCtxSynchronize();
        let unloaded = g.d.cuModuleUnload(module);
        assert!(unloaded.is_success(), "{unloaded}");
        status
    }
}

fn plain(
    g: &Fixture<'_>,
    attributes: &[(CUfunction_attribute, i32)],
    call: impl FnOnce(CUfunction) -> CUresult,
) -> CUresult {
    with(g, crate::fixture::PTX, c"plain", attributes, call)
}

fn large(
    g: &Fixture<'_>,
    attributes: &[(CUfunction_attribute, i32)],
    call: impl FnOnce(CUfunction) -> CUresult,
) -> CUresult {
    with(g, crate::fixture::PTX, c"large", attributes, call)
}

/// A kernel that uses 4 bytes of shared memory.
const FOUR: &CStr = c"
.version 8.0
.target sm_75
.address_size 64
.visible .entry four(.param .u64 out) {
    .shared .align 4 .b8 cell[4];
    .reg .b32 %r; mov.u32 %r, cell; st.shared.u32 [%r], %r; ret;
}
";

/// A kernel with more shared memory than a block has without opting in.
const MORE: &CStr = c"
.version 8.0
.target sm_75
.address_size 64
.visible .entry more(.param .u64 out) {
    .shared .align 4 .b8 cells[60000];
    .reg .b32 %r; mov.u32 %r, cells; st.shared.u32 [%r], %r; ret;
}
";

/// Two kernels, each of which uses one of the module's two variables.
const TWO: &CStr = c"
.version 8.0
.target sm_75
.address_size 64
.shared .align 4 .b8 a[30000];
.shared .align 4 .b8 b[12000];
.visible .entry one(.param .u64 out) {
    .reg .b32 %r; mov.u32 %r, a; st.shared.u32 [%r], %r; ret;
}
.visible .entry two(.param .u64 out) {
    .reg .b32 %r; mov.u32 %r, b; st.shared.u32 [%r], %r; ret;
}
";

/// A kernel whose clusters have at most 2 blocks.
const RANK: &CStr = c"
.version 8.0
.target sm_90
.address_size 64
.visible .entry rank(.param .u64 out) .explicitcluster .maxclusterrank 2 { ret; }
";

fn launched(g: &Fixture<'_>, function: CUfunction, dynamic: u32) -> CUresult {
    let mut parameters: [*mut c_void; 2] = [g.host; 2];
    unsafe {
        g.d.cuLaunchKernel(
            function,
            1,
            1,
            1,
            32,
            1,
            1,
            dynamic,
            g.stream,
            parameters.as_mut_ptr(),
            null_mut(),
        )
    }
}

/// The number of clusters of `size` blocks that run at once.
fn clusters(g: &Fixture<'_>, function: CUfunction, size: u32, threads: u32) -> CUresult {
    let mut attribute = made(|attribute: &mut CUlaunchAttribute| {
        attribute.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    });
    // SAFETY: the union begins with the three numbers.
    unsafe {
        (&raw mut attribute.value)
            .cast::<[u32; 3]>()
            .write([size, 1, 1]);
    }
    let config = made(|config: &mut CUlaunchConfig| {
        (config.gridDimX, config.gridDimY, config.gridDimZ) = (size * 64, 1, 1);
        (config.blockDimX, config.blockDimY, config.blockDimZ) = (threads, 1, 1);
        (config.attrs, config.numAttrs) = (&raw mut attribute, 1);
    });
    let mut count = -1;
    let status = unsafe {
        g.d.cuOccupancyMaxActiveClusters(&raw mut count, function, &raw const config)
    };
    with_number(status, count)
}

cases! { g:
    "blocks_of_32" => blocks(g, g.plain, 32, 0);
    "blocks_of_96" => blocks(g, g.plain, 96, 0);
    "blocks_of_1024" => blocks(g, g.plain, 1024, 0);
    "blocks_with_20_kib" => blocks(g, g.plain, 32, 20 << 10);
    "blocks_with_48_kib" => blocks(g, g.plain, 32, 48 << 10);
    "blocks_with_48_kib_and_a_byte" => blocks(g, g.plain, 32, (48 << 10) + 1);
    "blocks_with_75_kib" => blocks(g, g.plain, 32, 75 << 10);
    "blocks_with_75_kib_that_were_asked_for" => plain(g, &[(MAX_DYNAMIC, 75 << 10)], |f| blocks(g, f, 32, 75 << 10));
    "blocks_with_more_than_was_asked_for" => plain(g, &[(MAX_DYNAMIC, 75 << 10)], |f| blocks(g, f, 32, 76 << 10));
    "blocks_with_all_there_is" => plain(g, &[(MAX_DYNAMIC, MOST)], |f| blocks(g, f, 32, MOST as usize));
    "blocks_with_more_than_there_is" => blocks(g, g.plain, 32, 1 << 20);
    "blocks_of_too_many_threads_for_the_function" => blocks(g, g.large, 256, 0);
    "blocks_with_40000_bytes" => blocks(g, g.large, 32, 0);
    "blocks_with_40000_bytes_and_9000" => blocks(g, g.large, 32, 9000);
    "blocks_with_40000_bytes_and_9200" => blocks(g, g.large, 32, 9200);
    "blocks_with_40000_bytes_where_little_is_carved_out" => large(g, &[(CARVEOUT, 25)], |f| blocks(g, f, 32, 0));
    "blocks_with_40000_bytes_where_half_is_carved_out" => large(g, &[(CARVEOUT, 50)], |f| blocks(g, f, 32, 0));
    "blocks_with_40000_bytes_where_nothing_is_carved_out" => large(g, &[(CARVEOUT, 0)], |f| blocks(g, f, 32, 0));
    "blocks_of_32_where_nothing_is_carved_out" => plain(g, &[(CARVEOUT, 0)], |f| blocks(g, f, 32, 0));
    "left_to_1_block" => left(g, g.plain, 1, 32);
    "left_to_2_blocks" => left(g, g.plain, 2, 32);
    "left_to_5_blocks" => left(g, g.plain, 5, 32);
    "left_to_32_blocks" => left(g, g.plain, 32, 32);
    "left_to_33_blocks" => left(g, g.plain, 33, 32);
    "left_to_1_block_of_40000_bytes" => left(g, g.large, 1, 32);
    "left_to_5_blocks_of_40000_bytes" => left(g, g.large, 5, 32);
    "left_to_6_blocks_of_40000_bytes" => left(g, g.large, 6, 32);
    "left_to_1_block_that_asked_for_100000" => plain(g, &[(MAX_DYNAMIC, 100_000)], |f| left(g, f, 1, 32));
    "left_to_2_blocks_that_asked_for_100000" => plain(g, &[(MAX_DYNAMIC, 100_000)], |f| left(g, f, 2, 32));
    "left_to_4_blocks_that_asked_for_100000" => plain(g, &[(MAX_DYNAMIC, 100_000)], |f| left(g, f, 4, 32));
    "dynamic_limit" => attribute(g, g.plain, MAX_DYNAMIC);
    "dynamic_limit_beside_40000_bytes" => attribute(g, g.large, MAX_DYNAMIC);
    "dynamic_limit_beside_4_bytes" => with(g, FOUR, c"four", &[], |f| attribute(g, f, MAX_DYNAMIC));
    "all_there_is_beside_4_bytes" => with(g, FOUR, c"four", &[(MAX_DYNAMIC, MOST - 4)], |f| launched(g, f, MOST as u32 - 4));
    "one_more_than_there_is_beside_4_bytes" => with(g, FOUR, c"four", &[], |f| g.d.cuFuncSetAttribute(f, MAX_DYNAMIC, MOST - 3));
    "static_shared_memory_beyond_48_kib" => with(g, MORE, c"more", &[], |f| attribute(g, f, MAX_DYNAMIC));
    "static_shared_memory_beyond_48_kib_launched" => with(g, MORE, c"more", &[], |f| launched(g, f, 0));
    "shared_memory_of_the_first_of_two" => with(g, TWO, c"one", &[], |f| attribute(g, f, CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    "shared_memory_of_the_second_of_two" => with(g, TWO, c"two", &[], |f| attribute(g, f, CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    "clusters_of_1" => clusters(g, g.plain, 1, 32);
    "clusters_of_3" => clusters(g, g.plain, 3, 32);
    "clusters_of_8_and_1024_threads" => clusters(g, g.plain, 8, 1024);
    "clusters_of_16" => clusters(g, g.plain, 16, 32);
    "clusters_of_4_where_2_are_the_most" => with(g, RANK, c"rank", &[], |f| clusters(g, f, 4, 32));
    "clusters_of_2_where_2_are_the_most" => with(g, RANK, c"rank", &[], |f| clusters(g, f, 2, 32));
}
