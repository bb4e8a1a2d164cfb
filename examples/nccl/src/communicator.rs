//! A communicator whose calls never block for longer than the other ranks live.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::thread;
use std::time::Duration;

use cuda_driver::prelude::*;

use crate::Result;
use crate::group::Failure;
use crate::library::{Config, IN_PROGRESS, Nccl, RawCommunicator, SUCCESS, UniqueId};

/// `ncclFloat32`
const FLOAT: c_int = 7;
/// `ncclSum`
const SUM: c_int = 0;

/// The communicator of one rank. If the rank or another one fails, the operations of this rank end
/// with an error, and the communicator is aborted.
#[derive(Debug)]
pub struct Communicator {
    nccl: Nccl,
    context: Context,
    failure: Failure,
    /// Null after an abort.
    raw: RawCommunicator,
}

impl Communicator {
    /// Creates the communicator of `rank` for the device of `context`. Waits for the other ranks.
    ///
    /// # Errors
    ///
    /// Fails with the error of NCCL, or if another rank fails.
    pub fn new(
        nccl: &Nccl,
        context: &Context,
        id: UniqueId,
        (rank, ranks): (usize, usize),
        failure: &Failure,
    ) -> Result<Self> {
        let (rank, ranks) = (c_int::try_from(rank)?, c_int::try_from(ranks)?);
        let mut this = Self {
            nccl: *nccl,
            context: context.clone(),
            failure: failure.clone(),
            raw: ptr::null_mut(),
        };
        // NCCL uses the device of the current context, which must be its primary context.
        let _current = this.context.make_current()?;
        let config = Config::non_blocking();
        let init = nccl.functions.comm_init_rank_config;
        // SAFETY: the pointers must be valid for the call, and a context must be current ← they are
        // to locals, and the context was made current.
        let status = unsafe { init(&raw mut this.raw, ranks, id, rank, &raw const config) };
        nccl.check(status, this.raw)?;
        this.until_called()?;
        Ok(this)
    }

    /// Queues an all-reduce on `stream`: afterwards, each element is the sum of the elements of all
    /// ranks. All ranks must have buffers of the same length.
    ///
    /// The buffer must not come from a memory pool if two ranks are in the same process: NCCL lets
    /// kernels of one device access the buffer of the other, and enables this access for memory
    /// of `cuMemAlloc` only. Use [`Unpooled`](cuda_driver::memory::Unpooled).
    ///
    /// # Errors
    ///
    /// Fails with the error of NCCL, or if another rank fails.
    pub fn all_reduce(&mut self, stream: &Stream, buffer: &mut DeviceBuffer<f32>) -> Result<()> {
        if self.raw.is_null() {
            return Err("the communicator was aborted".into());
        }
        let _current = self.context.clone().make_current()?;
        let (address, count) = (buffer.as_raw(), buffer.len());
        // SAFETY: the work uses `buffer` only, and is queued when the closure returns ← NCCL reads
        // and writes `count` elements, and the closure waits until the call has ended.
        unsafe {
            stream.using((buffer,), |stream| {
                let queued = self.queue_all_reduce(address, count, stream.cast());
                if queued.is_err() {
                    // Nothing may be queued later.
                    self.abort();
                }
                queued
            })
        }?
    }

    /// Queues an all-reduce of `count` elements at `address`.
    fn queue_all_reduce(&self, address: u64, count: usize, stream: *mut c_void) -> Result<()> {
        let address = address as *mut c_void;
        let all_reduce = self.nccl.functions.all_reduce;
        // SAFETY: the communicator must be alive, and the memory must have `count` elements ← the
        // caller has checked the first, and passes the address of a buffer of this length.
        let status = unsafe { all_reduce(address, address, count, FLOAT, SUM, self.raw, stream) };
        self.nccl.check(status, self.raw)?;
        // A call that does not block may queue the work on another thread.
        self.until_called()
    }

    /// Waits until all work on `stream` is complete.
    ///
    /// # Errors
    ///
    /// Fails with the error of NCCL or of the stream, or if another rank fails: this rank cannot
    /// complete its operations then, and is aborted.
    pub fn wait(&mut self, stream: &Stream) -> Result<()> {
        loop {
            match stream.is_done() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    self.abort();
                    return Err(error.into());
                }
            }
            if let Err(error) = self.progress() {
                self.abort();
                return Err(error);
            }
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// Ends the communicator. Waits for the other ranks.
    ///
    /// # Errors
    ///
    /// Fails with the error of NCCL, or if another rank fails.
    pub fn finish(mut self) -> Result<()> {
        let _current = self.context.clone().make_current()?;
        // SAFETY: the communicator must be alive ← if it was aborted, it is null, which is an error
        // of the call.
        let status = unsafe { (self.nccl.functions.comm_finalize)(self.raw) };
        self.nccl.check(status, self.raw)?;
        self.until_called()?;
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        // SAFETY: the communicator must be alive and is not used afterwards ← it was finalized, and
        // its field is null.
        let status = unsafe { (self.nccl.functions.comm_destroy)(raw) };
        self.nccl.check(status, ptr::null_mut())
    }

    /// Waits until the last call has ended.
    fn until_called(&self) -> Result<()> {
        while self.progress()? == IN_PROGRESS {
            thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    /// Returns whether the last call is in progress, or the error of this or of another rank.
    fn progress(&self) -> Result<c_int> {
        self.failure.check()?;
        let mut status = SUCCESS;
        // SAFETY: the communicator must be alive, and the pointer writable ← it was not aborted,
        // and the pointer is to a local.
        let called =
            unsafe { (self.nccl.functions.comm_get_async_error)(self.raw, &raw mut status) };
        self.nccl.check(called, self.raw)?;
        self.nccl.check(status, self.raw)?;
        Ok(status)
    }

    /// Ends the operations of this rank, wherever they are.
    fn abort(&mut self) {
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        if !raw.is_null() {
            // SAFETY: the communicator must be alive and is not used afterwards ← its field is
            // null now. An error cannot be handled: the rank is failing already.
            let _ = unsafe { (self.nccl.functions.comm_abort)(raw) };
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.abort();
    }
}
