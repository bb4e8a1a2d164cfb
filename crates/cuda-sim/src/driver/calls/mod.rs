//! The functions of `cuda.h`, one file for each kind of object: `exports!` names the functions, and
//! methods of [`Call`](super::export::Call) implement them.

mod advice;
mod array;
mod array_copy;
mod atomics;
mod cluster;
mod context;
mod copy;
mod copy_batch;
mod device;
mod error;
mod event;
mod external;
mod function;
mod graph;
mod green;
mod host;
mod ipc;
mod jit;
mod launch;
mod legacy_launch;
mod library;
mod link;
mod log;
mod managed_batch;
mod memory;
mod memset;
mod mipmap;
mod module;
mod occupancy;
mod pointer;
mod pool;
mod pool_place;
mod primary;
pub(crate) mod proc_address;
mod resource;
mod stream;
mod stub;
mod surface;
mod tensor_map;
mod texture;
mod virtual_memory;
mod wait_value;

use crate::driver::export::Entry;

/// Returns all implemented functions for the slot `SLOT`.
fn entries<const SLOT: usize>() -> Vec<&'static [Entry]> {
    let own = [
        advice::Exports::<SLOT>::ENTRIES,
        array::Exports::<SLOT>::ENTRIES,
        array_copy::Exports::<SLOT>::ENTRIES,
        atomics::Exports::<SLOT>::ENTRIES,
        context::Exports::<SLOT>::ENTRIES,
        cluster::Exports::<SLOT>::ENTRIES,
        copy::Exports::<SLOT>::ENTRIES,
        copy_batch::Exports::<SLOT>::ENTRIES,
        device::Exports::<SLOT>::ENTRIES,
        error::Exports::<SLOT>::ENTRIES,
        event::Exports::<SLOT>::ENTRIES,
        external::Exports::<SLOT>::ENTRIES,
        function::Exports::<SLOT>::ENTRIES,
        green::Exports::<SLOT>::ENTRIES,
        host::Exports::<SLOT>::ENTRIES,
        ipc::Exports::<SLOT>::ENTRIES,
        launch::Exports::<SLOT>::ENTRIES,
        legacy_launch::Exports::<SLOT>::ENTRIES,
        library::Exports::<SLOT>::ENTRIES,
        link::Exports::<SLOT>::ENTRIES,
        log::Exports::<SLOT>::ENTRIES,
        managed_batch::Exports::<SLOT>::ENTRIES,
        memory::Exports::<SLOT>::ENTRIES,
        memset::Exports::<SLOT>::ENTRIES,
        mipmap::Exports::<SLOT>::ENTRIES,
        module::Exports::<SLOT>::ENTRIES,
        occupancy::Exports::<SLOT>::ENTRIES,
        pointer::Exports::<SLOT>::ENTRIES,
        pool::Exports::<SLOT>::ENTRIES,
        pool_place::Exports::<SLOT>::ENTRIES,
        primary::Exports::<SLOT>::ENTRIES,
        proc_address::Exports::<SLOT>::ENTRIES,
        stream::Exports::<SLOT>::ENTRIES,
        surface::Exports::<SLOT>::ENTRIES,
        tensor_map::Exports::<SLOT>::ENTRIES,
        texture::Exports::<SLOT>::ENTRIES,
        virtual_memory::Exports::<SLOT>::ENTRIES,
        wait_value::Exports::<SLOT>::ENTRIES,
    ];
    own.into_iter().chain(graph::entries::<SLOT>()).collect()
}
