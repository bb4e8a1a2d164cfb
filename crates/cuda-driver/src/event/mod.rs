//! Events: points in a stream that can be waited for, and timestamps (`cuEvent*`).
//!
//! Unlike in C, an event keeps its context alive. Unless a method says otherwise, its errors are
//! those of the driver function that it names.

mod event;

mod fence;
mod process;
mod timeout;

pub use event::{Event, EventFlags};
pub use fence::Fence;
pub use process::IpcEventHandle;
pub(crate) use timeout::poll;
