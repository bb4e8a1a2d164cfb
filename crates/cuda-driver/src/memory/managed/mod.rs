//! Managed memory: one address for host and device, between which the driver moves the pages.

mod advice;
mod buffer;

pub use advice::{Advice, MemoryLocation};
pub use buffer::{ManagedAttachment, ManagedBuffer};
