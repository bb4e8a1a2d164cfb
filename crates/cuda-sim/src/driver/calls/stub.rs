//! Stubs for the functions of `cuda.h` that are not implemented. Each function has a stub with its
//! own address, which fails with `CUDA_ERROR_NOT_SUPPORTED`.
//!
//! Unlike the shims of implemented functions, stubs exist once and not once per slot: compiling
//! most of `cuda.h` for all slots would take minutes. A call of a stub is counted for the driver
//! that the thread called last, which is the right one unless a thread alternates between several
//! drivers.

use std::env;

use cuda_sys::{CUresult, FUNCTIONS};

use crate::driver::export::{dispatch, last_slot};
use crate::driver::status::NOT_SUPPORTED;

/// The maximum number of stubs; the table of `cuda.h` 13.5 has 688 functions.
const STUBS: usize = 16 * 48;

/// The stub of function `16 * HIGH + LOW`.
///
/// It declares no arguments because it reads none. In the C calling conventions of all supported
/// targets the caller places and removes the arguments, so a function that ignores them can be
/// called with any.
unsafe extern "C" fn stub<const HIGH: usize, const LOW: usize>() -> CUresult {
    refuse(16 * HIGH + LOW)
}

#[inline(never)]
fn refuse(index: usize) -> CUresult {
    let (Some(function), Some(slot)) = (FUNCTIONS.get(index), last_slot()) else {
        return NOT_SUPPORTED;
    };
    dispatch(slot, function, &|call| {
        if call.journal.missed(function) && env::var_os("CUDA_SIM_LOG").is_some() {
            eprintln!("cuda-sim: {function} is not implemented (CUDA_ERROR_NOT_SUPPORTED)");
        }
        Err(NOT_SUPPORTED)
    })
}

type Stub = unsafe extern "C" fn() -> CUresult;

macro_rules! row {
    ($($high:literal)*) => {
        [$([
            stub::<$high, 0>, stub::<$high, 1>, stub::<$high, 2>, stub::<$high, 3>,
            stub::<$high, 4>, stub::<$high, 5>, stub::<$high, 6>, stub::<$high, 7>,
            stub::<$high, 8>, stub::<$high, 9>, stub::<$high, 10>, stub::<$high, 11>,
            stub::<$high, 12>, stub::<$high, 13>, stub::<$high, 14>, stub::<$high, 15>,
        ]),*]
    };
}

static ROWS: [[Stub; 16]; STUBS / 16] = row!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
    24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
);

/// Returns the stub of function `index`.
pub(super) fn address(index: usize) -> Option<*const ()> {
    let row = ROWS.get(index / 16)?;
    Some(row[index % 16] as *const ())
}
