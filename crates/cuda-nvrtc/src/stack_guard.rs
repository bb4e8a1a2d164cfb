//! A larger guard area at the end of the compiler's stack.
//!
//! NVRTC has functions whose stack frames take up to 82 KiB, but the system keeps only one page
//! below a stack inaccessible. A frame that does not touch all of its memory could skip that page
//! and write to other memory. A [`StackGuard`] makes [`SIZE`] bytes inaccessible, so that a stack
//! overflow ends the process before that.

use std::io;

/// The size of the guard area in bytes: twelve of the largest frames. A stack for a compilation
/// needs this in addition.
pub(crate) const SIZE: usize = 1 << 20;

/// Keeps the last [`SIZE`] bytes of the stack of its thread inaccessible until it is dropped.
///
/// The C library reuses the stacks of ended threads, so the area has to become accessible again.
#[cfg(target_os = "linux")]
pub(crate) struct StackGuard {
    start: *mut libc::c_void,
}

#[cfg(target_os = "linux")]
impl StackGuard {
    /// Protects the end of the stack of the calling thread.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot protect the memory, or if the thread has less than twice [`SIZE`]
    /// bytes left.
    pub(crate) fn new() -> io::Result<Self> {
        let (lowest, guard) = stack()?;
        // Before version 2.27, glibc counted its own guard as a part of the stack. The access to
        // that guard is not changed.
        let page = 1 << 16;
        let start = (lowest + guard).next_multiple_of(page);
        let here = std::ptr::from_ref(&start).addr();
        if here < start + 2 * SIZE {
            return Err(io::Error::other("the stack is too small for its guard"));
        }
        let start = std::ptr::with_exposed_provenance_mut(start);
        protect(start, libc::PROT_NONE)?;
        Ok(Self { start })
    }
}

#[cfg(target_os = "linux")]
impl Drop for StackGuard {
    fn drop(&mut self) {
        // If this fails, the memory stays inaccessible, and a thread that gets this stack later
        // has a smaller one.
        let _unwanted = protect(self.start, libc::PROT_READ | libc::PROT_WRITE);
    }
}

/// Changes the access to the guard area.
#[cfg(target_os = "linux")]
fn protect(start: *mut libc::c_void, access: libc::c_int) -> io::Result<()> {
    // SAFETY: no live object may be in the memory ← it is the lowest part of the stack of this
    // thread, at least `SIZE` bytes below its frames, as `StackGuard::new` has checked.
    match unsafe { libc::mprotect(start, SIZE, access) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the lowest address of the stack of this thread, and the size of the system's guard.
#[cfg(target_os = "linux")]
fn stack() -> io::Result<(usize, usize)> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the call has no requirements.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: `attributes` must be writable ← it is a local variable. The thread is alive.
    let status = unsafe { libc::pthread_getattr_np(thread, attributes.as_mut_ptr()) };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(status));
    }
    let (mut lowest, mut size, mut guard) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: `attributes` must be initialized ← `pthread_getattr_np` succeeded.
    unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size) };
    // SAFETY: as above.
    unsafe { libc::pthread_attr_getguardsize(attributes.as_ptr(), &raw mut guard) };
    // SAFETY: as above; the attributes are not used any more.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    Ok((lowest.expose_provenance(), guard))
}

/// On this system the size of the guard is not changed.
#[cfg(not(target_os = "linux"))]
pub(crate) struct StackGuard;

#[cfg(not(target_os = "linux"))]
impl StackGuard {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::thread;

    use super::{SIZE, StackGuard};

    /// Returns the access to the memory at `address`, and the end of the mapping that contains it.
    fn access(address: usize) -> (String, usize) {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mapping = maps.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let number = |hex| usize::from_str_radix(hex, 16).unwrap();
            let (start, end) = (number(start), number(end));
            (start..end)
                .contains(&address)
                .then(|| (words.next().unwrap().to_owned(), end))
        });
        mapping.unwrap()
    }

    #[test]
    fn the_end_of_the_stack_is_inaccessible() {
        let run = || {
            let guard = StackGuard::new().unwrap();
            let start = guard.start.addr();
            let (before, end) = access(start);
            drop(guard);
            (before, end - start, access(start).0)
        };
        let thread = thread::Builder::new().stack_size(8 * SIZE).spawn(run);
        let (before, size, after) = thread.unwrap().join().unwrap();
        assert_eq!((before.as_str(), size), ("---p", SIZE));
        assert_eq!(after, "rw-p");
    }

    #[test]
    fn a_small_stack_is_an_error() {
        let thread = thread::Builder::new().stack_size(2 * SIZE);
        let result = thread.spawn(|| StackGuard::new().is_err());
        assert!(result.unwrap().join().unwrap());
    }
}
