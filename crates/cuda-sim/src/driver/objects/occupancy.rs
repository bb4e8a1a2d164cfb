//! Occupancy: the number of blocks of a kernel that fit on a multiprocessor.

use crate::driver::objects::function::Function;
use crate::driver::objects::kernel::OnDevice;
use crate::driver::status::Status;

/// The number of threads of the largest block.
pub(in crate::driver) const MOST_THREADS: u32 = 1024;

/// The allocation unit of the shared memory of a block in bytes.
pub(in crate::driver) const SHARED_UNIT: u64 = 128;

/// Returns the sizes, in KiB, to which the shared memory of a multiprocessor can be configured. The
/// rest of its memory is cache.
fn shared_steps(capability: (u32, u32)) -> &'static [u64] {
    match capability {
        (7, 5) => &[32, 64],
        (7, _) => &[0, 8, 16, 32, 64, 96],
        _ => &[0, 8, 16, 32, 64, 100, 132, 164, 196, 228],
    }
}

impl OnDevice<'_> {
    /// Returns how many bytes of a multiprocessor's shared memory a block with `dynamic` bytes of
    /// dynamic shared memory takes.
    fn shared_bytes(self, dynamic: u64) -> u64 {
        u64::from(self.kernel.static_shared)
            .saturating_add(dynamic)
            .saturating_add(self.device.limits.shared_reserved as u64)
            .checked_next_multiple_of(SHARED_UNIT)
            .unwrap_or(u64::MAX)
    }

    /// Returns the smallest configurable size of shared memory that is at least `bytes`.
    pub(in crate::driver) fn shared_step(self, bytes: u64) -> u64 {
        let all = self.device.limits.shared_per_sm as u64;
        let steps = shared_steps(self.device.capability).iter();
        let mut steps = steps.map(|step| step << 10);
        steps.find(|&step| step >= bytes).unwrap_or(all).min(all)
    }

    /// Returns the size of shared memory that the carve-out requests.
    pub(in crate::driver) fn shared_wanted(self) -> u64 {
        let all = self.device.limits.shared_per_sm as u64;
        let percent = u64::try_from(self.carveout());
        percent.map_or(all, |percent| self.shared_step(all * percent / 100))
    }

    /// Returns the size of shared memory of a multiprocessor that runs blocks of `used` bytes: the
    /// size that the carve-out requests, or, if that is too small for one block, a size that is
    /// enough for one.
    fn shared_capacity(self, used: u64) -> u64 {
        let wanted = self.shared_wanted();
        if wanted >= used {
            wanted
        } else {
            self.shared_step(used)
        }
    }
}

/// The number of blocks that are resident on a multiprocessor at once.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::driver) struct Fit {
    /// The number by all limits including the estimated registers, which is reported to the
    /// program. It is at most `certain`, and 0 only if `certain` is 0.
    pub(in crate::driver) reported: u32,
    /// The number by the limits that are known exactly: threads, blocks and shared memory.
    pub(in crate::driver) certain: u32,
}

/// Returns how many blocks of `threads` threads with `dynamic` bytes of dynamic shared memory are
/// resident on a multiprocessor at once.
pub(in crate::driver) fn blocks_per_sm(
    function: &Function,
    threads: u32,
    dynamic: usize,
) -> Status<Fit> {
    let function = function.on_device()?;
    let limits = &function.device.limits;
    let warps = u64::from(threads.div_ceil(32));
    // A lower thread limit of the kernel is ignored.
    if threads == 0 || threads > MOST_THREADS {
        return Ok(Fit::default());
    }
    let most = function.dynamic_shared_limit();
    if i64::try_from(dynamic).map_or(true, |dynamic| dynamic > most.into()) {
        return Ok(Fit::default());
    }
    let by_threads = limits.threads_per_sm as u64 / (32 * warps);
    let by_registers = u64::from(function.kernel.warps_by_registers()) / warps;
    // At least one block fits, because the estimate may be too high and the block can be launched.
    let by_registers = by_registers.max(1);
    let used = function.shared_bytes(dynamic as u64);
    let by_shared = function
        .shared_capacity(used)
        .checked_div(used)
        .unwrap_or(u64::MAX);
    let certain = by_threads.min(by_shared).min(limits.blocks_per_sm as u64) as u32;
    Ok(Fit {
        reported: by_registers.min(certain.into()) as u32,
        certain,
    })
}
