//! Kernel arguments: their values, and the memory that they refer to.

use std::ffi::c_void;
use std::ptr;
use std::slice;

use cuda_sys::CUdeviceptr;

use super::tracked::Tracked;
use crate::error::Result;
use crate::function::check::Layout;
use crate::function::packing::{UNPACKED, c_layout, pack};
use crate::memory::{
    DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, GrowableBuffer, InPlace, ManagedBuffer,
    PeerSlice, PeerSliceMut, PitchedBuffer, PitchedSlice, PitchedSliceMut, SharedSlice,
};
use crate::tracking::Access;
use crate::types::ArgType;

/// The values of the arguments in one of the two forms that the driver takes. The other form is
/// null.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// An array with a pointer to each value.
    pub(crate) params: *mut *mut c_void,
    /// One packed block in the layout of the kernel's parameters. The driver copies it at once,
    /// which takes half the time for a dozen arguments.
    pub(crate) extra: *mut *mut c_void,
}

/// `CU_LAUNCH_PARAM_BUFFER_POINTER` and related constants, which C declares as pointers.
const BUFFER_POINTER: *mut c_void = ptr::without_provenance_mut(1);
const BUFFER_SIZE: *mut c_void = ptr::without_provenance_mut(2);
const END: *mut c_void = ptr::null_mut();

impl Values {
    #[inline]
    pub(crate) fn pointers(pointers: &mut [*mut c_void]) -> Self {
        Self {
            params: pointers.as_mut_ptr(),
            extra: ptr::null_mut(),
        }
    }

    /// Calls `f` with a packed block of `bytes` bytes at `block`. The driver only reads it.
    #[inline]
    pub(super) fn with_block<B, R>(
        block: *const B,
        mut bytes: usize,
        f: impl FnOnce(Self) -> R,
    ) -> R {
        let block = block.cast_mut().cast();
        let bytes = (&raw mut bytes).cast();
        let mut extra = [BUFFER_POINTER, block, BUFFER_SIZE, bytes, END];
        f(Self {
            params: ptr::null_mut(),
            extra: extra.as_mut_ptr(),
        })
    }
}

/// A kernel argument.
///
/// A crate can implement the trait for a newtype around an argument, such as a tensor that contains
/// a view. The newtype has to pass on `tracked`, by which the launch is ordered.
///
/// ```
/// use cuda_driver::launch::{ArgType, KernelArg, Tracked};
/// use cuda_driver::prelude::*;
///
/// /// A vector that a kernel reads.
/// struct Input<'a>(DeviceSlice<'a, u32>);
///
/// // SAFETY: the value and the memory are those of the view.
/// unsafe impl<'a> KernelArg for Input<'a> {
///     type Value = <DeviceSlice<'a, u32> as KernelArg>::Value;
///
///     const ARG_TYPE: ArgType = <DeviceSlice<'a, u32> as KernelArg>::ARG_TYPE;
///
///     fn value(&self) -> Self::Value {
///         self.0.value()
///     }
///
///     fn tracked(&self) -> Option<Tracked<'_>> {
///         self.0.tracked()
///     }
/// }
///
/// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// # let mix = Module::load(&context, &mix)?.function("mix")?;
/// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
/// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
/// let config = LaunchConfig::for_num_elems(100)?;
/// // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 100 words.
/// unsafe { stream.launch(&mix, config, (&mut x, Input(y.as_slice()), 100_u32)) }?;
/// assert_eq!(x.to_vec()?, [7; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Safety
///
/// `Value` is the representation that the kernel expects: its bytes are copied into the parameter
/// block, and all of them are initialized. `value` returns the same value at each call. The memory
/// that `tracked` returns stays allocated as long as any borrow that `Self` holds is active, even
/// if the value itself was dropped. It covers all memory that `Value` points to. The functions
/// queue no work.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a kernel",
    label = "not a kernel argument",
    note = "pass a number by value, and a buffer by reference: `&buffer` if the kernel reads it, `&mut buffer` if it writes it",
    note = "a slice or a `Vec` is memory of the host: copy it to a `DeviceBuffer` first",
    note = "pass a struct of your own by value after `#[derive(Clone, Copy, DeviceRepr)]` (feature `derive`) and `#[repr(C)]`",
    note = "an `Option` has no layout in CUDA C++: pass a null address as `0_u64` instead of `None`",
    note = "for a `bool` parameter pass a `u8` that is 0 or 1"
)]
pub unsafe trait KernelArg {
    /// The type of the parameter as the kernel sees it.
    type Value: Copy;

    /// The type in comparisons with the parameter of the kernel. `Other` fits every parameter of
    /// the size of `Value`.
    const ARG_TYPE: ArgType = ArgType::Other;

    /// Returns the value that is passed to the kernel.
    fn value(&self) -> Self::Value;

    /// Returns the memory that the kernel accesses through this argument; `None` if there is none.
    #[inline]
    fn tracked(&self) -> Option<Tracked<'_>> {
        None
    }
}

#[diagnostic::do_not_recommend]
// SAFETY: `Value` must be what the kernel expects ← the kernel takes the value itself, which points
// to no memory.
unsafe impl<T: DeviceRepr> KernelArg for T {
    type Value = T;

    const ARG_TYPE: ArgType = <T as DeviceRepr>::ARG_TYPE;

    #[inline]
    fn value(&self) -> T {
        *self
    }
}

/// Implements [`KernelArg`] for borrows of a type with the field `memory` and the methods `as_raw`
/// and `span_bytes`.
macro_rules! tracked_arg {
    ($(<$($lifetime:lifetime)?> $ty:ty, $access:expr;)*) => {
        $(
            // SAFETY: `Value` must be what the kernel expects and `tracked` must cover it ← the
            // kernel takes the address; `tracked` returns the memory of the buffer, borrowed as
            // `Self` borrows it.
            unsafe impl<$($lifetime,)? T: DeviceRepr> $crate::launch::KernelArg for $ty {
                type Value = ::cuda_sys::CUdeviceptr;

                const ARG_TYPE: $crate::types::ArgType =
                    $crate::types::ArgType::address_of(T::ARG_TYPE);

                #[inline]
                fn value(&self) -> ::cuda_sys::CUdeviceptr {
                    self.as_raw()
                }

                #[inline]
                fn tracked(&self) -> Option<$crate::launch::Tracked<'_>> {
                    Some($crate::launch::Tracked {
                        memory: Some(&self.memory),
                        access: $access(self),
                        address: self.as_raw(),
                        bytes: self.span_bytes(),
                        graph: 0,
                        argument: 0,
                        peer: None,
                        kept: None,
                        object: None,
                    })
                }
            }
        )*
    };
}

pub(crate) use tracked_arg;

tracked_arg! {
    <> &DeviceBuffer<T>, |_| Access::READ;
    <> &mut DeviceBuffer<T>, |_| Access::WRITE;
    <> &GrowableBuffer<T>, |_| Access::READ;
    <> &mut GrowableBuffer<T>, |_| Access::WRITE;
    <> &ManagedBuffer<T>, |_| Access::READ;
    <> &mut ManagedBuffer<T>, |_| Access::WRITE;
    <> &PitchedBuffer<T>, |_| Access::READ;
    <> &mut PitchedBuffer<T>, |_| Access::WRITE;
    <'a> &PitchedSlice<'a, T>, |view: &&PitchedSlice<'a, T>| view.access;
    <'a> &mut PitchedSliceMut<'a, T>, |view: &&mut PitchedSliceMut<'a, T>| view.access;
    <'a> DeviceSlice<'a, T>, |view: &DeviceSlice<'a, T>| view.access;
    <'a> &DeviceSlice<'a, T>, |view: &&DeviceSlice<'a, T>| view.access;
    <'a> DeviceSliceMut<'a, T>, |view: &DeviceSliceMut<'a, T>| view.access;
    <'a> &mut DeviceSliceMut<'a, T>, |view: &&mut DeviceSliceMut<'a, T>| view.access;
    <'a> InPlace<'a, T>, |same: &InPlace<'a, T>| same.access;
}

// SAFETY: `Value` must be what the kernel expects and `tracked` must cover it ← the kernel takes
// the address; `tracked` returns the memory of the buffer, which the view keeps alive as long as it
// is borrowed.
unsafe impl<T: DeviceRepr> KernelArg for &SharedSlice<T> {
    type Value = CUdeviceptr;

    const ARG_TYPE: ArgType = ArgType::address_of(T::ARG_TYPE);

    #[inline]
    fn value(&self) -> CUdeviceptr {
        self.as_slice().as_raw()
    }

    #[inline]
    fn tracked(&self) -> Option<Tracked<'_>> {
        let view = self.as_slice();
        Some(Tracked {
            memory: Some(self.memory()),
            access: Access::READ,
            address: view.as_raw(),
            bytes: view.span_bytes(),
            graph: 0,
            argument: 0,
            peer: None,
            kept: None,
            object: None,
        })
    }
}

/// Implements [`KernelArg`] for a view of memory of another context.
macro_rules! peer_arg {
    ($($ty:ident)*) => {
        $(
            // SAFETY: `Value` must be what the kernel expects and `tracked` must cover it ← the
            // kernel takes the address; `tracked` returns the memory of the buffer, which the view
            // borrows for 'a as it borrows the context.
            unsafe impl<'a, T: DeviceRepr> KernelArg for $ty<'a, T> {
                type Value = CUdeviceptr;

                const ARG_TYPE: ArgType = ArgType::address_of(T::ARG_TYPE);

                #[inline]
                fn value(&self) -> CUdeviceptr {
                    self.view.as_raw()
                }

                fn tracked(&self) -> Option<Tracked<'_>> {
                    Some(Tracked {
                        memory: Some(self.view.memory),
                        access: self.view.access,
                        address: self.view.as_raw(),
                        bytes: self.view.span_bytes(),
                        graph: 0,
                        argument: 0,
                        peer: Some(self.context),
                        kept: None,
                        object: None,
                    })
                }
            }
        )*
    };
}

peer_arg! { PeerSlice PeerSliceMut }

/// The arguments of a kernel: a tuple of up to 16 [`KernelArg`]s, or an [`ArgList`](super::ArgList)
/// of any length.
///
/// # Safety
///
/// The sizes, the pointers and the values describe the same arguments, in order.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of kernel arguments",
    label = "expected a tuple of at most 16 arguments, or an `ArgList`",
    note = "pass one argument as `(argument,)`, and no argument as `()`",
    note = "for more than 16 arguments use `ArgList`, or put them in a struct"
)]
pub unsafe trait KernelArgs {
    /// The size of each argument in bytes.
    fn sizes(&self) -> &[usize];

    /// The type of each argument.
    #[doc(hidden)]
    fn types(&self) -> &[ArgType];

    /// The sizes and types, packed into one word.
    #[doc(hidden)]
    fn packed(&self) -> u128;

    /// Calls `f` with a pointer to each value.
    #[doc(hidden)]
    fn with_pointers<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R;

    /// Calls `f` with the values: as one packed block if they can be laid out like the kernel's
    /// parameters, otherwise as pointers.
    #[doc(hidden)]
    #[inline]
    fn with_values<R>(&self, layout: Layout<'_>, f: impl FnOnce(Values) -> R) -> R {
        let _ = layout;
        self.with_pointers(|pointers| f(Values::pointers(pointers)))
    }

    /// Returns whether no argument needs a wait on the stream with this id. The check only reads a
    /// few words, so that most launches do no other dependency work.
    #[doc(hidden)]
    fn are_in_order(&self, stream: u64) -> bool;

    /// Returns whether a launch that was queued in `epoch` leaves nothing to record.
    #[doc(hidden)]
    fn need_no_record(&self, stream: u64, epoch: u64) -> bool;

    /// Calls `f` with the memory of each argument that refers to some.
    #[doc(hidden)]
    fn each_tracked(&self, f: &mut dyn FnMut(Tracked<'_>) -> Result<()>) -> Result<()>;

    /// Calls `f` with the index, the bytes and the memory of each argument, until it returns false.
    /// Returns whether it returned true for all. Some kinds of arguments return false at once.
    #[doc(hidden)]
    #[inline]
    fn all_arguments(&self, f: impl FnMut(usize, &[u8], Option<Tracked<'_>>) -> bool) -> bool {
        let _ = f;
        false
    }
}

macro_rules! kernel_args {
    ($($arg:ident)*) => {
        // SAFETY: sizes, pointers and values must be of the same arguments ← all are made from the
        // same list.
        unsafe impl<$($arg: KernelArg),*> KernelArgs for ($($arg,)*) {
            #[inline(always)]
            fn sizes(&self) -> &[usize] {
                const { &[$(size_of::<$arg::Value>()),*] }
            }

            #[inline(always)]
            fn types(&self) -> &[ArgType] {
                const { &[$($arg::ARG_TYPE),*] }
            }

            #[inline(always)]
            fn packed(&self) -> u128 {
                const { pack(&[$(size_of::<$arg::Value>()),*], &[$($arg::ARG_TYPE),*]) }
            }

            #[inline(always)]
            #[allow(non_snake_case, reason = "a value has the name of its type")]
            fn with_pointers<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
                let ($($arg,)*) = self;
                $(let mut $arg = $arg.value();)*
                f(&mut [$(ptr::from_mut(&mut $arg).cast()),*])
            }

            #[inline(always)]
            #[allow(non_snake_case, reason = "a value has the name of its type")]
            fn with_values<R>(&self, layout: Layout<'_>, f: impl FnOnce(Values) -> R) -> R {
                // The C layout, which is where a kernel expects its parameters unless it declares
                // another alignment.
                #[repr(C)]
                struct Block<$($arg),*> {
                    $($arg: $arg),*
                }
                let own = const {
                    c_layout(&[$((size_of::<$arg::Value>(), align_of::<$arg::Value>())),*])
                };
                if layout.gaps != own.0 || own.0 == UNPACKED {
                    return self.with_pointers(|pointers| f(Values::pointers(pointers)));
                }
                let ($($arg,)*) = self;
                let block = Block { $($arg: $arg.value()),* };
                Values::with_block(&raw const block, own.1, f)
            }

            #[inline(always)]
            #[allow(non_snake_case, unused_variables, reason = "a value has the name of its type; () has none")]
            fn are_in_order(&self, stream: u64) -> bool {
                let ($($arg,)*) = self;
                true $(&& $arg.tracked().is_none_or(|it| it.is_in_order(stream)))*
            }

            #[inline(always)]
            #[allow(non_snake_case, unused_variables, reason = "a value has the name of its type; () has none")]
            fn need_no_record(&self, stream: u64, epoch: u64) -> bool {
                let ($($arg,)*) = self;
                true $(&& $arg.tracked().is_none_or(|it| it.needs_no_record(stream, epoch)))*
            }

            #[allow(
                non_snake_case,
                unused_variables,
                unused_mut,
                unused_assignments,
                reason = "a value has the name of its type; () has none"
            )]
            fn each_tracked(&self, f: &mut dyn FnMut(Tracked<'_>) -> Result<()>) -> Result<()> {
                let ($($arg,)*) = self;
                let mut at = 0;
                $(
                    at += 1;
                    if let Some(tracked) = $arg.tracked() {
                        let tracked = Tracked { argument: at, ..tracked };
                        f(tracked).map_err(|error| error.in_argument(at))?;
                    }
                )*
                Ok(())
            }

            #[inline(always)]
            #[allow(
                non_snake_case,
                unused_variables,
                unused_mut,
                unused_assignments,
                reason = "a value has the name of its type; () has none"
            )]
            fn all_arguments(
                &self,
                mut f: impl FnMut(usize, &[u8], Option<Tracked<'_>>) -> bool,
            ) -> bool {
                let ($($arg,)*) = self;
                let mut at = 0;
                $(
                    let value = $arg.value();
                    let (start, size) = ((&raw const value).cast::<u8>(), size_of::<$arg::Value>());
                    // SAFETY: there must be `size` initialized bytes ← they are those of `value`,
                    // and all bytes of a kernel argument are initialized.
                    let bytes = unsafe { slice::from_raw_parts(start, size) };
                    if !f(at, bytes, $arg.tracked()) {
                        return false;
                    }
                    at += 1;
                )*
                true
            }
        }
    };
}

kernel_args!();
kernel_args!(A);
kernel_args!(A B);
kernel_args!(A B C);
kernel_args!(A B C D);
kernel_args!(A B C D E);
kernel_args!(A B C D E F);
kernel_args!(A B C D E F G);
kernel_args!(A B C D E F G H);
kernel_args!(A B C D E F G H I);
kernel_args!(A B C D E F G H I J);
kernel_args!(A B C D E F G H I J K);
kernel_args!(A B C D E F G H I J K L);
kernel_args!(A B C D E F G H I J K L M);
kernel_args!(A B C D E F G H I J K L M N);
kernel_args!(A B C D E F G H I J K L M N O);
kernel_args!(A B C D E F G H I J K L M N O P);
