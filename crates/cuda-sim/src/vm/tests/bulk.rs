//! Asynchronous copies, small and bulk, and the ways to wait for them.

use super::device::{Device, Numbers};

fn words(count: usize, seed: u64) -> Vec<u32> {
    let mut numbers = Numbers(seed);
    (0..count).map(|_| numbers.next() as u32).collect()
}

fn kernel(body: &str) -> String {
    format!(
        ".visible .entry op(.param .u64 in, .param .u64 out) {{
            .shared .align 128 .b8 space[4096]; .shared .align 8 .b8 barrier[16];
            .reg .b32 %b, %t, %s, %v, %n, %rank, %far, %farb; .reg .b64 %in, %out, %at, %state, %pol;
            .reg .pred %p, %q; .reg .b16 %mask;
            ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
            mov.u32 %s, space; mov.u32 %b, barrier; mov.u32 %rank, %cluster_ctarank;
            setp.eq.u32 %p, %t, 0;
            {body}
            ret; }}"
    )
}

#[test]
fn small_copies_read_the_given_bytes_and_zero_the_rest() {
    for size in [4u32, 8, 16] {
        let body = format!(
            "mul.wide.u32 %at, %t, {size}; add.u64 %in, %in, %at; mad.lo.u32 %s, %t, {size}, %s;
             createpolicy.fractional.L2::evict_first.b64 %pol, 1.0;
             rem.u32 %n, %t, {};
             cp.async.ca.shared.global.L2::cache_hint [%s], [%in], {size}, %n, %pol;
             cp.async.commit_group; cp.async.wait_group 0;
             add.u64 %out, %out, %at;
             {{ .reg .b32 %i; mov.u32 %i, 0;
             $copy: ld.shared.b32 %v, [%s]; st.global.b32 [%out], %v; add.u32 %s, %s, 4;
             add.u64 %out, %out, 4; add.u32 %i, %i, 4; setp.lt.u32 %q, %i, {size}; @%q bra $copy; }}",
            size + 1
        );
        let device = Device::new(&kernel(&body));
        let input = words(64 * size as usize / 4, size.into());
        let (from, to) = (
            device.upload32(&input),
            device.upload32(&vec![1; input.len()]),
        );
        device.run(1, 64, &[from, to]).unwrap();
        let bytes = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        let (input, output) = (bytes(&input), bytes(&device.download32(to, input.len())));
        for (at, (&byte, &got)) in input.iter().zip(&output).enumerate() {
            let (lane, inside) = (at as u32 / size, at as u32 % size);
            let expected = if inside < lane % (size + 1) { byte } else { 0 };
            assert_eq!(got, expected, "byte {inside} of lane {lane} of {size}");
        }
    }
}

#[test]
fn small_copies_can_be_ignored_and_signal_a_barrier() {
    let body = "@%p mbarrier.init.shared.b64 [%b], 64;
        bar.sync 0;
        mul.wide.u32 %at, %t, 16; add.u64 %in, %in, %at; add.u64 %out, %out, %at; mad.lo.u32 %s, %t, 16, %s;
        and.b32 %n, %t, 1; setp.eq.u32 %q, %n, 1;
        cp.async.cg.shared.global.L2::128B [%s], [%in], 16, %q;
        cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%b];
        $wait: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0; @!%q bra $wait;
        { .reg .b32 %r<4>; ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%s];
        st.global.v4.b32 [%out], {%r0, %r1, %r2, %r3}; }";
    let device = Device::new(&kernel(body));
    let input = words(256, 1);
    let (from, to) = (device.upload32(&input), device.upload32(&[1; 256]));
    device.run(1, 64, &[from, to]).unwrap();
    for (at, (&word, got)) in input.iter().zip(device.download32(to, 256)).enumerate() {
        assert_eq!(got, if at / 4 % 2 == 1 { 0 } else { word }, "word {at}");
    }
}

#[test]
fn bulk_copies_load_and_store() {
    let body = "@%p mbarrier.init.shared::cta.b64 [%b], 1;
        fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta; bar.sync 0;
        @!%p bra $wait;
        mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%b], 2048;
        cp.async.bulk.prefetch.L2.global [%in], 2048;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%in], 2048, [%b];
        $wait: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0; @!%q bra $wait;
        mad.lo.u32 %n, %t, 4, %s; ld.shared.u32 %v, [%n]; not.b32 %v, %v; st.shared.u32 [%n], %v;
        fence.proxy.async; bar.sync 0;
        @!%p ret;
        cp.async.bulk.global.shared::cta.bulk_group [%out], [%s], 2048;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;";
    let device = Device::new(&kernel(body));
    let input = words(512, 2);
    let (from, to) = (device.upload32(&input), device.upload32(&[0; 512]));
    device.run(1, 256, &[from, to]).unwrap();
    let output = device.download32(to, 512);
    for (at, (&word, got)) in input.iter().zip(output).enumerate() {
        assert_eq!(got, if at < 256 { !word } else { word });
    }
}

/// Runs clusters of four blocks; each block writes its results to `out`, 64 words per block.
fn in_clusters(body: &str, input: &[u32]) -> Vec<u32> {
    let body = format!(
        "@%p mbarrier.init.shared::cta.b64 [%b], 1;
        mul.wide.u32 %at, %t, 4; mad.lo.u32 %n, %t, 4, %s; mov.u32 %v, 0; st.shared.u32 [%n], %v;
        st.shared.u32 [%n+256], %rank;
        fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
        {body}
        $wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%b], 0; @!%q bra $wait;
        mul.wide.u32 %pol, %rank, 256; add.u64 %out, %out, %pol; add.u64 %out, %out, %at;
        ld.shared.u32 %v, [%n]; st.global.u32 [%out], %v;
        barrier.cluster.arrive; barrier.cluster.wait;"
    );
    let device = Device::new(&kernel(&body));
    let (from, to) = (device.upload32(input), device.upload32(&[0; 256]));
    device
        .run_with(4, 64, &[from, to], |params| {
            params.cluster = Some([4, 1, 1]);
            params.instruction_limit = Some(1 << 22);
        })
        .unwrap();
    device.download32(to, 256)
}

#[test]
fn one_copy_reaches_the_blocks_of_a_mask() {
    let body = "setp.eq.u32 %q, %rank, 2; and.pred %q, %q, %p;
        @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 256;
        mov.b16 %mask, 11;
        @%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster \
            [%s], [%in], 256, [%b], %mask;
        // The sender itself does not receive a copy.
        @%q mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 256;";
    let input = words(64, 3);
    let output = in_clusters(body, &input);
    for block in 0..4 {
        let expected = if block == 2 { &[0; 64][..] } else { &input };
        assert_eq!(&output[block * 64..][..64], expected, "block {block}");
    }
}

#[test]
fn blocks_copy_store_and_add_into_each_other() {
    let body = "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 256;
        add.u32 %far, %rank, 1; and.b32 %far, %far, 3;
        mapa.shared::cluster.u32 %farb, %b, %far; mapa.shared::cluster.u32 %far, %s, %far;
        add.u32 %n, %s, 256;
        @%p cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%far], [%n], 256, [%farb];
        mad.lo.u32 %n, %t, 4, %s;";
    let expected = |before: fn(u32) -> u32| -> Vec<u32> {
        (0..256).map(|at| before((at / 64 + 3) % 4)).collect()
    };
    assert_eq!(in_clusters(body, &[0]), expected(|rank| rank));
    let body = "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 256;
        add.u32 %far, %rank, 1; and.b32 %far, %far, 3;
        mapa.shared::cluster.u32 %farb, %b, %far; mapa.shared::cluster.u32 %far, %n, %far;
        mul.lo.u32 %v, %rank, 10;
        st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%far], %v, [%farb];";
    assert_eq!(in_clusters(body, &[0]), expected(|rank| rank * 10));
    // All blocks add their rank to the first block: 0 + 1 + 2 + 3, twice.
    let body = "setp.eq.u32 %q, %rank, 0; mov.b16 %mask, 0;
        @%p mbarrier.arrive.shared::cta.b64 %state, [%b];
        @%q bra $more; bra $next;
        $more:
        $next:
        mov.u32 %far, 0; mapa.shared::cluster.u32 %far, %n, %far;
        mapa.shared::cluster.u32 %farb, %b, 0;
        add.u32 %farb, %farb, 8;
        @%p mbarrier.init.shared::cta.b64 [%b+8], 1;
        barrier.cluster.arrive; barrier.cluster.wait;
        red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%far], %rank, [%farb];
        mapa.shared::cluster.u32 %far, %s, 0;
        { .reg .b32 %m; add.u32 %m, %s, 256;
        @%p cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 \
            [%far], [%m], 256, [%farb]; }
        barrier.cluster.arrive; barrier.cluster.wait;";
    let output = in_clusters(body, &[0]);
    assert_eq!(output[..64], [12; 64]);
    assert_eq!(output[64..], [0; 192]);
}

#[test]
fn bulk_reductions_add_to_memory() {
    for (ty, add) in [
        ("add.u32", (|a, b| a + b) as fn(u32, u32) -> u32),
        ("max.s32", |a, b| (a as i32).max(b as i32) as u32),
        ("xor.b32", |a, b| a ^ b),
    ] {
        let body = format!(
            "mul.wide.u32 %at, %t, 4; add.u64 %in, %in, %at; mad.lo.u32 %n, %t, 4, %s;
             ld.global.u32 %v, [%in]; st.shared.u32 [%n], %v; bar.sync 0;
             @!%p ret;
             cp.reduce.async.bulk.global.shared::cta.bulk_group.{ty} [%out], [%s], 256;
             cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        );
        let device = Device::new(&kernel(&body));
        let (first, second) = (words(64, 5), words(64, 6));
        let (first, second): (Vec<u32>, Vec<u32>) = (
            first.iter().map(|word| word >> 1).collect(),
            second.iter().map(|word| word >> 1).collect(),
        );
        let (from, to) = (device.upload32(&first), device.upload32(&second));
        device.run(1, 64, &[from, to]).unwrap();
        let expected: Vec<u32> = second
            .iter()
            .zip(&first)
            .map(|(&a, &b)| add(a, b))
            .collect();
        assert_eq!(device.download32(to, 64), expected, "{ty}");
    }
}

#[test]
fn bulk_stores_clear() {
    let body = "mad.lo.u32 %n, %t, 4, %s; mov.u32 %v, 5; st.shared.u32 [%n], %v; bar.sync 0;
        { .reg .b64 %len; mov.u64 %len, 128; @%p st.bulk.weak.shared::cta [%s], %len, 0; }
        bar.sync 0; mul.wide.u32 %at, %t, 4; add.u64 %out, %out, %at;
        ld.shared.u32 %v, [%n]; st.global.u32 [%out], %v;";
    let device = Device::new(&kernel(body));
    let (from, to) = (device.upload32(&[0]), device.upload32(&[9; 64]));
    device.run(1, 64, &[from, to]).unwrap();
    let output = device.download32(to, 64);
    assert_eq!((&output[..32], &output[32..]), (&[0; 32][..], &[5; 32][..]));
}

#[test]
fn copies_that_the_hardware_refuses_are_faults() {
    let copy = "cp.async.bulk.global.shared::cta.bulk_group";
    for (body, code) in [
        (format!("{copy} [%out], [%s], 24;"), 715),
        (format!("add.u32 %s, %s, 8; {copy} [%out], [%s], 16;"), 716),
        (format!("{copy} [%out], [%s], 512;"), 700),
        (
            "add.u32 %s, %s, 4; cp.async.ca.shared.global [%s], [%in], 8;".to_owned(),
            716,
        ),
        (
            "add.u64 %in, %in, 256; cp.async.ca.shared.global [%s], [%in], 4;".to_owned(),
            700,
        ),
        (
            "add.u64 %in, %in, 256; cp.async.ca.shared.global [%s], [%in], 4, 0;".to_owned(),
            0,
        ),
    ] {
        let device = Device::new(&kernel(&body));
        let (from, to) = (device.upload32(&[0; 64]), device.upload32(&[0; 64]));
        let outcome = device.run(1, 1, &[from, to]);
        assert_eq!(
            outcome.map_or_else(|fault| fault.kind.code(), |_| 0),
            code,
            "{body}"
        );
    }
}
