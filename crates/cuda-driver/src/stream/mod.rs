//! Streams: queues of work on a device (`cuStream*`).
//!
//! In C a stream is a bare handle. Here a stream keeps its context alive, and dropping a stream
//! that still has work lets that work finish. Unless a method says otherwise, its errors are those
//! of the driver function that it names.

mod stream;

mod borrow;
mod capturing;
mod default;
mod flags;
mod green;
mod observed;
mod pool;
mod priority;
mod recording;
mod state;
mod thread;

// Types of other modules that belong to this chapter of the API.
pub use crate::external_semaphore::ExternalSemaphore;
pub use crate::memop::{StreamWord, ValueBatch, WaitCondition};
pub use crate::pending::{Completion, HostCall};
pub use crate::stream_attribute::{AccessPolicyWindow, MemSyncDomainMap, SynchronizationPolicy};
pub use crate::types::WorkKind;

pub use flags::StreamFlags;
pub use pool::StreamPool;
pub use priority::PriorityRange;
pub(crate) use recording::Recording;
pub use state::CaptureStatus;
pub(crate) use state::Queueing;
pub use stream::Stream;
pub use thread::ThreadStream;
