//! Driver calls in any order return a status.
#![no_main]

use cuda_fuzz::calls;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| calls(data));
