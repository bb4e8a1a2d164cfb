//! Fat binaries: machine code for several architectures, and PTX, in one file.

use std::fmt;

/// A fat binary: machine code for several architectures, and PTX. The driver selects the part for
/// its device.
///
/// The driver trusts the bytes. Therefore creating an image from bytes is `unsafe`, and loading it
/// is safe.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Fatbin(Vec<u8>);

/// The reason why bytes are not a fat binary.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FatbinError {
    /// The bytes do not begin with the magic number of a fat binary.
    NotAFatbin,
    /// The bytes are fewer than the header states.
    Truncated {
        /// The length that the header states.
        expected: u64,
        /// The actual number of bytes.
        found: usize,
    },
}

impl Fatbin {
    /// The magic number at the start of a fat binary.
    pub(super) const MAGIC: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();

    /// Creates an image from its bytes. The magic number and the length are checked against the
    /// header; the rest is trusted.
    ///
    /// # Errors
    ///
    /// [`FatbinError`] if the bytes do not begin as a fat binary, or are fewer than its header
    /// states.
    ///
    /// # Safety
    ///
    /// The bytes must be a fat binary, unaltered since a compiler or linker of NVIDIA's generated
    /// it.
    pub unsafe fn from_bytes(bytes: Vec<u8>) -> Result<Self, FatbinError> {
        let expected = Self::length(&bytes).ok_or(FatbinError::NotAFatbin)?;
        let found = bytes.len();
        if (found as u64) < expected {
            return Err(FatbinError::Truncated { expected, found });
        }
        Ok(Self(bytes))
    }

    /// Returns the length that the header states: magic (4 bytes), version (2), size of the header
    /// (2), size of the data after it (8).
    fn length(bytes: &[u8]) -> Option<u64> {
        let rest = bytes.strip_prefix(&Self::MAGIC)?;
        let header = u16::from_le_bytes(rest.get(2..4)?.try_into().ok()?);
        let behind = u64::from_le_bytes(rest.get(4..12)?.try_into().ok()?);
        (header >= 16)
            .then_some(u64::from(header))?
            .checked_add(behind)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Fatbin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fatbin({} bytes)", self.0.len())
    }
}

/// Prints the text of `Display`, because `main` and `unwrap` print this.
impl fmt::Debug for FatbinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for FatbinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAFatbin => f.write_str("the bytes are not a fat binary"),
            Self::Truncated { expected, found } => write!(
                f,
                "the fat binary is truncated: its header states {expected} bytes, but there are {found}"
            ),
        }
    }
}

impl std::error::Error for FatbinError {}

#[cfg(test)]
mod tests {
    use super::{Fatbin, FatbinError};

    fn of(bytes: &[u8]) -> Result<Fatbin, FatbinError> {
        // SAFETY: the bytes must be a fat binary if a driver loads them ← no driver loads them.
        unsafe { Fatbin::from_bytes(bytes.to_vec()) }
    }

    #[test]
    fn the_length_is_checked_against_the_header() {
        let mut whole = Fatbin::MAGIC.to_vec();
        whole.extend([1, 0, 16, 0]);
        whole.extend(5_u64.to_le_bytes());
        whole.extend(*b"12345");
        assert_eq!(of(&whole).unwrap().as_bytes(), whole);
        for len in 16..whole.len() {
            let error = of(&whole[..len]).unwrap_err();
            let (expected, found) = (21, len);
            assert_eq!(error, FatbinError::Truncated { expected, found });
        }
        for len in 0..16 {
            assert_eq!(of(&whole[..len]), Err(FatbinError::NotAFatbin));
        }
        // A header length below the minimum is rejected, and so are lengths that overflow.
        whole[6] = 15;
        assert_eq!(of(&whole), Err(FatbinError::NotAFatbin));
        whole[6] = 16;
        whole[8..16].fill(0xFF);
        assert_eq!(of(&whole), Err(FatbinError::NotAFatbin));
        assert_eq!(of(b"\x7fELF and more"), Err(FatbinError::NotAFatbin));
    }
}
