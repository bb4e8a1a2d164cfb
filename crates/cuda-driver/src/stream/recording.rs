//! Streams whose calls an eager capture captures. C has no counterpart: there, the stream itself is
//! put into capture.
//!
//! The stream of the program is not put into capture. While a capture is active, each call on the
//! stream asks for its recorder, which captures the call on a stream of its own. A call that cannot
//! be captured is refused, and so is each call of another thread. A call of another thread that
//! races with the begin of the capture runs at once, as if it had been made earlier. Frees and
//! fences that this crate queues itself do not ask: they run on the stream at all times.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

use super::Stream;
use crate::error::{Error, Result};

thread_local! {
    /// The streams whose calls this thread captures, each with its recorder.
    static RECORDERS: RefCell<Vec<(u64, Rc<dyn Any>)>> = const { RefCell::new(Vec::new()) };
}

/// The registration of a recorder for the calls of this thread on a stream.
pub(crate) struct Recording {
    stream: Stream,
    /// The registration belongs to this thread.
    one_thread: PhantomData<Rc<()>>,
}

impl Recording {
    /// Makes `recorder` capture the calls of this thread on `stream`.
    ///
    /// # Errors
    ///
    /// [`Error::EagerCapture`] if another eager capture of the stream exists.
    pub(crate) fn begin(
        stream: &Stream,
        call: &'static str,
        recorder: impl FnOnce() -> Result<Rc<dyn Any>>,
    ) -> Result<Self> {
        if !stream.state().claim_recorder() {
            return Err(stream.refusal(call));
        }
        // From here on the drop ends the claim.
        let this = Self {
            stream: stream.clone(),
            one_thread: PhantomData,
        };
        let entry = (stream.state().shared_id(), recorder()?);
        // Fails only while the thread ends.
        RECORDERS
            .try_with(|all| all.borrow_mut().push(entry))
            .map_err(|_| Error::Unsupported {
                what: "an eager capture in the destructor of a thread-local value; capture before \
                       the thread ends",
            })?;
        stream.state().set_recorded(true);
        Ok(this)
    }

    /// Returns the stream.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Runs `calls` while calls on the stream are not captured.
    pub(crate) fn suspended<R>(&self, calls: impl FnOnce() -> R) -> R {
        struct Restore<'a>(&'a Recording, bool);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.stream.state().set_recorded(self.1);
            }
        }
        let state = self.stream.state();
        let restore = Restore(self, state.is_recorded());
        state.set_recorded(false);
        let result = calls();
        drop(restore);
        result
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let id = self.stream.state().shared_id();
        // Fails only while the thread ends.
        let removed = RECORDERS.try_with(|all| {
            let mut all = all.borrow_mut();
            let at = all.iter().position(|(stream, _)| *stream == id);
            at.map(|at| all.swap_remove(at))
        });
        self.stream.state().release_recorder();
        // Dropped here, while nothing is borrowed.
        drop(removed);
    }
}

impl Stream {
    /// Fails if an eager capture captures the calls on this stream: `call` is not one that it can
    /// capture, or another thread captures.
    #[inline]
    pub(crate) fn expect_direct(&self, call: &'static str) -> Result<()> {
        if self.state().is_recorded() {
            return Err(self.refusal(call));
        }
        Ok(())
    }

    /// Returns the recorder that captures the calls of this thread on this stream, or `None` if
    /// calls are not captured.
    ///
    /// # Errors
    ///
    /// [`Error::EagerCapture`] if another thread captures the calls on this stream.
    #[inline]
    pub(crate) fn recorder_for(&self, call: &'static str) -> Result<Option<Rc<dyn Any>>> {
        if self.state().is_recorded() {
            self.own_recorder().map(Some).ok_or(Error::EagerCapture {
                call,
                is_elsewhere: true,
            })
        } else {
            Ok(None)
        }
    }

    #[cold]
    fn own_recorder(&self) -> Option<Rc<dyn Any>> {
        let id = self.state().shared_id();
        let found = RECORDERS.try_with(|all| {
            let all = all.borrow();
            let own = all.iter().find(|(stream, _)| *stream == id);
            own.map(|(_, recorder)| Rc::clone(recorder))
        });
        found.ok().flatten()
    }

    #[cold]
    fn refusal(&self, call: &'static str) -> Error {
        Error::EagerCapture {
            call,
            is_elsewhere: self.own_recorder().is_none(),
        }
    }
}
