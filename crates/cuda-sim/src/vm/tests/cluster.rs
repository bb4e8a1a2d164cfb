//! Clusters: block positions, shared memory of other blocks, the barrier.

use super::device::Device;

fn run(text: &str, grid: [u32; 3], cluster: [u32; 3], block: u32, words: usize) -> Vec<u32> {
    let device = Device::new(text);
    let out = device.upload32(&vec![0; words]);
    device
        .run_with(1, block, &[out], |params| {
            params.grid = grid;
            params.cluster = Some(cluster);
        })
        .unwrap();
    device.download32(out, words)
}

#[test]
fn blocks_know_their_place_in_cluster_and_grid() {
    let names = [
        "ctaid.x",
        "ctaid.y",
        "ctaid.z",
        "clusterid.x",
        "clusterid.y",
        "clusterid.z",
        "nclusterid.x",
        "nclusterid.y",
        "nclusterid.z",
        "cluster_ctaid.x",
        "cluster_ctaid.y",
        "cluster_ctaid.z",
        "cluster_nctaid.x",
        "cluster_nctaid.y",
        "cluster_nctaid.z",
        "cluster_ctarank",
        "cluster_nctarank",
    ];
    let stores: String = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            format!(
                "mov.u32 %v, %{name}; st.global.u32 [%out+{}], %v;",
                4 * index
            )
        })
        .collect();
    let text = format!(
        ".visible .entry op(.param .u64 out) {{
            .reg .b32 %v, %w, %n, %z; .reg .b64 %out, %at; .reg .pred %p;
            ld.param.u64 %out, [out];
            mov.u32 %v, %ctaid.z; mov.u32 %n, %nctaid.y; mov.u32 %w, %ctaid.y;
            mad.lo.u32 %v, %v, %n, %w; mov.u32 %n, %nctaid.x; mov.u32 %w, %ctaid.x;
            mad.lo.u32 %v, %v, %n, %w;
            mul.wide.u32 %at, %v, 128; add.u64 %out, %out, %at;
            {stores}
            mov.pred %p, %is_explicit_cluster; selp.u32 %v, 1, 0, %p;
            st.global.u32 [%out+{}], %v;
            ret; }}",
        4 * names.len()
    );
    let (grid, cluster) = ([4u32, 6, 4], [2u32, 3, 2]);
    let all = run(&text, grid, cluster, 1, 32 * 96);
    for z in 0..4 {
        for y in 0..6 {
            for x in 0..4 {
                let place = [x, y, z];
                let at = ((z * 6 + y) * 4 + x) as usize * 32;
                let id = [x / 2, y / 3, z / 2];
                let inside = [x % 2, y % 3, z % 2];
                let rank = inside[0] + inside[1] * 2 + inside[2] * 6;
                let expected = [
                    &place[..],
                    &id,
                    &[2, 2, 2],
                    &inside,
                    &cluster,
                    &[rank, 12, 1],
                ];
                assert_eq!(all[at..at + 18], expected.concat());
            }
        }
    }
}

/// Each block stores to its shared memory; after the barrier it reads the memory of the block that
/// is `%other` ranks further.
fn neighbours(load: &str) -> String {
    format!(
        ".visible .entry op(.param .u64 out) {{
            .shared .align 4 .b8 mine[512];
            .reg .b32 %rank, %size, %other, %t, %s, %far, %v, %i; .reg .b64 %out, %at, %g;
            ld.param.u64 %out, [out];
            mov.u32 %rank, %cluster_ctarank; mov.u32 %size, %cluster_nctarank; mov.u32 %t, %tid.x;
            mov.u32 %s, mine; mad.lo.u32 %s, %t, 4, %s;
            mov.u32 %i, %ctaid.x; mad.lo.u32 %v, %i, 1000, %t;
            st.shared.u32 [%s], %v;
            barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
            add.u32 %other, %rank, 1; rem.u32 %other, %other, %size;
            {load}
            barrier.cluster.arrive; barrier.cluster.wait;
            mad.lo.u32 %i, %i, 96, %t; mul.wide.u32 %at, %i, 4; add.u64 %out, %out, %at;
            st.global.u32 [%out], %v;
            ret; }}"
    )
}

#[test]
fn shared_memory_of_the_neighbour_is_read() {
    for load in [
        "mapa.shared::cluster.u32 %far, %s, %other; ld.shared::cluster.u32 %v, [%far];",
        "cvt.u64.u32 %g, %s; cvta.shared.u64 %g, %g; mapa.u64 %g, %g, %other; ld.u32 %v, [%g];",
        "cvt.u64.u32 %g, %s; mapa.shared::cluster.u64 %g, %g, %other; ld.shared::cluster.u32 %v, [%g];
         cvta.shared::cluster.u64 %g, %g; { .reg .b32 %q; getctarank.u64 %q, %g; sub.u32 %q, %q, %other;
         add.u32 %v, %v, %q; }",
    ] {
        for (size, blocks) in [(1, 3), (2, 4), (3, 9), (8, 16)] {
            let all = run(&neighbours(load), [blocks, 1, 1], [size, 1, 1], 96, 96 * blocks as usize);
            for block in 0..blocks {
                let first = block / size * size;
                let other = first + (block - first + 1) % size;
                for t in 0..96 {
                    let value = all[(block * 96 + t) as usize];
                    assert_eq!(value, other * 1000 + t, "{load} in clusters of {size}");
                }
            }
        }
    }
}

#[test]
fn atomics_and_stores_reach_the_first_block() {
    let text = ".visible .entry op(.param .u64 out) {
        .shared .align 4 .b8 sum[16];
        .reg .b32 %rank, %zero, %s, %far, %v, %i, %t; .reg .b64 %out, %at; .reg .pred %p;
        ld.param.u64 %out, [out]; mov.u32 %rank, %cluster_ctarank; mov.u32 %s, sum; mov.u32 %t, %tid.x;
        st.shared.u32 [%s], 0; st.shared.u32 [%s+4], 0; bar.sync 0;
        barrier.cluster.arrive.relaxed; barrier.cluster.wait;
        mapa.shared::cluster.u32 %far, %s, 0;
        add.u32 %v, %rank, 1;
        red.shared::cluster.add.u32 [%far], %v;
        atom.relaxed.cluster.shared::cluster.max.u32 %i, [%far+4], %v;
        barrier.cluster.arrive; barrier.cluster.wait;
        setp.ne.u32 %p, %rank, 0; @%p ret;
        mov.u32 %i, %clusterid.x; mul.wide.u32 %at, %i, 8; add.u64 %out, %out, %at;
        ld.shared.u32 %v, [%s]; st.global.u32 [%out], %v;
        ld.shared.u32 %v, [%s+4]; st.global.u32 [%out+4], %v;
        ret; }";
    let all = run(text, [12, 1, 1], [4, 1, 1], 64, 6);
    assert_eq!(all, [640, 4, 640, 4, 640, 4]);
}

#[test]
fn an_address_identifies_its_block() {
    let text = ".visible .entry op(.param .u64 out) {
        .shared .align 4 .b8 mine[16];
        .reg .b32 %rank, %v, %w; .reg .b64 %out, %g, %h; .reg .pred %p;
        ld.param.u64 %out, [out]; mov.u32 %rank, %cluster_ctarank;
        mov.u64 %g, mine; cvta.shared.u64 %g, %g;
        mapa.u64 %h, %g, 1;
        mul.wide.u32 %g, %rank, 8; add.u64 %out, %out, %g;
        isspacep.shared::cta %p, %h; selp.u32 %v, 1, 0, %p;
        isspacep.shared::cluster %p, %h; selp.u32 %w, 2, 0, %p; or.b32 %v, %v, %w;
        st.global.u32 [%out], %v;
        getctarank.u64 %v, %h; st.global.u32 [%out+4], %v;
        ret; }";
    assert_eq!(run(text, [2, 1, 1], [2, 1, 1], 1, 4), [2, 1, 3, 1]);
}

#[test]
fn invalid_cluster_operations_are_faults() {
    let text =
        neighbours("mapa.shared::cluster.u32 %far, %s, 2; ld.shared::cluster.u32 %v, [%far];");
    let device = Device::new(&text);
    let out = device.upload32(&[0; 192]);
    let launch = |cluster: u32| {
        let outcome = device.run_with(2, 96, &[out], |params| {
            params.cluster = Some([cluster, 1, 1])
        });
        outcome.unwrap_err().kind.code()
    };
    // Block 2 does not exist.
    assert_eq!(launch(2), 700);
    // The grid is not a multiple of the cluster.
    assert_eq!(launch(3), 1);
    // One block never arrives.
    let text = neighbours("{ .reg .pred %p; setp.eq.u32 %p, %rank, 1; @%p bar.sync 1, 128; }");
    let device = Device::new(&text);
    let out = device.upload32(&[0; 192]);
    let outcome = device.run_with(2, 96, &[out], |params| params.cluster = Some([2, 1, 1]));
    let fault = outcome.unwrap_err();
    assert_eq!(fault.kind.code(), 702);
}

#[test]
fn a_kernel_may_ask_for_its_cluster() {
    let text =
        neighbours("mapa.shared::cluster.u32 %far, %s, %other; ld.shared::cluster.u32 %v, [%far];")
            .replace(
                "{\n            .shared",
                ".explicitcluster .reqnctapercluster 2, 1, 1 {\n.shared",
            );
    let device = Device::new(&text);
    let out = device.upload32(&[0; 192]);
    device.run(2, 96, &[out]).unwrap();
    assert_eq!(device.download32(out, 192)[..2], [1000, 1001]);
    let outcome = device.run_with(2, 96, &[out], |params| params.cluster = Some([1, 1, 1]));
    assert_eq!(outcome.unwrap_err().kind.code(), 1);
}
