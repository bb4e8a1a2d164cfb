//! Device memory in rows and planes, and copies of boxes of it.
//!
//! Where C describes a copy by a struct of twenty fields, here both sides are views that know their
//! rows; the numbers are checked when a view is made.

mod buffer;
mod copy;
mod extent;
mod rows;
mod view;

pub use buffer::PitchedBuffer;
pub use extent::Extent;
pub(crate) use rows::{Rows, Side, copy_of, queue};
pub use view::{PitchedSlice, PitchedSliceMut};
