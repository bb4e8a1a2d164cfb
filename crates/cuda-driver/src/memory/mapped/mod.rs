//! Virtual memory: address ranges, physical memory, and mappings of the one to the other.
//!
//! In C these are an address, a handle and a pair of numbers, and the program must release them in
//! the right order. Here a [`Mapping`] keeps its [`PhysicalMemory`] and its [`Reservation`], a
//! buffer of mapped memory keeps its mappings, and memory is unmapped only after its last use.

mod growable;
mod mapping;
mod physical;
mod physical_export;
mod reservation;

pub use growable::GrowableBuffer;
pub use mapping::Mapping;
pub(super) use mapping::access_of;
pub use physical::{PhysicalKind, PhysicalMemory};
pub use reservation::Reservation;
