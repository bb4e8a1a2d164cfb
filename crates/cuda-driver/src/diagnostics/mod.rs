//! Information for a program about its use of the device: past errors, the log of the driver,
//! the memory that it holds, core dumps, and a snapshot of all of it.
//!
//! Features that record something are off at first. A feature that is off costs one load per error
//! or allocation.

mod core_dump;
mod errors;
mod memory;
mod profiler_capture;
#[cfg(feature = "serde")]
mod serialize;
mod snapshot;

pub use core_dump::{CoreDumpFlags, CoreDumps};
pub use errors::{ExplainedError, LogPosition};
pub use memory::LeakCheck;
pub use profiler_capture::ProfilerCapture;
pub use snapshot::{ModuleSnapshot, Snapshot, StreamSnapshot};

pub use crate::memory_ledger::{MemoryKind, MemoryOrigin, MemoryReport, MemorySite};
