//! The calls that failed, for `cuLogs*`.

use std::collections::VecDeque;
use std::sync::Mutex;

use cuda_sys::{CUresult, Function};

use crate::lock::lock;

/// The number of calls that are kept.
const CAPACITY: usize = 256;

/// The last calls that failed, with the number of the line that comes next.
#[derive(Debug)]
pub(crate) struct Log(Mutex<(VecDeque<(&'static Function, CUresult)>, u32)>);

impl Default for Log {
    fn default() -> Self {
        Self(Mutex::new((VecDeque::with_capacity(CAPACITY), 0)))
    }
}

impl Log {
    /// Adds a call that failed. A query about unfinished work has not failed.
    ///
    /// Allocates nothing.
    pub(crate) fn add(&self, function: &'static Function, result: CUresult) {
        if result == CUresult::CUDA_ERROR_NOT_READY {
            return;
        }
        let mut inner = lock(&self.0);
        let (calls, end) = &mut *inner;
        if calls.len() == CAPACITY {
            calls.pop_front();
        }
        calls.push_back((function, result));
        *end = end.wrapping_add(1);
    }

    /// Returns the number of the line that comes next.
    pub(crate) fn end(&self) -> u32 {
        lock(&self.0).1
    }

    /// Returns the kept lines from the line `since` on, and the number of the line that comes next.
    pub(crate) fn since(&self, since: u32) -> (Vec<String>, u32) {
        let inner = lock(&self.0);
        let (calls, end) = &*inner;
        let wanted = usize::try_from(end.wrapping_sub(since)).unwrap_or(usize::MAX);
        let skipped = calls.len().saturating_sub(wanted);
        let line =
            |(function, result): &(&Function, CUresult)| format!("[CUDA][E] {function}: {result}");
        (calls.iter().skip(skipped).map(line).collect(), *end)
    }
}
