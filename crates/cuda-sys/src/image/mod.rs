//! Images that compilers generate and the driver loads. Each kind is a separate type.
//!
//! The types are in this crate because a compiler (`cuda-nvrtc`) creates them and a driver
//! (`cuda-driver`) loads them, and neither crate depends on the other.

mod fatbin;
mod loadable;
mod signature;

use std::ffi::{CStr, CString, NulError};
use std::fmt;

pub use fatbin::{Fatbin, FatbinError};
pub use loadable::{Loadable, LoadableError};
pub use signature::{Parameter, ParameterKind, Signature};

/// PTX: the text form of a virtual instruction set, which the driver compiles for its device.
///
/// The text may be anything, also machine code without a NUL byte, or a text on which NVIDIA's
/// compiler crashes. Every call of cuda-driver that loads PTX checks the text before the driver gets
/// it. A caller of the raw functions has to do the same.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Ptx(CString);

impl Ptx {
    /// Creates an image from its text.
    ///
    /// # Errors
    ///
    /// [`NulError`] with the position, if the text contains a NUL byte.
    pub fn new(text: impl Into<Vec<u8>>) -> Result<Self, NulError> {
        CString::new(text).map(Self)
    }

    /// Returns the text with its NUL terminator.
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        &self.0
    }

    /// Returns the text. Bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// Returns the `.version` that the text states, as (major, minor).
    #[must_use]
    pub fn version(&self) -> Option<(u32, u32)> {
        let text = self.0.to_string_lossy();
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(".version"))?;
        let (major, minor) = line.split_whitespace().next()?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}

impl Ptx {
    /// Returns the kernels in the text and their parameters; `None` if the text does not follow the
    /// PTX manual.
    #[must_use]
    pub fn signatures(&self) -> Option<Vec<Signature>> {
        signature::read(&self.0.to_string_lossy())
    }
}

impl fmt::Debug for Ptx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ptx({} bytes)", self.0.count_bytes())
    }
}

macro_rules! trusted_image {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        ///
        /// Consumers trust the bytes: they read past the end of a truncated or altered image.
        /// Therefore creating an image from bytes is `unsafe`, and loading it is safe.
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct $name(Vec<u8>);

        impl $name {
            /// Creates an image from its bytes.
            ///
            /// # Safety
            ///
            #[doc = concat!("The bytes must be ", $what, ", complete and unaltered since a compiler or linker of NVIDIA's generated it.")]
            #[must_use]
            pub unsafe fn from_bytes(bytes: Vec<u8>) -> Self {
                Self(bytes)
            }

            /// Returns the bytes.
            #[must_use]
            pub fn as_bytes(&self) -> &[u8] {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({} bytes)", stringify!($name), self.0.len())
            }
        }
    };
}

/// A cubin: machine code for one architecture, in an ELF file.
///
/// The driver trusts the bytes: it reads past the end of a truncated or altered image. Therefore
/// creating an image from bytes is `unsafe`, and loading it is safe.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Cubin {
    bytes: Vec<u8>,
    signatures: Option<Vec<Signature>>,
}

impl Cubin {
    /// Creates an image from its bytes.
    ///
    /// # Safety
    ///
    /// The bytes must be a complete cubin, unaltered since a compiler or linker of NVIDIA's
    /// generated it.
    #[must_use]
    pub unsafe fn from_bytes(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            signatures: None,
        }
    }

    /// Attaches the signatures of the kernels as the compiler reported them, so that the driver
    /// need not be queried for them.
    ///
    /// # Safety
    ///
    /// The signatures must be those of all kernels of this cubin: launches are checked against
    /// them.
    #[must_use]
    pub unsafe fn with_signatures(mut self, signatures: Option<Vec<Signature>>) -> Self {
        self.signatures = signatures;
        self
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the kernels and their parameters, if the compiler reported them.
    #[must_use]
    pub fn signatures(&self) -> Option<&[Signature]> {
        self.signatures.as_deref()
    }
}

impl fmt::Debug for Cubin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cubin({} bytes)", self.bytes.len())
    }
}

trusted_image! {
    /// LTO-IR: the intermediate code that the linkers of the driver and of NVIDIA optimize across
    /// files.
    LtoIr, "LTO-IR"
}

trusted_image! {
    /// A host object file that contains device code.
    Object, "an object file"
}

trusted_image! {
    /// An archive (`.a`) of host object files that contain device code.
    Archive, "an archive of object files"
}

trusted_image! {
    /// OptiX-IR: the input from which the OptiX library creates a module. The driver does not load
    /// it.
    OptixIr, "OptiX-IR"
}

trusted_image! {
    /// Tile IR: the byte code of tile kernels.
    TileIr, "Tile IR"
}

/// The newest PTX version that each CUDA release can write and its driver can read, from the table
/// of release notes in the PTX manual.
const PTX_OF_CUDA: [(u32, (u32, u32)); 15] = [
    (12000, (8, 0)),
    (12010, (8, 1)),
    (12020, (8, 2)),
    (12030, (8, 3)),
    (12040, (8, 4)),
    (12050, (8, 5)),
    (12070, (8, 6)),
    (12080, (8, 7)),
    (12090, (8, 8)),
    (13000, (9, 0)),
    (13010, (9, 1)),
    (13020, (9, 2)),
    (13030, (9, 3)),
    (13040, (9, 4)),
    (13050, (9, 5)),
];

/// Returns the newest PTX version that a driver of `version` reads, as (major, minor).
///
/// For a driver newer than this crate this is the newest version known here; for a driver older
/// than CUDA 12.0 it is `None`.
#[must_use]
pub fn newest_ptx(version: crate::Version) -> Option<(u32, u32)> {
    let known = PTX_OF_CUDA
        .iter()
        .rev()
        .find(|(cuda, _)| *cuda <= version.number());
    known.map(|(_, ptx)| *ptx)
}

#[cfg(test)]
mod tests {
    use super::{Ptx, newest_ptx};
    use crate::Version;

    #[test]
    fn ptx_states_its_version() {
        let ptx = Ptx::new("// a comment\n.version 8.4 \n.target sm_90").unwrap();
        assert_eq!(ptx.version(), Some((8, 4)));
        assert_eq!(Ptx::new("garbage").unwrap().version(), None);
        assert_eq!(Ptx::new(b"a\0b".to_vec()).unwrap_err().nul_position(), 1);
    }

    #[test]
    fn a_driver_reads_ptx_up_to_its_release() {
        assert_eq!(newest_ptx(Version::new(12060)), Some((8, 5)));
        assert_eq!(newest_ptx(Version::new(13050)), Some((9, 5)));
        assert_eq!(newest_ptx(Version::new(14000)), Some((9, 5)));
        assert_eq!(newest_ptx(Version::new(11080)), None);
    }
}
