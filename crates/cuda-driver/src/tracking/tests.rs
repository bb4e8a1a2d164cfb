//! Interleavings of calls of several threads, run here in one chosen order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cuda_sim::{Builder, Schedule};

use super::{Access, Blocked, Scope, Tracker, conflict};
use crate::driver::{Driver, call};
use crate::memory::{DeviceBuffer, DeviceSlice};
use crate::stream::{Stream, StreamFlags};

/// Queues a write of the word at `address`.
fn set(stream: &Stream, address: cuda_sys::CUdeviceptr, word: u32) {
    // SAFETY: the range must be allocated ← the callers have a view of it.
    unsafe {
        call!(
            stream.driver(),
            cuMemsetD32Async(address, word, 1, stream.as_raw())
        )
    }
    .unwrap();
}

fn acquire(tracker: &Tracker, scope: &Scope<'_>, access: Access) {
    match tracker.acquire(scope, access) {
        Ok(()) => {}
        Err(Blocked::Failed(error)) => panic!("{error}"),
        Err(Blocked::UnfencedUse(_)) => panic!("an unfenced use"),
        Err(Blocked::ForeignUse { .. }) => panic!("a use by other code"),
    }
}

/// A launch on `s` records its uses one after the other. Between two of them, another thread writes
/// the other half of a buffer on `t`, and makes `s` wait for that. This is too late for the event
/// of the launch to cover the write.
#[test]
fn a_write_does_not_cover_later_waits_of_its_stream() {
    for seed in 0..64 {
        let simulator = Builder::new()
            .schedule(Schedule::Late { seed })
            .build()
            .unwrap();
        let driver = Driver::new(simulator.library().unwrap()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = || Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
        let (owner, s, t, u) = (stream(), stream(), stream(), stream());
        let buffer = DeviceBuffer::<u32>::zeroed(&owner, 2).unwrap();
        let (lower, upper): (DeviceSlice<'_, u32>, _) = buffer.as_slice().split_at(1).unwrap();
        let tracker = &buffer.memory.tracker;
        let write = Access::WRITE.of_part();

        let mut launch = Scope::new(&s);
        acquire(tracker, &launch, write);
        set(&s, lower.as_raw(), 1);
        // The use of the launch's first buffer is recorded.
        assert!(launch.fence().is_some());

        let mut other = Scope::new(&t);
        acquire(tracker, &other, write);
        set(&t, upper.as_raw(), 2);
        tracker.commit(&mut other, write);
        let reading = Scope::new(&s);
        acquire(tracker, &reading, Access::READ.of_part());

        tracker.commit(&mut launch, write);

        let whole = Scope::new(&u);
        acquire(tracker, &whole, Access::READ);
        let mut words = [0_u32; 2];
        // SAFETY: both sides must hold 8 bytes until the copy is complete ← both have two words,
        // and `synchronize` below waits for the copy.
        unsafe {
            call!(
                driver,
                cuMemcpyDtoHAsync_v2(words.as_mut_ptr().cast(), buffer.as_raw(), 8, u.as_raw())
            )
        }
        .unwrap();
        u.synchronize().unwrap();
        assert_eq!(words, [1, 2], "seed {seed}");
    }
}

#[test]
fn signal_and_ordinary_accesses_combine_to_ordinary() {
    let (one, other) = (
        Access::WRITE.with(Access::AWAIT),
        Access::READ.with(Access::SIGNAL),
    );
    assert!(conflict(one, other) && conflict(one, Access::READ));
    assert!(!conflict(Access::AWAIT.with(Access::AWAIT), Access::SIGNAL));
}

/// One thread has acquired memory with aliases, and is about to queue its use. Another thread,
/// which acquires the memory meanwhile, waits until that use is recorded, and then for the use
/// itself.
#[test]
fn an_alias_waits_for_an_acquired_use() {
    for seed in 0..16 {
        let simulator = Builder::new()
            .schedule(Schedule::Late { seed })
            .build()
            .unwrap();
        let driver = Driver::new(simulator.library().unwrap()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = || Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
        let (owner, s, t) = (stream(), stream(), stream());
        let mut buffer = DeviceBuffer::<u32>::zeroed(&owner, 1).unwrap();
        buffer.allow_aliases().unwrap();
        let (tracker, address) = (&buffer.memory.tracker, buffer.as_raw());
        let write = Access::WRITE.of_part();
        let has_acquired = AtomicBool::new(false);

        let mut first = Scope::new(&s);
        acquire(tracker, &first, write);
        thread::scope(|threads| {
            threads.spawn(|| {
                let mut second = Scope::new(&t);
                acquire(tracker, &second, write);
                has_acquired.store(true, Ordering::Release);
                set(&t, address, 2);
                tracker.commit(&mut second, write);
            });
            // Enough time for the other thread to get ahead if nothing stops it.
            thread::sleep(Duration::from_millis(5));
            assert!(!has_acquired.load(Ordering::Acquire), "seed {seed}");
            set(&s, address, 1);
            tracker.commit(&mut first, write);
            drop(first);
        });
        assert_eq!(buffer.to_vec().unwrap(), [2], "seed {seed}");
    }
}
