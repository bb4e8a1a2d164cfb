//! Occupancy of kernels that need more than 48 KiB of dynamic shared memory.

use cuda_driver::Error;
use cuda_driver::prelude::*;

use crate::support::{Fixture, everywhere};

/// A kernel with dynamic shared memory and no static shared memory.
const SHARED_TAIL: &str = include_str!("kernels/shared_tail.ptx");
/// More than the 48 KiB that a kernel has without an opt-in.
const BYTES: u32 = 64_800;

/// Returns a newly loaded kernel, whose limit nothing has raised, and the most dynamic shared
/// memory that its device allows.
fn fresh(fixture: &Fixture) -> (Function, u32) {
    let device = fixture.context.device();
    let most = device.max_shared_memory_per_block_optin().unwrap();
    assert!(most > BYTES, "{}: {most}", fixture.name);
    (fixture.kernel(SHARED_TAIL, "shared_tail"), most)
}

#[test]
fn active_blocks_above_48_kib_need_no_launch_before() {
    for fixture in everywhere() {
        let (function, most) = fresh(&fixture);
        let active = function.max_active_blocks(64, BYTES as usize).unwrap();
        assert!(active >= 1, "{}: {active}", fixture.name);
        // The limit is now `BYTES`, so the first call had the same result as a later one.
        let again = function.max_active_blocks(64, BYTES as usize).unwrap();
        assert_eq!(active, again, "{}", fixture.name);

        // The device does not allow more than `most`, and a request for more changes nothing.
        let (function, _) = fresh(&fixture);
        for bytes in [most as usize + 1, usize::MAX] {
            let blocks = function.max_active_blocks(64, bytes).unwrap_or(0);
            assert_eq!(blocks, 0, "{}: {bytes}", fixture.name);
        }
        assert!(function.available_shared_bytes(1, 64).unwrap() <= 48 << 10);
    }
}

#[test]
fn block_size_above_48_kib_needs_no_launch_before() {
    for fixture in everywhere() {
        let (function, most) = fresh(&fixture);
        let best = function
            .max_potential_block_size(|_| BYTES as usize, 0)
            .unwrap();
        assert!(best.block > 0 && best.min_grid > 0, "{best:?}");
        let active = function
            .max_active_blocks(best.block, BYTES as usize)
            .unwrap();
        let multiprocessors = fixture.context.device().multiprocessor_count().unwrap();
        assert_eq!(best.min_grid, active * multiprocessors, "{}", fixture.name);

        // A limit that is not a multiple of the warp size counts, too.
        let (function, _) = fresh(&fixture);
        let needs = |threads| if threads == 20 { BYTES as usize } else { 0 };
        let best = function.max_potential_block_size(needs, 20).unwrap();
        assert!(best.min_grid > 0, "{}: {best:?}", fixture.name);

        // Only block sizes that the device allows are considered.
        let (function, _) = fresh(&fixture);
        let needs = |threads: u32| threads as usize * 512;
        let best = function.max_potential_block_size(needs, 0).unwrap();
        assert!(
            best.block > 0 && needs(best.block) <= most as usize,
            "{}: {best:?}",
            fixture.name
        );
    }
}

#[test]
fn allow_shared_bytes_raises_the_limit_of_the_function() {
    for fixture in everywhere() {
        let (function, most) = fresh(&fixture);
        let before = function.available_shared_bytes(1, 64).unwrap();
        assert!(before <= 48 << 10, "{}: {before}", fixture.name);
        function.allow_shared_bytes(BYTES).unwrap();
        let after = function.available_shared_bytes(1, 64).unwrap();
        assert!(after > before, "{}: {after}", fixture.name);
        // The limit is never lowered.
        function.allow_shared_bytes(0).unwrap();
        assert_eq!(function.available_shared_bytes(1, 64).unwrap(), after);

        let error = function.allow_shared_bytes(most + 1).unwrap_err();
        assert!(matches!(error, Error::LaunchConfig(_)), "{error}");
        assert!(error.to_string().contains(&most.to_string()), "{error}");
    }
}
