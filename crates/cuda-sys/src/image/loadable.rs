//! An image whose kind is found out when the program runs: that of a file.

use std::ffi::NulError;
use std::fmt;

use super::{Cubin, Fatbin, FatbinError, Ptx};

/// What the driver loads, of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loadable {
    /// Text that the driver compiles for its device.
    Ptx(Ptx),
    /// Machine code of one architecture.
    Cubin(Cubin),
    /// Machine code of several architectures, and PTX.
    Fatbin(Fatbin),
}

/// Why bytes are no image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadableError {
    /// They begin as a fat binary, and are none.
    Fatbin(FatbinError),
    /// They are no machine code, and have a NUL byte, which text has not.
    Nul(NulError),
}

impl Loadable {
    /// Takes the bytes for what they begin as: a cubin is an ELF file, a fat binary has a magic
    /// number, all else is PTX.
    ///
    /// # Errors
    ///
    /// [`LoadableError`] if they are none of them.
    ///
    /// # Safety
    ///
    /// If they are a cubin or a fat binary: they are whole and unaltered since a compiler or linker
    /// of NVIDIA's made them.
    pub unsafe fn from_bytes(bytes: Vec<u8>) -> Result<Self, LoadableError> {
        if bytes.starts_with(b"\x7fELF") {
            // SAFETY: it must be a whole cubin ← it is ELF, and the caller says so.
            return Ok(Self::Cubin(unsafe { Cubin::from_bytes(bytes) }));
        }
        if bytes.starts_with(&Fatbin::MAGIC) {
            // SAFETY: it must be an unaltered fat binary ← the caller says so.
            let fatbin = unsafe { Fatbin::from_bytes(bytes) };
            return fatbin.map(Self::Fatbin).map_err(LoadableError::Fatbin);
        }
        Ptx::new(bytes).map(Self::Ptx).map_err(LoadableError::Nul)
    }
}

impl fmt::Display for LoadableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fatbin(error) => error.fmt(f),
            Self::Nul(error) => write!(
                f,
                "the bytes are neither machine code nor text: there is a NUL at position {}",
                error.nul_position()
            ),
        }
    }
}

impl std::error::Error for LoadableError {}

#[cfg(test)]
mod tests {
    use super::{Fatbin, FatbinError, Loadable, LoadableError};

    #[test]
    fn bytes_are_what_they_begin_as() {
        let of = |bytes: &[u8]| {
            // SAFETY: nobody gives it to a driver.
            unsafe { Loadable::from_bytes(bytes.to_vec()) }
        };
        assert!(matches!(of(b"\x7fELF\x02\0"), Ok(Loadable::Cubin(_))));
        assert!(matches!(of(b".version 8.0"), Ok(Loadable::Ptx(_))));
        let error = of(&Fatbin::MAGIC).unwrap_err();
        assert_eq!(error, LoadableError::Fatbin(FatbinError::NotAFatbin));
        assert!(matches!(of(b"MZ\0"), Err(LoadableError::Nul(_))));
    }
}
