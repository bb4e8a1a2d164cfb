//! An image whose kind is determined at run time, such as one from a file.

use std::ffi::NulError;
use std::fmt;

use super::{Cubin, Fatbin, FatbinError, Ptx};

/// An image of any kind that the driver loads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loadable {
    /// PTX text, which the driver compiles for its device.
    Ptx(Ptx),
    /// Machine code for one architecture.
    Cubin(Cubin),
    /// Machine code for several architectures, and PTX.
    Fatbin(Fatbin),
}

/// The reason why bytes are not an image.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadableError {
    /// The bytes begin with the magic number of a fat binary but are not one.
    Fatbin(FatbinError),
    /// The bytes are neither a cubin nor a fat binary, and contain a NUL byte, which PTX cannot.
    Nul(NulError),
}

impl Loadable {
    /// Creates an image of the kind that the first bytes indicate: a cubin is an ELF file, a fat
    /// binary has a magic number, and everything else is PTX.
    ///
    /// # Errors
    ///
    /// [`LoadableError`] if the bytes are an incomplete fat binary, or not text.
    ///
    /// # Safety
    ///
    /// If the bytes are a cubin or a fat binary, they must be complete and unaltered since a
    /// compiler or linker of NVIDIA's generated it.
    pub unsafe fn from_bytes(bytes: Vec<u8>) -> Result<Self, LoadableError> {
        if bytes.starts_with(b"\x7fELF") {
            // SAFETY: the bytes must be a complete cubin ← they begin as ELF, and the caller
            // guarantees the rest.
            return Ok(Self::Cubin(unsafe { Cubin::from_bytes(bytes) }));
        }
        if bytes.starts_with(&Fatbin::MAGIC) {
            // SAFETY: the bytes must be an unaltered fat binary ← the caller guarantees it.
            let fatbin = unsafe { Fatbin::from_bytes(bytes) };
            return fatbin.map(Self::Fatbin).map_err(LoadableError::Fatbin);
        }
        Ptx::new(bytes).map(Self::Ptx).map_err(LoadableError::Nul)
    }
}

/// Prints the text of `Display`, because `main` and `unwrap` print this.
impl fmt::Debug for LoadableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for LoadableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fatbin(error) => error.fmt(f),
            Self::Nul(error) => write!(
                f,
                "the bytes are neither machine code nor text: there is a NUL byte at position {}",
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
    fn image_format_is_detected_by_its_first_bytes() {
        let of = |bytes: &[u8]| {
            // SAFETY: the bytes must be an image if a driver loads them ← no driver loads them.
            unsafe { Loadable::from_bytes(bytes.to_vec()) }
        };
        assert!(matches!(of(b"\x7fELF\x02\0"), Ok(Loadable::Cubin(_))));
        assert!(matches!(of(b".version 8.0"), Ok(Loadable::Ptx(_))));
        let error = of(&Fatbin::MAGIC).unwrap_err();
        assert_eq!(error, LoadableError::Fatbin(FatbinError::NotAFatbin));
        assert!(matches!(of(b"MZ\0"), Err(LoadableError::Nul(_))));
    }
}
