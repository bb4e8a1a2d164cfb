//! What a cache gives.

use std::ops::Deref;

use super::Refusal;
use crate::Compiled;

/// A compilation that came through a [`Cache`](super::Cache).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cached<T> {
    /// What [`Program::compile`](crate::Program::compile) would have given.
    pub compiled: Compiled<T>,
    /// How it came about.
    pub outcome: Outcome,
}

/// How a compilation came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It was found.
    Hit,
    /// It was compiled and kept.
    Kept,
    /// It was compiled and could not be written: [`Cache::problem`](super::Cache::problem) tells
    /// why.
    NotKept,
    /// It was compiled, and is nothing to keep.
    Refused(Refusal),
    /// It was compiled, and the cache only reads.
    ReadOnly,
    /// It was compiled, and the cache is off.
    Off,
}

impl<T> Cached<T> {
    pub(super) fn new(compiled: Compiled<T>, outcome: Outcome) -> Self {
        Self { compiled, outcome }
    }

    /// Whether it was found rather than compiled.
    #[must_use]
    pub fn is_hit(&self) -> bool {
        self.outcome == Outcome::Hit
    }
}

impl<T> Deref for Cached<T> {
    type Target = Compiled<T>;

    fn deref(&self) -> &Compiled<T> {
        &self.compiled
    }
}
