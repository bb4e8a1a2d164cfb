//! `cuGetProcAddress`: the function for a name and a version.
//!
//! This follows the observed behaviour of a driver of CUDA 13.0. Lookup is by base name only, and
//! returns the newest revision that is not newer than the requested version. An unknown name, or a
//! name with its version suffix, is a success with a null pointer.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use cuda_sys::{
    CUdriverProcAddress_flags, CUdriverProcAddressQueryResult, FUNCTIONS, Function, cuuint64_t,
};

use super::stub;
use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, Entry, exports, shim};
use crate::driver::slot::SLOTS;
use crate::driver::status::{INVALID_VALUE, Status};

type Query = CUdriverProcAddressQueryResult;

exports! {
    cuGetProcAddress => get_proc_address_v1;
    cuGetProcAddress_v2 => get_proc_address;
}

/// The result of a lookup by name, version and mode in a driver of some version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The index of the function in the table.
    Function(usize),
    /// The function is newer than the requested version.
    TooOld,
    /// No function has that name.
    Unknown,
}

/// Returns the indices of the functions in the table by base name.
fn by_base() -> &'static HashMap<&'static str, Vec<usize>> {
    static MAP: OnceLock<HashMap<&'static str, Vec<usize>>> = OnceLock::new();
    MAP.get_or_init(|| {
        let mut map: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, function) in FUNCTIONS.iter().enumerate() {
            map.entry(function.base).or_default().push(index);
        }
        map
    })
}

/// Finds the function that a driver of version `driver` returns for `name` at `version`.
pub(crate) fn find(name: &str, version: u32, per_thread: bool, driver: u32) -> Found {
    let Some(rows) = by_base().get(name) else {
        return Found::Unknown;
    };
    let known = |index: &&usize| FUNCTIONS[**index].since().number() <= driver;
    if !rows.iter().any(|index| known(&index)) {
        return Found::Unknown;
    }
    let newest = |per_thread: bool| {
        rows.iter()
            .filter(known)
            .filter(|&&index| FUNCTIONS[index].per_thread == per_thread)
            .filter(|&&index| FUNCTIONS[index].since().number() <= version)
            .max_by_key(|&&index| FUNCTIONS[index].since())
    };
    let found = per_thread
        .then(|| newest(true))
        .flatten()
        .or_else(|| newest(false));
    found.map_or(Found::TooOld, |&index| Found::Function(index))
}

/// Returns the addresses of the functions of one slot in the order of the table: an implementation
/// or a stub.
fn addresses<const SLOT: usize>() -> Vec<*const ()> {
    let implemented: HashMap<&str, Entry> = super::entries::<SLOT>()
        .into_iter()
        .flatten()
        .map(|entry| (entry.name, *entry))
        .collect();
    let address = |(index, function): (usize, &Function)| match implemented.get(function.name) {
        Some(entry) => entry.address,
        None => stub::address(index).unwrap_or(std::ptr::null()),
    };
    FUNCTIONS.iter().enumerate().map(address).collect()
}

struct Addresses(Vec<*const ()>);

// SAFETY: the pointers are addresses of functions, which every thread may call.
unsafe impl Sync for Addresses {}
// SAFETY: as for `Sync`.
unsafe impl Send for Addresses {}

macro_rules! for_slots {
    ($($slot:literal)*) => {
        /// The function that creates the table of each slot.
        const FILL: [fn() -> Vec<*const ()>; SLOTS] = [$(addresses::<$slot>),*];
        /// `cuGetProcAddress_v2` of each slot.
        const ROOTS: [cuda_sys::GetProcAddress; SLOTS] =
            [$(shim::<$slot, cuGetProcAddress_v2, _, _>(Call::get_proc_address)),*];
    };
}

for_slots!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);

/// Returns `cuGetProcAddress_v2` of a slot.
pub(crate) fn root(slot: usize) -> cuda_sys::GetProcAddress {
    ROOTS[slot]
}

/// Returns the address of function `index` in a slot.
fn address(slot: usize, index: usize) -> *mut c_void {
    static ADDRESSES: [OnceLock<Addresses>; SLOTS] = [const { OnceLock::new() }; SLOTS];
    let table = ADDRESSES[slot].get_or_init(|| Addresses(FILL[slot]()));
    table.0[index].cast_mut().cast()
}

/// Returns the exported names of all implemented functions.
pub(crate) fn implemented() -> Vec<&'static str> {
    super::entries::<0>()
        .into_iter()
        .flatten()
        .map(|entry| entry.name)
        .collect()
}

impl Call {
    fn get_proc_address_v1(
        &self,
        symbol: In<c_char>,
        pfn: Out<*mut c_void>,
        version: c_int,
        flags: cuuint64_t,
    ) -> Status {
        match self.lookup(symbol, version, flags)? {
            Found::Function(index) => pfn.set(address(self.slot(), index)),
            Found::TooOld | Found::Unknown => {
                pfn.set(std::ptr::null_mut())?;
                Err(crate::driver::status::NOT_FOUND)
            }
        }
    }

    fn get_proc_address(
        &self,
        symbol: In<c_char>,
        pfn: Out<*mut c_void>,
        version: c_int,
        flags: cuuint64_t,
        status: Out<Query>,
    ) -> Status {
        let (found, query) = match self.lookup(symbol, version, flags)? {
            Found::Function(index) => (
                address(self.slot(), index),
                Query::CU_GET_PROC_ADDRESS_SUCCESS,
            ),
            Found::TooOld => (
                std::ptr::null_mut(),
                Query::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
            ),
            Found::Unknown => (
                std::ptr::null_mut(),
                Query::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
            ),
        };
        pfn.set(found)?;
        status.set_if(query);
        Ok(())
    }

    fn lookup(&self, symbol: In<c_char>, version: c_int, flags: cuuint64_t) -> Status<Found> {
        let legacy = CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_LEGACY_STREAM.0 as u64;
        let per_thread =
            CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.0 as u64;
        let version = u32::try_from(version).map_err(|_| INVALID_VALUE)?;
        if version > self.config.version || flags & !(legacy | per_thread) != 0 {
            return Err(INVALID_VALUE);
        }
        let name = symbol.c_str()?.to_str().unwrap_or("");
        Ok(find(
            name,
            version,
            flags & per_thread != 0,
            self.config.version,
        ))
    }
}
