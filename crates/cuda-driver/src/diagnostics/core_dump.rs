//! Core dumps of a device (`cuCoredump*`): files for cuda-gdb, written when a kernel faults.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr;

use cuda_sys::{CUCoredumpGenerationFlags, CUcoredumpSettings, CUresult};

use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, RangeError, Result};

bitflags::bitflags! {
    /// The contents of a core dump. Bits without a name are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct CoreDumpFlags: u32 {
        /// Leaves out images that are not relocated.
        const SKIP_NONRELOCATED_ELF_IMAGES = 1;
        /// Leaves out global memory.
        const SKIP_GLOBAL_MEMORY = 2;
        /// Leaves out shared memory.
        const SKIP_SHARED_MEMORY = 4;
        /// Leaves out local memory.
        const SKIP_LOCAL_MEMORY = 8;
        /// Does not end the host program with `abort` after a fault.
        const SKIP_ABORT = 16;
        /// Leaves out constant memory.
        const SKIP_CONSTBANK_MEMORY = 32;
        /// Leaves out tensor memory.
        const SKIP_TENSOR_MEMORY =
            CUCoredumpGenerationFlags::CU_COREDUMP_SKIP_TENSOR_MEMORY.0 as u32;
        /// Compresses the file with gzip, and adds `.gz` to its name.
        const GZIP_COMPRESS = CUCoredumpGenerationFlags::CU_COREDUMP_GZIP_COMPRESS.0 as u32;
        /// Contains only contexts with a fault.
        const FAULTED_CONTEXTS_ONLY =
            CUCoredumpGenerationFlags::CU_COREDUMP_FAULTED_CONTEXTS_ONLY.0 as u32;
        /// Contains no memory, only the state of the threads.
        const LIGHTWEIGHT = 1 | 2 | 4 | 8 | 32;
        const _ = !0;
    }
}

/// When and where a fault on the device writes a core dump.
///
/// Set for a whole driver by [`Driver::set_core_dumps`], or for one context by
/// [`Context::set_core_dumps`]. cuda-gdb opens the file: `target cudacore FILE`.
///
/// ```no_run
/// use cuda_driver::Driver;
/// use cuda_driver::diagnostics::{CoreDumpFlags, CoreDumps};
///
/// let driver = Driver::load()?;
/// let flags = CoreDumpFlags::LIGHTWEIGHT | CoreDumpFlags::SKIP_ABORT;
/// driver.set_core_dumps(&CoreDumps::to("/tmp/fault.cucore").flags(flags))?;
/// # Ok::<(), cuda_driver::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct CoreDumps {
    is_enabled: bool,
    file: PathBuf,
    flags: CoreDumpFlags,
}

impl CoreDumps {
    /// A fault writes a core dump with all memory to `file`, and then ends the program. In the
    /// name, the driver replaces `%h` by the host name, `%p` by the id of the process, and `%t` by
    /// the time.
    pub fn to(file: impl Into<PathBuf>) -> Self {
        Self {
            is_enabled: true,
            file: file.into(),
            flags: CoreDumpFlags::empty(),
        }
    }

    /// Sets the contents of the dump.
    pub fn flags(mut self, flags: CoreDumpFlags) -> Self {
        self.flags = flags;
        self
    }

    /// Sets whether a fault writes a core dump at all.
    pub fn enabled(mut self, is_enabled: bool) -> Self {
        self.is_enabled = is_enabled;
        self
    }

    /// Whether a fault writes a core dump.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// The name of the file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The contents of the dump.
    #[must_use]
    pub fn contents(&self) -> CoreDumpFlags {
        self.flags
    }
}

/// Core dumps of all contexts.
impl Driver {
    /// `cuCoredumpSetAttributeGlobal()`—Sets the core dumps of all contexts of this driver.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_PERMITTED` if the environment sets them (`CUDA_COREDUMP_FILE` and others).
    /// [`Error::OutOfRange`] for a file name of more than 1023 bytes. [`Error::Driver`] with
    /// `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than CUDA 12.1. The software
    /// device refuses the call with `CUDA_ERROR_NOT_SUPPORTED`.
    #[doc(alias = "cuCoredumpSetAttributeGlobal")]
    pub fn set_core_dumps(&self, dumps: &CoreDumps) -> Result<()> {
        set(dumps, |attribute, value, size| {
            // SAFETY: the value must be readable for `size` bytes and the size writable ← `set`
            // passes pointers to locals of that size.
            unsafe { call!(self, cuCoredumpSetAttributeGlobal(attribute, value, size)) }
        })
    }

    /// `cuCoredumpGetAttributeGlobal()`—Returns the core dumps of all contexts of this driver.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than
    /// CUDA 12.1. The software device refuses the call with `CUDA_ERROR_NOT_SUPPORTED`.
    #[doc(alias = "cuCoredumpGetAttributeGlobal")]
    pub fn core_dumps(&self) -> Result<CoreDumps> {
        get(|attribute, value, size| {
            // SAFETY: the value must be writable for `size` bytes, or null, and the size writable ←
            // `get` passes pointers to locals of that size.
            unsafe { call!(self, cuCoredumpGetAttributeGlobal(attribute, value, size)) }
        })
    }
}

/// Core dumps of a context.
impl Context {
    /// `cuCoredumpSetAttribute()`—Sets the core dumps of this context, in place of
    /// [those](Driver::set_core_dumps) of the driver.
    ///
    /// # Errors
    ///
    /// Fails as [`Driver::set_core_dumps`] does.
    #[doc(alias = "cuCoredumpSetAttribute")]
    pub fn set_core_dumps(&self, dumps: &CoreDumps) -> Result<()> {
        let _current = self.enter()?;
        set(dumps, |attribute, value, size| {
            // SAFETY: the value must be readable for `size` bytes and the size writable ← `set`
            // passes pointers to locals of that size.
            unsafe {
                call!(
                    self.driver(),
                    cuCoredumpSetAttribute(attribute, value, size)
                )
            }
        })
    }

    /// `cuCoredumpGetAttribute()`—Returns the core dumps of this context.
    ///
    /// # Errors
    ///
    /// Fails as [`Driver::core_dumps`] does.
    #[doc(alias = "cuCoredumpGetAttribute")]
    pub fn core_dumps(&self) -> Result<CoreDumps> {
        let _current = self.enter()?;
        get(|attribute, value, size| {
            // SAFETY: the value must be writable for `size` bytes, or null, and the size writable ←
            // `get` passes pointers to locals of that size.
            unsafe {
                call!(
                    self.driver(),
                    cuCoredumpGetAttribute(attribute, value, size)
                )
            }
        })
    }
}

/// The maximum length of a file name in bytes, without the NUL.
const LONGEST: usize = 1023;

/// Sets the attributes with `call`. The dump is enabled last, when its file is known.
fn set(
    dumps: &CoreDumps,
    call: impl Fn(CUcoredumpSettings, *mut c_void, *mut usize) -> Result<(), DriverError>,
) -> Result<()> {
    use CUcoredumpSettings as Attribute;
    let put = |attribute, bytes: &mut [u8]| {
        let mut size = bytes.len();
        call(attribute, bytes.as_mut_ptr().cast(), &raw mut size)
    };
    let mut file = dumps.file.as_os_str().as_encoded_bytes().to_vec();
    if let Some(position) = file.iter().position(|&byte| byte == 0) {
        let what = "the name of the core dump";
        return Err(Error::NulByte { what, position });
    }
    if file.len() > LONGEST {
        return Err(Error::from(RangeError::TooMany {
            what: "bytes in the name of the core dump",
            given: file.len(),
            most: LONGEST,
        }));
    }
    file.push(0);
    put(Attribute::CU_COREDUMP_FILE, &mut file)?;
    let mut flags = dumps.flags.bits().to_ne_bytes();
    put(Attribute::CU_COREDUMP_GENERATION_FLAGS, &mut flags)?;
    let mut is_enabled = [u8::from(dumps.is_enabled)];
    put(Attribute::CU_COREDUMP_ENABLE_ON_EXCEPTION, &mut is_enabled)?;
    Ok(())
}

/// Reads the attributes with `call`.
fn get(
    call: impl Fn(CUcoredumpSettings, *mut c_void, *mut usize) -> Result<(), DriverError>,
) -> Result<CoreDumps> {
    use CUcoredumpSettings as Attribute;
    let read = |attribute| -> Result<Vec<u8>> {
        let mut size = 0;
        call(attribute, ptr::null_mut(), &raw mut size)?;
        // Larger than any value, in case the driver does not report the size.
        let mut bytes = vec![0_u8; size.max(LONGEST + 1)];
        let mut size = if size == 0 { bytes.len() } else { size };
        call(attribute, bytes.as_mut_ptr().cast(), &raw mut size)?;
        Ok(bytes)
    };
    let file = read(Attribute::CU_COREDUMP_FILE)?;
    let end = file.iter().position(|&byte| byte == 0);
    let file = String::from_utf8_lossy(&file[..end.unwrap_or(file.len())]).into_owned();
    let flags = match read(Attribute::CU_COREDUMP_GENERATION_FLAGS) {
        Ok(bytes) => bytes.first_chunk().copied().unwrap_or_default(),
        // The attribute exists since CUDA 12.5.
        Err(error) if error.status() == Some(CUresult::CUDA_ERROR_INVALID_VALUE) => [0; 4],
        Err(error) => return Err(error),
    };
    let is_enabled = read(Attribute::CU_COREDUMP_ENABLE_ON_EXCEPTION)?;
    Ok(CoreDumps {
        is_enabled: is_enabled.first().is_some_and(|&byte| byte != 0),
        file: file.into(),
        flags: CoreDumpFlags::from_bits_retain(u32::from_ne_bytes(flags)),
    })
}
