//! Pending work: host functions and completions that the driver reports later, and a reaper thread
//! for those that it never reports.
//!
//! Each pending entry is listed here under an id, and the driver is given only the id. Taking an
//! entry out of the list transfers its ownership, to the driver's thread or to another one, and a
//! call that comes too late finds nothing.
//!
//! A lost device calls no host functions. So while anything is pending, the reaper thread
//! regularly polls the driver and ends the entries that failed. Calls of the driver, which are not
//! allowed inside a host function, are made by worker threads.

mod closures;
mod completion;
pub(crate) mod fence;
mod host_call;
mod outcome;
mod reaper;

pub(crate) use closures::{Closure, called_again};
pub use completion::Completion;
pub use host_call::HostCall;
pub(crate) use outcome::Outcome;
pub(crate) use reaper::{add, set_fence, sweep, take};

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use crate::context::Context;
use crate::deferred::{InsideHostFunction, message_of, must_not_wait, quietly};
use crate::error::{DriverError, Error, Result};
use crate::fence::Fence;
use crate::stream_state::StreamState;

/// The id of an entry. It is never reused in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(usize);

impl Id {
    /// Returns the id as user data for the driver.
    pub(crate) fn as_data(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0)
    }
}

/// A pending entry.
pub(crate) struct Entry {
    /// The fence after the work. If it is `None`, no fence was recorded, and the entry ends through
    /// `late`, the host function, or the loss of the device.
    pub(crate) fence: Option<Fence>,
    /// Tries again to record the fence, if that failed.
    pub(crate) late: Option<Late>,
    /// The closure that the driver is to call.
    pub(crate) run: Option<Box<dyn FnOnce() + Send>>,
    /// The memory that has to stay allocated until the entry ends.
    pub(crate) memory: Option<Box<dyn KeepAlive>>,
    pub(crate) outcome: Arc<Outcome>,
    /// An internal stream, to be returned to its pool.
    pub(crate) side: Option<Arc<StreamState>>,
    /// How often polling the entry failed.
    pub(crate) failures: u32,
    /// Declared last: it has to be dropped after everything else of the entry.
    pub(crate) context: Context,
}

/// Tries again to get a fence after the pending work.
pub(crate) type Late = Arc<dyn Fn() -> LateFence + Send + Sync>;

/// The result of another attempt to get a fence.
pub(crate) enum LateFence {
    /// The work is complete.
    Complete,
    /// The fence after the work.
    Recorded(Fence),
    /// The fence cannot be recorded yet.
    NotYet,
}

/// The memory of a transfer, which is dropped when the transfer is complete.
pub(crate) trait KeepAlive: Send {
    /// Leaks the memory: the transfer failed, and the device may still be accessing it.
    fn abandon(self: Box<Self>, error: DriverError);
}

impl Entry {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            fence: None,
            late: None,
            run: None,
            memory: None,
            outcome: Arc::default(),
            side: None,
            failures: 0,
            context: context.clone(),
        }
    }

    /// Runs the closure, on the driver's thread at its position in the stream.
    fn called(mut self) {
        let result = self.run.take().map_or(Ok(()), guarded);
        self.end(result);
    }

    /// Ends an entry whose closure will never be called, or whose end will never be known.
    pub(crate) fn fail(mut self, error: DriverError) {
        if let Some(run) = self.run.take() {
            quietly(|| drop(run));
        }
        if let Some(memory) = self.memory.take() {
            if self.context.driver().is_gone() {
                // The work in a borrowed context is complete when its owner declares it dead.
                quietly(|| drop(memory));
            } else {
                quietly(|| memory.abandon(error));
            }
        }
        self.end(Err(error.into()));
    }

    /// Ends the entry. Its parts are released before waiters are notified.
    fn end(self, result: Result<()>) {
        let Self {
            fence,
            late,
            run,
            memory,
            outcome,
            side,
            failures: _,
            context,
        } = self;
        drop(run);
        drop(fence);
        drop(late);
        if let Some(side) = side {
            context.keep_internal_stream(side);
        }
        match memory {
            // Freeing the memory calls the driver.
            Some(memory) if must_not_wait() => context.driver().defer(move || drop(memory)),
            memory => quietly(|| drop(memory)),
        }
        drop(context);
        outcome.resolve(result);
    }
}

/// The function that the driver calls, with the id of an entry.
pub(crate) unsafe extern "C" fn called(data: *mut c_void) {
    let _inside = InsideHostFunction::enter();
    quietly(|| {
        if let Some(entry) = take(Id(data.addr())) {
            entry.called();
        }
    });
}

/// Calls `run` and converts a panic to an error.
fn guarded(run: Box<dyn FnOnce() + Send>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let message = message_of(&*panic);
        quietly(|| drop(panic));
        Error::HostFunctionPanicked { message }
    })
}
