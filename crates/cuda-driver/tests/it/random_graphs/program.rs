//! A random graph as a list of operations, and its sequential meaning.

use std::ops::Range;

/// The number of device buffers; there is also one host buffer.
pub(super) const BUFFERS: usize = 4;
/// The number of words in each buffer.
pub(super) const WORDS: usize = 48;

/// The operation of a node.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// `x = 2 * x + y` on all words.
    Mix { x: usize, y: usize },
    /// Copies words from one buffer to another.
    Copy {
        to: usize,
        from: usize,
        at: usize,
        words: Range<usize>,
    },
    Fill {
        to: usize,
        words: Range<usize>,
        value: u32,
    },
    /// Copies a buffer to the host buffer.
    ToHost { from: usize },
    /// Copies the host buffer to a buffer.
    FromHost { to: usize },
    /// A closure that adds to a number.
    Call { value: u32 },
    /// A child graph with one kernel node.
    Child { x: usize, y: usize },
}

/// A node and its position in the graph.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) op: Op,
    /// The branch of a capture that it belongs to; a new branch forks from the previous one.
    pub(super) line: usize,
    /// A branch that this one joins first.
    pub(super) join: Option<usize>,
    /// Additional dependencies in the graph that is built node by node.
    pub(super) after: Vec<usize>,
    /// A node that is added before this one in the graph that is built node by node, and is removed
    /// again: at once, or after all nodes were added.
    pub(super) passing: Option<(Op, bool)>,
}

/// An operation between launches of the graphs.
#[derive(Clone, Debug)]
pub(super) enum Turn {
    Launch { stream: usize },
    Use { stream: usize, x: usize, y: usize },
}

#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) turns: Vec<Turn>,
}

/// The maximum number of branches of a capture.
pub(super) const LINES: usize = 3;
pub(super) const STREAMS: usize = 3;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as usize
    }

    /// Returns two different buffers.
    fn two(&mut self) -> (usize, usize) {
        let one = self.below(BUFFERS);
        (one, (one + 1 + self.below(BUFFERS - 1)) % BUFFERS)
    }

    fn words(&mut self) -> Range<usize> {
        let start = self.below(WORDS);
        start..start + 1 + self.below(WORDS - start)
    }

    fn op(&mut self) -> Op {
        let (x, y) = self.two();
        let words = self.words();
        match self.below(12) {
            0..=3 => Op::Mix { x, y },
            4..=5 => Op::Copy {
                to: x,
                from: y,
                at: self.below(WORDS - words.len() + 1),
                words,
            },
            6..=7 => Op::Fill {
                to: x,
                words,
                value: self.below(1000) as u32,
            },
            8 => Op::ToHost { from: x },
            9 => Op::FromHost { to: x },
            10 => Op::Call {
                value: 1 + self.below(9) as u32,
            },
            _ => Op::Child { x, y },
        }
    }
}

impl Program {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed);
        random.below(2);
        let count = 1 + random.below(14);
        let mut lines = 1;
        let steps = (0..count)
            .map(|at| {
                let line = random.below((lines + 1).min(LINES));
                lines = lines.max(line + 1);
                let join = random.below(LINES);
                Step {
                    op: random.op(),
                    line,
                    join: (join < lines && join != line).then_some(join),
                    after: (0..at).filter(|_| random.below(6) == 0).collect(),
                    passing: match random.below(8) {
                        at_once @ 0..2 => Some((random.op(), at_once == 0)),
                        _ => None,
                    },
                }
            })
            .collect();
        let turns = (0..2 + random.below(5))
            .map(|_| {
                let stream = random.below(STREAMS);
                let (x, y) = random.two();
                match random.below(3) {
                    0 => Turn::Use { stream, x, y },
                    _ => Turn::Launch { stream },
                }
            })
            .collect();
        Self { steps, turns }
    }
}

/// The contents of the buffers when the operations run sequentially.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) buffers: Vec<Vec<u32>>,
    pub(super) host: Vec<u32>,
    pub(super) called: u32,
}

impl Model {
    pub(super) fn new() -> Self {
        let word = |buffer: usize, at: usize| (buffer * 1000 + at) as u32;
        Self {
            buffers: (0..BUFFERS)
                .map(|buffer| (0..WORDS).map(|at| word(buffer, at)).collect())
                .collect(),
            host: vec![7; WORDS],
            called: 0,
        }
    }

    pub(super) fn mix(&mut self, x: usize, y: usize) {
        for at in 0..WORDS {
            let y = self.buffers[y][at];
            let word = &mut self.buffers[x][at];
            *word = word.wrapping_mul(2).wrapping_add(y);
        }
    }

    pub(super) fn apply(&mut self, op: &Op) {
        match op.clone() {
            Op::Mix { x, y } | Op::Child { x, y } => self.mix(x, y),
            Op::Copy {
                to,
                from,
                at,
                words,
            } => {
                let source = self.buffers[from][words].to_vec();
                self.buffers[to][at..at + source.len()].copy_from_slice(&source);
            }
            Op::Fill { to, words, value } => self.buffers[to][words].fill(value),
            Op::ToHost { from } => self.host.clone_from(&self.buffers[from]),
            Op::FromHost { to } => self.buffers[to].clone_from(&self.host),
            Op::Call { value } => self.called = self.called.wrapping_add(value),
        }
    }
}
