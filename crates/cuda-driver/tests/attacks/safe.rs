//! Safe launches of kernels that try to access memory outside of their arguments. None of these
//! programs has `unsafe`.

use std::thread;

use cuda_driver::prelude::*;
use cuda_driver::safe::{SafeKernel, SafeModule};
use cuda_driver::{Error, Result};

use crate::support::{Attack, Side};

/// `store`: `x[at[i]] = i`. `save`: `to[0] = x`. `follow`: writes to the address in `from[0]`,
/// which it loads again for each thread. `arrays`: stores to a shared and to a local array at
/// `at[i]`. `dynamic`: stores to dynamic shared memory at `at[i]` and loads it again, next to a
/// static array with the word 5 for each thread. `copy`: copies a plane of words through a texture
/// to a surface, with `n` threads in a row. `fetch`: reads the texture whose handle is `from[0]`.
/// `mark`: stores `tid.x + 1` to a surface at the byte `at[tid.x].x` of the row `at[tid.x].y`, and
/// loads it again.
const KERNELS: &str = ".version 7.0
.target sm_75
.address_size 64
.extern .shared .align 16 .b8 words[];
.visible .entry store(.param .u64 x, .param .u64 at, .param .u32 n) {
    .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d<6>;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [at];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    mul.wide.u32 %d3, %r2, 8;
    add.s64 %d3, %d2, %d3;
    ld.global.u64 %d4, [%d3];
    add.s64 %d4, %d1, %d4;
    st.global.u32 [%d4], %r2;
    ret;
}
.visible .entry save(.param .u64 x, .param .u64 to) {
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [to];
    st.global.u64 [%d2], %d1;
    ret;
}
.visible .entry follow(.param .u64 from) {
    .reg .b32 %r<3>; .reg .b64 %d<6>;
    ld.param.u64 %d1, [from];
    mov.u32 %r1, %tid.x;
    ld.global.u64 %d2, [%d1];
    mul.wide.u32 %d3, %r1, 4;
    add.s64 %d2, %d2, %d3;
    st.u32 [%d2], %r1;
    atom.add.u32 %r2, [%d2], 1;
    ret;
}
.visible .entry arrays(.param .u64 out, .param .u64 at) {
    .reg .b32 %r<4>; .reg .b64 %d<6>;
    .shared .align 8 .b8 tile[64];
    .local .align 8 .b8 own[64];
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [at];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d3, %r1, 8;
    add.s64 %d2, %d2, %d3;
    ld.global.u64 %d4, [%d2];
    mov.u64 %d5, tile;
    add.s64 %d5, %d5, %d4;
    st.shared.u32 [%d5], %r1;
    mov.u64 %d5, own;
    add.s64 %d5, %d5, %d4;
    st.local.u32 [%d5], %r1;
    ld.local.u32 %r2, [%d5];
    mul.wide.u32 %d3, %r1, 4;
    add.s64 %d1, %d1, %d3;
    st.global.u32 [%d1], %r2;
    ret;
}
.visible .entry dynamic(.param .u64 out, .param .u64 at) {
    .reg .b32 %r<6>; .reg .b64 %d<6>;
    .shared .align 16 .b8 next[64];
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [at];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, next;
    shl.b32 %r3, %r1, 2;
    add.u32 %r2, %r2, %r3;
    st.shared.u32 [%r2], 5;
    bar.sync 0;
    mul.wide.u32 %d3, %r1, 8;
    add.s64 %d2, %d2, %d3;
    ld.global.u64 %d4, [%d2];
    mov.u64 %d5, words;
    add.s64 %d5, %d5, %d4;
    st.shared.u32 [%d5], %r1;
    ld.shared.u32 %r4, [%d5];
    bar.sync 0;
    ld.shared.u32 %r5, [%r2];
    add.s64 %d1, %d1, %d3;
    st.global.v2.u32 [%d1], {%r4, %r5};
    ret;
}
.visible .entry copy(.param .u64 in, .param .u64 out, .param .u32 n) {
    .reg .b32 %r<9>; .reg .f32 %f<3>; .reg .b64 %d<3>;
    ld.param.u64 %d1, [in];
    ld.param.u64 %d2, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    cvt.rn.f32.u32 %f1, %r1;
    cvt.rn.f32.u32 %f2, %r2;
    tex.2d.v4.u32.f32 {%r3, %r4, %r5, %r6}, [%d1, {%f1, %f2}];
    shl.b32 %r1, %r1, 2;
    sust.b.2d.b32.trap [%d2, {%r1, %r2}], %r3;
    ret;
}
.visible .entry fetch(.param .u64 from, .param .u64 to) {
    .reg .b32 %r<5>; .reg .f32 %f<2>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [from];
    ld.param.u64 %d2, [to];
    ld.global.u64 %d3, [%d1];
    mov.f32 %f1, 0f00000000;
    tex.2d.v4.u32.f32 {%r1, %r2, %r3, %r4}, [%d3, {%f1, %f1}];
    st.global.u32 [%d2], %r1;
    ret;
}
.visible .entry mark(.param .u64 to, .param .u64 at) {
    .reg .b32 %r<5>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [to];
    ld.param.u64 %d2, [at];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d3, %r1, 8;
    add.s64 %d3, %d2, %d3;
    ld.global.v2.u32 {%r2, %r3}, [%d3];
    add.u32 %r1, %r1, 1;
    sust.b.2d.b32.trap [%d1, {%r2, %r3}], %r1;
    suld.b.2d.b32.trap %r4, [%d1, {%r2, %r3}];
    ret;
}
";

pub(crate) fn kernel(side: &Side, name: &str) -> SafeKernel {
    let ptx = Ptx::new(KERNELS).unwrap();
    let module = SafeModule::load(&side.context, &ptx).unwrap();
    module.kernel(name).unwrap()
}

/// Whether the call succeeded or had a violation.
pub(crate) fn has_violation(result: Result<()>) -> bool {
    match result {
        Ok(()) => false,
        Err(Error::Violation(_)) => true,
        Err(error) => panic!("{error}"),
    }
}

/// Claim: a part of a buffer is the limit, not the buffer. Stores leave a part on both sides, while
/// other parts of the buffer are borrowed and used on another stream.
#[test]
fn stores_leave_a_part_of_a_buffer() {
    Attack::new().run(|case| {
        let (stream, other) = (case.stream(), case.stream());
        let store = kernel(case, "store");
        let mut x = DeviceBuffer::filled(&stream, 96, 7_u32).unwrap();
        let at = [
            0_u64,
            124,
            128,
            4,
            u64::MAX - 3,
            1 << 40,
            126,
            0_u64.wrapping_sub(128),
        ];
        let at = DeviceBuffer::from_host(&stream, &at).unwrap();
        let (before, rest) = x.as_mut_slice().split_at_mut(32).unwrap();
        let (part, after) = rest.split_at_mut(32).unwrap();
        case.hold_up(&stream);
        let config = LaunchConfig::new(1, 8);
        let launch = stream
            .launch_safe(&store, config, (part, &at, 8_u32))
            .unwrap();
        let mut copy = DeviceBuffer::<u32>::zeroed(&other, 64).unwrap();
        let (mut low, mut high) = copy.as_mut_slice().split_at_mut(32).unwrap();
        low.copy_from_on(before.as_slice(), &other).unwrap();
        high.copy_from_on(after.as_slice(), &other).unwrap();
        assert!(has_violation(launch.wait()));
        assert_eq!(copy.to_vec().unwrap(), [7; 64]);
        let mut expected = [7; 96];
        (expected[32], expected[63], expected[33]) = (0, 1, 3);
        assert_eq!(x.to_vec().unwrap(), expected);
    });
}

/// Claim: arguments that are the same memory permit nothing else. The kernel overwrites the offsets
/// that its other threads load.
#[test]
fn arguments_overlap_in_place() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let store = kernel(case, "store");
        let guard = DeviceBuffer::filled(&stream, 64, 7_u32).unwrap();
        let offsets: Vec<u64> = (0..64).map(|at| at * 8 + 4).collect();
        let mut x = DeviceBuffer::from_host(&stream, &offsets).unwrap();
        for _ in 0..8 {
            let same = x.in_place();
            let config = LaunchConfig::new(1, 64);
            let launch = stream.launch_safe(&store, config, (same, same, 64_u32));
            has_violation(launch.unwrap().wait());
        }
        assert_eq!(guard.to_vec().unwrap(), [7; 64]);
    });
}

/// Claim: a pointer in memory permits nothing by itself. A kernel saves the address of a buffer,
/// which is freed; another buffer may get the same address.
#[test]
fn a_saved_address_is_used_after_the_buffer_was_freed() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (save, follow) = (kernel(case, "save"), kernel(case, "follow"));
        let mut saved = DeviceBuffer::<u64>::zeroed(&stream, 1).unwrap();
        let one = LaunchConfig::new(1, 1);
        let mut x = DeviceBuffer::filled(&stream, 64, 7_u32).unwrap();
        stream
            .launch_safe(&save, one, (&mut x, &mut saved))
            .unwrap();
        drop(x);
        let y = DeviceBuffer::filled(&stream, 64, 8_u32).unwrap();
        let config = LaunchConfig::new(1, 64);
        let launch = stream.launch_safe(&follow, config, (&mut saved,)).unwrap();
        assert!(has_violation(launch.wait()));
        assert_eq!(y.to_vec().unwrap(), [8; 64]);
        // Its own address: the stores change the address that other threads load.
        let address = saved.as_raw();
        saved.copy_from_host(&[address]).unwrap();
        let launch = stream.launch_safe(&follow, config, (&mut saved,)).unwrap();
        has_violation(launch.wait());
        assert_eq!(y.to_vec().unwrap(), [8; 64]);
    });
}

/// Claim: everything may be dropped at once. A checked launch is queued behind a delay, and its
/// arguments, the kernel, the module, the launch and the stream are dropped.
#[test]
fn everything_is_dropped_behind_a_checked_launch() {
    Attack::new().run(|case| {
        for round in 0..6 {
            let stream = case.stream();
            let store = kernel(case, "store");
            let mut x = DeviceBuffer::filled(&stream, 16, 7_u32).unwrap();
            let at = DeviceBuffer::from_host(&stream, &[0_u64, 64, 4]).unwrap();
            case.hold_up(&stream);
            let config = LaunchConfig::new(1, 4);
            let launch = stream
                .launch_safe(&store, config, (&mut x, &at, 3_u32))
                .unwrap();
            match round % 3 {
                0 => {
                    drop((x, at, store, launch));
                    drop(stream);
                }
                1 => {
                    drop(launch);
                    drop((stream, store, at, x));
                }
                _ => {
                    drop((x, at, store, launch));
                    assert!(has_violation(stream.synchronize()));
                }
            }
        }
    });
}

/// Claim: shared and local memory end at their variables. Local memory also holds what the compiler
/// keeps there.
#[test]
fn arrays_are_left_in_both_directions() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let arrays = kernel(case, "arrays");
        let offsets: Vec<u64> = (0..32_u64)
            .map(|lane| match lane % 4 {
                0 => lane,
                1 => 0_u64.wrapping_sub(4 * lane),
                2 => 60 + lane,
                _ => 1 << lane,
            })
            .collect();
        let at = DeviceBuffer::from_host(&stream, &offsets).unwrap();
        let mut out = DeviceBuffer::filled(&stream, 32, 99_u32).unwrap();
        let config = LaunchConfig::new(2, 32);
        let launch = stream
            .launch_safe(&arrays, config, (&mut out, &at))
            .unwrap();
        assert!(has_violation(launch.wait()));
        let expected: Vec<u32> = (0..32_u32)
            .map(|lane| {
                let offset = offsets[lane as usize];
                if offset.is_multiple_of(4) && offset <= 60 {
                    lane
                } else {
                    0
                }
            })
            .collect();
        assert_eq!(out.to_vec().unwrap(), expected);
    });
}

/// Claim: threads may share a kernel. Each launches it with buffers of other sizes, so that proofs
/// of one thread are found by another.
#[test]
fn threads_launch_one_kernel_with_other_sizes() {
    Attack::new().run(|case| {
        let store = kernel(case, "store");
        thread::scope(|scope| {
            for number in 1..=4_usize {
                let (store, stream) = (&store, case.stream());
                scope.spawn(move || {
                    let words = 4 * number;
                    let mut x = DeviceBuffer::filled(&stream, words, 7_u32).unwrap();
                    let at: Vec<u64> = (0..16).map(|at| at * 4).collect();
                    let at = DeviceBuffer::from_host(&stream, &at[..words]).unwrap();
                    for count in [words, words + 1, 1, words] {
                        let config = LaunchConfig::new(1, 32);
                        let args = (&mut x, &at, count as u32);
                        let launch = stream.launch_safe(store, config, args).unwrap();
                        assert_eq!(has_violation(launch.wait()), count > words);
                    }
                    let expected: Vec<u32> = (0..words as u32).collect();
                    assert_eq!(x.to_vec().unwrap(), expected);
                });
            }
        });
    });
}

/// Claim: a graph that is replayed with other buffers checks against those. A node gets shorter and
/// shorter buffers while launches are queued, and the former ones are dropped.
#[test]
fn a_graph_is_replayed_with_other_buffers() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let store = kernel(case, "store");
        let at: Vec<u64> = (0..16).map(|at| at * 4).collect();
        let at = DeviceBuffer::from_host(&stream, &at).unwrap();
        let config = LaunchConfig::new(1, 16);
        let mut x = DeviceBuffer::filled(&stream, 16, 99_u32).unwrap();
        let mut graph = case.graph();
        let args = (&mut x, &at, 16_u32);
        let node = graph.add_kernel_safe(&[], &store, config, args).unwrap();
        let exec = graph.instantiate().unwrap();
        case.launch_late(&exec, &stream);
        for len in [12_usize, 8, 4, 1] {
            let mut shorter = DeviceBuffer::filled(&stream, len, 99_u32).unwrap();
            let guard = DeviceBuffer::filled(&stream, 64, 7_u32).unwrap();
            let args = (&mut shorter, &at, 16_u32);
            exec.set_kernel_safe(node, &store, config, args).unwrap();
            drop(std::mem::replace(&mut x, shorter));
            case.launch_late(&exec, &stream);
            exec.launch(&stream).unwrap();
            let threads = |result: Result<()>| match result {
                Err(Error::Violation(all)) => all.iter().map(|it| it.threads).collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            };
            let expected = 16 - len as u32;
            if len == 12 {
                // The launch of the first buffer has none.
                let launch = exec.launch_reported(&stream).unwrap();
                assert_eq!(threads(launch.wait()), [expected; 3]);
            } else {
                assert_eq!(threads(stream.synchronize()), [expected; 2]);
            }
            stream.synchronize().unwrap();
            let stored: Vec<u32> = (0..len as u32).collect();
            assert_eq!(x.to_vec().unwrap(), stored);
            assert_eq!(guard.to_vec().unwrap(), [7; 64]);
        }
    });
}

/// Claim: a report belongs to one replay. Two threads replay one executable while a third gives its
/// node buffers of two sizes, and each replay has all violations of one size.
#[test]
fn a_graph_gets_other_buffers_under_replays() {
    Attack::new().run(|case| {
        let owner = case.stream();
        let store = kernel(case, "store");
        let at: Vec<u64> = (0..16).map(|at| at * 4).collect();
        let at = DeviceBuffer::from_host(&owner, &at).unwrap();
        let config = LaunchConfig::new(1, 16);
        let mut x = DeviceBuffer::filled(&owner, 8, 99_u32).unwrap();
        let mut y = DeviceBuffer::filled(&owner, 4, 99_u32).unwrap();
        let mut graph = case.graph();
        let args = (&mut x, &at, 16_u32);
        let node = graph.add_kernel_safe(&[], &store, config, args).unwrap();
        let exec = graph.instantiate().unwrap();
        thread::scope(|scope| {
            for stream in [case.stream(), case.stream()] {
                let exec = &exec;
                scope.spawn(move || {
                    for _ in 0..6 {
                        let launch = exec.launch_reported(&stream).unwrap();
                        match launch.wait() {
                            Err(Error::Violation(found)) => {
                                assert_eq!(found.len(), 1, "{found}");
                                assert!([8, 12].contains(&found[0].threads), "{found}");
                            }
                            other => panic!("{other:?}"),
                        }
                        launch.wait().unwrap();
                    }
                    stream.synchronize().unwrap();
                });
            }
            for _ in 0..4 {
                let args = (&mut y, &at, 16_u32);
                exec.set_kernel_safe(node, &store, config, args).unwrap();
                thread::yield_now();
                let args = (&mut x, &at, 16_u32);
                exec.set_kernel_safe(node, &store, config, args).unwrap();
            }
        });
        exec.launch(&owner).unwrap();
        assert!(has_violation(owner.synchronize()));
        assert_eq!(x.to_vec().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        let stored = y.to_vec().unwrap();
        assert!(stored == [0, 1, 2, 3] || stored == [99; 4], "{stored:?}");
    });
}
