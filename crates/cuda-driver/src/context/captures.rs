//! Captures in a context: see [`Captures`](crate::driver::Captures).

use super::Context;

/// A capture in a context: no thread waits for the whole context while it exists.
pub(crate) struct Capturing {
    context: Context,
}

impl Context {
    /// Runs `call`, which would invalidate a capture, now or when the last capture has ended.
    pub(crate) fn when_quiet(&self, call: impl FnOnce() + Send + 'static) {
        self.captures().when_quiet(call);
    }
}

impl Capturing {
    /// Registers a capture, after waiting until no thread waits for the whole context.
    pub(crate) fn new(context: &Context) -> Self {
        context.captures().begin();
        Self {
            context: context.clone(),
        }
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        let deferred = self.context.captures().end();
        // The deferred calls free objects that the program dropped earlier, so they must not
        // invalidate a capture of other code.
        let _relaxed = self.context.driver().relaxed();
        for call in deferred {
            self.context.when_quiet(call);
        }
    }
}
