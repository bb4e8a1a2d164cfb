//! What a launch takes as arguments.

use std::ffi::c_void;
use std::ptr;

use cuda_sys::CUdeviceptr;

use crate::error::{Error, Result};
use crate::function::check::{Layout, UNPACKED, c_layout, pack};
use crate::global::Global;
use crate::graph::GraphAllocation;
use crate::memory::{
    DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, ManagedBuffer, Memory, PitchedBuffer,
    PitchedSlice, PitchedSliceMut,
};
use crate::order::{Access, Scope};

/// The values of arguments in one of the two forms that the driver takes, the other null.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// A pointer to each.
    pub(crate) params: *mut *mut c_void,
    /// All in one block, as the kernel has them, which the driver copies at once: in half the time
    /// for a dozen.
    pub(crate) extra: *mut *mut c_void,
}

/// `CU_LAUNCH_PARAM_BUFFER_POINTER` and its kin, which are no numbers in C.
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

    /// `bytes` bytes from `block` on, which the driver only reads.
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

/// The memory behind an argument, and what the kernel does to it.
#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "it never leaves this crate")]
#[derive(Clone, Copy)]
pub struct Tracked<'a> {
    /// `None`: memory of a graph, which only its kernels can use.
    pub(crate) memory: Option<&'a Memory>,
    pub(crate) access: Access,
    /// The first byte of what the kernel may use.
    pub(crate) address: CUdeviceptr,
    pub(crate) bytes: usize,
    /// The graph, where it is of one.
    pub(crate) graph: u64,
}

/// One argument of a kernel.
///
/// # Safety
///
/// `Value` is what the kernel takes: its bytes are copied into the parameter block. What `tracked`
/// answers lives as long as every borrow in `Self`, also when the value itself is gone, and covers
/// whatever `Value` points to.
pub unsafe trait KernelArg {
    /// What the kernel sees.
    type Value: Copy;

    /// What the kernel sees.
    fn value(&self) -> Self::Value;

    /// The memory that the launch uses.
    #[doc(hidden)]
    #[inline]
    fn tracked(&self) -> Option<Tracked<'_>> {
        None
    }
}

// SAFETY: the kernel takes the value itself, which points to nothing.
unsafe impl<T: DeviceRepr> KernelArg for T {
    type Value = T;

    #[inline]
    fn value(&self) -> T {
        *self
    }
}

macro_rules! buffer_arg {
    ($(<$($lifetime:lifetime)?> $ty:ty, $access:expr;)*) => {
        $(
            // SAFETY: the kernel takes the address; the memory is its own, borrowed as `Self`
            // borrows it.
            unsafe impl<$($lifetime,)? T: DeviceRepr> KernelArg for $ty {
                type Value = CUdeviceptr;

                #[inline]
                fn value(&self) -> CUdeviceptr {
                    self.as_raw()
                }

                #[inline]
                fn tracked(&self) -> Option<Tracked<'_>> {
                    Some(Tracked {
                        memory: Some(&self.memory),
                        access: $access(self),
                        address: self.as_raw(),
                        bytes: self.reach(),
                        graph: 0,
                    })
                }
            }
        )*
    };
}

buffer_arg! {
    <> &DeviceBuffer<T>, |_| Access::READ;
    <> &mut DeviceBuffer<T>, |_| Access::WRITE;
    <> &Global<T>, |_| Access::READ;
    <> &mut Global<T>, |_| Access::WRITE;
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
}

macro_rules! own_arg {
    ($($ty:ty, $access:expr;)*) => {
        $(
            // SAFETY: the kernel takes the address; launches outside of the graph are errors.
            unsafe impl<T: DeviceRepr> KernelArg for $ty {
                type Value = CUdeviceptr;

                #[inline]
                fn value(&self) -> CUdeviceptr {
                    self.as_raw()
                }

                #[inline]
                fn tracked(&self) -> Option<Tracked<'_>> {
                    Some(Tracked {
                        memory: None,
                        access: $access,
                        address: self.as_raw(),
                        bytes: self.reach(),
                        graph: self.graph(),
                    })
                }
            }
        )*
    };
}

own_arg! {
    &GraphAllocation<T>, Access::READ;
    &mut GraphAllocation<T>, Access::WRITE;
}

impl Tracked<'_> {
    /// Makes the launch's stream wait for the uses that matter to this one.
    pub(super) fn before(self, scope: &Scope<'_>) -> Result<()> {
        match self.memory {
            Some(memory) => memory.tracker.before(scope, self.access),
            None => Err(Error::Unsupported {
                what: "memory of a graph outside of the graph",
            }),
        }
    }

    /// Notes the use, after the launch was queued.
    pub(super) fn after(self, scope: &mut Scope<'_>) {
        if let Some(memory) = self.memory {
            memory.tracker.after(scope, self.access);
        }
    }

    /// Whether the use is in order as it is on the stream of this identity.
    #[inline]
    pub(super) fn is_in_order(&self, stream: u64) -> bool {
        !self.access.is_signal() && self.memory.is_some_and(|it| it.tracker.is_at_home(stream))
    }

    /// Whether there is nothing to note after the launch was queued in `epoch`.
    #[inline]
    pub(super) fn is_noted(&self, stream: u64, epoch: u64) -> bool {
        !self.access.is_signal()
            && self
                .memory
                .is_some_and(|it| it.tracker.is_noted(stream, epoch))
    }
}

/// The arguments of a kernel: a tuple of up to 16 [`KernelArg`]s, or an [`ArgList`](super::ArgList)
/// of any number.
///
/// # Safety
///
/// The sizes, the pointers and the values are of the same arguments, in order.
pub unsafe trait KernelArgs {
    /// The bytes of each.
    fn sizes(&self) -> &[usize];

    /// The same in one word.
    #[doc(hidden)]
    #[inline]
    fn packed_sizes(&self) -> u128 {
        pack(self.sizes())
    }

    /// Calls `f` with a pointer to the value of each.
    #[doc(hidden)]
    fn with_pointers<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R;

    /// Calls `f` with the values: in one block, if they lie in it as the kernel has them.
    #[doc(hidden)]
    #[inline]
    fn with_values<R>(&self, layout: Layout<'_>, f: impl FnOnce(Values) -> R) -> R {
        let _ = layout;
        self.with_pointers(|pointers| f(Values::pointers(pointers)))
    }

    /// Whether all uses are in order as they are on the stream of this identity: with words that
    /// are at hand, so that nothing else happens on the way of most launches.
    #[doc(hidden)]
    fn are_in_order(&self, stream: u64) -> bool;

    /// Whether there is nothing to note after the launch was queued in `epoch`.
    #[doc(hidden)]
    fn are_noted(&self, stream: u64, epoch: u64) -> bool;

    /// Calls `f` with the memory behind each argument that has some.
    #[doc(hidden)]
    fn each_tracked(&self, f: &mut dyn FnMut(Tracked<'_>) -> Result<()>) -> Result<()>;
}

macro_rules! kernel_args {
    ($($arg:ident)*) => {
        // SAFETY: both are made from the same list.
        unsafe impl<$($arg: KernelArg),*> KernelArgs for ($($arg,)*) {
            #[inline(always)]
            fn sizes(&self) -> &[usize] {
                const { &[$(size_of::<$arg::Value>()),*] }
            }

            #[inline(always)]
            fn packed_sizes(&self) -> u128 {
                const { pack(&[$(size_of::<$arg::Value>()),*]) }
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
                // As C has them, which is where a kernel looks for them unless it aligns them
                // otherwise.
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
            fn are_noted(&self, stream: u64, epoch: u64) -> bool {
                let ($($arg,)*) = self;
                true $(&& $arg.tracked().is_none_or(|it| it.is_noted(stream, epoch)))*
            }

            #[allow(non_snake_case, unused_variables, reason = "a value has the name of its type; () has none")]
            fn each_tracked(&self, f: &mut dyn FnMut(Tracked<'_>) -> Result<()>) -> Result<()> {
                let ($($arg,)*) = self;
                $(if let Some(tracked) = $arg.tracked() { f(tracked)?; })*
                Ok(())
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
