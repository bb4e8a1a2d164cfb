//! Python capsules with tensors. A consumer takes the tensor and renames the capsule, so that it is
//! taken once; a capsule that was not taken releases its tensor.

use std::ffi::CStr;
use std::ptr::NonNull;

use cuda_driver::dlpack::{DLManagedTensor, DLManagedTensorVersioned, DlTensor, RawTensor};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::exception;

const UNVERSIONED: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_UNVERSIONED: &CStr = c"used_dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

/// Takes the tensor out of a capsule that `__dlpack__` has returned.
pub(crate) fn take(capsule: &Bound<'_, PyAny>) -> PyResult<DlTensor> {
    let capsule = capsule.cast::<PyCapsule>()?;
    if let Ok(raw) = capsule.pointer_checked(Some(VERSIONED)) {
        rename(capsule, USED_VERSIONED)?;
        // SAFETY: the tensor must be valid and released by no other code ← a capsule with the
        // earlier name contains a valid tensor, and its destructor ignores a renamed one.
        return unsafe { DlTensor::from_raw(raw.cast::<DLManagedTensorVersioned>()) }
            .map_err(exception);
    }
    let raw = capsule
        .pointer_checked(Some(UNVERSIONED))
        .map_err(|_| PyBufferError::new_err("the capsule has no tensor, or it was taken before"))?;
    rename(capsule, USED_UNVERSIONED)?;
    // SAFETY: as above.
    Ok(unsafe { DlTensor::from_raw_unversioned(raw.cast::<DLManagedTensor>()) })
}

fn rename(capsule: &Bound<'_, PyCapsule>, name: &'static CStr) -> PyResult<()> {
    // SAFETY: the object must be a capsule, and the name alive ← it is one, and the name is static.
    let status = unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), name.as_ptr()) };
    if status == 0 {
        Ok(())
    } else {
        Err(PyErr::fetch(capsule.py()))
    }
}

/// Creates a capsule that owns a tensor.
pub(crate) fn give(py: Python<'_>, tensor: RawTensor) -> PyResult<Bound<'_, PyAny>> {
    let (raw, name) = match tensor {
        RawTensor::Versioned(raw) => (raw.cast(), VERSIONED),
        RawTensor::Unversioned(raw) => (raw.cast(), UNVERSIONED),
    };
    // SAFETY: the pointer must not be null, and the name must be alive ← it is not, and it is
    // static.
    let capsule = unsafe { ffi::PyCapsule_New(raw.as_ptr(), name.as_ptr(), Some(release)) };
    // SAFETY: the pointer must be a new reference or null with an exception set ← that is the
    // result of `PyCapsule_New`.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
}

/// Releases the tensor of a capsule, unless a consumer has taken it.
unsafe extern "C" fn release(capsule: *mut ffi::PyObject) {
    // SAFETY: the object must be a capsule ← Python calls the destructor with it.
    let raw = unsafe { pointer(capsule, VERSIONED) };
    if let Some(raw) = raw {
        // SAFETY: the tensor must be valid and released by no other code ← `give` has put it into
        // the capsule, and no consumer has taken it.
        drop(unsafe { DlTensor::from_raw(raw.cast()) });
        return;
    }
    // SAFETY: as above.
    let raw = unsafe { pointer(capsule, UNVERSIONED) };
    if let Some(raw) = raw {
        // SAFETY: as above.
        drop(unsafe { DlTensor::from_raw_unversioned(raw.cast()) });
    }
}

/// Returns the pointer of a capsule if the capsule has this name.
///
/// # Safety
///
/// The object is a capsule, and this thread holds the interpreter.
unsafe fn pointer(capsule: *mut ffi::PyObject, name: &CStr) -> Option<NonNull<std::ffi::c_void>> {
    // SAFETY: the object must be a capsule ← the caller guarantees it.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: as above.
    NonNull::new(unsafe { ffi::PyCapsule_GetPointer(capsule, name.as_ptr()) })
}
