//! Functions of `cuda.h` that are not implemented: each has an address of its own that says so.

use std::env;

use cuda_sys::{CUresult, FUNCTIONS};

use super::export::dispatch;
use super::status::NOT_SUPPORTED;

/// How many functions can have a stub: the table of `cuda.h` 13.5 has 688.
const STUBS: usize = 16 * 48;

/// The stub of function number `16 * HIGH + LOW` in slot `SLOT`.
///
/// Its arguments are not declared because it reads none: in the C calling conventions of all supported targets the
/// caller places and removes arguments, so a function that ignores them may be called with any.
unsafe extern "C" fn stub<const SLOT: usize, const HIGH: usize, const LOW: usize>() -> CUresult {
    refuse(SLOT, 16 * HIGH + LOW)
}

#[inline(never)]
fn refuse(slot: usize, index: usize) -> CUresult {
    let Some(function) = FUNCTIONS.get(index) else {
        return NOT_SUPPORTED;
    };
    dispatch(slot, function, |call| {
        if call.journal.missed(function) && env::var_os("CUDA_SIM_LOG").is_some() {
            eprintln!("cuda-sim: {function} is not implemented: answered CUDA_ERROR_NOT_SUPPORTED");
        }
        Err(NOT_SUPPORTED)
    })
}

type Stub = unsafe extern "C" fn() -> CUresult;

macro_rules! row {
    ($($high:literal)*) => {
        [$([
            stub::<SLOT, $high, 0>, stub::<SLOT, $high, 1>, stub::<SLOT, $high, 2>, stub::<SLOT, $high, 3>,
            stub::<SLOT, $high, 4>, stub::<SLOT, $high, 5>, stub::<SLOT, $high, 6>, stub::<SLOT, $high, 7>,
            stub::<SLOT, $high, 8>, stub::<SLOT, $high, 9>, stub::<SLOT, $high, 10>, stub::<SLOT, $high, 11>,
            stub::<SLOT, $high, 12>, stub::<SLOT, $high, 13>, stub::<SLOT, $high, 14>, stub::<SLOT, $high, 15>,
        ]),*]
    };
}

struct Rows<const SLOT: usize>;

impl<const SLOT: usize> Rows<SLOT> {
    const ALL: &'static [[Stub; 16]; STUBS / 16] = &row!(
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
        24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
    );
}

/// The stub of function number `index`, for the slot `SLOT`.
pub(super) fn address<const SLOT: usize>(index: usize) -> Option<*const ()> {
    let row = Rows::<SLOT>::ALL.get(index / 16)?;
    Some(row[index % 16] as *const ())
}
