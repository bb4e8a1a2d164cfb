//! Generates programs from a seed.

use fastrand::Rng;

use super::program::{Action, DEFAULT, Form, LEGACY, PER_THREAD, Part, Program, Step};

/// The maximum number of streams at a time, including the default stream.
const STREAMS: usize = 5;
/// The maximum number of buffers at a time.
const BUFFERS: usize = 6;
/// Only a few lengths, so that freed memory fits later buffers.
const LENGTHS: [usize; 4] = [1, 16, 33, 48];
/// The size in bytes of a caching pool's block for each of these lengths.
const POOL_BLOCK: usize = 256;

impl Program {
    pub(super) fn of_seed(seed: u64) -> Self {
        let mut maker = Maker {
            rng: Rng::with_seed(seed),
            next: 1,
            streams: vec![DEFAULT],
            buffers: Vec::new(),
            ordinary: vec![DEFAULT],
            faults: false,
        };
        let faults = maker.rng.u32(..4) == 0;
        maker.faults = faults;
        for stream in [LEGACY, PER_THREAD] {
            if maker.rng.u32(..4) == 0 {
                maker.streams.push(stream);
            }
        }
        // A copy whose wait failed, and which nothing waits for, must not run late.
        let late_copies = !faults && maker.rng.bool();
        let pool = match maker.rng.u32(..4) {
            0 => Some(usize::MAX),
            // The limit allows exactly the maximum number of buffers, so that blocks in use move to
            // other streams.
            1 => Some(BUFFERS * POOL_BLOCK),
            _ => None,
        };
        let mut steps = Vec::new();
        for _ in 0..maker.rng.usize(8..40) {
            let action = maker.action();
            maker.push(&mut steps, action);
        }
        // Reads all remaining buffers, in random order.
        let mut buffers = maker.buffers.clone();
        maker.rng.shuffle(&mut buffers);
        for (id, len) in buffers {
            let part = Part::whole(id, len);
            let on = maker.maybe_stream();
            maker.push(&mut steps, Action::Read { from: part, on });
        }
        Self {
            seed,
            late_copies,
            faults,
            pool,
            steps,
        }
    }
}

/// Returns whether the program created the stream.
fn is_made(stream: usize) -> bool {
    ![DEFAULT, LEGACY, PER_THREAD].contains(&stream)
}

struct Maker {
    rng: Rng,
    next: usize,
    streams: Vec<usize>,
    /// The buffers with their lengths.
    buffers: Vec<(usize, usize)>,
    /// The streams in `streams` that are not ordered with the legacy stream.
    ordinary: Vec<usize>,
    /// Whether driver calls fail at random.
    faults: bool,
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
            8..10 if self.streams.iter().any(|&id| is_made(id)) => self.drop_stream(),
            10..24 if self.buffers.len() < BUFFERS => self.make(),
            24..34 => {
                let index = self.rng.usize(..self.buffers.len());
                Action::Drop(self.buffers.remove(index).0)
            }
            34..36 => Action::Set {
                to: self.part(None),
                value: self.rng.u32(..),
                on: self.maybe_stream(),
            },
            36..39 => {
                let to = self.part(None);
                let words = self.words(to.len);
                let on = self.maybe_stream();
                Action::Write { to, words, on }
            }
            39..43 => Action::Read {
                from: self.part(None),
                on: self.maybe_stream(),
            },
            43..51 => {
                let (to, from) = self.pair();
                let on = self.maybe_stream();
                Action::Copy { to, from, on }
            }
            51..56 => self.within(),
            56..60 => self.halves(),
            // A failure in these steps may leave streams blocked or memory leaked.
            60..65 if !self.faults => self.beside(),
            60..70 => Action::Fill {
                stream: self.stream(),
                to: self.part(None),
                value: self.rng.u32(..),
            },
            70..73 => {
                let (to, from) = self.pair();
                let stream = self.stream();
                Action::Foreign { stream, to, from }
            }
            73..84 => {
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
        if !blocking {
            self.ordinary.push(id);
        }
        Action::Stream {
            id,
            blocking,
            borrowed: self.rng.u32(..4) == 0,
        }
    }

    fn drop_stream(&mut self) -> Action {
        let made: Vec<usize> = self
            .streams
            .iter()
            .copied()
            .filter(|&id| is_made(id))
            .collect();
        let id = made[self.rng.usize(..made.len())];
        self.streams.retain(|&stream| stream != id);
        self.ordinary.retain(|&stream| stream != id);
        Action::DropStream(id)
    }

    /// Returns an action with asynchronous work: a blocked stream, a signal or a transfer.
    fn beside(&mut self) -> Action {
        let ordinary = self.ordinary[self.rng.usize(..self.ordinary.len())];
        let other = self.stream();
        match self.rng.u32(..8) {
            0 if other != ordinary => Action::Gated {
                gate: other,
                stream: ordinary,
                from: self.part(None),
            },
            1 | 2 if other != ordinary => Action::Signal {
                waiting: other,
                setting: ordinary,
            },
            0..6 => {
                let to = self.part(None);
                Action::Upload {
                    stream: other,
                    words: self.words(to.len),
                    to,
                    keep: self.rng.bool(),
                }
            }
            _ => Action::Download {
                stream: other,
                from: self.part(None),
                scoped: self.rng.bool(),
            },
        }
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

    fn maybe_stream(&mut self) -> Option<usize> {
        self.rng.bool().then(|| self.stream())
    }

    /// Returns words of any buffer except `other`.
    fn part(&mut self, other: Option<usize>) -> Part {
        let candidates: Vec<(usize, usize)> = self
            .buffers
            .iter()
            .copied()
            .filter(|(id, _)| Some(*id) != other)
            .collect();
        let (buffer, len) = candidates[self.rng.usize(..candidates.len())];
        // Aliases are rare: from the first one on, all uses of a buffer take the replay lock.
        let form = match self.rng.u32(..32) {
            0..16 => return Part::whole(buffer, len),
            16..24 => Form::View,
            24..31 => Form::Piece,
            _ => Form::Alias,
        };
        let start = self.rng.usize(..len);
        Part {
            buffer,
            start,
            len: self.rng.usize(1..=len - start),
            form,
        }
    }

    /// Returns equally many words of two buffers.
    fn pair(&mut self) -> (Part, Part) {
        let mut to = self.part(None);
        let from = self.like(&to);
        self.shorten(&mut to, from.len);
        (to, from)
    }

    /// Returns as many words of another buffer as `part` has, or fewer if that buffer is shorter.
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
        let stream = self.maybe_stream();
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
