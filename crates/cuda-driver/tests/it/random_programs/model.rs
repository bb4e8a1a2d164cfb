//! The meaning of a program: its steps run sequentially on vectors, without streams.

use std::collections::{BTreeMap, BTreeSet};

use super::program::{Action, Part};

/// The contents of a program's buffers.
#[derive(Debug, Default)]
pub(super) struct Model {
    buffers: BTreeMap<usize, Vec<u32>>,
    /// Buffers with unknown contents: a step that writes to them failed and may have done part of
    /// its work.
    unknown: BTreeSet<usize>,
}

impl Model {
    /// Records that `action` failed.
    pub(super) fn fail(&mut self, action: &Action) {
        self.unknown.extend(action.target());
    }

    /// Runs `action`; returns the words that it reads, if any, provided that they are known.
    pub(super) fn act(&mut self, action: &Action) -> Option<Vec<u32>> {
        let words = self.known(action);
        let sources = action.sources();
        if sources.iter().all(|id| !self.unknown.contains(id)) {
            return words;
        }
        self.fail(action);
        None
    }

    fn known(&mut self, action: &Action) -> Option<Vec<u32>> {
        match action {
            Action::Stream { .. }
            | Action::DropStream(_)
            | Action::Signal { .. }
            | Action::Synchronize(_)
            | Action::Reload => {}
            Action::Zeroed { id, len, .. } => {
                self.buffers.insert(*id, vec![0; *len]);
            }
            Action::FromHost { id, words, .. } => {
                self.buffers.insert(*id, words.clone());
            }
            Action::Drop(id) => {
                self.buffers.remove(id);
            }
            Action::Write { to, words, .. } => self.words(to).copy_from_slice(words),
            Action::Read { from, .. } => return Some(self.words(from).to_vec()),
            Action::Copy { to, from, .. } | Action::Foreign { to, from, .. } => {
                let from = self.words(from).to_vec();
                self.words(to).copy_from_slice(&from);
            }
            Action::Set { to, value, .. } => self.words(to).fill(*value),
            Action::CopyWithin {
                buffer,
                middle,
                len,
                stream,
            } => {
                let words = self.all(*buffer);
                for i in 0..*len {
                    let woven = words[i].wrapping_add(words[middle + i]);
                    words[i] = if stream.is_some() {
                        woven
                    } else {
                        words[middle + i]
                    };
                }
            }
            Action::Fill { to, value, .. } => fill(self.words(to), *value),
            Action::Upload { to, words, .. } => self.words(to).copy_from_slice(words),
            Action::Download { from, .. } | Action::Gated { from, .. } => {
                return Some(self.words(from).to_vec());
            }
            Action::Join { to, a, b, .. } => {
                let (a, b) = (self.words(a).to_vec(), self.words(b).to_vec());
                for (word, (a, b)) in self.words(to).iter_mut().zip(a.iter().zip(b)) {
                    *word = a.wrapping_mul(3).wrapping_add(b);
                }
            }
            Action::Weave {
                to, from, factor, ..
            } => {
                let from = self.words(from).to_vec();
                for (word, from) in self.words(to).iter_mut().zip(from) {
                    *word = word.wrapping_mul(*factor).wrapping_add(from);
                }
            }
            Action::Halves {
                buffer,
                middle,
                values,
                ..
            } => {
                let (lower, upper) = self.all(*buffer).split_at_mut(*middle);
                fill(lower, values[0]);
                fill(upper, values[1]);
                return Some(lower.to_vec());
            }
        }
        None
    }

    fn all(&mut self, id: usize) -> &mut Vec<u32> {
        self.buffers.get_mut(&id).unwrap()
    }

    fn words(&mut self, part: &Part) -> &mut [u32] {
        &mut self.all(part.buffer)[part.start..part.start + part.len]
    }
}

fn fill(words: &mut [u32], value: u32) {
    for (word, i) in words.iter_mut().zip(0..) {
        *word = value.wrapping_add(i);
    }
}
