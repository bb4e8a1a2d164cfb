//! The result of a compilation through a cache.

use std::ops::Deref;

use super::Refusal;
use crate::Compiled;

/// A compilation that was requested through a [`Cache`](super::Cache).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cached<T> {
    /// The result, equal to that of [`Program::compile`](crate::Program::compile).
    pub compiled: Compiled<T>,
    /// Whether the result was found, stored or only compiled.
    pub outcome: Outcome,
}

/// The way in which a result was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The result was found in the cache.
    Hit,
    /// The result was compiled and stored.
    Stored,
    /// The result was compiled but could not be written. [`Cache::problem`](super::Cache::problem)
    /// returns the reason.
    StoreFailed,
    /// The result was compiled and not stored, for this reason.
    Refused(Refusal),
    /// The result was compiled and not stored, because the cache is read-only.
    ReadOnly,
    /// The result was compiled, because the cache is off.
    Off,
}

impl<T> Cached<T> {
    pub(super) fn new(compiled: Compiled<T>, outcome: Outcome) -> Self {
        Self { compiled, outcome }
    }

    /// Returns whether the result was found rather than compiled.
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
