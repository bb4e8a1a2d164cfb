//! What a program can learn about its use of the device: past errors, the log of the driver,
//! the memory that it holds, core dumps, and a snapshot of all of it.
//!
//! Everything here is off at first, and costs nothing until a program turns it on.

mod core_dump;
mod errors;
mod memory;
#[cfg(feature = "serde")]
mod serialize;
mod snapshot;
mod tool_range;

pub use core_dump::{CoreDumpFlags, CoreDumps};
pub use errors::{ExplainedError, LogPosition};
pub use snapshot::{Snapshot, StreamSnapshot};
pub use tool_range::ToolRange;

pub use crate::memory_ledger::{MemoryKind, MemoryReport, MemorySite};
