//! The bytes by which another process finds an allocation.

use std::fmt;

use cuda_sys::{CUipcMemHandle, CUmemPoolPtrExportData};

/// Declares a handle of 64 bytes.
macro_rules! handle {
    ($(#[$meta:meta])* $name:ident($raw:ident)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name([u8; Self::BYTES]);

        impl $name {
            /// The number of bytes.
            pub const BYTES: usize = size_of::<$raw>();

            /// Returns the handle that another process has sent as bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
                Self(bytes)
            }

            /// Returns the bytes, which the program sends to another process.
            #[must_use]
            pub const fn to_bytes(self) -> [u8; Self::BYTES] {
                self.0
            }

            pub(crate) fn of_raw(raw: $raw) -> Self {
                // The bytes have the type `char` in C, whose sign depends on the target.
                Self(raw.reserved.map(|byte| byte as u8))
            }

            pub(crate) fn raw(self) -> $raw {
                $raw {
                    reserved: self.0.map(|byte| byte as _),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}(", stringify!($name))?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(")")
            }
        }
    };
}

handle! {
    /// The handle by which a process that has imported a pool opens an allocation of this
    /// [`MemoryPool`](crate::memory::MemoryPool).
    #[doc(alias = "CUmemPoolPtrExportData")]
    #[doc(alias = "cudaMemPoolPtrExportData")]
    PoolPointer(CUmemPoolPtrExportData)
}

handle! {
    /// The handle by which another process opens an allocation outside of any pool (`cuMemAlloc`,
    /// `cudaMalloc`). PyTorch shares its tensors through such handles.
    #[doc(alias = "CUipcMemHandle")]
    #[doc(alias = "cudaIpcMemHandle_t")]
    IpcMemoryHandle(CUipcMemHandle)
}

/// The handle by which another process opens the memory of an
/// [`ExportedBuffer`](super::ExportedBuffer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryHandle {
    /// Memory of a pool, which [`ImportedPool::open`](super::ImportedPool::open) opens.
    Pool(PoolPointer),
    /// Memory outside of any pool, which [`IpcMemoryHandle::open`] opens.
    Ipc(IpcMemoryHandle),
}
