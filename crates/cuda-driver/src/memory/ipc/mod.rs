//! Device memory that several processes use.
//!
//! In C a program exports a handle, sends it, and the other process makes an address of it. Both
//! addresses are then ordinary ones, and nothing says which process may free them. Here the
//! exporting process has an [`ExportedBuffer`], which is freed only on request, and the other one
//! has a [`DeviceBuffer`](crate::DeviceBuffer), whose free only ends the import.
//!
//! **Each process orders its own uses only.** Uses of an imported buffer are tracked as those of
//! any buffer, so streams of one process never conflict. Nothing orders the uses of two processes
//! except what the program does: [events](crate::Event::ipc_handle) that both have, or waits of the
//! host and a message.

mod exported;
mod handle;
mod imported_pool;
mod opened;
mod shareable;

pub use exported::ExportedBuffer;
pub use handle::{IpcMemoryHandle, MemoryHandle, PoolPointer};
pub use imported_pool::ImportedPool;
pub use shareable::{BorrowedShareableHandle, ShareableHandle};

pub(crate) use shareable::{HANDLE_TYPE, ImportArgument, owned};
