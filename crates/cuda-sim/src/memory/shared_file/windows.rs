//! Sections of the paging file, which Windows shares between processes through handles.
//!
//! A section has no number that other processes can compare. So [`create`] writes a random number
//! behind the tag.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;

use windows_sys::Win32::Foundation::{
    DUPLICATE_SAME_ACCESS, DuplicateHandle, HANDLE, INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::System::Memory::{CreateFileMappingW, PAGE_READWRITE, SEC_RESERVE};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcess, PROCESS_DUP_HANDLE};

use super::{PAGE, Place};
use crate::memory::reservation::Reservation;

/// The handle of a section.
pub type SharedFile = OwnedHandle;

/// The place of the number of a section, behind the words of the tag.
const NUMBER: u64 = 128;

/// `SECTION_BASIC_INFORMATION`
#[repr(C)]
struct SectionBasicInformation {
    base: *mut std::ffi::c_void,
    attributes: u32,
    size: i64,
}

#[link(name = "ntdll", kind = "raw-dylib")]
unsafe extern "system" {
    fn NtQuerySection(
        section: HANDLE,
        class: i32,
        information: *mut SectionBasicInformation,
        len: usize,
        returned: *mut usize,
    ) -> i32;
}

/// Creates a section of `size` zero bytes, followed by a page for the tag. A part costs memory once
/// it is mapped or committed.
///
/// # Errors
///
/// The operating system's error.
pub fn create(size: u64) -> io::Result<SharedFile> {
    let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
    let len = size.checked_add(PAGE).ok_or_else(too_large)?;
    // SAFETY: the pointers must be null or valid ← they are null: the section has no name, and its
    // handle is not inherited.
    let section = unsafe {
        CreateFileMappingW(
            INVALID_HANDLE_VALUE,
            ptr::null(),
            PAGE_READWRITE | SEC_RESERVE,
            (len >> 32) as u32,
            len as u32,
            ptr::null(),
        )
    };
    let section = owned(section)?;
    let number = RandomState::new().build_hasher().finish();
    write_at(&section, &number.to_le_bytes(), size + NUMBER)?;
    Ok(section)
}

/// Takes over a handle that a function has returned, if it is not null.
fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle must be open and have no other owner ← the system just created it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Returns the number of bytes of a section, the page for the tag included.
///
/// # Errors
///
/// `InvalidInput` if the handle is not one of a section.
pub fn len(section: &SharedFile) -> io::Result<u64> {
    let mut information = SectionBasicInformation {
        base: ptr::null_mut(),
        attributes: 0,
        size: 0,
    };
    let bytes = size_of::<SectionBasicInformation>();
    let place = &raw mut information;
    // SAFETY: the place must have `bytes` bytes, and the last pointer may be null ← the place is a
    // local variable of that size. A handle of another kind makes the call fail.
    let status =
        unsafe { NtQuerySection(section.as_raw_handle(), 0, place, bytes, ptr::null_mut()) };
    if status < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(information.size.cast_unsigned())
}

/// Writes bytes at `offset`.
pub(in crate::memory) fn write_at(
    section: &SharedFile,
    bytes: &[u8],
    offset: u64,
) -> io::Result<()> {
    let view = Reservation::of_file(section, offset, bytes.len())?;
    // SAFETY: both ranges must be valid and must not overlap ← the view was mapped just now with
    // this length.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), view.base(), bytes.len()) };
    Ok(())
}

/// Reads bytes at `offset`.
pub(super) fn read_at(section: &SharedFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let view = Reservation::of_file(section, offset, bytes.len())?;
    // SAFETY: both ranges must be valid and must not overlap ← the view was mapped just now with
    // this length.
    unsafe { ptr::copy_nonoverlapping(view.base(), bytes.as_mut_ptr(), bytes.len()) };
    Ok(())
}

/// Returns the number of a section.
fn number(section: &SharedFile) -> io::Result<u64> {
    let size = len(section)?.checked_sub(PAGE);
    let size = size.ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = [0; 8];
    read_at(section, &mut bytes, size + NUMBER)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Returns where another process can open the section.
///
/// # Errors
///
/// The operating system's error.
pub fn place(section: &SharedFile) -> io::Result<Place> {
    Ok(Place {
        pid: std::process::id(),
        // Only the low 32 bits of a handle are significant.
        descriptor: section.as_raw_handle().addr() as u32,
        inode: number(section)?,
    })
}

/// Opens the section of another process.
///
/// # Errors
///
/// The operating system's error if the process has ended, or if it has closed the section;
/// `NotFound` if its handle is one of another object now.
pub fn open(place: Place) -> io::Result<SharedFile> {
    // SAFETY: the function takes any number, and fails if there is no such process.
    let process = owned(unsafe { OpenProcess(PROCESS_DUP_HANDLE, 0, place.pid) })?;
    // SAFETY: the function has no requirements; it returns a constant.
    let own = unsafe { GetCurrentProcess() };
    let theirs = ptr::without_provenance_mut(place.descriptor as usize);
    let mut handle = ptr::null_mut();
    // SAFETY: the process handles must be open, and the place valid ← they are, and it is a local
    // variable. A closed handle of the other process makes the call fail.
    let is_done = unsafe {
        DuplicateHandle(
            process.as_raw_handle(),
            theirs,
            own,
            &raw mut handle,
            0,
            0,
            DUPLICATE_SAME_ACCESS,
        )
    };
    if is_done == 0 {
        return Err(io::Error::last_os_error());
    }
    let section = owned(handle)?;
    match number(&section) {
        Ok(number) if number == place.inode => Ok(section),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}
