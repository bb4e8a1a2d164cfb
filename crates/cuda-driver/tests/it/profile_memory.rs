//! The memory in profiles.

use cuda_driver::memory::{
    CachingPool, GrowableBuffer, ManagedBuffer, MemoryPool, PitchedBuffer, Unpooled,
};
use cuda_driver::prelude::*;
use cuda_driver::profile::Profiler;

use crate::support::{everywhere, filled, has_virtual_memory};

/// Memory that a buffer takes over or gives up counts as well.
#[test]
fn memory_of_each_kind_is_counted_until_its_free() {
    for fixture in everywhere() {
        let (stream, context) = (fixture.stream(), &fixture.context);
        let pool = MemoryPool::new(context.device()).unwrap();
        let cache = CachingPool::new(context);
        let before = filled(&stream, 16, 1);
        let profiler = Profiler::start_on(&stream).unwrap();
        let now = || {
            let profile = profiler.collect();
            profile.memory().last().map_or(0, |it| it.allocated())
        };
        let ordered = DeviceBuffer::<u8>::zeroed(&stream, 512).unwrap();
        let plain = DeviceBuffer::<u8>::zeroed_in(&Unpooled, &stream, 512).unwrap();
        let pooled = DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 512).unwrap();
        let managed = ManagedBuffer::<u8>::zeroed(&stream, 512).unwrap();
        assert_eq!(now(), 4 * 512, "{}", fixture.name);
        let pitched = PitchedBuffer::<u8>::zeroed(&stream, (512, 2)).unwrap();
        let rows = 2 * pitched.pitch() as i64;
        assert_eq!(now(), 4 * 512 + rows);
        let cached = DeviceBuffer::<u8>::zeroed_in(&cache, &stream, 512).unwrap();
        let held = cache.statistics().bytes_reserved() as i64;
        drop(cached);
        // The pool keeps the block.
        assert_eq!(now(), 4 * 512 + rows + held);
        let address = ordered.into_raw().unwrap();
        assert_eq!(now(), 3 * 512 + rows + held);
        // SAFETY: `into_raw` has returned the address of 512 bytes, and nothing else frees them.
        let ordered = unsafe { DeviceBuffer::<u8>::from_raw(&stream, address, 512) }.unwrap();
        drop((ordered, plain, pooled, managed, pitched));
        assert_eq!(now(), held);
        if has_virtual_memory(context) {
            let mut growable = GrowableBuffer::<u8>::new(&stream, 1 << 24).unwrap();
            let step = growable.granularity();
            growable.grow_to(1).unwrap();
            growable.grow_to(step + 1).unwrap();
            assert_eq!(now(), held + 2 * step as i64);
            growable.shrink_to(1).unwrap();
            assert_eq!(now(), held + step as i64);
        }
        drop((cache, before));
        let profile = profiler.finish().unwrap();
        let changes = profile.memory().iter().map(|it| it.change());
        assert_eq!(changes.sum::<i64>(), -64, "{}", fixture.name);
    }
}
