//! Managed memory: host and device use the same address, and the driver moves the pages between
//! them.
//!
//! In C the program must not access managed memory on the host while the device writes it. Here the
//! host gets a slice only after the conflicting uses have completed.

mod advice;
mod batch;
mod buffer;

pub use advice::{Advice, MemoryLocation};
pub use batch::ManagedBatch;
pub use buffer::{ManagedAttachment, ManagedBuffer};
