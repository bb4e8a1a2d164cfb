//! Shared code of the targets: a software device to run on, a mutator that knows tokens, and random
//! calls.
//!
//! A target finds a panic even where the software device would catch it, because libFuzzer's panic
//! hook ends the process first.

mod calls;
mod device;
mod fitting;
mod known;
mod maker;
mod nodes;
mod objects;
mod pointers;
mod structures;
#[cfg(test)]
mod tests;
mod texts;
mod tokens;

pub use calls::{calls, calls_observed, random};
pub use device::Device;
pub use tokens::mutate;
