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

use super::arg::{Arg, Param};
use super::instance::Instance;
use super::objects::callback::is_in_callback;
use super::slot;
use crate::driver::status::{DEINITIALIZED, NOT_INITIALIZED, NOT_PERMITTED, Status, UNKNOWN};

thread_local! {
    /// The slot of the last call that this thread made.
    static LAST_SLOT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the slot of the last call that this thread made.
pub(super) fn last_slot() -> Option<usize> {
    LAST_SLOT.get()
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

/// The name of a C function, as a type.
pub(super) trait Name {
    const NAME: &'static str;
    const FUNCTION: &'static Function;
}

/// A method of [`Call`] with the parameters `P` (a tuple), which implements the C function `N`.
pub(super) trait Method<N, P, const SLOT: usize>: Copy {
    /// The C function. Each parameter has the C type that corresponds to its type in the method.
    type Shim;
    /// The C function of this slot.
    const SHIM: Self::Shim;
    const ADDRESS: *const ();
}

/// Implements [`Method`] for methods with these numbers of parameters.
macro_rules! methods {
    ($([$($param:ident)*])*) => {$(
        impl<F, N, const SLOT: usize, $($param),*> Method<N, ($($param,)*), SLOT> for F
        where
            F: Fn(&Call, $($param),*) -> Status + Copy,
            N: Name,
            $($param: Param,)*
        {
            type Shim = unsafe extern "C" fn($($param::C),*) -> CUresult;
            const SHIM: Self::Shim = {
                #[allow(non_snake_case, reason = "a parameter has the name of its type")]
                unsafe extern "C" fn shim<F, N, const SLOT: usize, $($param),*>(
                    $($param: $param::C),*
                ) -> CUresult
                where
                    F: Fn(&Call, $($param),*) -> Status + Copy,
                    N: Name,
                    $($param: Param,)*
                {
                    #[inline(never)]
                    #[allow(clippy::too_many_arguments, reason = "as many as C's")]
                    fn body<F, N, $($param),*>(slot: usize, $($param: $param::C),*) -> CUresult
                    where
                        F: Fn(&Call, $($param),*) -> Status + Copy,
                        N: Name,
                        $($param: Param,)*
                    {
                        dispatch(slot, N::FUNCTION, &|call| {
                            // SAFETY: each pointer must be valid for what this function documents
                            // ← the contract of the C function, which is the only caller of
                            // `body`.
                            $(let $param = unsafe { $param.wrap() };)*
                            (method::<F>())(call, $($param),*)
                        })
                    }
                    body::<F, N, $($param),*>(SLOT, $($param),*)
                }
                shim::<F, N, SLOT, $($param),*>
            };
            const ADDRESS: *const () =
                <Self as Method<N, ($($param,)*), SLOT>>::SHIM as *const ();
        }
    )*};
}

methods! {
    []
    [A]
    [A B]
    [A B C]
    [A B C D]
    [A B C D E]
    [A B C D E G]
    [A B C D E G H]
    [A B C D E G H I]
    [A B C D E G H I J]
    [A B C D E G H I J K]
    [A B C D E G H I J K L]
    [A B C D E G H I J K L M]
    [A B C D E G H I J K L M O]
    [A B C D E G H I J K L M O Q]
    [A B C D E G H I J K L M O Q R]
    [A B C D E G H I J K L M O Q R S]
}

/// Returns the method whose type is `F`. Each function has its own type, without data, so the
/// type determines the value.
fn method<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "not the type of one method") };
    let place = std::ptr::NonNull::<F>::dangling();
    // SAFETY: `place` must be aligned and hold a value of `F` ← `dangling` is aligned, and a value
    // without bytes needs no memory. A value exists, because `entry` and `shim` received one, and
    // it may be duplicated because `F` is `Copy`.
    unsafe { place.read() }
}

/// Returns the entry for the C function `N`, which the given method implements.
pub(super) const fn entry<const SLOT: usize, N, F, P>(_: F) -> Entry
where
    N: Name,
    F: Method<N, P, SLOT>,
{
    Entry {
        name: N::NAME,
        address: F::ADDRESS,
    }
}

/// Returns the C function `N`, which calls the given method.
pub(super) const fn shim<const SLOT: usize, N, F, P>(_: F) -> F::Shim
where
    F: Method<N, P, SLOT>,
{
    F::SHIM
}

/// Declares the C functions that a file implements, each with the method of [`Call`] that does its
/// work.
///
/// Several names may share a method. The signature of a C function follows from that of the method
/// (see [`Param`]). The compiler checks that it is the one of `cuda.h`, because its address is
/// stored in the field of that name.
macro_rules! exports {
    ($($($name:ident)|+ => $method:ident;)*) => {
        /// The C functions of this file for the slot `SLOT`.
        #[derive(Debug)]
        pub(super) struct Exports<const SLOT: usize>;

        impl<const SLOT: usize> Exports<SLOT> {
            pub(super) const ENTRIES: &'static [$crate::driver::export::Entry] = &[$($(
                $crate::driver::export::entry::<SLOT, $name, _, _>(
                    $crate::driver::export::Call::$method
                ),
            )+)*];
        }

        const _: fn(&mut cuda_sys::DriverTable) = |table| {
            $($(
                table.$name = Some($crate::driver::export::shim::<0, $name, _, _>(
                    $crate::driver::export::Call::$method,
                ));
            )+)*
        };

        $($($crate::driver::export::exports!(@name $name);)+)*
    };
    (@name $name:ident) => {
        #[allow(non_camel_case_types, reason = "the name is C's")]
        struct $name;

        impl $crate::driver::export::Name for $name {
            const NAME: &'static str = stringify!($name);
            const FUNCTION: &'static cuda_sys::Function = cuda_sys::calls::$name;
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
    if !code.is_success() {
        call.instance.log.add(function, code);
    }
    code
}

fn begin(call: &Call) -> Status {
    if let Some(code) = call.journal.begin(call.function) {
        return Err(code);
    }
    if is_in_callback() && !works_uninitialized(call.function) {
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
