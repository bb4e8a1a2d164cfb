//! Any text is either loaded or rejected.
#![no_main]

use std::cell::OnceCell;

use cuda_fuzz::{Device, mutate};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

thread_local! {
    static DEVICES: OnceCell<[Device; 2]> = const { OnceCell::new() };
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});

fuzz_target!(|text: &[u8]| {
    DEVICES.with(|devices| {
        let devices =
            devices.get_or_init(|| [Device::new((10, 0), false), Device::new((9, 0), true)]);
        for device in devices {
            if let Some(module) = device.load(text) {
                device.unload(module);
            }
        }
    });
});
