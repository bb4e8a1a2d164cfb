//! Launches in clusters, valid and rejected.

use std::ffi::{c_int, c_void};
use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{
    CUfunction, CUfunction_attribute, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchConfig,
};

use crate::support::{TestDevice, ok, test_device};

/// A kernel in which each block adds its rank to the cluster's word in the memory of block 0, which
/// writes the sum.
const SUMS: &str = ".version 8.0
.target sm_90
.address_size 64
.visible .entry sums(.param .u64 out) {
    .shared .align 4 .b8 sum[4];
    .reg .b32 %rank, %s, %far, %v; .reg .b64 %out, %at; .reg .pred %p;
    ld.param.u64 %out, [out]; mov.u32 %rank, %cluster_ctarank; mov.u32 %s, sum;
    st.shared.u32 [%s], 0;
    barrier.cluster.arrive; barrier.cluster.wait;
    mapa.shared::cluster.u32 %far, %s, 0;
    red.relaxed.cluster.shared::cluster.add.u32 [%far], %rank;
    barrier.cluster.arrive; barrier.cluster.wait;
    setp.ne.u32 %p, %rank, 0; @%p ret;
    mov.u32 %v, %clusterid.x; mul.wide.u32 %at, %v, 4; add.u64 %out, %out, %at;
    ld.shared.u32 %v, [%s]; st.global.u32 [%out], %v;
    ret;
}
.visible .entry pairs(.param .u64 out) .explicitcluster .reqnctapercluster 2, 1, 1 .maxclusterrank 4 {
    .reg .b32 %v; .reg .b64 %out;
    ld.param.u64 %out, [out]; mov.u32 %v, %cluster_nctarank; st.global.u32 [%out], %v;
    ret;
}";

fn with_config<T>(
    grid: u32,
    cluster: Option<[u32; 3]>,
    call: impl FnOnce(*const CUlaunchConfig) -> T,
) -> T {
    // SAFETY: all fields are integers, pointers, or a union of these.
    let mut attribute: CUlaunchAttribute = unsafe { std::mem::zeroed() };
    attribute.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    let [x, y, z] = cluster.unwrap_or_default();
    attribute.value.clusterDim = cuda_sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
    // SAFETY: all fields are integers or pointers.
    let mut config: CUlaunchConfig = unsafe { std::mem::zeroed() };
    (config.gridDimX, config.gridDimY, config.gridDimZ) = (grid, 1, 1);
    (config.blockDimX, config.blockDimY, config.blockDimZ) = (1, 1, 1);
    config.attrs = &raw mut attribute;
    config.numAttrs = cluster.is_some().into();
    call(&raw const config)
}

fn launch(
    sim: &TestDevice,
    function: CUfunction,
    grid: u32,
    cluster: Option<[u32; 3]>,
    out: u64,
) -> R {
    let mut out = out;
    let mut params: [*mut c_void; 1] = [(&raw mut out).cast()];
    let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
    with_config(grid, cluster, |config| unsafe {
        sim.cuLaunchKernelEx(config, function, params, none)
    })
}

#[test]
fn clusters_run_together() {
    let sim = test_device(Builder::new());
    let sums = sim.function(sim.load(SUMS), "sums");
    for size in [1, 2, 4, 8] {
        let out = sim.upload(&[u32::MAX; 16]);
        ok(launch(&sim, sums, 16, Some([size, 1, 1]), out));
        let all = sim.download::<u32>(out, 16 / size as usize);
        assert_eq!(all, vec![size * (size - 1) / 2; 16 / size as usize]);
    }
    let pairs = sim.function(sim.load(SUMS), "pairs");
    let out = sim.upload(&[0_u32]);
    ok(sim.launch(pairs, [4, 1], ptr::null_mut(), &mut [out]));
    assert_eq!(sim.download::<u32>(out, 1), [2]);
}

#[test]
fn clusters_of_wrong_sizes_are_refused() {
    let sim = test_device(Builder::new());
    let module = sim.load(SUMS);
    let (sums, pairs) = (sim.function(module, "sums"), sim.function(module, "pairs"));
    let out = sim.upload(&[0_u32; 16]);
    let wrong = R::CUDA_ERROR_INVALID_CLUSTER_SIZE;
    assert_eq!(launch(&sim, sums, 16, Some([3, 1, 1]), out), wrong);
    assert_eq!(launch(&sim, sums, 16, Some([16, 1, 1]), out), wrong);
    assert_eq!(launch(&sim, sums, 16, Some([2, 2, 1]), out), wrong);
    assert_eq!(launch(&sim, pairs, 16, Some([4, 1, 1]), out), wrong);
    assert_eq!(launch(&sim, pairs, 3, None, out), wrong);
    assert_eq!(launch(&sim, sums, 16, Some([0, 1, 1]), out), wrong);
    assert_eq!(launch(&sim, sums, 16, Some([u32::MAX; 3]), out), wrong);
    type F = CUfunction_attribute;
    let attribute = F::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
    unsafe { ok(sim.cuFuncSetAttribute(sums, attribute, 1)) };
    ok(launch(&sim, sums, 16, Some([16, 1, 1]), out));
    assert_eq!(sim.download::<u32>(out, 1), [120]);

    let old = crate::support::test_device(Builder::new().compute_capability(8, 0));
    let text = SUMS.replace("sm_90", "sm_80");
    let sums = old.function(old.load(&text), "sums");
    let out = old.upload(&[0_u32; 2]);
    let status = launch(&old, sums, 2, Some([2, 1, 1]), out);
    assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED);
}

#[test]
fn occupancy_counts_clusters() {
    let sim = test_device(Builder::new());
    let sums = sim.function(sim.load(SUMS), "sums");
    let mut count: c_int = -1;
    let mut active = |cluster| {
        let status = with_config(16, Some(cluster), |config| unsafe {
            sim.cuOccupancyMaxActiveClusters(&raw mut count, sums, config)
        });
        (status, count)
    };
    // 16 multiprocessors of 32 blocks.
    assert_eq!(active([1, 1, 1]), (R::CUDA_SUCCESS, 512));
    assert_eq!(active([4, 2, 1]), (R::CUDA_SUCCESS, 64));
    assert_eq!(active([16, 1, 1]).0, R::CUDA_ERROR_INVALID_CLUSTER_SIZE);
    let mut size: c_int = -1;
    let status = with_config(16, None, |config| unsafe {
        sim.cuOccupancyMaxPotentialClusterSize(&raw mut size, sums, config)
    });
    ok(status);
    assert_eq!(size, 8);
}

/// Launches and occupancy queries follow the kernel's directives in the same way.
#[test]
fn the_directives_of_a_kernel_bound_its_clusters() {
    let sim = test_device(Builder::new());
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n\
                .visible .entry few(.param .u64 out) .maxclusterrank 4 { ret; }\n\
                .visible .entry pair(.param .u64 out) .reqnctapercluster 2, 1, 1 { ret; }\n";
    let module = sim.load(text);
    let wrong = R::CUDA_ERROR_INVALID_CLUSTER_SIZE;
    for (name, cluster, expected) in [
        ("few", [4, 1, 1], R::CUDA_SUCCESS),
        ("few", [2, 2, 2], wrong),
        ("few", [8, 1, 1], wrong),
        ("pair", [2, 1, 1], R::CUDA_SUCCESS),
        ("pair", [1, 2, 1], wrong),
        ("pair", [1, 1, 1], wrong),
    ] {
        let function = sim.function(module, name);
        let mut count: c_int = -1;
        let active = with_config(16, Some(cluster), |config| unsafe {
            sim.cuOccupancyMaxActiveClusters(&raw mut count, function, config)
        });
        assert_eq!(active, expected, "{name} {cluster:?}");
        // A one-dimensional grid does not fit the other cluster shapes.
        if cluster[1..] == [1, 1] {
            let status = launch(&sim, function, 16, Some(cluster), 0);
            assert_eq!(status, expected, "{name} {cluster:?}");
        }
        ok(sim.sync());
    }
}
