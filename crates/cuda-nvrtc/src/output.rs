//! The kinds of output of a compilation.

use cuda_sys::image::{Cubin, LtoIr, OptixIr, Ptx, TileIr};
use cuda_sys::nvrtc::calls;

use crate::raw::Getter;
use crate::{Error, Nvrtc, Options};

/// A kind of output: [`Ptx`], [`Cubin`], [`LtoIr`], [`OptixIr`] or [`TileIr`].
///
/// The trait is sealed: no other crate can implement it or call its functions.
pub trait Output: sealed::Output + crate::cache::image::Stored {}

pub(crate) mod sealed {
    use super::{Error, Getter, Nvrtc, Options, Ptx};
    pub(crate) use crate::token::{TOKEN, Token};

    pub trait Output: Sized + Send + 'static {
        /// The name of the kind, for messages and cache keys.
        const NAME: &'static str;

        /// Adds the options that this kind of output requires.
        fn prepare(options: &Options, token: Token) -> Result<Options, Error>;

        /// Returns the NVRTC functions that read this kind of output.
        fn getter(nvrtc: &Nvrtc, token: Token) -> Result<Getter, Error>;

        /// Wraps the bytes of one output. Returns `None` if NVRTC wrote no output.
        ///
        /// # Safety
        ///
        /// NVRTC wrote `bytes` through the functions of [`getter`](Self::getter), and they are
        /// complete.
        unsafe fn from_nvrtc(bytes: Vec<u8>, token: Token) -> Option<Self>;

        /// Attaches the signatures of the kernels, which the PTX of the same compilation contains.
        ///
        /// # Safety
        ///
        /// `ptx` returns the PTX of the compilation that `self` came from, or `None`.
        unsafe fn complete(self, _ptx: impl FnOnce() -> Option<Ptx>, _token: Token) -> Self {
            self
        }
    }
}

macro_rules! getter {
    ($nvrtc:ident, $size:ident, $read:ident) => {
        Ok(Getter {
            size: $nvrtc.function($nvrtc.table().$size, calls::$size)?,
            read: $nvrtc.function($nvrtc.table().$read, calls::$read)?,
            size_call: calls::$size,
            read_call: calls::$read,
        })
    };
}

impl Output for Ptx {}

impl sealed::Output for Ptx {
    const NAME: &'static str = "PTX";

    fn prepare(options: &Options, _: sealed::Token) -> Result<Options, Error> {
        Ok(options.clone())
    }

    fn getter(nvrtc: &Nvrtc, _: sealed::Token) -> Result<Getter, Error> {
        getter!(nvrtc, nvrtcGetPTXSize, nvrtcGetPTX)
    }

    unsafe fn from_nvrtc(mut bytes: Vec<u8>, _: sealed::Token) -> Option<Self> {
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        Self::new(bytes)
            .ok()
            .filter(|ptx| !ptx.as_c_str().is_empty())
    }
}

impl Output for Cubin {}

impl sealed::Output for Cubin {
    const NAME: &'static str = "cubin";

    fn prepare(options: &Options, _: sealed::Token) -> Result<Options, Error> {
        match options.target() {
            Some(arch) if arch.is_real() => Ok(options.clone()),
            arch => Err(Error::NeedsRealArch { arch }),
        }
    }

    fn getter(nvrtc: &Nvrtc, _: sealed::Token) -> Result<Getter, Error> {
        getter!(nvrtc, nvrtcGetCUBINSize, nvrtcGetCUBIN)
    }

    unsafe fn from_nvrtc(bytes: Vec<u8>, _: sealed::Token) -> Option<Self> {
        // SAFETY: `bytes` must be a whole cubin as NVIDIA's compiler made it ← the caller
        // guarantees that NVRTC wrote them and that they are complete.
        (!bytes.is_empty()).then(|| unsafe { Self::from_bytes(bytes) })
    }

    unsafe fn complete(self, ptx: impl FnOnce() -> Option<Ptx>, _: sealed::Token) -> Self {
        let signatures = ptx().and_then(|ptx| ptx.signatures());
        // SAFETY: the signatures must be those of this cubin's kernels ← the caller guarantees that
        // `ptx` is of the same compilation.
        unsafe { self.with_signatures(signatures) }
    }
}

impl Output for LtoIr {}

impl sealed::Output for LtoIr {
    const NAME: &'static str = "LTO-IR";

    fn prepare(options: &Options, _: sealed::Token) -> Result<Options, Error> {
        Ok(options.clone().raw("--dlink-time-opt"))
    }

    fn getter(nvrtc: &Nvrtc, _: sealed::Token) -> Result<Getter, Error> {
        getter!(nvrtc, nvrtcGetLTOIRSize, nvrtcGetLTOIR)
    }

    unsafe fn from_nvrtc(bytes: Vec<u8>, _: sealed::Token) -> Option<Self> {
        // SAFETY: `bytes` must be LTO-IR as NVIDIA's compiler made it ← the caller guarantees that
        // NVRTC wrote them and that they are complete.
        (!bytes.is_empty()).then(|| unsafe { Self::from_bytes(bytes) })
    }
}

impl Output for OptixIr {}

impl sealed::Output for OptixIr {
    const NAME: &'static str = "OptiX-IR";

    fn prepare(options: &Options, _: sealed::Token) -> Result<Options, Error> {
        Ok(options.clone().raw("--optix-ir"))
    }

    fn getter(nvrtc: &Nvrtc, _: sealed::Token) -> Result<Getter, Error> {
        getter!(nvrtc, nvrtcGetOptiXIRSize, nvrtcGetOptiXIR)
    }

    unsafe fn from_nvrtc(bytes: Vec<u8>, _: sealed::Token) -> Option<Self> {
        // SAFETY: `bytes` must be OptiX-IR as NVIDIA's compiler made it ← the caller guarantees
        // that NVRTC wrote them and that they are complete.
        (!bytes.is_empty()).then(|| unsafe { Self::from_bytes(bytes) })
    }
}

impl Output for TileIr {}

impl sealed::Output for TileIr {
    const NAME: &'static str = "Tile IR";

    fn prepare(options: &Options, _: sealed::Token) -> Result<Options, Error> {
        Ok(options.clone().tile(true))
    }

    fn getter(nvrtc: &Nvrtc, _: sealed::Token) -> Result<Getter, Error> {
        getter!(nvrtc, nvrtcGetTileIRSize, nvrtcGetTileIR)
    }

    unsafe fn from_nvrtc(bytes: Vec<u8>, _: sealed::Token) -> Option<Self> {
        // SAFETY: `bytes` must be Tile IR as NVIDIA's compiler made it ← the caller guarantees that
        // NVRTC wrote them and that they are complete.
        (!bytes.is_empty()).then(|| unsafe { Self::from_bytes(bytes) })
    }
}
