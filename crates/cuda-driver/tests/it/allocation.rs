//! How memory is made and given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_driver::prelude::*;

use crate::support::{COPY, everywhere};

/// Tells when it goes.
struct Owner(Arc<AtomicBool>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn an_address_goes_out_and_comes_back() {
    for bench in everywhere("an_address_goes_out_and_comes_back") {
        let (home, other) = (bench.stream(), bench.stream());
        let copy = bench.kernel(COPY, "copy");
        let source = DeviceBuffer::from_host(&home, &[5_u32; 64]).unwrap();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&home, 64).unwrap();
        // SAFETY: the kernel reads 64 words of the one and writes 64 of the other; each has 64.
        unsafe {
            other.launch(
                &copy,
                LaunchConfig::new(1, 64),
                (&source, &mut buffer, 64_u32),
            )
        }
        .unwrap();
        let address = buffer.into_raw().unwrap();
        // SAFETY: it is the memory of that buffer, all written, and `home` waits for `other`.
        let buffer = unsafe { DeviceBuffer::<u32>::from_raw(&home, address, 64) }.unwrap();
        assert_eq!(buffer.as_raw(), address);
        assert_eq!(buffer.to_vec().unwrap(), [5; 64], "{}", bench.name);
        drop((buffer, source));
        home.synchronize().unwrap();
        if let Some(simulator) = &bench.simulator {
            assert_eq!(simulator.live().bytes, 0, "{}", simulator.live());
        }
    }
}

#[test]
fn foreign_memory_is_let_go_after_its_uses() {
    for bench in everywhere("foreign_memory_is_let_go_after_its_uses") {
        let (home, other) = (bench.stream(), bench.stream());
        let copy = bench.kernel(COPY, "copy");
        let whole = Arc::new(DeviceBuffer::from_host(&home, &[3_u32; 64]).unwrap());
        let is_gone = Arc::new(AtomicBool::new(false));
        let owner = (Arc::clone(&whole), Owner(Arc::clone(&is_gone)));
        // SAFETY: 32 words of a buffer that the owner keeps alive and nobody writes.
        let half = unsafe { DeviceBuffer::<u32>::from_foreign(&home, whole.as_raw(), 32, owner) };
        let half = half.unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&other, 32).unwrap();
        // SAFETY: the kernel reads 32 words of the one and writes 32 of the other; each has 32.
        unsafe {
            other.launch(
                &copy,
                LaunchConfig::new(1, 32),
                (&half, &mut target, 32_u32),
            )
        }
        .unwrap();
        assert!(!is_gone.load(Ordering::SeqCst));
        drop(half);
        assert!(is_gone.load(Ordering::SeqCst), "{}", bench.name);
        // The drop has waited for the kernel on the other stream. (On a GPU a stream may say so a little later.)
        if bench.simulator.is_some() {
            assert!(other.is_done().unwrap(), "{}", bench.name);
        }
        assert_eq!(Arc::strong_count(&whole), 1);
        assert_eq!(target.to_vec().unwrap(), [3; 32], "{}", bench.name);
    }
}
