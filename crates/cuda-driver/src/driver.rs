//! A CUDA driver that was loaded and initialised.
//!
//! Where C has one driver for the process, this is a value: a process can hold the real one and
//! software ones.

use std::cmp::Ordering;
use std::fmt;
use std::sync::atomic::{self, AtomicBool};
use std::sync::{Arc, Weak};

use cuda_sys::{CUresult, DriverLibrary, DriverTable, Function, Version, calls};
use once_cell::sync::OnceCell;

use crate::context::{ContextInner, Identity, Life};
use crate::device::Device;
use crate::error::{DriverError, Error, Result};
use crate::launch::DriverLaunches;
use crate::lock::{self, Mutex, MutexGuard, rank};
use crate::pending::Jobs;

/// Calls a C function through the table and turns its status into a [`DriverError`] that names it.
///
/// Through the driver of a borrowed context that was declared dead it calls nothing, and answers
/// that.
macro_rules! call {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {
        match $driver.table_for(::cuda_sys::calls::$name) {
            Ok(table) => $driver.check(table.$name($($arg),*), ::cuda_sys::calls::$name),
            Err(gone) => Err(gone),
        }
    };
}
pub(crate) use call;

/// A CUDA driver: the library, initialised. Cloning it gives another handle of the same one.
#[derive(Clone)]
pub struct Driver {
    inner: Arc<Inner>,
    /// In the handles that a borrowed context and its objects have: whether its owner still has it.
    life: Option<Arc<Life>>,
    /// In the handles that contexts and their objects have: the ordinal of their device.
    device: Option<u32>,
    /// In the handles that contexts and their objects have: what of them was deferred.
    jobs: Option<Arc<Jobs>>,
}

/// A context that was alive when it was listed.
type Known = (Identity, Weak<ContextInner>);

struct Inner {
    library: Arc<DriverLibrary>,
    /// The contexts that are alive, so that all handles of one share its default stream and the
    /// order of uses.
    contexts: Mutex<Vec<Known>, { rank::CONTEXTS }>,
    /// Whether something was queued that waits for the program: a value, or a host function. Never
    /// goes back.
    may_block: AtomicBool,
    /// Whether there was ever a use that nothing tells the end of. Never goes back.
    has_strays: AtomicBool,
    /// What was deferred of objects that belong to no context.
    jobs: Arc<Jobs>,
    /// What is told if a device is lost.
    launches: DriverLaunches,
}

impl Driver {
    /// `cuInit(0)`—Loads the driver of this system and initialises it, once for the process: every
    /// call gives a handle of the same driver, whose contexts are shared. A failure is not
    /// remembered.
    ///
    /// # Errors
    ///
    /// [`Error::Load`](crate::Error::Load) with every place that was tried;
    /// [`Error::Driver`](crate::Error::Driver) with `CUDA_ERROR_NO_DEVICE` where there is a driver
    /// but no device.
    #[doc(alias = "cuInit")]
    pub fn load() -> Result<Self> {
        static SYSTEM: OnceCell<Driver> = OnceCell::new();
        SYSTEM
            .get_or_try_init(|| Self::new(DriverLibrary::system()?))
            .cloned()
    }

    /// `cuInit(0)`—Initialises a library that was loaded by other means: by path, or a software
    /// device. All drivers of one library are handles of the same one.
    ///
    /// # Errors
    ///
    /// What `cuInit` answers.
    pub fn new(library: impl Into<Arc<DriverLibrary>>) -> Result<Self> {
        /// By the addresses of their libraries; so that a context has one list of all that is
        /// ordered there.
        static ALL: Mutex<Vec<(usize, Weak<Inner>)>, { rank::DRIVERS }> = Mutex::new(Vec::new());
        let library = library.into();
        let address = Arc::as_ptr(&library).addr();
        let mut all = ALL.lock();
        all.retain(|(_, inner)| inner.strong_count() > 0);
        let mut own = all.iter().filter(|(other, _)| *other == address);
        if let Some(inner) = own.find_map(|(_, inner)| inner.upgrade()) {
            return Ok(Self {
                inner,
                life: None,
                device: None,
                jobs: None,
            });
        }
        let inner = Inner {
            library,
            contexts: Mutex::default(),
            may_block: AtomicBool::new(false),
            has_strays: AtomicBool::new(false),
            jobs: Arc::default(),
            launches: DriverLaunches::default(),
        };
        let driver = Self {
            inner: Arc::new(inner),
            life: None,
            device: None,
            jobs: None,
        };
        // SAFETY: no pointers; the flags must be 0 ← they are.
        unsafe { call!(driver, cuInit(0)) }?;
        all.push((address, Arc::downgrade(&driver.inner)));
        Ok(driver)
    }

    /// `cuDriverGetVersion()`—The newest CUDA version that this driver supports.
    ///
    /// [`cuda_sys::BINDINGS`] has the version that the bindings were made from: functions that are
    /// newer than the driver answer an error that says so.
    #[doc(alias = "cuDriverGetVersion")]
    #[must_use]
    pub fn version(&self) -> Version {
        self.inner.library.version()
    }

    /// How the version of this driver compares with that of the [bindings](crate::bindings): `Less`
    /// means that there are [functions that it does not have](Self::missing_functions), `Greater`
    /// that it has some that have no binding.
    #[must_use]
    pub fn compare_to_bindings(&self) -> Ordering {
        self.version().cmp(&crate::bindings().version)
    }

    /// The functions of the bindings that are newer than this driver: calls of them answer an error
    /// that says so.
    pub fn missing_functions(&self) -> impl Iterator<Item = &'static Function> {
        let version = self.version();
        cuda_sys::FUNCTIONS
            .iter()
            .filter(move |function| function.since() > version)
    }

    /// What was loaded: a file, or the name of a software driver.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.inner.library.origin()
    }

    /// The library, for calls that this crate does not wrap.
    #[must_use]
    pub fn library(&self) -> &Arc<DriverLibrary> {
        &self.inner.library
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

    /// The table, to call `call` of it.
    ///
    /// # Errors
    ///
    /// If this is the driver of a borrowed context that was declared dead.
    #[inline]
    pub(crate) fn table_for(&self, call: &'static Function) -> Result<&DriverTable, DriverError> {
        lock::check_call(call);
        match &self.life {
            Some(life) if !life.is_alive() => Err(DriverError::gone(call, self.version())),
            _ => Ok(self.inner.library.table()),
        }
    }

    /// Whether the context that this is the driver of was declared dead.
    pub(crate) fn is_gone(&self) -> bool {
        self.life.as_ref().is_some_and(|life| !life.is_alive())
    }

    /// The handle for a borrowed context and its objects: calls through it fail when the context is
    /// declared dead.
    pub(crate) fn of_borrowed(&self, life: &Arc<Life>) -> Self {
        Self {
            life: Some(Arc::clone(life)),
            ..self.clone()
        }
    }

    /// The handle for one context on a device and its objects: errors of calls through it tell what
    /// was running there, and what is deferred of them waits for no other context.
    pub(crate) fn of_context(&self, ordinal: u32) -> Self {
        Self {
            device: Some(ordinal),
            jobs: Some(Arc::default()),
            ..self.clone()
        }
    }

    /// The handle that no context can take with it.
    pub(crate) fn of_all(&self) -> Self {
        Self {
            life: None,
            device: None,
            jobs: None,
            ..self.clone()
        }
    }

    /// The launches of all its contexts.
    pub(crate) fn launches(&self) -> &DriverLaunches {
        &self.inner.launches
    }

    /// The deferred jobs of the context that this handle is for, or of the objects that belong to
    /// none.
    #[inline]
    pub(crate) fn jobs(&self) -> &Jobs {
        self.jobs.as_ref().unwrap_or(&self.inner.jobs)
    }

    /// Whether a stream of this driver may wait for the program.
    pub(crate) fn may_block(&self) -> bool {
        self.inner.may_block.load(atomic::Ordering::Acquire)
    }

    /// Notes that from now on a stream may wait for the program.
    pub(crate) fn note_blocking(&self) {
        self.inner.may_block.store(true, atomic::Ordering::Release);
    }

    /// Whether there was ever a use that nothing tells the end of.
    #[inline]
    pub(crate) fn has_strays(&self) -> bool {
        self.inner.has_strays.load(atomic::Ordering::Acquire)
    }

    /// Notes that there is one.
    pub(crate) fn note_stray(&self) {
        self.inner.has_strays.store(true, atomic::Ordering::Release);
    }

    #[inline]
    pub(crate) fn check(
        &self,
        status: CUresult,
        call: &'static Function,
    ) -> Result<(), DriverError> {
        if status.is_success() {
            Ok(())
        } else {
            Err(self.error(status, call))
        }
    }

    #[cold]
    fn error(&self, status: CUresult, call: &'static Function) -> DriverError {
        let error = DriverError::new(status, call, self.version());
        match self.device {
            Some(device) if error.is_sticky() => {
                error.with_loss(self.launches().loss(device, &error))
            }
            _ => error,
        }
    }

    /// An error unless handles of `other` mean something to this driver: a driver follows the
    /// pointers that it is given, so they must be its own, and of a context that is not gone.
    pub(crate) fn expect_handles_of(&self, other: &Self, what: &'static str) -> Result<()> {
        if Arc::ptr_eq(self.library(), other.library()) {
            other.table_for(calls::cuCtxPushCurrent_v2)?;
            Ok(())
        } else {
            Err(Error::OtherContext { what })
        }
    }

    /// The live context for which `is_it` holds, or else the one that `make` makes.
    pub(crate) fn shared_context(
        &self,
        is_it: impl Fn(&Identity) -> bool,
        make: impl FnOnce() -> Result<(Identity, Arc<ContextInner>)>,
    ) -> Result<Arc<ContextInner>> {
        // Before the lock, so that they are dropped behind it: one may be the last handle of its
        // context by then.
        let such: Vec<Arc<ContextInner>>;
        let mut contexts = self.contexts();
        contexts.retain(|(_, context)| context.strong_count() > 0);
        such = upgraded(&contexts, is_it);
        if let Some(found) = such.iter().find(|context| !context.is_gone()) {
            return Ok(Arc::clone(found));
        }
        let (identity, made) = make()?;
        contexts.push((identity, Arc::downgrade(&made)));
        Ok(made)
    }

    /// The live context for which `is_it` holds.
    pub(crate) fn find_context(
        &self,
        is_it: impl Fn(&Identity) -> bool,
    ) -> Option<Arc<ContextInner>> {
        let such = upgraded(&self.contexts(), is_it);
        such.into_iter().find(|context| !context.is_gone())
    }

    /// Whether there is such a live context.
    pub(crate) fn has_context(&self, is_it: impl Fn(&Identity) -> bool) -> bool {
        let contexts = self.contexts();
        let mut live = contexts.iter().filter(|(_, it)| it.strong_count() > 0);
        live.any(|(identity, _)| is_it(identity))
    }

    fn contexts(&self) -> MutexGuard<'_, Vec<Known>> {
        self.inner.contexts.lock()
    }
}

/// The contexts for which `is_it` holds. No other is touched: whoever has a handle for a moment may
/// be the last to have one.
fn upgraded(contexts: &[Known], is_it: impl Fn(&Identity) -> bool) -> Vec<Arc<ContextInner>> {
    let such = contexts.iter().filter(|(identity, _)| is_it(identity));
    such.filter_map(|(_, context)| context.upgrade()).collect()
}

impl PartialEq for Driver {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Driver {}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Driver({}, CUDA {})", self.origin(), self.version())
    }
}
