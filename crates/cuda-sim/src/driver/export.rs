//! The C shims and the steps that are common to all calls.
//!
//! A C function has no parameter for an instance, so each slot (see [`super::slot`]) has its own
//! copy of each function, generic over the slot number. The copy only adds that number and jumps to
//! the body of its function, which exists once.

use std::any::Any;
use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cuda_sys::{CUresult, Function, calls};

use super::instance::Instance;
use super::slot;
use super::status::{DEINITIALIZED, NOT_INITIALIZED, NOT_PERMITTED, Status, UNKNOWN};

thread_local! {
    /// Whether this thread is running a host callback of the program, which must not call the
    /// driver.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
    /// The slot of the last call that this thread made.
    static LAST_SLOT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The slot of the last call that this thread made.
pub(super) fn last_slot() -> Option<usize> {
    LAST_SLOT.get()
}

/// Wraps `work` as a host callback: calls of the driver from it fail, as the real driver documents.
pub(super) fn callback(work: impl FnOnce() + Send) -> impl FnOnce() + Send {
    move || {
        IN_CALLBACK.set(true);
        let ended = catch_unwind(AssertUnwindSafe(work));
        IN_CALLBACK.set(false);
        if ended.is_err() {
            eprintln!("cuda-sim: a host function panicked");
        }
    }
}

/// The name and the address of a function with the C ABI.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) address: *const (),
}

// SAFETY: the pointer is the address of a function, which every thread may call.
unsafe impl Sync for Entry {}
// SAFETY: as for `Sync`.
unsafe impl Send for Entry {}

/// Declares the C functions that a file implements, each with the method of [`Call`] that does its
/// work.
///
/// Several names may share a method. The compiler checks that each has the signature of `cuda.h`,
/// because its address is stored in the field of that name.
macro_rules! exports {
    ($($($name:ident)|+ => $method:ident $params:tt;)*) => {
        /// The C functions of this file for the slot `SLOT`.
        #[derive(Debug)]
        pub(super) struct Exports<const SLOT: usize>;

        impl<const SLOT: usize> Exports<SLOT> {
            pub(super) const ENTRIES: &'static [$crate::driver::export::Entry] =
                &[$($($crate::driver::export::exports!(@entry $name $method $params),)+)*];
        }

        const _: fn(&mut cuda_sys::DriverTable) = |table| {
            $($($crate::driver::export::exports!(@check table $name $params);)+)*
        };

        $($($crate::driver::export::exports!(@shim $name $method $params);)+)*
    };
    (@entry $name:ident $method:ident $params:tt) => {
        $crate::driver::export::Entry {
            name: stringify!($name),
            address: $name::<SLOT> as *const (),
        }
    };
    (@check $table:ident $name:ident $params:tt) => {
        $table.$name = Some($name::<0>);
    };
    (@shim $name:ident $method:ident ($($arg:ident: $ty:ty),* $(,)?)) => {
        #[allow(non_snake_case, reason = "the name is C's")]
        unsafe extern "C" fn $name<const SLOT: usize>($($arg: $ty),*) -> cuda_sys::CUresult {
            #[inline(never)]
            #[allow(clippy::too_many_arguments, reason = "as many as C's")]
            fn body(slot: usize, $($arg: $ty),*) -> cuda_sys::CUresult {
                $crate::driver::export::dispatch(slot, cuda_sys::calls::$name, &|call| {
                    // SAFETY: each pointer must be valid for what this function documents ← the
                    // contract of the C function, which is the only caller of `body`.
                    $(let $arg = unsafe { $crate::driver::arg::Arg::wrap($arg) };)*
                    call.$method($($arg),*)
                })
            }
            body(SLOT, $($arg),*)
        }
    };
}
pub(super) use exports;

/// A call in progress: its function and the instance that it uses.
#[derive(Debug)]
pub(super) struct Call {
    instance: Arc<Instance>,
    pub(super) function: &'static Function,
}

impl Deref for Call {
    type Target = Arc<Instance>;

    fn deref(&self) -> &Arc<Instance> {
        &self.instance
    }
}

impl Call {
    /// Returns whether stream 0 is the per-thread default stream in this call.
    pub(super) fn per_thread(&self) -> bool {
        self.function.per_thread
    }
}

/// Returns whether the function works before `cuInit`.
fn works_uninitialized(function: &Function) -> bool {
    [
        calls::cuInit,
        calls::cuDriverGetVersion,
        calls::cuGetProcAddress,
        calls::cuGetProcAddress_v2,
        calls::cuGetErrorName,
        calls::cuGetErrorString,
        calls::cuGetExportTable,
    ]
    .iter()
    .any(|known| std::ptr::eq(*known, function) || *known == function)
}

/// Runs `body` for the instance in `slot`. It counts and traces the call, applies injected faults,
/// and keeps panics from unwinding into C.
///
/// It is not generic: as a generic function it accounted for a tenth of the compile time of this
/// crate.
pub(super) fn dispatch(
    slot: usize,
    function: &'static Function,
    body: &dyn Fn(&Call) -> Status,
) -> CUresult {
    LAST_SLOT.set(Some(slot));
    let Some(instance) = slot::instance(slot) else {
        return DEINITIALIZED;
    };
    let call = Call { instance, function };
    let result = match begin(&call) {
        Err(code) => Err(code),
        Ok(()) => catch_unwind(AssertUnwindSafe(|| body(&call)))
            .unwrap_or_else(|panic| Err(report(function, &*panic))),
    };
    let code = result.err().unwrap_or(CUresult::CUDA_SUCCESS);
    call.instance.journal.end(function, code);
    code
}

fn begin(call: &Call) -> Status {
    if let Some(code) = call.journal.begin(call.function) {
        return Err(code);
    }
    if IN_CALLBACK.get() && !works_uninitialized(call.function) {
        return Err(NOT_PERMITTED);
    }
    call.check_capture()?;
    if !call.is_initialized() && !works_uninitialized(call.function) {
        return Err(NOT_INITIALIZED);
    }
    Ok(())
}

fn report(function: &Function, panic: &(dyn Any + Send)) -> CUresult {
    let words = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    eprintln!("cuda-sim: {function} panicked: {words}");
    UNKNOWN
}
