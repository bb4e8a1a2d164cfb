//! The images from which modules are loaded.

use std::ffi::c_void;
use std::fs;
use std::path::Path;

use cuda_sys::image::{Cubin, Fatbin, Loadable, Ptx, Signature};

use super::text;
use crate::error::{Error, Result};

/// Device code that the driver can load.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Image<'a> {
    /// PTX, which the driver compiles for the device.
    Ptx(&'a Ptx),
    /// A cubin, which is loaded unchanged.
    Cubin(&'a Cubin),
    /// A fat binary, from which the driver selects the image that fits the device.
    Fatbin(&'a Fatbin),
}

impl Image<'_> {
    /// Fails if the image is a text that must not be given to a compiler.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::Ptx(ptx) => text::check(ptx),
            Self::Cubin(_) | Self::Fatbin(_) => Ok(()),
        }
    }

    pub(crate) fn data(self) -> *const c_void {
        match self {
            Self::Ptx(ptx) => ptx.as_c_str().as_ptr().cast(),
            Self::Cubin(cubin) => cubin.as_bytes().as_ptr().cast(),
            Self::Fatbin(fatbin) => fatbin.as_bytes().as_ptr().cast(),
        }
    }

    /// Returns the span in which the driver loads the image.
    #[cfg(feature = "tracing")]
    pub(crate) fn span(self) -> tracing::Span {
        let (format, bytes) = match self {
            Self::Ptx(ptx) => ("PTX", ptx.as_c_str().count_bytes()),
            Self::Cubin(cubin) => ("cubin", cubin.as_bytes().len()),
            Self::Fatbin(fatbin) => ("fatbin", fatbin.as_bytes().len()),
        };
        tracing::debug_span!(target: "cuda_driver", "load", format, bytes)
    }

    /// Returns the parameters of its kernels, if the image describes them.
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

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::File {
        path: path.to_owned(),
        kind: error.kind(),
    })
}

/// Reads the image in a file.
///
/// # Safety
///
/// If the file is a cubin or a fat binary, it must be complete and unmodified since a compiler or
/// linker of NVIDIA created it.
pub(crate) unsafe fn read_image(path: &Path) -> Result<Loadable> {
    let bytes = read(path)?;
    // SAFETY: machine code must be complete and unmodified ← this is the contract of the caller.
    unsafe { Loadable::from_bytes(bytes) }.map_err(|error| Error::Image(Box::new(error)))
}

/// Borrows a loaded file as an [`Image`].
pub(crate) fn image_of(loadable: &Loadable) -> Result<Image<'_>> {
    match loadable {
        Loadable::Ptx(ptx) => Ok(Image::Ptx(ptx)),
        Loadable::Cubin(cubin) => Ok(Image::Cubin(cubin)),
        Loadable::Fatbin(fatbin) => Ok(Image::Fatbin(fatbin)),
        _ => Err(Error::Unsupported {
            what: "loading an image that is neither PTX, a cubin nor a fat binary; link it to a \
                   cubin first",
        }),
    }
}
