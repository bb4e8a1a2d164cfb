//! CUPTI as the source of times: NVIDIA's interface for profilers records when each kernel, copy
//! and fill began and ended.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cuda_sys::Version;
use cuda_sys::cupti::{CUptiResult, CuptiLibrary};

use crate::driver::Driver;
use crate::error::{CuptiError, Error, Result};

mod join;
mod records;
mod session;

pub(super) use join::Scope;
pub(super) use session::{Session, take_correlation};

/// The versions of the interface whose records begin with the fields that `cuda_sys::cupti`
/// declares: those of CUDA 12, and those of CUDA 13.0 to 13.5.
const KNOWN: [std::ops::RangeInclusive<u32>; 2] = [19..=28, 130_000..=130_599];

/// The library CUPTI, which is loaded at run time.
///
/// It comes with the CUDA toolkit, in `extras/CUPTI`, and with NVIDIA's Python packages
/// `nvidia-cuda-cupti` and `nvidia-cuda-cupti-cu12`.
#[derive(Clone, Debug)]
pub struct Cupti {
    library: Arc<CuptiLibrary>,
}

impl Cupti {
    /// `cuptiGetVersion()`—Loads the CUPTI of this system for a driver.
    ///
    /// The environment variable `CUDA_CUPTI_LIBRARY` names the file. Without it, these places are
    /// tried in order: the search path of the dynamic loader, the toolkits, and Python's packages.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] with every place that was tried; [`Error::Cupti`] if the version is not
    /// known.
    #[doc(alias = "cuptiGetVersion")]
    pub fn load(driver: &Driver) -> Result<Self> {
        Self::of(CuptiLibrary::system(driver.version().major())?)
    }

    /// Loads the CUPTI in the file `path`.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] if the file cannot be loaded, or is not CUPTI; [`Error::Cupti`] if the
    /// version is not known.
    ///
    /// # Safety
    ///
    /// If the file is a library, running its initializers must be sound. If it exports functions
    /// with the names of CUPTI's functions, it must be CUPTI.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: the file must be CUPTI ← the caller guarantees it.
        let library = unsafe { CuptiLibrary::open(path) }?;
        Self::of(Arc::new(library))
    }

    fn of(library: Arc<CuptiLibrary>) -> Result<Self> {
        let mut api = 0;
        // SAFETY: the pointer must be writable ← it points to a local.
        let status = unsafe { (library.cuptiGetVersion)(&raw mut api) };
        let cupti = Self { library };
        cupti.check(status, "cuptiGetVersion")?;
        if KNOWN.iter().any(|known| known.contains(&api)) {
            return Ok(cupti);
        }
        Err(Error::from(CuptiError::UnknownVersion {
            library: cupti.origin().to_owned(),
            version: api,
        }))
    }

    /// The version of CUDA that the library belongs to.
    #[must_use]
    pub fn version(&self) -> Version {
        self.library.version()
    }

    /// The path of the loaded file, as it was passed to the system's loader.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.library.origin()
    }

    /// Converts the status of a call.
    fn check(&self, status: CUptiResult, call: &'static str) -> Result<()> {
        match status {
            CUptiResult::CUPTI_SUCCESS => Ok(()),
            CUptiResult::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED => {
                Err(CuptiError::OtherTool { call }.into())
            }
            status => Err(CuptiError::Call {
                call,
                status,
                text: self.text(status),
                library: self.origin().to_owned(),
            }
            .into()),
        }
    }
}

/// The source of the times of a profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// Events before and after each piece of work.
    Events,
    /// The activity records of CUPTI.
    Cupti,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Events => "events",
            Self::Cupti => "CUPTI",
        })
    }
}
