//! Runs programs on a software device through the safe layer.

use cuda_driver::memory::Unpooled;
use std::any::Any;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::error::{Error, Result, Status};
use cuda_driver::memory::CachingPool;
use cuda_driver::prelude::*;
use cuda_driver::stream::WaitCondition;
use cuda_sim::{Builder, Rule, Simulator};
use cuda_sys::CUstream;
use fastrand::Rng;

use super::program::{Action, DEFAULT, Form, LEGACY, PER_THREAD, Part, Program, Step};
use crate::support::{late, simulator};

const KERNELS: &str = include_str!("../kernels/programs.ptx");

/// The device and the objects of a running program.
pub(super) struct Machine {
    simulator: Simulator,
    context: Context,
    streams: BTreeMap<usize, Stream>,
    buffers: BTreeMap<usize, DeviceBuffer<u32>>,
    pool: Option<CachingPool>,
    kernels: Kernels,
    transfers: Mutex<Vec<Transfer<PinnedBuffer<u32>>>>,
}

/// A stream that other code creates and destroys.
struct ForeignStream {
    driver: Driver,
    raw: CUstream,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for ForeignStream {}
// SAFETY: as above.
unsafe impl Sync for ForeignStream {}

impl ForeignStream {
    fn borrow(context: &Context, flags: StreamFlags) -> Result<Stream> {
        let _current = context.make_current()?;
        let driver = context.driver().clone();
        let mut raw = ptr::null_mut();
        // In programs with faults, a few of these calls fail.
        loop {
            // SAFETY: the pointer is to a local.
            let status = unsafe { driver.library().cuStreamCreate(&raw mut raw, flags.bits()) };
            if status.is_success() {
                break;
            }
        }
        let owner = Self { driver, raw };
        // SAFETY: the stream is alive until the owner is dropped, and nothing captures it.
        unsafe { Stream::borrow_raw(context, raw, owner) }
    }
}

impl Drop for ForeignStream {
    fn drop(&mut self) {
        loop {
            // SAFETY: nothing uses the stream any more.
            let status = unsafe { self.driver.library().cuStreamDestroy_v2(self.raw) };
            if status.is_success() {
                break;
            }
        }
    }
}

struct Kernels {
    fill: Function,
    join: Function,
    weave: Function,
}

impl Kernels {
    fn load(context: &Context) -> Result<Self> {
        let module = Module::load(context, &Ptx::new(KERNELS).unwrap())?;
        Ok(Self {
            fill: module.function("fill")?,
            join: module.function("join")?,
            weave: module.function("weave")?,
        })
    }
}

impl Machine {
    pub(super) fn new(program: &Program) -> Result<Self> {
        let builder: Builder = late(program.seed).late_pageable_copies(program.late_copies);
        let simulator = simulator(&builder);
        let driver = Driver::new(simulator.library().unwrap())?;
        let context = driver.device(0)?.primary_context()?;
        let kernels = Kernels::load(&context)?;
        let streams = BTreeMap::from([
            (DEFAULT, context.default_stream()?),
            (LEGACY, context.legacy_stream()),
            (PER_THREAD, context.per_thread_stream()),
        ]);
        if program.faults {
            let rule = Rule::new(Status::CUDA_ERROR_UNKNOWN);
            simulator.add_rule(rule.random(0.02, program.seed));
        }
        let pool = program
            .pool
            .map(|limit| CachingPool::with_limit(&context, limit));
        Ok(Self {
            simulator,
            pool,
            context,
            streams,
            buffers: BTreeMap::new(),
            kernels,
            transfers: Mutex::default(),
        })
    }

    /// Runs a step; returns the words that it reads, if any.
    pub(super) fn step(&mut self, step: &Step) -> Result<Option<Vec<u32>>> {
        if step.elsewhere {
            thread::scope(|scope| {
                let thread = scope.spawn(|| self.act(&step.action));
                thread.join().unwrap()
            })
        } else {
            self.act(&step.action)
        }
    }

    fn act(&mut self, action: &Action) -> Result<Option<Vec<u32>>> {
        match action {
            Action::Stream {
                id,
                blocking,
                borrowed,
            } => {
                let flags = if *blocking {
                    StreamFlags::empty()
                } else {
                    StreamFlags::NON_BLOCKING
                };
                let stream = if *borrowed {
                    ForeignStream::borrow(&self.context, flags)?
                } else {
                    Stream::new(&self.context, flags, 0)?
                };
                self.streams.insert(*id, stream);
            }
            Action::DropStream(id) => drop(self.streams.remove(id)),
            Action::Zeroed { id, stream, len } => {
                let stream = &self.streams[stream];
                let buffer = match &self.pool {
                    Some(pool) => DeviceBuffer::zeroed_in(pool, stream, *len)?,
                    None => DeviceBuffer::zeroed(stream, *len)?,
                };
                self.buffers.insert(*id, buffer);
            }
            Action::FromHost { id, stream, words } => {
                let stream = &self.streams[stream];
                let buffer = match &self.pool {
                    Some(pool) => DeviceBuffer::from_host_in(pool, stream, words)?,
                    None => DeviceBuffer::from_host(stream, words)?,
                };
                self.buffers.insert(*id, buffer);
            }
            Action::Drop(id) => drop(self.buffers.remove(id)),
            Action::Write { to, words, on } => {
                self.with(to, |machine, mut to| match on {
                    Some(on) => to.copy_from_host_on(words, &machine.streams[on]),
                    None => to.copy_from_host(words),
                })?;
            }
            Action::Read { from, on: None } => return self.view(from).to_vec().map(Some),
            Action::Read { from, on: Some(on) } => {
                let mut words = vec![0; from.len];
                let view = self.view(from);
                view.copy_to_host_on(&mut words, &self.streams[on])?;
                return Ok(Some(words));
            }
            Action::Copy { to, from, on } => {
                self.with(to, |machine, mut to| match on {
                    Some(on) => to.copy_from_on(machine.view(from), &machine.streams[on]),
                    None => to.copy_from(machine.view(from)),
                })?;
            }
            Action::Set { to, value, on } => {
                self.with(to, |machine, mut to| match on {
                    Some(on) => to.fill_on(*value, &machine.streams[on]),
                    None => to.fill(*value),
                })?;
            }
            Action::CopyWithin {
                buffer,
                middle,
                len,
                stream,
            } => self.within(*buffer, *middle, *len, *stream)?,
            Action::Fill { stream, to, value } => {
                self.with(to, |machine, to| machine.fill(*stream, to, *value))?;
            }
            Action::Join { stream, to, a, b } => {
                let n = to.len as u32;
                self.with(to, |machine, view| {
                    let (a, b) = (machine.view(a), machine.view(b));
                    let (stream, kernel) = (&machine.streams[stream], &machine.kernels.join);
                    // SAFETY: the kernel reads n words of `a` and `b` each and writes n words of
                    // `to`; each has n.
                    unsafe { stream.launch(kernel, block(n), (view, a, b, n)) }
                })?;
            }
            Action::Weave {
                stream,
                to,
                from,
                factor,
            } => self.weave(*stream, to, from, *factor)?,
            Action::Foreign { stream, to, from } => {
                let stream = &self.streams[stream].clone();
                self.with(to, |machine, to| machine.foreign(stream, to, from))?;
            }
            Action::Halves {
                buffer,
                middle,
                streams,
                values,
            } => return self.halves(*buffer, *middle, *streams, *values).map(Some),
            Action::Synchronize(stream) => self.streams[stream].synchronize()?,
            Action::Upload {
                stream,
                to,
                words,
                keep,
            } => {
                let pinned = PinnedBuffer::from_host(&self.context, words, PinnedFlags::empty())?;
                let transfer = self.with(to, |machine, mut to| {
                    Ok(to.copy_from_pinned_async(pinned, &machine.streams[stream])?)
                })?;
                if *keep {
                    self.transfers.lock().unwrap().push(transfer);
                }
            }
            Action::Download {
                stream,
                from,
                scoped,
            } => return self.download(*stream, from, *scoped).map(Some),
            Action::Gated { gate, stream, from } => {
                return self.gated(*gate, *stream, from).map(Some);
            }
            Action::Signal { waiting, setting } => {
                let (waiting, setting) = (&self.streams[waiting], &self.streams[setting]);
                let mut flag = DeviceBuffer::zeroed_in(&Unpooled, setting, 2)?;
                flag.copy_from_host(&[0_u32, 7])?;
                waiting.wait_value(&flag, 0, WaitCondition::EQUAL, 1)?;
                setting.write_value(&flag, 0, 1)?;
            }
            Action::Reload => self.kernels = Kernels::load(&self.context)?,
        }
        Ok(None)
    }

    fn download(&self, stream: usize, from: &Part, scoped: bool) -> Result<Vec<u32>> {
        let stream = &self.streams[&stream];
        let mut pinned = PinnedBuffer::zeroed(&self.context, from.len, PinnedFlags::empty())?;
        let view = self.view(from);
        if scoped {
            stream.copy_scope(|scope| scope.copy_to_host(view, &mut pinned))?;
        } else {
            pinned = view.copy_to_pinned_async(pinned, stream)?.wait()?;
        }
        Ok(pinned.to_vec())
    }

    /// Reads words while a host function blocks `gate`. Returns no words if the read was held up
    /// until the host function timed out.
    fn gated(&self, gate: usize, stream: usize, from: &Part) -> Result<Vec<u32>> {
        let stream = &self.streams[&stream];
        let (open, opened) = mpsc::channel::<()>();
        let was_held_up = Arc::new(AtomicBool::new(false));
        let held_up = Arc::clone(&was_held_up);
        let call = self.streams[&gate].launch_host(move || {
            let timeout = opened.recv_timeout(Duration::from_secs(4));
            held_up.store(timeout == Err(RecvTimeoutError::Timeout), Ordering::SeqCst);
        })?;
        let n = from.len as u32;
        let mut words = DeviceBuffer::<u32>::zeroed(stream, from.len)?;
        let args = (&mut words, self.view(from), 1_u32, n);
        // SAFETY: the kernel reads n words of `from` and reads and writes n words of `words`; each
        // has n.
        unsafe { stream.launch(&self.kernels.weave, block(n), args) }?;
        let words = words.to_vec()?;
        drop(open);
        call.wait()?;
        if was_held_up.load(Ordering::SeqCst) {
            return Ok(Vec::new());
        }
        Ok(words)
    }

    fn view(&self, part: &Part) -> DeviceSlice<'_, u32> {
        let buffer = &self.buffers[&part.buffer];
        if part.form == Form::Whole {
            return buffer.as_slice();
        }
        buffer.slice(part.start..part.start + part.len).unwrap()
    }

    /// Takes the buffer of `part` out of the map while `f` writes to it.
    fn with<R>(
        &mut self,
        part: &Part,
        f: impl FnOnce(&Self, DeviceSliceMut<'_, u32>) -> Result<R>,
    ) -> Result<R> {
        let mut buffer = self.buffers.remove(&part.buffer).unwrap();
        let result = match part.form {
            Form::Whole => f(self, buffer.as_mut_slice()),
            Form::View => {
                let view = buffer.slice_mut(part.start..part.start + part.len);
                f(self, view.unwrap())
            }
            Form::Piece => {
                let (_, upper) = buffer.as_mut_slice().split_at_mut(part.start).unwrap();
                f(self, upper.split_at_mut(part.len).unwrap().0)
            }
            Form::Alias => {
                // SAFETY: one call must not receive overlapping views, and no other thread uses the
                // buffer ← the program passes other buffers beside it, and `buffer` is local.
                let alias = unsafe { buffer.alias_mut() }?;
                let view = alias.into_slice(part.start..part.start + part.len);
                f(self, view.unwrap())
            }
        };
        self.buffers.insert(part.buffer, buffer);
        result
    }

    fn fill(&self, stream: usize, to: DeviceSliceMut<'_, u32>, value: u32) -> Result<()> {
        let n = to.len() as u32;
        // SAFETY: the kernel writes n words, the length of the view.
        unsafe { self.streams[&stream].launch(&self.kernels.fill, block(n), (to, value, n)) }
    }

    /// Copies words by a raw copy, which `using` orders.
    fn foreign(&self, stream: &Stream, to: DeviceSliceMut<'_, u32>, from: &Part) -> Result<()> {
        let from = self.view(from);
        let (target, source, bytes) = (to.as_raw(), from.as_raw(), 4 * from.len());
        // SAFETY: both ranges have `bytes` bytes, which the stream may use meanwhile.
        let copy = |_| unsafe { stream.copy_raw(target, source, bytes, ()) };
        // SAFETY: the copy is queued on the stream, reads `from` and writes `to`.
        unsafe { stream.using((to, from), copy) }?
    }

    fn weave(&mut self, stream: usize, to: &Part, from: &Part, factor: u32) -> Result<()> {
        let n = to.len as u32;
        if to.form == Form::Whole && from.form == Form::Whole {
            // Passes the buffers themselves as arguments.
            let mut buffer = self.buffers.remove(&to.buffer).unwrap();
            let args = (&mut buffer, &self.buffers[&from.buffer], factor, n);
            // SAFETY: the kernel reads n words of `from` and reads and writes n words of `to`; each
            // has n.
            let result =
                unsafe { self.streams[&stream].launch(&self.kernels.weave, block(n), args) };
            self.buffers.insert(to.buffer, buffer);
            return result;
        }
        self.with(to, |machine, view| {
            let args = (view, machine.view(from), factor, n);
            // SAFETY: as above.
            unsafe { machine.streams[&stream].launch(&machine.kernels.weave, block(n), args) }
        })
    }

    fn within(
        &mut self,
        buffer: usize,
        middle: usize,
        len: usize,
        stream: Option<usize>,
    ) -> Result<()> {
        let buffer = self.buffers.get_mut(&buffer).unwrap();
        let (lower, upper) = buffer.as_mut_slice().split_at_mut(middle).unwrap();
        let mut to = lower.into_slice(..len).unwrap();
        let from = upper.as_slice().slice(..len).unwrap();
        let Some(stream) = stream else {
            return to.copy_from(from);
        };
        let n = len as u32;
        // SAFETY: the kernel reads n words of `from` and reads and writes n words of `to`; each has
        // n.
        unsafe { self.streams[&stream].launch(&self.kernels.weave, block(n), (to, from, 1_u32, n)) }
    }

    fn halves(
        &mut self,
        id: usize,
        middle: usize,
        streams: [usize; 2],
        values: [u32; 2],
    ) -> Result<Vec<u32>> {
        let mut buffer = self.buffers.remove(&id).unwrap();
        let (mut lower, upper) = buffer.as_mut_slice().split_at_mut(middle).unwrap();
        let machine = &*self;
        let words = thread::scope(|scope| {
            let thread = scope.spawn(move || machine.fill(streams[1], upper, values[1]));
            let words = machine
                .fill(streams[0], lower.reborrow(), values[0])
                .and_then(|()| lower.as_slice().to_vec());
            thread.join().unwrap()?;
            words
        });
        self.buffers.insert(id, buffer);
        words
    }

    /// Drops everything in an order derived from `seed`. Fails with a description of what is left,
    /// if anything is.
    pub(super) fn end(self, seed: u64) -> Result<(), String> {
        let mut owners: Vec<Box<dyn Any>> = vec![
            Box::new(self.context),
            Box::new(self.kernels),
            Box::new(self.pool),
        ];
        owners.extend(self.streams.into_values().map(|it| Box::new(it) as _));
        owners.extend(self.buffers.into_values().map(|it| Box::new(it) as _));
        let transfers = self.transfers.into_inner().unwrap();
        owners.extend(transfers.into_iter().map(|it| Box::new(it) as _));
        Rng::with_seed(seed).shuffle(&mut owners);
        // A resource whose release fails is leaked, so no call fails from here on.
        self.simulator.clear_rules();
        drop(owners);
        // Dropped transfers and host functions are completed by other threads.
        let start = Instant::now();
        loop {
            let live = self.simulator.live();
            if live.is_empty() {
                return Ok(());
            }
            if start.elapsed() > Duration::from_secs(5) {
                return Err(format!("after all was dropped: {live}"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn block(n: u32) -> LaunchConfig {
    LaunchConfig::new(1, n.max(1))
}

/// Describes the error.
pub(super) fn describe(error: &Error) -> String {
    format!("the safe layer returned: {error}")
}

/// Returns whether this is the injected error of programs with faults.
pub(super) fn is_planned(error: &Error) -> bool {
    error.status() == Some(Status::CUDA_ERROR_UNKNOWN)
}
