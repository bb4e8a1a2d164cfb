//! What a program can learn about its use of the device: past errors, the log of the driver, and
//! core dumps.
//!
//! Everything here is off at first, and costs nothing until a program turns it on.

mod core_dump;
mod errors;
mod tool_range;

pub use core_dump::{CoreDumpFlags, CoreDumps};
pub use errors::{ExplainedError, LogPosition};
pub use tool_range::ToolRange;
