//! Memory: owners and views of device memory, and page-locked host memory.
//!
//! In C an allocation is an address, and the program must keep track of its size, of the streams
//! that use it and of the call that frees it. Here an owner knows all three, and views borrow from
//! it.
//!
//! Every function that calls the driver can also return [`Error::Driver`] with a code that NVIDIA
//! documents for that call. The driver may report a fault of earlier asynchronous work from any
//! call. `# Errors` sections list only the conditions on which a caller can act.

mod buffer;
mod slice;

pub(crate) mod pitched;

mod access;
mod allocation;
mod allocator;
pub(crate) mod batch_uses;
mod caching;
mod cast;
mod chunks;
mod device_ptr;
#[cfg(unix)]
mod dma_buf;
mod element;
mod exchange;
mod external;
mod fill;
mod foreign;
mod host_copy;
pub(crate) mod ipc;
mod managed;
mod mapped;
mod observed;
mod on_stream;
mod output;
#[cfg(feature = "derive")]
pub(crate) mod padding;
mod peer;
mod peer_view;
pub(crate) mod pinned;
mod pointer;
mod pool;
mod recorder;
mod repr;
mod shared;
pub(crate) mod staging;
mod storage;
mod thread;
mod waited;

// Types of other modules that belong to this chapter of the API.
pub use crate::transfer::{CopyBatch, CopyScope, HostCopyBatch, Transfer, TransferError};
pub use crate::types::Extent;

pub use access::MemoryAccess;
pub use allocator::{Allocator, Unpooled};
pub use buffer::DeviceBuffer;
pub use caching::{CachingPool, CachingPoolStatistics, PinnedCachingPool};
pub use cuda_driver_derive::DeviceRepr;
pub use device_ptr::DevicePtr;
pub use element::Element;
pub(crate) use external::ExternalPart;
pub use external::{ExternalMemory, ExternalMemoryFlags};
pub use ipc::{
    BorrowedShareableHandle, ExportedBuffer, ImportedPool, IpcMemoryHandle, MemoryHandle,
    PoolPointer, ShareableHandle,
};
pub use managed::{Advice, ManagedAttachment, ManagedBatch, ManagedBuffer, MemoryLocation};
pub use mapped::{GrowableBuffer, Mapping, PhysicalKind, PhysicalMemory, Reservation};
pub use peer_view::{PeerSlice, PeerSliceMut};
pub use pinned::{
    PageLocked, PinnedBuffer, PinnedFlags, PinnedPart, PinnedStorage, RegisterError, RegisterFlags,
    RegisteredBuffer, UninitPinned,
};
pub use pitched::{PitchedBuffer, PitchedSlice, PitchedSliceMut};
pub use pointer::{MemoryType, PointerAttributes};
pub use pool::{MemoryPool, MemoryPoolStatistics, PoolKind, PoolReuse};
pub use repr::DeviceRepr;
pub use shared::{InPlace, SharedSlice};
pub use slice::{DeviceSlice, DeviceSliceMut};
pub use storage::Storage;
pub use thread::ThreadBuffer;

use std::ops::{Bound, RangeBounds};

pub(crate) use access::location;
use access::location_of;
pub(crate) use allocation::{Block, Memory, Reclaim, Source, when_not_captured};
pub(crate) use cast::len_of_cast;
pub(crate) use fill::repeated;
pub(crate) use host_copy::{from_pinned, to_pinned};
pub(crate) use on_stream::expect_context;
pub(crate) use pitched::is_array_number;
pub(crate) use pool::props_of;
pub(crate) use recorder::{Part, RecordedMemory, RecordedUse, Recorder, Registered, recorder_of};

use crate::error::{Error, RangeError, Result};

/// Returns the size in bytes of `len` elements of `T`.
pub(crate) fn bytes_of<T>(len: usize) -> Result<usize> {
    let size = size_of::<T>();
    // The driver uses signed offsets in some places, as Rust does, so the limit is `isize::MAX`.
    len.checked_mul(size)
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or(Error::SizeOverflow { len, size })
}

/// Fails unless both sides of a copy have the same number of elements.
pub(crate) fn expect_len(source_len: usize, destination_len: usize) -> Result<()> {
    if source_len == destination_len {
        Ok(())
    } else {
        Err(Error::LengthMismatch {
            source_len,
            destination_len,
        })
    }
}

/// Resolves a range of a slice of `len` elements to (start, length).
pub(crate) fn resolve(range: impl RangeBounds<usize>, len: usize) -> Result<(usize, usize)> {
    resolve_of("elements", range, len)
}

/// Resolves a range of `len` elements, rows or planes to (start, length). `what` is used in the
/// error. Each bound is read once, because a range that other code implements may change.
pub(crate) fn resolve_of(
    what: &'static str,
    range: impl RangeBounds<usize>,
    len: usize,
) -> Result<(usize, usize)> {
    let range = (range.start_bound().cloned(), range.end_bound().cloned());
    let resolved = || {
        let start = match range.0 {
            Bound::Included(start) => start,
            Bound::Excluded(start) => start.checked_add(1)?,
            Bound::Unbounded => 0,
        };
        let end = match range.1 {
            Bound::Included(end) => end.checked_add(1)?,
            Bound::Excluded(end) => end,
            Bound::Unbounded => len,
        };
        (start <= end && end <= len).then(|| (start, end - start))
    };
    resolved().ok_or_else(|| RangeError::Range { range, len, what }.into())
}
