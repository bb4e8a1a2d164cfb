//! Device memory in rows and planes, and copies of boxes of it.
//!
//! C describes a copy with a struct of twenty fields. Here both sides are views that know their
//! rows, and the numbers are checked when a view is created.

mod buffer;
mod view;

mod array;
mod copy;
mod extent;
mod fill;
mod peer;
mod rows;

pub(crate) use array::{array_numbers, is_array_number};
pub use buffer::PitchedBuffer;
pub(crate) use peer::{PeerSide, queue_peer};
pub(crate) use rows::{ArrayBox, Rows, Side, copy_of, queue};
pub use view::{PitchedSlice, PitchedSliceMut};
