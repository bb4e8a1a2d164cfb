//! Device memory: an address space per software device, and checked access to it.
//!
//! A device address is a real address of a reserved but inaccessible range of this process, so a
//! host that dereferences a device pointer crashes as it does on hardware. The bytes are stored
//! elsewhere, at a constant distance. Host memory that the device may use (pinned, managed) is
//! registered with equal host and device pointers.
//!
//! Differences from hardware, all deliberate:
//! - an allocation ends at its last byte, not at the end of a page, and at least 256 unallocated
//!   bytes follow it, so an access past the end faults;
//! - fresh memory holds [`POISON`], not zeros. Of an allocation above [`POISON_LIMIT`], only the
//!   first and the last `POISON_LIMIT / 2` bytes are poisoned; the bytes between are as the
//!   operating system provides them.

mod arena;
mod free_list;
mod freed;
mod map;
mod reservation;
mod shadow;
pub mod shared_file;
mod virtual_space;

pub use arena::{Arena, FreeError, RegisterError};
pub use map::{AccessError, MemoryMap, Owner, Range, RangeKind};
pub use virtual_space::{Backing, GRANULARITY, MappedPart, VirtualSpace};

/// The byte value that fills fresh device memory.
pub const POISON: u8 = 0xCD;

/// The size in bytes up to which allocations are poisoned completely.
pub const POISON_LIMIT: u64 = 256 << 20;
