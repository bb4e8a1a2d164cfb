//! What a program can learn about its use of the device: past errors, and the log of the driver.
//!
//! Everything here is off at first, and costs nothing until a program turns it on.

mod errors;

pub use errors::{ExplainedError, LogPosition};
