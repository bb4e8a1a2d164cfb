//! Programs: lists of steps.

use std::collections::{BTreeMap, BTreeSet};

/// The default stream of a program, which always exists.
pub(super) const DEFAULT: usize = 0;
/// C's NULL stream, which always exists.
pub(super) const LEGACY: usize = usize::MAX;
/// The per-thread default stream, which always exists.
pub(super) const PER_THREAD: usize = usize::MAX - 1;

/// A program and the schedule under which it runs.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) seed: u64,
    /// Whether copies of pageable memory run as late as other work.
    pub(super) late_copies: bool,
    /// Whether driver calls fail at random.
    pub(super) faults: bool,
    /// Whether buffers come from a caching pool, and the limit of the pool in bytes.
    pub(super) pool: Option<usize>,
    pub(super) steps: Vec<Step>,
}

/// An action and the thread that it runs on.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) action: Action,
    /// Whether it runs on a new thread.
    pub(super) elsewhere: bool,
}

/// An action of a program. The numbers of buffers and streams are never reused.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Stream {
        id: usize,
        blocking: bool,
        /// Whether other code owns the stream.
        borrowed: bool,
    },
    DropStream(usize),
    Zeroed {
        id: usize,
        stream: usize,
        len: usize,
    },
    FromHost {
        id: usize,
        stream: usize,
        words: Vec<u32>,
    },
    Drop(usize),
    /// Runs on the stream `on`, or on the owning stream, like the three actions after it.
    Write {
        to: Part,
        words: Vec<u32>,
        on: Option<usize>,
    },
    Read {
        from: Part,
        on: Option<usize>,
    },
    Copy {
        to: Part,
        from: Part,
        on: Option<usize>,
    },
    /// Fills without a kernel.
    Set {
        to: Part,
        value: u32,
        on: Option<usize>,
    },
    /// Overwrites the first words with the words from `middle` on by a copy, or combines them by a
    /// kernel on `stream`.
    CopyWithin {
        buffer: usize,
        middle: usize,
        len: usize,
        stream: Option<usize>,
    },
    Fill {
        stream: usize,
        to: Part,
        value: u32,
    },
    Join {
        stream: usize,
        to: Part,
        a: Part,
        b: Part,
    },
    Weave {
        stream: usize,
        to: Part,
        from: Part,
        factor: u32,
    },
    /// Other code copies words.
    Foreign {
        stream: usize,
        to: Part,
        from: Part,
    },
    /// Fills both halves at the same time on two threads and two streams, and reads the lower half
    /// on its thread.
    Halves {
        buffer: usize,
        middle: usize,
        streams: [usize; 2],
        values: [u32; 2],
    },
    Synchronize(usize),
    /// Overwrites words from page-locked memory, which is dropped with its transfer: at the end of
    /// the step, or with the machine.
    Upload {
        stream: usize,
        to: Part,
        words: Vec<u32>,
        keep: bool,
    },
    /// Reads words into page-locked memory, which is owned by a transfer or borrowed by a scope.
    Download {
        stream: usize,
        from: Part,
        scoped: bool,
    },
    /// A host function blocks `gate` until the words were read through a kernel on `stream`.
    Gated {
        gate: usize,
        stream: usize,
        from: Part,
    },
    /// One stream waits for a value that another stream writes.
    Signal {
        waiting: usize,
        setting: usize,
    },
    /// Drops the kernels and loads them again.
    Reload,
}

/// A range of words of a buffer.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) buffer: usize,
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) form: Form,
}

/// The form in which words are passed to the safe layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The buffer itself.
    Whole,
    /// A view of the buffer.
    View,
    /// A piece of a split view; an ordinary view if it is only read.
    Piece,
    /// A writable alias; an ordinary view if it is only read.
    Alias,
}

impl Program {
    /// Returns the program without the steps in `range` and without the steps that depend on them.
    pub(super) fn without(&self, range: std::ops::Range<usize>) -> Self {
        let mut streams = BTreeSet::from([DEFAULT, LEGACY, PER_THREAD]);
        let mut buffers = BTreeMap::new();
        let mut kept = self.clone();
        let mut index = 0;
        kept.steps.retain(|step| {
            let is_left = !range.contains(&index);
            index += 1;
            is_left && step.action.take_place(&mut streams, &mut buffers)
        });
        kept
    }
}

impl Action {
    /// Returns the buffer that it creates or writes.
    pub(super) fn target(&self) -> Option<usize> {
        match self {
            Self::Zeroed { id, .. } | Self::FromHost { id, .. } => Some(*id),
            Self::Write { to, .. }
            | Self::Copy { to, .. }
            | Self::Set { to, .. }
            | Self::Fill { to, .. }
            | Self::Join { to, .. }
            | Self::Weave { to, .. }
            | Self::Foreign { to, .. }
            | Self::Upload { to, .. } => Some(to.buffer),
            Self::CopyWithin { buffer, .. } | Self::Halves { buffer, .. } => Some(*buffer),
            _ => None,
        }
    }

    /// Returns the buffers that it reads to compute its output.
    pub(super) fn sources(&self) -> Vec<usize> {
        match self {
            Self::Read { from, .. }
            | Self::Copy { from, .. }
            | Self::Weave { from, .. }
            | Self::Foreign { from, .. }
            | Self::Download { from, .. }
            | Self::Gated { from, .. } => vec![from.buffer],
            Self::Join { a, b, .. } => vec![a.buffer, b.buffer],
            _ => Vec::new(),
        }
    }

    /// Returns whether it creates something that later steps may need.
    pub(super) fn makes(&self) -> bool {
        matches!(
            self,
            Self::Stream { .. } | Self::Zeroed { .. } | Self::FromHost { .. }
        )
    }

    /// Returns whether everything that it needs exists; if so, records what it creates and
    /// destroys.
    fn take_place(
        &self,
        streams: &mut BTreeSet<usize>,
        buffers: &mut BTreeMap<usize, usize>,
    ) -> bool {
        let has = |parts: &[&Part]| parts.iter().all(|part| buffers.contains_key(&part.buffer));
        let runs_on = |on: &Option<usize>| on.is_none_or(|id| streams.contains(&id));
        match self {
            Self::Stream { id, .. } => streams.insert(*id),
            Self::DropStream(id) => streams.remove(id),
            Self::Zeroed { id, stream, len } => {
                streams.contains(stream) && buffers.insert(*id, *len).is_none()
            }
            Self::FromHost { id, stream, words } => {
                streams.contains(stream) && buffers.insert(*id, words.len()).is_none()
            }
            Self::Drop(id) => buffers.remove(id).is_some(),
            Self::Write { to, on, .. } | Self::Set { to, on, .. } => runs_on(on) && has(&[to]),
            Self::Read { from, on } => runs_on(on) && has(&[from]),
            Self::Copy { to, from, on } => runs_on(on) && has(&[to, from]),
            Self::CopyWithin { buffer, stream, .. } => {
                buffers.contains_key(buffer) && runs_on(stream)
            }
            Self::Fill { stream, to, .. } => streams.contains(stream) && has(&[to]),
            Self::Join { stream, to, a, b } => streams.contains(stream) && has(&[to, a, b]),
            Self::Weave {
                stream, to, from, ..
            }
            | Self::Foreign { stream, to, from } => streams.contains(stream) && has(&[to, from]),
            Self::Halves {
                buffer,
                streams: both,
                ..
            } => buffers.contains_key(buffer) && both.iter().all(|id| streams.contains(id)),
            Self::Synchronize(stream) => streams.contains(stream),
            Self::Upload { stream, to, .. } => streams.contains(stream) && has(&[to]),
            Self::Download { stream, from, .. } => streams.contains(stream) && has(&[from]),
            Self::Gated { gate, stream, from } => {
                streams.contains(gate) && streams.contains(stream) && has(&[from])
            }
            Self::Signal { waiting, setting } => {
                streams.contains(waiting) && streams.contains(setting)
            }
            Self::Reload => true,
        }
    }
}

impl Part {
    pub(super) fn whole(buffer: usize, len: usize) -> Self {
        Self {
            buffer,
            start: 0,
            len,
            form: Form::Whole,
        }
    }
}
