//! A thread that uses the device while Python does something else.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use cuda_driver::prelude::*;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

const LEN: u32 = 1 << 16;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A thread that was started by `Session.start_worker`.
#[pyclass]
#[derive(Debug)]
pub(crate) struct Worker {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<Fallible<u64>>>,
}

/// The objects that the thread uses. Everything is created before the thread starts.
struct Work {
    affine: SafeKernel,
    streams: [Stream; 2],
    source: DeviceBuffer<f32>,
    result: DeviceBuffer<f32>,
    /// `None` only during a copy.
    pinned: Option<PinnedBuffer<f32>>,
    allocates: bool,
}

impl Worker {
    pub(crate) fn start(context: &Context, affine: &SafeKernel, allocates: bool) -> Fallible<Self> {
        let new_stream = || Stream::new(context, StreamFlags::NON_BLOCKING, 0);
        let streams = [new_stream()?, new_stream()?];
        let len = LEN as usize;
        let mut work = Work {
            affine: affine.clone(),
            source: DeviceBuffer::zeroed(&streams[0], len)?,
            result: DeviceBuffer::zeroed(&streams[1], len)?,
            pinned: Some(PinnedBuffer::zeroed(context, len, PinnedFlags::DEFAULT)?),
            streams,
            allocates,
        };
        // The first round loads the kernel, proves its accesses, and allocates the memory that
        // later rounds reuse.
        work.round(0)?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopped);
        let run = move || {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) {
                rounds += 1;
                work.round(rounds)?;
            }
            Ok(rounds)
        };
        Ok(Self {
            is_stopped,
            thread: Some(thread::spawn(run)),
        })
    }
}

impl Work {
    /// Fills a buffer on one stream, computes another one from it on a second stream, and copies
    /// the result to the host in two ways.
    fn round(&mut self, number: u64) -> Fallible<()> {
        let value = (number % 1000) as f32;
        let expected = value * 3.0 + 1.0;
        let [one, two] = &self.streams;
        self.source.fill(value)?;
        let config = LaunchConfig::for_num_elems(LEN)?;
        let args = (&self.source, &mut self.result, 3.0_f32, 1.0_f32, LEN);
        // Launches as proven: a checked copy would be loaded and would allocate, which breaks a
        // capture of other code.
        two.launch_safe(&self.affine, config, args)?;
        if let Some(pinned) = self.pinned.take() {
            let copy = self.result.copy_to_pinned_async(pinned, one);
            let pinned = copy.map_err(|error| error.to_string())?.wait()?;
            check(number, &pinned, expected)?;
            self.pinned = Some(pinned);
        }
        check(number, &self.result.to_vec()?, expected)?;
        if self.allocates {
            let scratch = DeviceBuffer::filled(one, LEN as usize, value)?;
            let event = one.record_event()?;
            two.synchronize()?;
            let _ = event.is_done()?;
            check(number, &scratch.to_vec()?, value)?;
        }
        Ok(())
    }
}

fn check(round: u64, numbers: &[f32], expected: f32) -> Fallible<()> {
    match numbers.iter().find(|number| **number != expected) {
        None => Ok(()),
        Some(number) => Err(format!("round {round}: {number}, expected {expected}").into()),
    }
}

#[pymethods]
impl Worker {
    /// Stops the thread and returns the number of rounds whose results were right. Raises an
    /// exception if a result was wrong or a call failed.
    fn stop(&mut self, py: Python<'_>) -> PyResult<u64> {
        self.is_stopped.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return Err(PyRuntimeError::new_err("the worker was stopped before"));
        };
        match py.detach(|| thread.join()) {
            Ok(Ok(rounds)) => Ok(rounds),
            Ok(Err(error)) => Err(PyRuntimeError::new_err(error.to_string())),
            Err(_) => Err(PyRuntimeError::new_err("the worker panicked")),
        }
    }
}
