//! What a module is loaded from.

use std::ffi::c_void;
use std::fs;
use std::path::Path;

use cuda_sys::image::{Cubin, Fatbin, Loadable, Ptx, Signature};

use crate::error::{Error, Result};

/// Device code that the driver can load.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Image<'a> {
    /// Compiled by the driver for its device.
    Ptx(&'a Ptx),
    /// Loaded as it is.
    Cubin(&'a Cubin),
    /// The driver takes from it what the device runs.
    Fatbin(&'a Fatbin),
}

impl Image<'_> {
    pub(crate) fn data(self) -> *const c_void {
        match self {
            Self::Ptx(ptx) => ptx.as_c_str().as_ptr().cast(),
            Self::Cubin(cubin) => cubin.as_bytes().as_ptr().cast(),
            Self::Fatbin(fatbin) => fatbin.as_bytes().as_ptr().cast(),
        }
    }

    /// What it tells of its kernels' parameters, if it does.
    pub(crate) fn signatures(self) -> Option<Vec<Signature>> {
        match self {
            Self::Ptx(ptx) => ptx.signatures(),
            Self::Cubin(cubin) => cubin.signatures().map(<[_]>::to_vec),
            Self::Fatbin(_) => None,
        }
    }

    pub(crate) fn ptx_version(self) -> Option<(u32, u32)> {
        match self {
            Self::Ptx(ptx) => ptx.version(),
            Self::Cubin(_) | Self::Fatbin(_) => None,
        }
    }
}

impl<'a> From<&'a Ptx> for Image<'a> {
    fn from(ptx: &'a Ptx) -> Self {
        Self::Ptx(ptx)
    }
}

impl<'a> From<&'a Cubin> for Image<'a> {
    fn from(cubin: &'a Cubin) -> Self {
        Self::Cubin(cubin)
    }
}

impl<'a> From<&'a Fatbin> for Image<'a> {
    fn from(fatbin: &'a Fatbin) -> Self {
        Self::Fatbin(fatbin)
    }
}

/// The bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::File {
        path: path.to_owned(),
        kind: error.kind(),
    })
}

/// The image in a file.
///
/// # Safety
///
/// If the file is a cubin or a fat binary: it is whole and unaltered since a compiler or linker of
/// NVIDIA's made it.
pub(crate) unsafe fn read_image(path: &Path) -> Result<Loadable> {
    let bytes = read(path)?;
    // SAFETY: machine code must be whole and unaltered ← the caller says so.
    unsafe { Loadable::from_bytes(bytes) }.map_err(|error| Error::Image(Box::new(error)))
}

/// The image of any kind.
pub(crate) fn image_of(loadable: &Loadable) -> Result<Image<'_>> {
    match loadable {
        Loadable::Ptx(ptx) => Ok(Image::Ptx(ptx)),
        Loadable::Cubin(cubin) => Ok(Image::Cubin(cubin)),
        Loadable::Fatbin(fatbin) => Ok(Image::Fatbin(fatbin)),
        _ => Err(Error::Unsupported {
            what: "an image of this kind",
        }),
    }
}
