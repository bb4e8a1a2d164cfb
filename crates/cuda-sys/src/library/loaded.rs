//! The common part of the loaded libraries: a table of functions, a version and an origin.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::mem;
use std::ops::Deref;
use std::ptr;

use super::LaunchUse;
use crate::{Function, Version};

/// A library with its table of functions `T`, to which it dereferences, its version and its origin.
///
/// The library stays loaded until the process ends.
pub struct LoadedLibrary<T> {
    pub(super) table: T,
    pub(super) version: Version,
    pub(super) origin: String,
    /// The owner of the functions of the table, if they are part of this program.
    pub(super) _keep: Option<Box<dyn Any + Send + Sync>>,
    /// The function of a software driver that receives the memory of each launch.
    pub(super) launch_uses: Option<fn(&[LaunchUse])>,
    /// Whether a driver may load machine code.
    pub(super) loads_machine_code: bool,
}

impl<T> LoadedLibrary<T> {
    pub(super) fn new(table: T, version: Version, origin: String) -> Self {
        Self {
            table,
            version,
            origin,
            _keep: None,
            launch_uses: None,
            loads_machine_code: true,
        }
    }

    /// Returns the table of functions.
    #[must_use]
    pub fn table(&self) -> &T {
        &self.table
    }

    /// Returns the version of CUDA that the library belongs to. For a driver, this is the newest
    /// version that it supports.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the origin: the path of the file, or the name of a library within this program.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl<T> Deref for LoadedLibrary<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.table
    }
}

impl<T> fmt::Debug for LoadedLibrary<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedLibrary")
            .field("origin", &self.origin)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Returns a table with the functions that `find` returns. Null means that the library does not
/// have the function.
///
/// # Safety
///
/// `T` is the `repr(C)` table that was generated together with `functions`: it has one optional
/// function pointer for each of them, in the same order. `find` returns null or the function.
pub(super) unsafe fn fill<T: Default>(
    functions: &[Function],
    find: impl Fn(&Function) -> *mut c_void,
) -> T {
    type Slot = Option<unsafe extern "C" fn()>;
    let mut table = T::default();
    let slots = ptr::from_mut(&mut table).cast::<Slot>();
    for (index, function) in functions.iter().enumerate() {
        // SAFETY: null must be `None`, and any other pointer the function ← this is the layout of
        // `Option` of a function pointer; the caller guarantees the latter.
        let found = unsafe { mem::transmute::<*mut c_void, Slot>(find(function)) };
        // SAFETY: `index` must be within the table and select the slot of this function ← the
        // caller guarantees that the table has one pointer for each function, in this order.
        let slot = unsafe { slots.add(index) };
        // SAFETY: the slot must be writable ← it is within `table`, which is a local.
        unsafe { slot.write(found) };
    }
    table
}
