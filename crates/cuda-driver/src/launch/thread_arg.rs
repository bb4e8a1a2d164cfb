//! Buffers that stay on one thread, as arguments.

use cuda_sys::CUdeviceptr;

use super::args::KernelArg;
use super::tracked::Tracked;
use crate::memory::{DeviceRepr, ThreadBuffer};
use crate::tracking::Access;
use crate::types::ArgType;

/// Implements [`KernelArg`] for borrows of a buffer that stays on one thread.
macro_rules! thread_arg {
    ($($ty:ty, $access:expr;)*) => {
        $(
            // SAFETY: `Value` must be what the kernel expects and `tracked` must cover it ← the
            // kernel takes the address; `tracked` returns the memory of the buffer, borrowed as
            // `Self` borrows it.
            unsafe impl<T: DeviceRepr> KernelArg for $ty {
                type Value = CUdeviceptr;

                const ARG_TYPE: ArgType = ArgType::address_of(T::ARG_TYPE);

                #[inline]
                fn value(&self) -> CUdeviceptr {
                    self.as_raw()
                }

                #[inline]
                fn tracked(&self) -> Option<Tracked<'_>> {
                    Some(Tracked {
                        memory: Some(&self.buffer.memory),
                        access: $access,
                        address: self.as_raw(),
                        bytes: self.buffer.as_slice().span_bytes(),
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

thread_arg! {
    &ThreadBuffer<T>, Access::READ;
    &mut ThreadBuffer<T>, Access::WRITE;
}
