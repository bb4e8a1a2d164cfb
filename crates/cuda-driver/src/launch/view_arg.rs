//! Views as arguments: of memory that is shared, and of memory of another context.

use cuda_sys::CUdeviceptr;

use super::args::{KernelArg, Tracked};
use crate::memory::{DeviceRepr, PeerSlice, PeerSliceMut, SharedSlice};
use crate::tracking::Access;
use crate::types::ArgType;

// SAFETY: `Value` must be what the kernel expects and `tracked` must cover it ← the kernel takes
// the address; `tracked` returns the memory of the buffer, which the view keeps alive as long as it
// is borrowed.
unsafe impl<T: DeviceRepr> KernelArg for &SharedSlice<T> {
    type Value = CUdeviceptr;

    const ARG_TYPE: ArgType = ArgType::Address;

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

                const ARG_TYPE: ArgType = ArgType::Address;

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
                    })
                }
            }
        )*
    };
}

peer_arg! { PeerSlice PeerSliceMut }
