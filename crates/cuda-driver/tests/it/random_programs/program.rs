//! Programs: lists of steps, made from a seed.

use std::collections::{BTreeMap, BTreeSet};

/// The stream that is always there.
pub(super) const DEFAULT: usize = 0;
/// C's NULL stream, which is always there.
pub(super) const LEGACY: usize = usize::MAX;
/// The per-thread default stream, which is always there.
pub(super) const PER_THREAD: usize = usize::MAX - 1;

/// A program, and the schedule that it runs under.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) seed: u64,
    /// Whether copies of pageable memory are queued as all others.
    pub(super) late_copies: bool,
    /// Whether calls of the driver fail now and then.
    pub(super) faults: bool,
    /// Whether buffers are of a caching pool, and the most bytes that it may have.
    pub(super) pool: Option<usize>,
    pub(super) steps: Vec<Step>,
}

/// What is done, and where.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) action: Action,
    /// On a thread made for it.
    pub(super) elsewhere: bool,
}

/// Buffers and streams go by numbers that are used once.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Stream {
        id: usize,
        blocking: bool,
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
    Write {
        to: Part,
        words: Vec<u32>,
    },
    Read(Part),
    Copy {
        to: Part,
        from: Part,
    },
    /// The words from `middle` on over the first ones: by a copy, or on `stream` woven into them.
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
    /// Fills both halves, at the same time on two threads and two streams, and reads the lower one
    /// on its thread.
    Halves {
        buffer: usize,
        middle: usize,
        streams: [usize; 2],
        values: [u32; 2],
    },
    Synchronize(usize),
    /// Overwrites words from page-locked memory, which goes with its transfer: at the end of the
    /// step, or with the machine.
    Upload {
        stream: usize,
        to: Part,
        words: Vec<u32>,
        keep: bool,
    },
    /// Reads words to page-locked memory, owned by a transfer or borrowed by a scope.
    Download {
        stream: usize,
        from: Part,
        scoped: bool,
    },
    /// A host function on `gate` waits until the words were read through a kernel on `stream`.
    Gated {
        gate: usize,
        stream: usize,
        from: Part,
    },
    /// One stream waits for a value that another sets.
    Signal {
        waiting: usize,
        setting: usize,
    },
    /// Drops the kernels and loads them again.
    Reload,
}

/// Words of a buffer.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) buffer: usize,
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) form: Form,
}

/// How words are named to the safe layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As the buffer itself.
    Whole,
    /// As a view of it.
    View,
    /// As a piece of it after a split; if only read, as a view.
    Piece,
}

impl Program {
    /// The same without the steps of `range`, and without those that need what they would have
    /// made.
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
    /// The buffer that it makes or writes to.
    pub(super) fn target(&self) -> Option<usize> {
        match self {
            Self::Zeroed { id, .. } | Self::FromHost { id, .. } => Some(*id),
            Self::Write { to, .. }
            | Self::Copy { to, .. }
            | Self::Fill { to, .. }
            | Self::Join { to, .. }
            | Self::Weave { to, .. }
            | Self::Upload { to, .. } => Some(to.buffer),
            Self::CopyWithin { buffer, .. } | Self::Halves { buffer, .. } => Some(*buffer),
            _ => None,
        }
    }

    /// The buffers that it reads to find what it writes or answers.
    pub(super) fn sources(&self) -> Vec<usize> {
        match self {
            Self::Read(from)
            | Self::Copy { from, .. }
            | Self::Weave { from, .. }
            | Self::Download { from, .. }
            | Self::Gated { from, .. } => vec![from.buffer],
            Self::Join { a, b, .. } => vec![a.buffer, b.buffer],
            _ => Vec::new(),
        }
    }

    /// Whether it makes what later steps may need.
    pub(super) fn makes(&self) -> bool {
        matches!(
            self,
            Self::Stream { .. } | Self::Zeroed { .. } | Self::FromHost { .. }
        )
    }

    /// Whether all that it needs is there; if so, notes what it makes and what it ends.
    fn take_place(
        &self,
        streams: &mut BTreeSet<usize>,
        buffers: &mut BTreeMap<usize, usize>,
    ) -> bool {
        let has = |parts: &[&Part]| parts.iter().all(|part| buffers.contains_key(&part.buffer));
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
            Self::Write { to, .. } => has(&[to]),
            Self::Read(from) => has(&[from]),
            Self::Copy { to, from } => has(&[to, from]),
            Self::CopyWithin { buffer, stream, .. } => {
                buffers.contains_key(buffer) && stream.is_none_or(|id| streams.contains(&id))
            }
            Self::Fill { stream, to, .. } => streams.contains(stream) && has(&[to]),
            Self::Join { stream, to, a, b } => streams.contains(stream) && has(&[to, a, b]),
            Self::Weave {
                stream, to, from, ..
            } => streams.contains(stream) && has(&[to, from]),
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
