//! The code of a library, which the driver loads into each context on first use.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use cuda_sys::image::Signature;
use cuda_sys::{CUlib_st, CUlibrary};

use super::{ModuleInner, Shared};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};
use crate::lock::{Mutex, MutexGuard, rank};
use crate::tracking::{DestroyWhenIdle, Report, report_of};
use crate::types::{JitLog, SendPtr};

/// A loaded library.
pub(crate) struct LibraryInner {
    /// The library is unloaded before the contexts in `places` end.
    handle: ManuallyDrop<Handle<RawLibrary>>,
    log: JitLog,
    /// The parameters of its kernels, if the image describes them.
    signatures: Option<Vec<Signature>>,
    /// The contexts in which the library was used. The state of the code in each comes first, so
    /// that its streams are dropped before the context.
    places: Mutex<Vec<(Arc<Shared>, Context)>, { rank::LIBRARY_CONTEXTS }>,
    /// Receives the result of unloading the library, if the program asked for it.
    report: Option<Report>,
}

pub(crate) struct RawLibrary;

impl Destroy for RawLibrary {
    type Raw = SendPtr<CUlib_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the library must be loaded, none of its kernels may run, and nothing may use its
        // variables ← the handle owns the library, and `DestroyWhenIdle` has waited for both.
        unsafe { call!(driver, cuLibraryUnload(raw.0)) }
    }
}

impl LibraryInner {
    pub(crate) fn new(
        handle: Handle<RawLibrary>,
        log: JitLog,
        signatures: Option<Vec<Signature>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            handle: ManuallyDrop::new(handle),
            log,
            signatures,
            places: Mutex::default(),
            report: None,
        })
    }

    /// Unloads the library, which has no other user, and returns the result.
    pub(crate) fn close(mut self) -> Result<()> {
        report_of(|report| {
            self.report = Some(report);
            drop(self);
        })
    }

    pub(crate) fn as_raw(&self) -> CUlibrary {
        self.handle.raw().0
    }

    pub(crate) fn log(&self) -> &JitLog {
        &self.log
    }

    pub(crate) fn signatures(&self) -> Option<&[Signature]> {
        self.signatures.as_deref()
    }

    pub(crate) fn driver(&self) -> &Driver {
        self.handle.driver()
    }

    fn places(&self) -> MutexGuard<'_, Vec<(Arc<Shared>, Context)>> {
        self.places.lock()
    }

    /// Returns the code in `context`. From now on, unloading the library waits for this context.
    pub(crate) fn place(self: &Arc<Self>, context: &Context) -> Result<Arc<ModuleInner>> {
        self.driver()
            .expect_handles_of(context.driver(), "the context")?;
        let mut places = self.places();
        let known = places.iter().find(|(_, known)| known == context);
        let shared = if let Some((shared, _)) = known {
            Arc::clone(shared)
        } else {
            let shared = Arc::<Shared>::default();
            places.push((Arc::clone(&shared), context.clone()));
            shared
        };
        Ok(ModuleInner::of_library(context, self, shared))
    }
}

impl Drop for LibraryInner {
    fn drop(&mut self) {
        let places = std::mem::take(&mut *self.places());
        let mut variables = Vec::new();
        let mut contexts = Vec::with_capacity(places.len());
        for (shared, context) in places {
            variables.extend(shared.take_trackers());
            contexts.push(context);
        }
        // SAFETY: the value must not be used or dropped again ← `self` is being dropped, and
        // dropping a `ManuallyDrop` has no effect.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        DestroyWhenIdle::new(handle, variables, contexts, self.report.take()).start();
    }
}
