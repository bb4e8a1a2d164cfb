//! The handles and descriptors through which processes share memory and events.

use crate::driver::status::{INVALID_VALUE, Status};
use crate::memory::shared_file::{Place, SharedFile, Tag, set_tag, tag};

/// The number of bytes of a handle that programs pass between processes.
pub(in crate::driver) const HANDLE_BYTES: usize = 64;

/// The object that a handle of 64 bytes names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(in crate::driver) enum Kind {
    /// `CUipcMemHandle`
    Memory = u64::from_le_bytes(*b"simIpcMm"),
    /// `CUipcEventHandle`
    Event = u64::from_le_bytes(*b"simIpcEv"),
    /// `CUmemPoolPtrExportData`
    Pointer = u64::from_le_bytes(*b"simPoolP"),
}

/// A handle of 64 bytes: the file of a process, and a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) struct SharedHandle {
    pub(in crate::driver) kind: Kind,
    pub(in crate::driver) place: Place,
    pub(in crate::driver) offset: u64,
    pub(in crate::driver) size: u64,
    /// The id of the pool of a [`Pointer`](Kind::Pointer), or the generation of an event, which
    /// changes when the page of the event is reused. Otherwise 0.
    pub(in crate::driver) number: u64,
}

impl SharedHandle {
    pub(in crate::driver) fn to_bytes(self) -> [u8; HANDLE_BYTES] {
        let words = [
            self.kind as u64,
            u64::from(self.place.pid) << 32 | u64::from(self.place.descriptor),
            self.place.inode,
            self.offset,
            self.size,
            self.number,
            0,
            0,
        ];
        let mut bytes = [0; HANDLE_BYTES];
        for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Fails with `INVALID_VALUE` if the bytes are not a handle of this kind.
    pub(in crate::driver) fn of_bytes(kind: Kind, bytes: [u8; HANDLE_BYTES]) -> Status<Self> {
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[index * 8..][..8]);
            u64::from_le_bytes(word)
        };
        if word(0) != kind as u64 {
            return Err(INVALID_VALUE);
        }
        Ok(Self {
            kind,
            place: Place {
                pid: (word(1) >> 32) as u32,
                descriptor: word(1) as u32,
                inode: word(2),
            },
            offset: word(3),
            size: word(4),
            number: word(5),
        })
    }
}

/// The kinds of exported files.
const POOL: u64 = 1;
const PHYSICAL: u64 = 2;
/// A section of Windows that refers to the file of a pool.
#[cfg(windows)]
const REFERENCE: u64 = 3;

/// The contents of an exported file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum Exported {
    /// The memory of a device, a part of which is a pool.
    Pool { device: usize },
    /// Physical memory. `None` if it is in the host.
    Physical { device: Option<usize>, size: u64 },
}

/// Marks the file of the memory of a device, whose size is `size`.
pub(in crate::driver) fn mark_pool(
    file: &SharedFile,
    device: usize,
    size: u64,
) -> std::io::Result<()> {
    let kind = POOL;
    let values = [device as u64, 0, 0, 0];
    set_tag(file, Tag { kind, size, values })
}

/// Marks the file of physical memory.
pub(in crate::driver) fn mark_physical(
    file: &SharedFile,
    device: Option<usize>,
    size: u64,
) -> std::io::Result<()> {
    let kind = PHYSICAL;
    let values = [device.map_or(u64::MAX, |device| device as u64), 0, 0, 0];
    set_tag(file, Tag { kind, size, values })
}

/// Returns what a file holds. Fails with `INVALID_VALUE` if no software device has exported it.
pub(in crate::driver) fn exported(file: &SharedFile) -> Status<Exported> {
    let tag = tag(file).map_err(|_| INVALID_VALUE)?;
    let device = usize::try_from(tag.values[0]).ok();
    match (tag.kind, device) {
        (POOL, Some(device)) => Ok(Exported::Pool { device }),
        (PHYSICAL, device) => Ok(Exported::Physical {
            device: device.filter(|_| tag.values[0] != u64::MAX),
            size: tag.size,
        }),
        _ => Err(INVALID_VALUE),
    }
}

/// Duplicates and receives file descriptors.
#[cfg(target_os = "linux")]
pub(in crate::driver) mod descriptor {
    use std::fs::File;
    use std::io::{Seek, SeekFrom};
    use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

    use crate::driver::status::{INVALID_VALUE, OUT_OF_MEMORY, Status};

    /// A handle in the calls that export and import.
    pub(in crate::driver) type Number = i32;

    /// Returns a new descriptor of the file, which the program owns. Descriptors of one file may
    /// have different numbers.
    pub(in crate::driver) fn export(file: &File, number: u64) -> Status<Number> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let opened = File::options().read(true).write(true).open(path);
        let mut opened = opened.map_err(|_| OUT_OF_MEMORY)?;
        // The position in the file is the number: it stays with the descriptor in every process.
        let moved = opened.seek(SeekFrom::Start(number));
        moved.map_err(|_| INVALID_VALUE)?;
        Ok(opened.into_raw_fd())
    }

    /// Returns the file of a descriptor, which the program keeps, and its number.
    pub(in crate::driver) fn import(descriptor: Number) -> Status<(File, u64)> {
        if descriptor < 0 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the descriptor must be open, and not -1 ← the contract of the C functions that
        // receive it; the check above excludes -1. A closed one makes the call fail.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let own = borrowed.try_clone_to_owned().map_err(|_| INVALID_VALUE)?;
        let mut file = File::from(own);
        let number = file.stream_position().map_err(|_| INVALID_VALUE)?;
        Ok((file, number))
    }

    /// Closes a descriptor that the program has passed on.
    pub(in crate::driver) fn close(descriptor: Number) {
        // SAFETY: the descriptor must be open, and no other code may close it ← `import` has
        // succeeded, and the C functions that call this take the descriptor over.
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
}

/// Duplicates and receives handles of sections.
#[cfg(windows)]
pub(in crate::driver) mod descriptor {
    use std::os::windows::io::{BorrowedHandle, IntoRawHandle};

    use super::REFERENCE;
    use crate::driver::status::{INVALID_VALUE, OUT_OF_MEMORY, Status};
    use crate::memory::shared_file::{Place, SharedFile, Tag, create, open, place, set_tag, tag};

    /// A handle in the calls that export and import.
    pub(in crate::driver) type Number = usize;

    /// Returns a new handle of the section, which the program owns. With a number, it is the handle
    /// of a small section that refers to this one, because a handle cannot carry the number. The
    /// reference is valid as long as this process has the section.
    pub(in crate::driver) fn export(file: &SharedFile, number: u64) -> Status<Number> {
        let exported = if number == 0 {
            file.try_clone()
        } else {
            reference(file, number)
        };
        let exported = exported.map_err(|_| OUT_OF_MEMORY)?;
        Ok(exported.into_raw_handle().expose_provenance())
    }

    fn reference(file: &SharedFile, number: u64) -> std::io::Result<SharedFile> {
        let Place {
            pid,
            descriptor,
            inode,
        } = place(file)?;
        let created = create(0)?;
        let (kind, size) = (REFERENCE, 0);
        let values = [number, pid.into(), descriptor.into(), inode];
        set_tag(&created, Tag { kind, size, values })?;
        Ok(created)
    }

    /// Returns the section of a handle, which the program keeps, and its number.
    pub(in crate::driver) fn import(handle: Number) -> Status<(SharedFile, u64)> {
        let raw = std::ptr::with_exposed_provenance_mut(handle);
        // SAFETY: the handle must be open ← the contract of the C functions that receive it. A
        // closed one makes the call fail.
        let borrowed = unsafe { BorrowedHandle::borrow_raw(raw) };
        let own = borrowed.try_clone_to_owned().map_err(|_| INVALID_VALUE)?;
        match tag(&own) {
            Ok(tag) if tag.kind == REFERENCE => {
                let [number, pid, descriptor, inode] = tag.values;
                let place = Place {
                    pid: pid as u32,
                    descriptor: descriptor as u32,
                    inode,
                };
                Ok((open(place).map_err(|_| INVALID_VALUE)?, number))
            }
            _ => Ok((own, 0)),
        }
    }

    /// Does nothing: the program keeps its handle.
    pub(in crate::driver) fn close(_: Number) {}
}

/// Not supported on this system.
#[cfg(not(any(target_os = "linux", windows)))]
pub(in crate::driver) mod descriptor {
    use crate::driver::status::{NOT_SUPPORTED, Status};
    use crate::memory::shared_file::SharedFile;

    /// A handle in the calls that export and import.
    pub(in crate::driver) type Number = i32;

    pub(in crate::driver) fn export(_: &SharedFile, _: u64) -> Status<Number> {
        Err(NOT_SUPPORTED)
    }

    pub(in crate::driver) fn import(_: Number) -> Status<(SharedFile, u64)> {
        Err(NOT_SUPPORTED)
    }

    pub(in crate::driver) fn close(_: Number) {}
}

#[cfg(test)]
mod tests {
    use super::{Kind, Place, SharedHandle};

    #[test]
    fn handle_survives_its_bytes() {
        let handle = SharedHandle {
            kind: Kind::Event,
            place: Place {
                pid: 0x1234_5678,
                descriptor: 9,
                inode: u64::MAX - 1,
            },
            offset: 1 << 40,
            size: 77,
            number: 3,
        };
        let bytes = handle.to_bytes();
        assert_eq!(SharedHandle::of_bytes(Kind::Event, bytes), Ok(handle));
        assert!(SharedHandle::of_bytes(Kind::Memory, bytes).is_err());
        assert!(SharedHandle::of_bytes(Kind::Event, [0; 64]).is_err());
    }
}
