//! Page-locked bytes: the driver's, or ours where the context may end before they do.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr;

use cuda_sys::{CUresult, calls};

use super::locked::Lockable;
use super::{PinnedFlags, RegisterFlags};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::{Destroy, Handle};
use crate::stream::SendPtr;

/// Page-locked bytes. Given back without a current context, on any thread.
pub(crate) struct PinnedBlock;

/// Where they are, and if they are ours, how they were allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawBlock {
    start: SendPtr<c_void>,
    own: Option<Layout>,
}

/// What the driver locks is whole pages.
const PAGE: usize = 4096;

impl Destroy for PinnedBlock {
    type Raw = RawBlock;

    unsafe fn destroy(driver: &Driver, raw: RawBlock) -> Result<(), DriverError> {
        let start = raw.start();
        let Some(layout) = raw.own else {
            // SAFETY: the memory must be allocated and no longer used ← the handle owns it, and
            // this is its end.
            return unsafe { call!(driver, cuMemFreeHost(start)) };
        };
        // What cannot be unregistered is not freed.
        // SAFETY: the memory must be registered and no longer used by the device ← as above.
        unsafe { call!(driver, cuMemHostUnregister(start)) }?;
        // SAFETY: it must be of this layout, and not used after ← `allocate` made it so, and this
        // is its end.
        unsafe { dealloc(start.cast(), layout) };
        Ok(())
    }
}

impl Lockable for PinnedBlock {
    fn start(raw: RawBlock) -> *mut c_void {
        raw.start()
    }
}

impl RawBlock {
    /// The first byte.
    pub(crate) fn start(self) -> *mut c_void {
        self.start.0
    }
}

impl PinnedBlock {
    /// `cuMemHostAlloc(bytes, flags)`—Bytes with whatever was in that memory. There must be some.
    ///
    /// Others may destroy a borrowed context, and with it what was allocated in it; so there the
    /// memory is ours, and the driver has it registered.
    pub(crate) fn allocate(
        context: &Context,
        bytes: usize,
        flags: PinnedFlags,
    ) -> Result<Handle<Self>> {
        let driver = context.driver();
        let raw = if context.is_borrowed() {
            Self::allocate_own(context, bytes, flags)?
        } else {
            let mut start = ptr::null_mut();
            let _current = context.enter()?;
            // SAFETY: the pointer must be writable ← it is to a local.
            unsafe { call!(driver, cuMemHostAlloc(&raw mut start, bytes, flags.bits())) }
                .map_err(|error| Error::of_allocation(error, bytes))?;
            RawBlock {
                start: SendPtr(start),
                own: None,
            }
        };
        // SAFETY: nobody else must give it back ← it was made just now.
        Ok(unsafe { Handle::new(driver, raw) })
    }

    /// `cuMemHostRegister_v2(bytes, flags)` of memory of the program's allocator.
    fn allocate_own(context: &Context, bytes: usize, flags: PinnedFlags) -> Result<RawBlock> {
        let call = calls::cuMemHostRegister_v2;
        let known = PinnedFlags::PORTABLE | PinnedFlags::DEVICE_MAP;
        if !known.contains(flags) {
            return Err(Error::UnsafeFlags {
                call,
                bits: flags.difference(known).bits(),
            });
        }
        let mut flag_bits = RegisterFlags::empty();
        flag_bits.set(
            RegisterFlags::PORTABLE,
            flags.contains(PinnedFlags::PORTABLE),
        );
        flag_bits.set(
            RegisterFlags::DEVICE_MAP,
            flags.contains(PinnedFlags::DEVICE_MAP),
        );
        let out_of_memory = || {
            let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
            let error = DriverError::new(code, call, context.driver().version());
            Error::of_allocation(error, bytes)
        };
        let layout = Layout::from_size_align(bytes, PAGE).map_err(|_| out_of_memory())?;
        // SAFETY: there must be bytes ← the caller has some.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return Err(out_of_memory());
        }
        let registered = context.enter().and_then(|_current| {
            // SAFETY: the bytes must be allocated until they are unregistered ← the handle frees
            // them behind that.
            unsafe {
                call!(
                    context.driver(),
                    cuMemHostRegister_v2(start.cast(), bytes, flag_bits.bits())
                )
            }
        });
        if let Err(error) = registered {
            // SAFETY: it must be of this layout, and not used after ← it was allocated above, and
            // is not registered.
            unsafe { dealloc(start, layout) };
            return Err(Error::of_allocation(error, bytes));
        }
        Ok(RawBlock {
            start: SendPtr(start.cast()),
            own: Some(layout),
        })
    }
}
