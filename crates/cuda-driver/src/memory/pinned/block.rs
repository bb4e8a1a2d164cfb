//! Blocks of page-locked bytes.
//!
//! The driver allocates a block, except in a borrowed context: that context may end before the
//! block is dropped, so there the block comes from the program's allocator and is registered with
//! the driver.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr;

use cuda_sys::{CUresult, calls};

use super::locked::Lockable;
use super::{PinnedFlags, RegisterFlags};
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::handle::Handle;
use crate::staging_pool::{PinnedBlock, RawBlock};

/// The driver locks whole pages, so a block from the program's allocator is aligned to a page.
const PAGE: usize = 4096;

impl Lockable for PinnedBlock {
    fn start(raw: RawBlock) -> *mut c_void {
        raw.start()
    }
}

impl PinnedBlock {
    /// `cuMemHostAlloc(bytes, flags)`—Allocates page-locked bytes with undefined contents. `bytes`
    /// must not be 0.
    ///
    /// Other code may destroy a borrowed context, and the driver then frees what was allocated in
    /// it. In a borrowed context the memory therefore comes from the program's allocator and is
    /// registered.
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
            // SAFETY: the pointer must be writable ← it points to a local variable.
            unsafe { call!(driver, cuMemHostAlloc(&raw mut start, bytes, flags.bits())) }
                .map_err(|error| Error::of_page_locking(error, bytes))?;
            RawBlock::of_driver(start)
        };
        // SAFETY: no other code may free the block ← it was allocated just now.
        Ok(unsafe { Handle::new(driver, raw) })
    }

    /// `cuMemHostRegister_v2(bytes, flags)`—Allocates bytes with the program's allocator and
    /// registers them.
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
            Error::of_page_locking(error, bytes)
        };
        let layout = Layout::from_size_align(bytes, PAGE).map_err(|_| out_of_memory())?;
        // SAFETY: the layout must not have a size of 0 ← the caller passes at least one byte.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return Err(out_of_memory());
        }
        let registered = context.enter().and_then(|_current| {
            // SAFETY: the bytes must stay allocated until they are unregistered ← the handle frees
            // them only after it has unregistered them.
            unsafe {
                call!(
                    context.driver(),
                    cuMemHostRegister_v2(start.cast(), bytes, flag_bits.bits())
                )
            }
        });
        if let Err(error) = registered {
            // SAFETY: the memory must have this layout and must not be used afterwards ← it was
            // allocated above with this layout, and it is not registered.
            unsafe { dealloc(start, layout) };
            return Err(Error::of_page_locking(error, bytes));
        }
        Ok(RawBlock::of_program(start.cast(), layout))
    }
}
