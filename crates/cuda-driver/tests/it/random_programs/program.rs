//! Programs: lists of steps, made from a seed.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

/// The stream that is always there.
pub(super) const DEFAULT: usize = 0;
/// The most streams at a time, the default one among them.
const STREAMS: usize = 5;
/// The most buffers at a time.
const BUFFERS: usize = 6;
/// Few, so that memory that was freed fits what comes next.
const LENGTHS: [usize; 4] = [1, 16, 33, 48];
/// The bytes of a caching pool's block for any of them.
const POOL_BLOCK: usize = 256;

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
    /// Fills both halves, at the same time on two threads and two streams, and reads the lower one on its thread.
    Halves {
        buffer: usize,
        middle: usize,
        streams: [usize; 2],
        values: [u32; 2],
    },
    Synchronize(usize),
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
    pub(super) fn of_seed(seed: u64) -> Self {
        let mut maker = Maker {
            rng: Rng::with_seed(seed),
            next: 1,
            streams: vec![DEFAULT],
            buffers: Vec::new(),
        };
        let faults = maker.rng.u32(..4) == 0;
        // A copy that is not waited for because the wait failed must not be one that comes late.
        let late_copies = !faults && maker.rng.bool();
        let pool = match maker.rng.u32(..4) {
            0 => Some(usize::MAX),
            // Room for as many buffers as there may be, and no more: blocks that are in use go to other streams.
            1 => Some(BUFFERS * POOL_BLOCK),
            _ => None,
        };
        let mut steps = Vec::new();
        for _ in 0..maker.rng.usize(8..40) {
            let action = maker.action();
            maker.push(&mut steps, action);
        }
        // What was not looked at is, in any order.
        let mut buffers = maker.buffers.clone();
        maker.rng.shuffle(&mut buffers);
        for (id, len) in buffers {
            let part = Part::whole(id, len);
            maker.push(&mut steps, Action::Read(part));
        }
        Self {
            seed,
            late_copies,
            faults,
            pool,
            steps,
        }
    }

    /// The same without the steps of `range`, and without those that need what they would have made.
    pub(super) fn without(&self, range: std::ops::Range<usize>) -> Self {
        let mut streams = BTreeSet::from([DEFAULT]);
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
            | Self::Weave { to, .. } => Some(to.buffer),
            Self::CopyWithin { buffer, .. } | Self::Halves { buffer, .. } => Some(*buffer),
            _ => None,
        }
    }

    /// The buffers that it reads to find what it writes or answers.
    pub(super) fn sources(&self) -> Vec<usize> {
        match self {
            Self::Read(from) | Self::Copy { from, .. } | Self::Weave { from, .. } => {
                vec![from.buffer]
            }
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
            Self::Reload => true,
        }
    }
}

impl Part {
    fn whole(buffer: usize, len: usize) -> Self {
        Self {
            buffer,
            start: 0,
            len,
            form: Form::Whole,
        }
    }
}

struct Maker {
    rng: Rng,
    next: usize,
    streams: Vec<usize>,
    /// With their lengths.
    buffers: Vec<(usize, usize)>,
}

impl Maker {
    fn push(&mut self, steps: &mut Vec<Step>, action: Action) {
        let elsewhere = self.rng.u32(..20) == 0;
        steps.push(Step { action, elsewhere });
    }

    fn fresh(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn action(&mut self) -> Action {
        if self.buffers.len() < 2 {
            return self.make();
        }
        match self.rng.u32(..100) {
            0..8 if self.streams.len() < STREAMS => self.make_stream(),
            8..10 if self.streams.len() > 1 => {
                let index = self.rng.usize(1..self.streams.len());
                Action::DropStream(self.streams.remove(index))
            }
            10..24 if self.buffers.len() < BUFFERS => self.make(),
            24..36 => {
                let index = self.rng.usize(..self.buffers.len());
                Action::Drop(self.buffers.remove(index).0)
            }
            36..39 => {
                let to = self.part(None);
                let words = self.words(to.len);
                Action::Write { to, words }
            }
            39..43 => Action::Read(self.part(None)),
            43..51 => {
                let (to, from) = self.pair();
                Action::Copy { to, from }
            }
            51..56 => self.within(),
            56..60 => self.halves(),
            60..70 => Action::Fill {
                stream: self.stream(),
                to: self.part(None),
                value: self.rng.u32(..),
            },
            70..84 => {
                let (mut to, mut a) = self.pair();
                let b = self.like(&to);
                self.shorten(&mut to, b.len);
                self.shorten(&mut a, b.len);
                Action::Join {
                    stream: self.stream(),
                    to,
                    a,
                    b,
                }
            }
            84..98 => {
                let (to, from) = self.pair();
                Action::Weave {
                    stream: self.stream(),
                    to,
                    from,
                    factor: self.rng.u32(..) | 1,
                }
            }
            98 => Action::Synchronize(self.stream()),
            99 if self.rng.u32(..4) == 0 => Action::Reload,
            _ => self.make_stream_or_fill(),
        }
    }

    fn make_stream_or_fill(&mut self) -> Action {
        if self.streams.len() < STREAMS {
            return self.make_stream();
        }
        Action::Fill {
            stream: self.stream(),
            to: self.part(None),
            value: self.rng.u32(..),
        }
    }

    fn make_stream(&mut self) -> Action {
        let id = self.fresh();
        self.streams.push(id);
        let blocking = self.rng.u32(..8) == 0;
        Action::Stream { id, blocking }
    }

    fn make(&mut self) -> Action {
        let id = self.fresh();
        let len = LENGTHS[self.rng.usize(..LENGTHS.len())];
        let stream = self.stream();
        self.buffers.push((id, len));
        if self.rng.u32(..4) == 0 {
            let words = self.words(len);
            Action::FromHost { id, stream, words }
        } else {
            Action::Zeroed { id, stream, len }
        }
    }

    fn words(&mut self, len: usize) -> Vec<u32> {
        (0..len).map(|_| self.rng.u32(..)).collect()
    }

    fn stream(&mut self) -> usize {
        self.streams[self.rng.usize(..self.streams.len())]
    }

    /// Words of any buffer but `other`.
    fn part(&mut self, other: Option<usize>) -> Part {
        let candidates: Vec<(usize, usize)> = self
            .buffers
            .iter()
            .copied()
            .filter(|(id, _)| Some(*id) != other)
            .collect();
        let (buffer, len) = candidates[self.rng.usize(..candidates.len())];
        let form = match self.rng.u32(..4) {
            0 | 1 => return Part::whole(buffer, len),
            2 => Form::View,
            _ => Form::Piece,
        };
        let start = self.rng.usize(..len);
        Part {
            buffer,
            start,
            len: self.rng.usize(1..=len - start),
            form,
        }
    }

    /// Words of two buffers, as many of each.
    fn pair(&mut self) -> (Part, Part) {
        let mut to = self.part(None);
        let from = self.like(&to);
        self.shorten(&mut to, from.len);
        (to, from)
    }

    /// As many words of another buffer as `part` has, or fewer if they are not there.
    fn like(&mut self, part: &Part) -> Part {
        let mut found = self.part(Some(part.buffer));
        self.shorten(&mut found, part.len);
        found
    }

    fn shorten(&self, part: &mut Part, len: usize) {
        if len < part.len {
            part.len = len;
            if part.form == Form::Whole {
                part.form = Form::View;
            }
        }
    }

    fn within(&mut self) -> Action {
        let (buffer, all) = self.buffers[self.rng.usize(..self.buffers.len())];
        let middle = self.rng.usize(..=all);
        let stream = self.rng.bool().then(|| self.stream());
        Action::CopyWithin {
            buffer,
            middle,
            len: middle.min(all - middle),
            stream,
        }
    }

    fn halves(&mut self) -> Action {
        let (buffer, all) = self.buffers[self.rng.usize(..self.buffers.len())];
        Action::Halves {
            buffer,
            middle: self.rng.usize(..=all),
            streams: [self.stream(), self.stream()],
            values: [self.rng.u32(..), self.rng.u32(..)],
        }
    }
}
