//! Device memory as a dma-buf, the type of file descriptor by which drivers of Linux share memory
//! (`cuMemGetHandleForAddressRange`).

use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};

use cuda_sys::CUmemRangeHandleType;

use super::{DeviceRepr, DeviceSlice};
use crate::driver::call;
use crate::error::{Error, RangeError, Result};

/// The smallest page of a host: the pages of all supported hosts are multiples of it.
const PAGE: usize = 4096;

/// Other devices and drivers.
impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// `cuMemGetHandleForAddressRange()`—Returns a file descriptor of the type dma-buf for the
    /// memory of this view. Network adapters, NVMe devices, and APIs such as Vulkan import it.
    ///
    /// The call waits for nothing. Nothing orders the uses of the importer with those of this
    /// program, except waits of the host and a message. Once the buffer is dropped, its memory may
    /// belong to another buffer, so importers must be done with it by then.
    ///
    /// # Errors
    ///
    /// - [`Error::Unsupported`] if the device has no such descriptors
    ///   ([`Device::has_dma_buf`](crate::Device::has_dma_buf)), or if the view has 0 bytes.
    /// - [`Error::OutOfRange`] if the address or the size in bytes is not a multiple of 4096. The
    ///   driver refuses those that are not multiples of a larger page of the host.
    /// - `CUDA_ERROR_INVALID_VALUE` or `CUDA_ERROR_NOT_SUPPORTED` for memory that the driver cannot
    ///   export. Memory of [`Unpooled`](super::Unpooled) and mapped memory are the best choices.
    #[doc(alias = "cuMemGetHandleForAddressRange")]
    #[doc(alias = "CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD")]
    pub fn export_dma_buf(&self) -> Result<OwnedFd> {
        let (context, bytes) = (self.context(), self.bytes());
        if bytes == 0 {
            return Err(Error::Unsupported {
                what: "a dma-buf of 0 bytes; export at least one page",
            });
        }
        for (what, given) in [
            ("the address of the memory", self.as_raw() as usize),
            ("the size of the memory in bytes", bytes),
        ] {
            if !given.is_multiple_of(PAGE) {
                return Err(Error::from(RangeError::NotMultiple {
                    what,
                    given,
                    of: PAGE,
                }));
            }
        }
        if !context.device().has_dma_buf()? {
            return Err(Error::Unsupported {
                what: "exporting the memory of this device as a dma-buf, which the driver reports \
                       as impossible (`Device::has_dma_buf`),",
            });
        }
        let _current = context.enter()?;
        let mut raw: c_int = -1;
        // SAFETY: the pointer must be to a place for a descriptor, and the range must be memory of
        // the device ← it points to a local variable, and the view borrows the memory.
        unsafe {
            call!(
                context.driver(),
                cuMemGetHandleForAddressRange(
                    (&raw mut raw).cast(),
                    self.as_raw(),
                    bytes,
                    CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                    0
                )
            )
        }?;
        // SAFETY: the descriptor must be open and have no other owner ← the driver created it.
        Ok(unsafe { OwnedFd::from_raw_fd(raw) })
    }
}
