//! Events: points in a stream that can be waited for, and timestamps (`cuEvent*`).
//!
//! Unlike in C, an event keeps its context alive. Unless a method says otherwise, its errors are
//! those of the driver function that it names.

mod event;
mod process;
mod timeout;

pub use crate::pending::fence::Fence;
pub use event::{Event, EventFlags};
pub use process::IpcEventHandle;
pub(crate) use timeout::poll;
