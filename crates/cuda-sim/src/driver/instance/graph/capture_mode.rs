//! Capture modes, which determine the calls that are rejected during a capture.
//!
//! Each capture has a mode, and so has each thread: global, unless
//! `cuThreadExchangeStreamCaptureMode` has changed it. A call that the manual calls potentially
//! unsafe is rejected, and breaks the captures with which it conflicts:
//!
//! | the thread's mode | captures that the thread began | captures of other threads |
//! |---|---|---|
//! | global | conflict unless they are relaxed | conflict if they are global |
//! | thread-local | conflict unless they are relaxed | do not conflict |
//! | relaxed | do not conflict | do not conflict |
//!
//! Source: driver API manual, `cuThreadExchangeStreamCaptureMode`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::thread;

use crate::driver::instance::{Instance, is_alive};
use crate::driver::status::{CAPTURE_UNSUPPORTED, Status};

/// `CU_STREAM_CAPTURE_MODE_GLOBAL` and `CU_STREAM_CAPTURE_MODE_RELAXED`
pub(in crate::driver) const GLOBAL: u32 = 0;
pub(in crate::driver) const RELAXED: u32 = 2;

thread_local! {
    /// The capture mode of this thread by instance id; the default is global.
    static MODES: RefCell<HashMap<u64, u32>> = RefCell::default();
}

impl Instance {
    /// Returns the capture mode of this thread.
    fn capture_mode(&self) -> u32 {
        let mode = MODES.try_with(|modes| modes.borrow().get(&self.id).copied());
        mode.ok().flatten().unwrap_or(GLOBAL)
    }

    /// Sets the mode of this thread and returns the previous one.
    pub(in crate::driver) fn exchange_capture_mode(&self, mode: u32) -> u32 {
        let before = MODES.try_with(|modes| {
            let mut modes = modes.borrow_mut();
            if !modes.contains_key(&self.id) {
                modes.retain(|&id, _| is_alive(id));
            }
            modes.insert(self.id, mode)
        });
        // A thread whose thread-locals have been destroyed has no mode.
        before.ok().flatten().unwrap_or(GLOBAL)
    }

    /// Fails if captures conflict with a potentially unsafe call, and invalidates all of them.
    pub(in crate::driver) fn potentially_unsafe(&self) -> Status {
        if !self.graphs.is_capturing() {
            return Ok(());
        }
        let mode = self.capture_mode();
        if mode == RELAXED {
            return Ok(());
        }
        let here = thread::current().id();
        let mut conflicts = false;
        for capture in self.graphs.lock().captures.values() {
            let is_conflict = if capture.thread == here {
                capture.mode != RELAXED
            } else {
                mode == GLOBAL && capture.mode == GLOBAL
            };
            if is_conflict {
                capture.invalidate();
                conflicts = true;
            }
        }
        if conflicts {
            Err(CAPTURE_UNSUPPORTED)
        } else {
            Ok(())
        }
    }
}
