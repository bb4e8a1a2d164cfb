//! A CUDA driver that was loaded and initialised.
//!
//! Where C has one driver for the process, this is a value: a process can hold the real one and software ones.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cuda_sys::{CUresult, DriverLibrary, DriverTable, Function, Version};
use once_cell::sync::OnceCell;

use crate::context::ContextInner;
use crate::device::Device;
use crate::error::{DriverError, Error, Result};

/// Calls a C function through the table and turns its status into a [`DriverError`] that names it.
macro_rules! call {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {
        $driver.check($driver.table().$name($($arg),*), ::cuda_sys::calls::$name)
    };
}
pub(crate) use call;

/// A CUDA driver: the library, initialised. Cloning it gives another handle of the same one.
#[derive(Clone)]
pub struct Driver(Arc<Inner>);

struct Inner {
    library: Arc<DriverLibrary>,
    /// The primary contexts that are alive, so that all handles of one share its default stream.
    contexts: Mutex<Vec<Weak<ContextInner>>>,
}

impl Driver {
    /// `cuInit(0)`—Loads the driver of this system and initialises it, once for the process: every call gives a handle
    /// of the same driver, whose contexts are shared. A failure is not remembered.
    ///
    /// # Errors
    ///
    /// [`Error::Load`](crate::Error::Load) with every place that was tried; [`Error::Driver`](crate::Error::Driver) with `CUDA_ERROR_NO_DEVICE` where there is
    /// a driver but no device.
    #[doc(alias = "cuInit")]
    pub fn load() -> Result<Self> {
        static SYSTEM: OnceCell<Driver> = OnceCell::new();
        SYSTEM
            .get_or_try_init(|| Self::new(DriverLibrary::system()?))
            .cloned()
    }

    /// `cuInit(0)`—Initialises a library that was loaded by other means: by path, or a software device.
    ///
    /// # Errors
    ///
    /// What `cuInit` answers.
    pub fn new(library: impl Into<Arc<DriverLibrary>>) -> Result<Self> {
        let inner = Inner {
            library: library.into(),
            contexts: Mutex::default(),
        };
        let driver = Self(Arc::new(inner));
        // SAFETY: no pointers; the flags must be 0 ← they are.
        unsafe { call!(driver, cuInit(0)) }?;
        Ok(driver)
    }

    /// `cuDriverGetVersion()`—The newest CUDA version that this driver supports.
    ///
    /// [`cuda_sys::BINDINGS`] has the version that the bindings were made from: functions that are newer than the
    /// driver answer an error that says so.
    #[doc(alias = "cuDriverGetVersion")]
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.library.version()
    }

    /// What was loaded: a file, or the name of a software driver.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.0.library.origin()
    }

    /// The library, for calls that this crate does not wrap.
    #[must_use]
    pub fn library(&self) -> &Arc<DriverLibrary> {
        &self.0.library
    }

    /// `cuDeviceGet(ordinal)`—The device of this ordinal.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchDevice`](crate::Error::NoSuchDevice) if there are not as many.
    pub fn device(&self, ordinal: u32) -> Result<Device> {
        Device::new(self, ordinal)
    }

    /// All devices, in the order of their ordinals.
    ///
    /// # Errors
    ///
    /// What `cuDeviceGetCount` and `cuDeviceGet` answer.
    pub fn devices(&self) -> Result<Vec<Device>> {
        (0..Device::count(self)?)
            .map(|ordinal| self.device(ordinal))
            .collect()
    }

    pub(crate) fn table(&self) -> &DriverTable {
        self.0.library.table()
    }

    pub(crate) fn check(
        &self,
        status: CUresult,
        call: &'static Function,
    ) -> Result<(), DriverError> {
        if status.is_success() {
            Ok(())
        } else {
            Err(DriverError::new(status, call, self.version()))
        }
    }

    /// An error unless handles of `other` mean something to this driver: a driver follows the pointers that it is given.
    pub(crate) fn expect_handles_of(&self, other: &Self, what: &'static str) -> Result<()> {
        if Arc::ptr_eq(self.library(), other.library()) {
            Ok(())
        } else {
            Err(Error::OtherContext { what })
        }
    }

    /// The live primary context for which `is_it` holds, or else the one that `make` makes.
    pub(crate) fn shared_context(
        &self,
        is_it: impl Fn(&ContextInner) -> bool,
        make: impl FnOnce() -> Result<Arc<ContextInner>>,
    ) -> Result<Arc<ContextInner>> {
        let mut contexts = self
            .0
            .contexts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = contexts
            .iter()
            .filter_map(Weak::upgrade)
            .find(|context| is_it(context))
        {
            return Ok(found);
        }
        let made = make()?;
        contexts.retain(|context| context.strong_count() > 0);
        contexts.push(Arc::downgrade(&made));
        Ok(made)
    }
}

impl PartialEq for Driver {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Driver {}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Driver({}, CUDA {})", self.origin(), self.version())
    }
}
