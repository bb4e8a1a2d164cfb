//! Scenarios of the driver's memory pools.

use cuda_driver::DeviceBuffer;
use cuda_driver::memory::{MemoryAccess, MemoryPool, PoolReuse};

use super::{Fixture, Result, Scenario, two};

pub(super) const ALL: &[Scenario] = &[two("pools", pools)];

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
    pool.set_access(&other, MemoryAccess::ReadWrite)?;
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
