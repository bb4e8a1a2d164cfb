//! Scenarios of the driver's memory pools.

use cuda_driver::memory::{
    ManagedBuffer, MemoryAccess, MemoryLocation, MemoryPool, PoolKind, PoolReuse,
};
use cuda_driver::{DeviceBuffer, PinnedBuffer};

use super::{Fixture, Result, Scenario, one, two};

pub(super) const ALL: &[Scenario] = &[two("pools", pools), one("host pools", host_pools)];

fn pools(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let device = fixture.context.device();
    let pool = MemoryPool::with_limit(device, 32 << 20)?;
    let zeroes = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 8)?;
    assert_eq!(zeroes.to_vec()?, [0; 8]);
    let words = DeviceBuffer::from_host_in(&pool, &stream, &[5_u32; 8])?;
    assert_eq!(words.to_vec()?, [5; 8]);
    assert!(pool.statistics()?.used >= 64);
    pool.set_release_threshold(1 << 20)?;
    assert_eq!(pool.release_threshold()?, 1 << 20);
    let reuse = pool.reuse()? - PoolReuse::ALLOW_OPPORTUNISTIC;
    pool.set_reuse(reuse)?;
    assert_eq!(pool.reuse()?, reuse);
    let other = fixture.driver.device(1)?;
    // SAFETY: the call grants access.
    unsafe { pool.set_access(&other, MemoryAccess::ReadWrite) }?;
    assert_eq!(pool.access(&other)?, MemoryAccess::ReadWrite);
    pool.make_current()?;
    assert!(pool.is_current()?);
    let default = device.default_memory_pool()?;
    default.make_current()?;
    assert!(!pool.is_current()?);
    zeroes.close()?;
    drop(words);
    stream.synchronize()?;
    pool.trim_to(0)?;
    pool.reset_statistics()?;
    pool.close()
}

/// Pools of the host and of managed memory.
fn host_pools(fixture: &Fixture) -> Result<()> {
    let (stream, device) = (fixture.stream()?, fixture.context.device());
    let pool = MemoryPool::at(&MemoryLocation::Host, PoolKind::Pinned, device)?;
    let pinned = PinnedBuffer::from_host_in_pool(&pool, &stream, &[7_u32; 8])?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 8)?;
    buffer.copy_from_pinned(&pinned)?;
    assert_eq!(buffer.to_vec()?, [7; 8]);
    pool.make_current()?;
    assert!(pool.is_current()?);
    let default = MemoryPool::default_at(&MemoryLocation::Host, PoolKind::Pinned, device)?;
    assert!(!default.is_current()?);
    let here = MemoryLocation::Device(device.clone());
    let managed = MemoryPool::at(&here, PoolKind::Managed, device)?;
    let words = ManagedBuffer::<u32>::zeroed_in(&managed, &stream, 8)?;
    assert_eq!(words.host()?, [0; 8]);
    pinned.close()?;
    buffer.close()?;
    words.close()?;
    managed.close()?;
    pool.close()
}
