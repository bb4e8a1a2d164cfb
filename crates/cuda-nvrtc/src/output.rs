//! What a compilation can give.

use cuda_sys::image::{Cubin, LtoIr, OptixIr, Ptx, TileIr};
use cuda_sys::nvrtc::calls;

use crate::raw::Getter;
use crate::{Error, Nvrtc, Options};

/// A kind of output: [`Ptx`], [`Cubin`], [`LtoIr`], [`OptixIr`] or [`TileIr`].
pub trait Output: sealed::Output + crate::cache::image::Stored {}

pub(crate) mod sealed {
    use super::{Error, Getter, Nvrtc, Options, Ptx};

    pub trait Output: Sized + Send + 'static {
        /// What it is called.
        const NAME: &'static str;

        /// The options with what this output needs of them.
        fn prepare(options: &Options) -> Result<Options, Error>;

        /// What reads it.
        fn getter(nvrtc: &Nvrtc) -> Result<Getter, Error>;

        /// Makes it of the bytes that `getter` read; `None` if there is nothing in them.
        fn from_nvrtc(bytes: Vec<u8>) -> Option<Self>;

        /// Takes what it wants of the PTX that the same compilation went through.
        fn complete(self, _ptx: impl FnOnce() -> Option<Ptx>) -> Self {
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

    fn prepare(options: &Options) -> Result<Options, Error> {
        Ok(options.clone())
    }

    fn getter(nvrtc: &Nvrtc) -> Result<Getter, Error> {
        getter!(nvrtc, nvrtcGetPTXSize, nvrtcGetPTX)
    }

    fn from_nvrtc(mut bytes: Vec<u8>) -> Option<Self> {
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

    fn prepare(options: &Options) -> Result<Options, Error> {
        match options.target() {
            Some(arch) if arch.is_real() => Ok(options.clone()),
            arch => Err(Error::NeedsRealArch { arch }),
        }
    }

    fn getter(nvrtc: &Nvrtc) -> Result<Getter, Error> {
        getter!(nvrtc, nvrtcGetCUBINSize, nvrtcGetCUBIN)
    }

    fn from_nvrtc(bytes: Vec<u8>) -> Option<Self> {
        // SAFETY: they must be a whole cubin as NVIDIA's compiler made it ← NVRTC wrote them just now, and they are
        // all that it said there are.
        (!bytes.is_empty()).then(|| unsafe { Self::from_bytes(bytes) })
    }

    fn complete(self, ptx: impl FnOnce() -> Option<Ptx>) -> Self {
        let signatures = ptx().and_then(|ptx| ptx.signatures());
        // SAFETY: they must be those of this cubin's kernels ← NVRTC made it from this PTX.
        unsafe { self.with_signatures(signatures) }
    }
}

impl Output for LtoIr {}

impl sealed::Output for LtoIr {
    const NAME: &'static str = "LTO-IR";

    fn prepare(options: &Options) -> Result<Options, Error> {
        Ok(options.clone().raw("--dlink-time-opt"))
    }

    fn getter(nvrtc: &Nvrtc) -> Result<Getter, Error> {
        getter!(nvrtc, nvrtcGetLTOIRSize, nvrtcGetLTOIR)
    }

    fn from_nvrtc(bytes: Vec<u8>) -> Option<Self> {
        // SAFETY: they must be LTO-IR as NVIDIA's compiler made it ← NVRTC wrote them just now, and they are all
        // that it said there are.
        (!bytes.is_empty()).then(|| unsafe { Self::from_bytes(bytes) })
    }
}

impl Output for OptixIr {}

impl sealed::Output for OptixIr {
    const NAME: &'static str = "OptiX-IR";

    fn prepare(options: &Options) -> Result<Options, Error> {
        Ok(options.clone().raw("--optix-ir"))
    }

    fn getter(nvrtc: &Nvrtc) -> Result<Getter, Error> {
        getter!(nvrtc, nvrtcGetOptiXIRSize, nvrtcGetOptiXIR)
    }

    fn from_nvrtc(bytes: Vec<u8>) -> Option<Self> {
        // SAFETY: they must be OptiX-IR as NVIDIA's compiler made it ← NVRTC wrote them just now, and they are all
        // that it said there are.
        (!bytes.is_empty()).then(|| unsafe { Self::from_bytes(bytes) })
    }
}

impl Output for TileIr {}

impl sealed::Output for TileIr {
    const NAME: &'static str = "Tile IR";

    fn prepare(options: &Options) -> Result<Options, Error> {
        Ok(options.clone().tile(true))
    }

    fn getter(nvrtc: &Nvrtc) -> Result<Getter, Error> {
        getter!(nvrtc, nvrtcGetTileIRSize, nvrtcGetTileIR)
    }

    fn from_nvrtc(bytes: Vec<u8>) -> Option<Self> {
        // SAFETY: they must be Tile IR as NVIDIA's compiler made it ← NVRTC wrote them just now, and they are all
        // that it said there are.
        (!bytes.is_empty()).then(|| unsafe { Self::from_bytes(bytes) })
    }
}
