//! The functions of graphs and of stream capture.

mod add;
mod attribute;
mod capture_calls;
mod capture_mode;
mod conditional;
mod convert;
mod create;
mod dot;
mod edges;
mod exec;
mod external;
mod memory;
mod object;
mod params;
mod update;

use crate::driver::export::Entry;

/// Returns the C functions of this module for the slot `SLOT`.
pub(super) fn entries<const SLOT: usize>() -> [&'static [Entry]; 13] {
    [
        add::Exports::<SLOT>::ENTRIES,
        attribute::Exports::<SLOT>::ENTRIES,
        capture_calls::Exports::<SLOT>::ENTRIES,
        conditional::Exports::<SLOT>::ENTRIES,
        create::Exports::<SLOT>::ENTRIES,
        dot::Exports::<SLOT>::ENTRIES,
        edges::Exports::<SLOT>::ENTRIES,
        exec::Exports::<SLOT>::ENTRIES,
        external::Exports::<SLOT>::ENTRIES,
        memory::Exports::<SLOT>::ENTRIES,
        object::Exports::<SLOT>::ENTRIES,
        params::Exports::<SLOT>::ENTRIES,
        update::Exports::<SLOT>::ENTRIES,
    ]
}
