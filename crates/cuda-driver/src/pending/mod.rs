//! What the driver reports later: host functions and completions, and a thread that looks after
//! those that it never reports.
//!
//! What is pending is listed here under a number, and the number is all that the driver is given.
//! So whoever takes an entry out of the list owns it, the driver's thread or another, and a call
//! that comes too late finds nothing.
//!
//! A lost device calls no host functions. While something is pending, one thread asks the driver
//! for it now and then, and ends what failed. It also does what must not be done inside a host
//! function: calling the driver.

mod closures;
mod completion;
mod outcome;
mod watch;
mod worker;

pub(crate) use closures::{Closure, called_again};
pub use completion::Completion;
pub(crate) use outcome::Outcome;
pub(crate) use watch::{
    add, defer, in_turn, is_inside_host_function, must_defer, must_not_wait, on_worker, outside,
    set_event, settle, sweep, take, waiting,
};
pub(crate) use worker::Jobs;

use std::any::Any;
use std::ffi::c_void;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use crate::context::Context;
use crate::error::{DriverError, Error, Result};
use crate::event::UseEvent;
use crate::stream::StreamState;

/// The number of an entry. Never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(usize);

impl Id {
    /// As the driver keeps it.
    pub(crate) fn as_data(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0)
    }
}

/// Something pending.
pub(crate) struct Entry {
    /// Behind it. `None`: nothing was recorded, and only a lost device ends it, or `late`.
    pub(crate) event: Option<UseEvent>,
    /// Where no event could be had.
    pub(crate) late: Option<Late>,
    /// What the driver is to call.
    pub(crate) run: Option<Box<dyn FnOnce() + Send>>,
    /// What must stay as it is until then.
    pub(crate) keep: Option<Box<dyn Keep>>,
    pub(crate) outcome: Arc<Outcome>,
    /// A stream for hidden work, to be kept for the next.
    pub(crate) side: Option<Arc<StreamState>>,
    /// How often asking for it failed.
    pub(crate) failures: u32,
    /// Last: it goes behind all that is of it.
    pub(crate) context: Context,
}

/// Tries again to have an event behind what is pending: `None` if it is done.
pub(crate) type Late = Arc<dyn Fn() -> Result<Option<UseEvent>, DriverError> + Send + Sync>;

/// What a transfer uses: dropped when it is done.
pub(crate) trait Keep: Send {
    /// The transfer failed, and may be under way: the memory is never given back.
    fn abandon(self: Box<Self>, error: DriverError);
}

impl Entry {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            event: None,
            late: None,
            run: None,
            keep: None,
            outcome: Arc::default(),
            side: None,
            failures: 0,
            context: context.clone(),
        }
    }

    /// On the driver's thread, in its turn.
    fn called(mut self) {
        let result = self.run.take().map_or(Ok(()), guarded);
        self.end(result);
    }

    /// It will never be called, or is never known to be done.
    pub(crate) fn fail(mut self, error: DriverError) {
        if let Some(run) = self.run.take() {
            quietly(|| drop(run));
        }
        if let Some(keep) = self.keep.take() {
            if self.context.driver().is_gone() {
                // What was queued in a borrowed context is done when its owner declares it dead.
                quietly(|| drop(keep));
            } else {
                quietly(|| keep.abandon(error));
            }
        }
        self.end(Err(error.into()));
    }

    /// It is done. Whoever waits for it finds its owners released.
    fn end(self, result: Result<()>) {
        let Self {
            event,
            late,
            run,
            keep,
            outcome,
            side,
            failures: _,
            context,
        } = self;
        drop(run);
        drop(event);
        drop(late);
        if let Some(side) = side {
            context.keep_side_stream(side);
        }
        match keep {
            // Freeing it calls the driver.
            Some(keep) if must_not_wait() => defer(context.driver(), move || drop(keep)),
            keep => quietly(|| drop(keep)),
        }
        drop(context);
        outcome.resolve(result);
    }
}

/// What the driver calls.
pub(crate) unsafe extern "C" fn called(data: *mut c_void) {
    let _inside = watch::Inside::enter();
    quietly(|| {
        if let Some(entry) = take(Id(data.addr())) {
            entry.called();
        }
    });
}

/// Calls `run`; a panic of it is an error.
fn guarded(run: Box<dyn FnOnce() + Send>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let message = message_of(&*panic);
        quietly(|| drop(panic));
        Error::HostFunctionPanicked { message }
    })
}

/// Does something of which a panic is nobody's to see: the panic hook has told of it.
fn quietly(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        // Dropping it could panic again.
        mem::forget(panic);
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}
