//! CUDA drivers: loading, initialization and version.
//!
//! In C, a process has one driver. Here a driver is a value, so a process can use the real driver
//! and software drivers at the same time.

mod capture_mode;
mod captures;
mod deferred;
mod fork;
mod liveness;
mod reset;

pub(crate) use captures::Captures;
pub(crate) use liveness::LivenessState;
pub use liveness::LivenessToken;

use std::cmp::Ordering;
use std::fmt;
use std::mem;
use std::sync::atomic::{self, AtomicBool};
use std::sync::{Arc, Weak};

use cuda_sys::{CUdevice, CUresult, DriverLibrary, DriverTable, Function, Version, calls};
use once_cell::sync::OnceCell;

use self::reset::ContextState;
use crate::deferred::Jobs;
use crate::error::{DriverError, Error, History, Result};
use crate::launch_log::DriverLaunches;
use crate::lock::{self, Mutex, rank};
use crate::subscriber::event;

/// Calls a C function through the table, and converts its status into a [`DriverError`] that names
/// the function.
///
/// If the driver belongs to a borrowed context that was declared dead, the macro makes no call and
/// returns an error that says so.
macro_rules! call {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {
        match $driver.table_for(::cuda_sys::calls::$name) {
            Ok(table) => $driver.check(table.$name($($arg),*), ::cuda_sys::calls::$name),
            Err(gone) => Err(gone),
        }
    };
}
pub(crate) use call;

/// A CUDA driver: a library that was loaded and initialized. Cloning it creates another handle of
/// the same driver.
///
/// ```
/// use cuda_driver::{Driver, Version};
///
/// // `Driver::load()` returns the driver of the system. This one is a software device.
/// let driver = Driver::new(cuda_sim::Builder::new().version(12_080).build()?.library()?)?;
/// assert_eq!(driver.version(), Version::new(12_080));
/// for device in driver.devices()? {
///     println!("{}: {} bytes", device.name()?, device.total_memory()?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Driver {
    inner: Arc<Inner>,
    /// Set in the handles of a borrowed context and its objects: the liveness of the context.
    life: Option<Arc<LivenessState>>,
    /// Set in the handles of contexts and their objects: the ordinal of the device.
    device: Option<u32>,
    /// Set in the handles of contexts and their objects: what all of them share.
    context: Option<Arc<ContextState>>,
}

struct Inner {
    library: Arc<DriverLibrary>,
    /// The number of forks when the driver was created. If it is larger now, this process is a
    /// child, and must not use the driver.
    forks: u32,
    /// The number of forks and of contexts that were reset when the driver was created.
    changes: u32,
    /// The captures in the primary context of each device that has been retained. They outlive the
    /// context: a handle that ends must know of the captures of a later one.
    primary_captures: Mutex<Vec<(CUdevice, Arc<Captures>)>, { rank::PRIMARY_CAPTURES }>,
    /// Set once work was queued that waits for the host: a wait for a value, or a host function.
    /// Never reset.
    may_wait_for_host: AtomicBool,
    /// Whether other code may capture with this driver in global mode.
    expects_foreign_captures: AtomicBool,
    /// Whether machine code is tried. Reset when the driver rejects machine code that was made for
    /// its device.
    #[cfg(feature = "nvrtc")]
    loads_machine_code: AtomicBool,
    /// The deferred jobs of objects that belong to no context.
    jobs: Arc<Jobs>,
    /// The launches to report if a device is lost.
    launches: DriverLaunches,
    /// The errors that the driver has returned, if the program records them.
    history: History,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.forks != fork::forks() {
            // A software driver would wait for threads that only the parent has.
            mem::forget(Arc::clone(&self.library));
        }
    }
}

impl Driver {
    /// `cuInit(0)`—Loads the driver of this system and initializes it once per process: every call
    /// returns a handle of the same driver, and all handles share its contexts. After a failure,
    /// the next call tries again.
    ///
    /// # Errors
    ///
    /// [`Error::Load`](crate::Error::Load) lists every place that was tried;
    /// [`Error::Driver`](crate::Error::Driver) with `CUDA_ERROR_NO_DEVICE` if there is a driver but
    /// no device.
    #[doc(alias = "cuInit")]
    pub fn load() -> Result<Self> {
        static SYSTEM: OnceCell<Driver> = OnceCell::new();
        SYSTEM
            .get_or_try_init(|| Self::new(DriverLibrary::system()?))
            .cloned()
    }

    /// `cuInit(0)`—Initializes a library that was loaded by other means: from a path, or a software
    /// device. All drivers of one library are handles of the same driver.
    ///
    /// # Errors
    ///
    /// The error of `cuInit`, such as `CUDA_ERROR_NO_DEVICE`.
    pub fn new(library: impl Into<Arc<DriverLibrary>>) -> Result<Self> {
        /// The drivers of the process, keyed by the addresses of their libraries, so that a context
        /// has only one list of the work that is ordered in it.
        static ALL: Mutex<Vec<(usize, Weak<Inner>)>, { rank::DRIVERS }> = Mutex::new(Vec::new());
        let library = library.into();
        let address = Arc::as_ptr(&library).addr();
        fork::watch();
        let mut all = ALL.lock();
        all.retain(|(_, inner)| inner.strong_count() > 0);
        let mut own = all.iter().filter(|(other, _)| *other == address);
        if let Some(inner) = own.find_map(|(_, inner)| inner.upgrade()) {
            return Ok(Self {
                inner,
                life: None,
                device: None,
                context: None,
            });
        }
        let inner = Inner {
            #[cfg(feature = "nvrtc")]
            loads_machine_code: AtomicBool::new(library.loads_machine_code()),
            library,
            forks: fork::forks(),
            changes: fork::changes(),
            primary_captures: Mutex::default(),
            may_wait_for_host: AtomicBool::new(false),
            expects_foreign_captures: AtomicBool::new(true),
            jobs: Arc::default(),
            launches: DriverLaunches::default(),
            history: History::default(),
        };
        let driver = Self {
            inner: Arc::new(inner),
            life: None,
            device: None,
            context: None,
        };
        // SAFETY: no pointers; the flags must be 0 ← they are.
        unsafe { call!(driver, cuInit(0)) }?;
        all.push((address, Arc::downgrade(&driver.inner)));
        Ok(driver)
    }

    /// `cuDriverGetVersion()`—Returns the newest CUDA version that this driver supports.
    ///
    /// [`cuda_sys::BINDINGS`] holds the version that the bindings were generated from. Calls of
    /// functions that are newer than the driver fail with an error that says so.
    #[doc(alias = "cuDriverGetVersion")]
    #[doc(alias = "cudaDriverGetVersion")]
    #[must_use]
    pub fn version(&self) -> Version {
        self.inner.library.version()
    }

    /// Compares the version of this driver with that of the [bindings](crate::bindings). `Less`
    /// means that the driver lacks [some functions](Self::missing_functions) of the bindings,
    /// `Greater` that it has functions without a binding.
    #[must_use]
    pub fn compare_to_bindings(&self) -> Ordering {
        self.version().cmp(&cuda_sys::BINDINGS.version)
    }

    /// The functions of the bindings that are newer than this driver. Calls of them fail with an
    /// error that says so.
    pub fn missing_functions(&self) -> impl Iterator<Item = &'static Function> {
        let version = self.version();
        cuda_sys::FUNCTIONS
            .iter()
            .filter(move |function| function.since() > version)
    }

    /// The origin of the driver: a file, or the name of a software driver.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.inner.library.origin()
    }

    /// The library, for calls that this crate does not wrap.
    #[must_use]
    pub fn library(&self) -> &Arc<DriverLibrary> {
        &self.inner.library
    }

    /// Returns the function table, for a call of `call`.
    ///
    /// # Errors
    ///
    /// An error if this driver belongs to a borrowed context that was declared dead, if this
    /// process was forked after the driver was created, or if a subscriber of `tracing` makes the
    /// call while it receives an event.
    #[inline]
    pub(crate) fn table_for(&self, call: &'static Function) -> Result<&DriverTable, DriverError> {
        lock::check_call(call);
        #[cfg(feature = "tracing")]
        if crate::subscriber::receives() {
            return Err(DriverError::in_event(call, self.version()));
        }
        if self.inner.changes != fork::changes() {
            self.expect_usable(call)?;
        }
        match &self.life {
            Some(life) if !life.is_alive() => Err(DriverError::gone(call, self.version())),
            _ => Ok(self.inner.library.table()),
        }
    }

    /// Fails if this process was forked after the driver was created, or if the context of this
    /// handle was reset.
    #[cold]
    fn expect_usable(&self, call: &'static Function) -> Result<(), DriverError> {
        if self.is_forked() {
            return Err(DriverError::forked(call, self.version()));
        }
        if self.is_reset() {
            return Err(DriverError::reset(call, self.version()).on_device(self.device));
        }
        Ok(())
    }

    /// Whether this process was forked after the driver was created.
    #[inline]
    fn is_forked(&self) -> bool {
        self.inner.forks != fork::forks()
    }

    /// Whether this driver belongs to a borrowed context that was declared dead, or to a context
    /// that was found to be reset.
    pub(crate) fn is_gone(&self) -> bool {
        self.life.as_ref().is_some_and(|life| !life.is_alive()) || self.is_reset()
    }

    /// Returns the handle for a borrowed context and its objects: calls through it fail once the
    /// context is declared dead.
    pub(crate) fn for_borrowed_context(&self, life: &Arc<LivenessState>) -> Self {
        Self {
            life: Some(Arc::clone(life)),
            ..self.clone()
        }
    }

    /// Returns the handle for one context on a device and its objects. If the device is lost,
    /// errors of calls through this handle report what was running there. Jobs deferred through it
    /// do not wait for other contexts.
    pub(crate) fn for_context(&self, ordinal: u32) -> Self {
        Self {
            device: Some(ordinal),
            context: Some(Arc::default()),
            ..self.clone()
        }
    }

    /// Returns the handle of this driver that is independent of any context: without liveness,
    /// device and deferred jobs of a context.
    pub(crate) fn without_context(&self) -> Self {
        Self {
            life: None,
            device: None,
            context: None,
            ..self.clone()
        }
    }

    /// The launches of all contexts of this driver.
    pub(crate) fn launches(&self) -> &DriverLaunches {
        &self.inner.launches
    }

    /// The errors that the driver has returned, if the program records them.
    pub(crate) fn history(&self) -> &History {
        &self.inner.history
    }

    /// The deferred jobs of the context of this handle, or of the objects that belong to no
    /// context.
    #[inline]
    pub(crate) fn jobs(&self) -> &Jobs {
        match &self.context {
            Some(context) => &context.jobs,
            None => &self.inner.jobs,
        }
    }

    /// Declares whether other code of this process, such as a C++ library, may capture graphs with
    /// this driver. `true` is the default.
    ///
    /// While other code captures in global mode, the default mode of C, calls such as
    /// `cuMemFreeAsync` on any thread invalidate its capture. A program does not see which drops
    /// make these calls, so this crate makes them in relaxed mode: it calls
    /// `cuThreadExchangeStreamCaptureMode` before and after (7.6 ns each on the host of an H200). A
    /// program without such code can save these calls with `false`. If the declaration is wrong,
    /// the capture of the other code fails with `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`, which is
    /// an error of that code, but not undefined behaviour. Captures of this crate are not affected.
    pub fn expect_foreign_captures(&self, expected: bool) {
        let flag = &self.inner.expects_foreign_captures;
        flag.store(expected, atomic::Ordering::Relaxed);
    }

    /// Whether other code may capture with this driver.
    fn expects_foreign_captures(&self) -> bool {
        let flag = &self.inner.expects_foreign_captures;
        flag.load(atomic::Ordering::Relaxed)
    }

    /// Whether a stream of this driver may wait for the host.
    pub(crate) fn may_wait_for_host(&self) -> bool {
        self.inner.may_wait_for_host.load(atomic::Ordering::Acquire)
    }

    /// Records that from now on a stream may wait for the host.
    pub(crate) fn note_host_wait(&self) {
        self.inner
            .may_wait_for_host
            .store(true, atomic::Ordering::Release);
    }

    /// Whether to compile to machine code for this driver, instead of PTX.
    #[cfg(feature = "nvrtc")]
    pub(crate) fn loads_machine_code(&self) -> bool {
        self.inner
            .loads_machine_code
            .load(atomic::Ordering::Relaxed)
    }

    /// Records that the driver rejected machine code for its own device.
    #[cfg(feature = "nvrtc")]
    pub(crate) fn note_no_machine_code(&self) {
        self.inner
            .loads_machine_code
            .store(false, atomic::Ordering::Relaxed);
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
        let error = DriverError::new(status, call, self.version()).on_device(self.device);
        let error = match self.is_reset_by(status) {
            true => error.after_reset(),
            false => error,
        };
        let error = match self.device {
            Some(device) if error.is_sticky() => {
                error.with_loss(self.launches().loss(device, &error))
            }
            _ => error,
        };
        self.inner.history.add(&error);
        if error.is_sticky() {
            event!(error, call = call.name, status = status.0, "fault: {error}");
        } else if status != CUresult::CUDA_ERROR_NOT_READY {
            event!(debug, call = call.name, status = status.0, "error: {error}");
        }
        error
    }

    /// Returns an address that no other live driver has.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    /// Returns a number that all handles of this driver have, and no other driver of the process.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(self.library()).addr()
    }

    /// Returns an error unless handles of `other` are valid for this driver. A driver dereferences
    /// the handles that it is given, so they must be its own, and of a context that is not dead.
    pub(crate) fn expect_handles_of(&self, other: &Self, what: &'static str) -> Result<()> {
        if Arc::ptr_eq(self.library(), other.library()) {
            other.table_for(calls::cuCtxPushCurrent_v2)?;
            Ok(())
        } else {
            Err(Error::other_context(what, other, self))
        }
    }

    /// The captures in the primary context of `device`, whichever handle they were begun with.
    pub(crate) fn captures_of_primary(&self, device: CUdevice) -> Arc<Captures> {
        let mut known = self.inner.primary_captures.lock();
        if let Some((_, captures)) = known.iter().find(|(of, _)| *of == device) {
            return Arc::clone(captures);
        }
        let captures = Arc::default();
        known.push((device, Arc::clone(&captures)));
        captures
    }
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
