//! A text that loads is launched, and the launch ends, with or without an error.
#![no_main]

use std::cell::RefCell;

use cuda_fuzz::{Device, mutate};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

thread_local! {
    static DEVICE: RefCell<Option<Device>> = const { RefCell::new(None) };
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});

fuzz_target!(|text: &[u8]| {
    DEVICE.with_borrow_mut(|kept| {
        let device = kept.get_or_insert_with(|| Device::new((10, 0), false));
        let Some(module) = device.load(text) else {
            return;
        };
        let alive = device.launch(module);
        device.unload(module);
        if !alive {
            *kept = None;
        }
    });
});
