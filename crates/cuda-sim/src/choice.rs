//! The choice between a GPU and the software device.

use std::fmt;
use std::sync::Arc;

use cuda_sys::{CUresult, DriverLibrary, LoadError};

use crate::build_error::BuildError;
use crate::builder::Builder;
use crate::settings::VARIABLE;
use crate::simulator::Simulator;

/// The environment variable that names the file of the driver.
const DRIVER_VARIABLE: &str = "CUDA_DRIVER_LIBRARY";

/// A driver and the reason why it was chosen. `Display` prints one line.
#[derive(Debug)]
pub struct Choice {
    library: Arc<DriverLibrary>,
    simulator: Option<Simulator>,
    reason: String,
}

/// No driver could be chosen.
///
/// `Debug` prints the same text as `Display`, because `main` and `unwrap` show `Debug`.
#[non_exhaustive]
pub enum ChoiceError {
    /// The environment variable `CUDA_DRIVER_LIBRARY` names a file that cannot be used.
    Driver(LoadError),
    /// The driver that `CUDA_DRIVER_LIBRARY` names was loaded but failed to initialize.
    DriverStart {
        /// The file.
        library: String,
        /// The status of `cuInit` or `cuDeviceGetCount`.
        status: CUresult,
    },
    /// The value of the environment variable `CUDA_SIM` is not Unicode.
    NotUnicode {
        /// The value, with a replacement character for each part that is not Unicode.
        value: String,
    },
    /// The software device could not be built.
    Build(BuildError),
    /// The software device was built but its functions could not be loaded.
    Load(LoadError),
}

// `main` and `unwrap` show `Debug`.
impl fmt::Debug for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(error) => write!(f, "{error}"),
            Self::DriverStart { library, status } => write!(
                f,
                "{DRIVER_VARIABLE} is set to {library}, a driver that fails to initialize: {status}\nCorrect \
                 the value, unset {DRIVER_VARIABLE}, or set {VARIABLE}=1 to use the software device."
            ),
            Self::NotUnicode { value } => write!(
                f,
                "{VARIABLE} is set to {value}, which is not Unicode; set it to 1 or to settings such as \
                 devices=2, or unset it"
            ),
            Self::Build(error) => write!(f, "cannot create the software device: {error}"),
            Self::Load(error) => write!(f, "cannot create the software device: {error}"),
        }
    }
}

impl std::error::Error for ChoiceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Build(error) => Some(error),
            Self::Load(error) => Some(error),
            // The message of the inner error is part of this one's.
            Self::Driver(_) | Self::DriverStart { .. } | Self::NotUnicode { .. } => None,
        }
    }
}

impl From<BuildError> for ChoiceError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl From<LoadError> for ChoiceError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl Choice {
    /// Returns whether the software device was chosen.
    #[must_use]
    pub fn is_software(&self) -> bool {
        self.simulator.is_some()
    }

    /// Returns the software driver, or `None` if a GPU was chosen.
    #[must_use]
    pub fn simulator(&self) -> Option<&Simulator> {
        self.simulator.as_ref()
    }

    /// Returns the reason for the choice: for the software device, the reason why no GPU was used.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the driver.
    #[must_use]
    pub fn library(&self) -> &Arc<DriverLibrary> {
        &self.library
    }

    /// Consumes the choice and returns the driver.
    #[must_use]
    pub fn into_library(self) -> Arc<DriverLibrary> {
        self.library
    }

    fn software(builder: Builder, reason: String) -> Result<Self, ChoiceError> {
        let simulator = builder.build()?;
        let library = Arc::new(simulator.library()?);
        Ok(Self {
            library,
            simulator: Some(simulator),
            reason,
        })
    }
}

/// Converts a choice into its driver. So `Driver::new` of the crate cuda-driver takes a choice.
impl From<Choice> for Arc<DriverLibrary> {
    fn from(choice: Choice) -> Self {
        choice.library
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_software() {
            "Running on the software device"
        } else {
            "Running on the GPU"
        };
        write!(f, "{what}: {}", self.reason)
    }
}

/// Returns the system's driver if it has a device, otherwise the software device.
///
/// If the environment variable `CUDA_SIM` is set, the software device that its value describes is
/// returned: `CUDA_SIM="version=12.2,devices=2"`, or `CUDA_SIM=1` for the default (see
/// [`Builder`](crate::Builder#impl-FromStr-for-Builder) for the keys). Otherwise, if
/// `CUDA_DRIVER_LIBRARY` is set, the file that it names must be a driver that initializes: a wrong
/// path is an error and does not fall back to the software device. A driver that reports that there
/// is no device is not an error. An empty variable counts as unset.
///
/// With the crate cuda-driver, one line loads the driver:
/// `Driver::new(cuda_sim::gpu_or_software()?)?`. To say which driver was chosen, print the choice
/// first:
///
/// ```
/// use std::sync::Arc;
///
/// use cuda_sys::DriverLibrary;
///
/// let choice = cuda_sim::gpu_or_software()?;
/// println!("{choice}");
/// // `Driver::new` converts it in the same way.
/// let driver: Arc<DriverLibrary> = choice.into();
/// # let _ = driver;
/// # Ok::<(), cuda_sim::ChoiceError>(())
/// ```
///
/// # Errors
///
/// [`ChoiceError`] if `CUDA_SIM` or `CUDA_DRIVER_LIBRARY` has a value that cannot be used, or if
/// the software device is needed and cannot be built.
pub fn gpu_or_software() -> Result<Choice, ChoiceError> {
    gpus_or_software(1)
}

/// Returns the system's driver if it has at least `devices` devices, otherwise a software driver
/// with as many. For programs that need several devices.
///
/// The environment variables apply as for [`gpu_or_software`]. A number of devices in `CUDA_SIM`
/// other than 0 that is smaller than `devices` is raised to it.
///
/// ```
/// let choice = cuda_sim::gpus_or_software(2)?;
/// println!("{choice}");
/// # Ok::<(), cuda_sim::ChoiceError>(())
/// ```
///
/// # Errors
///
/// Fails as [`gpu_or_software`] does.
pub fn gpus_or_software(devices: usize) -> Result<Choice, ChoiceError> {
    if let Some(text) = setting()? {
        let builder = text.parse::<Builder>()?.at_least(devices);
        return Choice::software(builder, format!("requested by {VARIABLE}={text}"));
    }
    let is_named = cuda_places::variable(DRIVER_VARIABLE).is_some();
    let no_gpu = match DriverLibrary::system() {
        Ok(library) => match count(&library) {
            Ok(0) => String::from("the driver has no device"),
            Ok(found) if found < devices => {
                format!("the driver has {found} of {devices} devices")
            }
            Ok(found) => {
                let reason = format!(
                    "{}, CUDA {}, devices: {found}",
                    library.origin(),
                    library.version()
                );
                return Ok(Choice {
                    library,
                    simulator: None,
                    reason,
                });
            }
            Err(status) if is_named && status != CUresult::CUDA_ERROR_NO_DEVICE => {
                return Err(ChoiceError::DriverStart {
                    library: library.origin().to_owned(),
                    status,
                });
            }
            Err(status) => format!("the driver fails to initialize: {status}"),
        },
        Err(error @ LoadError::Variable { .. }) => return Err(ChoiceError::Driver(error)),
        Err(error) => {
            // The other lines list the searched places.
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_end_matches("; tried:").to_owned()
        }
    };
    Choice::software(Builder::new().at_least(devices), no_gpu)
}

/// The value of `CUDA_SIM`, if it is set and not empty.
fn setting() -> Result<Option<String>, ChoiceError> {
    let Some(value) = cuda_places::variable(VARIABLE) else {
        return Ok(None);
    };
    match value.into_string() {
        Ok(text) => Ok(Some(text)),
        Err(value) => Err(ChoiceError::NotUnicode {
            value: value.to_string_lossy().into_owned(),
        }),
    }
}

/// Initializes the driver and returns its number of devices.
fn count(library: &DriverLibrary) -> Result<usize, CUresult> {
    let checked = |status: CUresult| {
        if status.is_success() {
            Ok(())
        } else {
            Err(status)
        }
    };
    // SAFETY: no pointers; the flags must be 0 ← they are.
    checked(unsafe { library.cuInit(0) })?;
    let mut count = 0;
    // SAFETY: the pointer must be writable ← `count` is a local.
    checked(unsafe { library.cuDeviceGetCount(&raw mut count) })?;
    Ok(usize::try_from(count).unwrap_or_default())
}
