//! Matrix instructions whose rows are checked: `ldmatrix` and `stmatrix`.

use cuda_driver::prelude::*;
use cuda_driver::safe::{SafeKernel, SafeModule, Unproven};
use cuda_driver::{DeviceBuffer, Ptx, Stream};
use cuda_sim::Builder;

use super::violation;
use crate::support::{Fixture, everywhere, software};

/// The threads of a launch: two warps.
const N: usize = 64;

/// Copies 64 words into a tile of 256 bytes. Thread t executes a matrix instruction on the row at
/// `at[t]` in the tile, and stores its own word of the matrix, and then that of the tile.
fn text(target: u32, instruction: &str) -> String {
    format!(
        ".version 7.8\n.target sm_{target}\n.address_size 64\n\
         .visible .entry rows(.param .u64 from, .param .u64 at, .param .u64 to) {{
    .reg .b32 %r<9>; .reg .b64 %d<9>;
    .shared .align 16 .b8 tile[256];
    ld.param.u64 %d1, [from];
    ld.param.u64 %d2, [at];
    ld.param.u64 %d3, [to];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d4, %r1, 4;
    add.s64 %d5, %d1, %d4;
    add.s64 %d6, %d2, %d4;
    add.s64 %d7, %d3, %d4;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    ld.global.u32 %r5, [%d5];
    st.shared.u32 [%r4], %r5;
    bar.sync 0;
    ld.global.u32 %r6, [%d6];
    add.u32 %r6, %r6, %r3;
    mov.u32 %r7, %r1;
    {instruction}
    st.global.u32 [%d7], %r7;
    bar.sync 0;
    ld.shared.u32 %r5, [%r4];
    st.global.u32 [%d7+256], %r5;
    ret;
}}"
    )
}

fn kernel(fixture: &Fixture, target: u32, instruction: &str) -> SafeKernel {
    let ptx = Ptx::new(text(target, instruction)).unwrap();
    let module = SafeModule::load(&fixture.context, &ptx).unwrap();
    module.kernel("rows").unwrap()
}

/// The words that `from` has.
fn word(index: usize) -> u32 {
    1000 + index as u32
}

/// Launches the kernel safely. Returns the words of the matrices and those of the tile, and the
/// result of the launch.
fn launch(
    stream: &Stream,
    kernel: &SafeKernel,
    at: &[u32; N],
) -> (Vec<u32>, Vec<u32>, cuda_driver::Result<()>) {
    let words: Vec<u32> = (0..N).map(word).collect();
    let from = DeviceBuffer::from_host(stream, &words).unwrap();
    let at = DeviceBuffer::from_host(stream, at).unwrap();
    let mut to = DeviceBuffer::<u32>::zeroed(stream, 2 * N).unwrap();
    let args = (&from, &at, &mut to);
    let launch = stream.launch_safe(kernel, LaunchConfig::new(1, N as u32), args);
    let launch = launch.unwrap();
    assert!(launch.is_checked());
    let result = launch.wait();
    let mut words = to.to_vec().unwrap();
    let tile = words.split_off(N);
    (words, tile, result)
}

/// Rows in the reverse order for the threads that name one, and nothing useful for the others.
fn reversed(rows: usize) -> [u32; N] {
    std::array::from_fn(|thread| match thread % 32 < rows {
        true => 16 * (15 - thread as u32 % 16),
        false => 0xffff_fff3,
    })
}

/// The words of the threads of a warp after one matrix was loaded from these rows.
fn matrix(at: &[u32]) -> Vec<u32> {
    let place = |lane: usize| at[lane / 4] as usize / 4 + lane % 4;
    (0..32).map(|lane| word(place(lane))).collect()
}

const LOAD: &str = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r6];";
const STORE: &str = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r6], {%r7};";

/// Devices that have `stmatrix`: a software device, and the GPU if it does.
fn with_stores() -> impl Iterator<Item = Fixture> {
    let all = everywhere().filter(|fixture| {
        let capability = fixture.context.device().compute_capability();
        capability.unwrap().major >= 9
    });
    all.chain([software(Builder::new().compute_capability(9, 0))])
}

#[test]
fn loaded_rows_are_checked_for_each_thread() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let kernel = kernel(&fixture, 80, LOAD);
        let good = reversed(8);
        let (words, _, result) = launch(&stream, &kernel, &good);
        result.unwrap();
        assert_eq!(words, [matrix(&good), matrix(&good[32..])].concat());
        for bad in [256, 248, u32::MAX - 15, 8] {
            let mut at = good;
            at[35] = bad;
            let (words, _, result) = launch(&stream, &kernel, &at);
            let violation = violation(result);
            assert_eq!((violation.thread, violation.threads), ([35, 0, 0], 1));
            assert_eq!((violation.ptx_line, violation.bytes), (24, 16));
            // The other threads of the warp get zeros, too.
            assert_eq!(words, [matrix(&good), vec![0; 32]].concat());
        }
    }
}

#[test]
fn older_targets_need_the_rows_of_all_threads() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let kernel = kernel(&fixture, 75, LOAD);
        let (words, _, result) = launch(&stream, &kernel, &reversed(8));
        assert_eq!(violation(result).threads, 48);
        assert_eq!(words, [0; N]);
        let good = reversed(32);
        let (words, _, result) = launch(&stream, &kernel, &good);
        result.unwrap();
        assert_eq!(words, [matrix(&good), matrix(&good)].concat());
    }
}

#[test]
fn a_predicate_is_a_condition_of_the_rows() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    // The second warp executes the instruction.
    let body = format!("{{ .reg .pred %p; setp.ge.u32 %p, %r1, 32; @%p {LOAD} }}");
    let kernel = kernel(&fixture, 80, &body);
    let mut at = reversed(8);
    at[..32].fill(0xffff_0000);
    let (words, _, result) = launch(&stream, &kernel, &at);
    result.unwrap();
    let own: Vec<u32> = (0..32).collect();
    assert_eq!(words, [own, matrix(&at[32..])].concat());
}

#[test]
fn stored_rows_are_checked_for_each_thread() {
    for fixture in with_stores() {
        let stream = fixture.stream();
        let kernel = kernel(&fixture, 90, STORE);
        // The first warp stores its matrix to the last eight rows, the second to the first ones.
        let mut at = [16; N];
        for row in 0..8 {
            at[row] = 128 + 16 * row as u32;
            at[32 + row] = 16 * row as u32;
        }
        let (_, tile, result) = launch(&stream, &kernel, &at);
        result.unwrap();
        let threads = (32..64).chain(0..32);
        assert_eq!(tile, threads.collect::<Vec<u32>>());
        at[39] = 244;
        let (_, tile, result) = launch(&stream, &kernel, &at);
        assert_eq!(violation(result).thread, [39, 0, 0]);
        // The second warp stores no row.
        let first = (0..32).map(word);
        assert_eq!(tile, first.chain(0..32).collect::<Vec<u32>>());
    }
}

#[test]
fn a_strict_launch_with_unknown_rows_is_refused() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let kernel = kernel(&fixture, 80, LOAD).with_unproven(Unproven::Reject);
    let words = DeviceBuffer::<u32>::zeroed(&stream, N).unwrap();
    let mut to = DeviceBuffer::<u32>::zeroed(&stream, 2 * N).unwrap();
    let config = LaunchConfig::new(1, N as u32);
    let launch = stream.launch_safe(&kernel, config, (&words, &words, &mut to));
    let error = launch.unwrap_err().to_string();
    assert!(error.contains("ldmatrix"), "{error}");
}
