//! A text that loads is launched, and the launch ends, with or without an error.
#![no_main]

use std::cell::RefCell;

use cuda_fuzz::{Device, mutate};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

thread_local! {
    static DEVICES: RefCell<[Option<Device>; 2]> = const { RefCell::new([None, None]) };
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});

fuzz_target!(|text: &[u8]| {
    DEVICES.with_borrow_mut(|all| {
        for (kept, capability) in all.iter_mut().zip([(10, 0), (9, 0)]) {
            let device = kept.get_or_insert_with(|| Device::new(capability, false));
            let Some(module) = device.load(text) else {
                continue;
            };
            let alive = device.launch(module);
            device.unload(module);
            if !alive {
                *kept = None;
            }
        }
    });
});
