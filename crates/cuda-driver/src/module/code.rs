//! Code loaded into a context, which functions and variables keep loaded.

use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use cuda_sys::image::{Parameter, Signature};
use cuda_sys::{CUdeviceptr, CUmod_st};

use super::{Globals, LibraryInner};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};
use crate::launch_log::LoadedModule;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::tracking::{DestroyWhenIdle, Report, Tracker, report_of};
use crate::types::{JitLog, SendPtr};

/// The code of a module, or of a library in one context.
pub(crate) struct ModuleInner {
    code: Code,
    context: Context,
}

enum Code {
    /// A module, which is unloaded when this is dropped.
    Module(Box<Owned>),
    /// A library. It also owns the state that all its handles of one context share, with the
    /// dependency tracking of its variables.
    Library(Arc<LibraryInner>, Arc<Shared>),
}

struct Owned {
    shared: Shared,
    handle: ManuallyDrop<Handle<RawModule>>,
    log: JitLog,
    /// The parameters of its kernels, if the image describes them.
    signatures: Option<Vec<Signature>>,
    /// Receives the result of unloading the module, if the program asked for it.
    report: Option<Report>,
}

/// State that exists once for the code in a context.
#[derive(Default)]
pub(crate) struct Shared {
    globals: Globals,
    /// Held while the shared memory limit of a function is raised.
    raising: Mutex<(), { rank::SHARED_MEMORY_LIMIT }>,
}

impl Shared {
    /// Removes and returns the trackers of the variables, whose uses must complete before the code
    /// is unloaded.
    pub(crate) fn take_trackers(&self) -> Vec<Arc<Tracker>> {
        self.globals.take_all()
    }
}

pub(super) struct RawModule;

impl Destroy for RawModule {
    type Raw = SendPtr<CUmod_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the module must be loaded, none of its kernels may run, and nothing may use its
        // variables ← the handle owns the module, and `DestroyWhenIdle` has waited for both.
        unsafe { call!(driver, cuModuleUnload(raw.0)) }
    }
}

impl ModuleInner {
    pub(super) fn of_module(
        context: &Context,
        handle: Handle<RawModule>,
        log: JitLog,
        signatures: Option<Vec<Signature>>,
    ) -> Arc<Self> {
        let names = signatures.iter().flatten().map(|it| it.kernel.clone());
        context.launches().add_module(LoadedModule {
            handle: address_of(&handle),
            kernels: names.collect(),
        });
        let owned = Owned {
            shared: Shared::default(),
            handle: ManuallyDrop::new(handle),
            log,
            signatures,
            report: None,
        };
        Arc::new(Self {
            code: Code::Module(Box::new(owned)),
            context: context.clone(),
        })
    }

    pub(crate) fn of_library(
        context: &Context,
        library: &Arc<LibraryInner>,
        shared: Arc<Shared>,
    ) -> Arc<Self> {
        Arc::new(Self {
            code: Code::Library(Arc::clone(library), shared),
            context: context.clone(),
        })
    }

    /// Unloads the module, which has no other user, and returns the result.
    pub(super) fn close(mut self) -> Result<()> {
        report_of(|report| {
            if let Code::Module(owned) = &mut self.code {
                owned.report = Some(report);
            }
            drop(self);
        })
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(super) fn log(&self) -> &JitLog {
        match &self.code {
            Code::Module(owned) => &owned.log,
            Code::Library(library, _) => library.log(),
        }
    }

    fn shared(&self) -> &Shared {
        match &self.code {
            Code::Module(owned) => &owned.shared,
            Code::Library(_, shared) => shared,
        }
    }

    pub(crate) fn globals(&self) -> &Globals {
        &self.shared().globals
    }

    pub(crate) fn raising(&self) -> MutexGuard<'_, ()> {
        let raising = &self.shared().raising;
        raising.lock()
    }

    /// Returns the parameters of a kernel, if the image describes them.
    pub(crate) fn signature(&self, kernel: &str) -> Option<&[Parameter]> {
        find_signature(self.signatures()?, kernel)
    }

    /// Returns the signatures of all kernels, if the image describes them.
    pub(crate) fn signatures(&self) -> Option<&[Signature]> {
        match &self.code {
            Code::Module(owned) => owned.signatures.as_deref(),
            Code::Library(library, _) => library.signatures(),
        }
    }

    /// Returns the address and the size in bytes of a variable. The caller has made the context
    /// current.
    pub(crate) fn variable(&self, name: &CStr) -> Result<(CUdeviceptr, usize), DriverError> {
        let driver = self.context.driver();
        let (mut address, mut bytes) = (0, 0);
        let (address_out, bytes_out) = (&raw mut address, &raw mut bytes);
        match &self.code {
            Code::Module(owned) => {
                let module = owned.handle.raw().0;
                // SAFETY: the pointers and the name must be valid, and the module loaded ← they are
                // locals, and `self` owns the module.
                unsafe {
                    call!(
                        driver,
                        cuModuleGetGlobal_v2(address_out, bytes_out, module, name.as_ptr())
                    )
                }
            }
            Code::Library(library, _) => {
                let library = library.as_raw();
                // SAFETY: the pointers and the name must be valid, and the library loaded ← they
                // are locals, and `self` keeps the library.
                unsafe {
                    call!(
                        driver,
                        cuLibraryGetGlobal(address_out, bytes_out, library, name.as_ptr())
                    )
                }
            }
        }?;
        Ok((address, bytes))
    }
}

fn address_of(handle: &Handle<RawModule>) -> u64 {
    handle.raw().0.addr() as u64
}

/// Finds the parameters of a kernel in `signatures`.
pub(crate) fn find_signature<'a>(
    signatures: &'a [Signature],
    kernel: &str,
) -> Option<&'a [Parameter]> {
    let found = signatures
        .iter()
        .find(|signature| signature.kernel == kernel)?;
    Some(&found.parameters)
}

impl Drop for ModuleInner {
    fn drop(&mut self) {
        // Code that the driver has loaded into a context for a library is unloaded with the
        // library.
        let Code::Module(owned) = &mut self.code else {
            return;
        };
        // SAFETY: the value must not be used or dropped again ← `self` is being dropped, and
        // dropping a `ManuallyDrop` has no effect.
        let handle = unsafe { ManuallyDrop::take(&mut owned.handle) };
        self.context.launches().remove_module(address_of(&handle));
        let variables = owned.shared.take_trackers();
        let contexts = vec![self.context.clone()];
        DestroyWhenIdle::new(handle, variables, contexts, owned.report.take()).start_behind_work();
    }
}
