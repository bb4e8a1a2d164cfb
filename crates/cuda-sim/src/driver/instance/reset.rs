//! Primary contexts that were reset. An H200 keeps the handle of the context: it can still be made
//! current, calls in it fail with `CONTEXT_IS_DESTROYED`, and the next retain returns the same
//! handle with a new context behind it. Objects of the old context fail with
//! `CONTEXT_IS_DESTROYED`, too. (A GPU's driver does that only until the next retain; after it, an
//! old stream crashes the process.)

use std::sync::Arc;

use cuda_sys::CUresult;

use crate::driver::handle::Table;
use crate::driver::instance::Instance;
use crate::driver::objects::context::Context;
use crate::driver::objects::device::Device;
use crate::driver::status::{CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_HANDLE, Status};
use crate::lock::lock;

impl Instance {
    /// Destroys the primary context of a device. Its handle and its retain count stay.
    pub(in crate::driver) fn reset_primary(&self, device: &Device) {
        let Some(context) = device.primary().context.take() else {
            return;
        };
        self.note_handles_of(&context);
        self.destroy_context(&context);
        device.primary().reset = Some(context);
    }

    /// Notes the handles whose objects the reset destroys.
    fn note_handles_of(&self, context: &Context) {
        fn handles<T>(table: &Table<T>, handle: impl Fn(&T) -> Option<u64>) -> Vec<u64> {
            table.all().iter().filter_map(|it| handle(it)).collect()
        }
        let own = context.handle;
        let mut found = handles(&self.streams, |stream| {
            (stream.context.home_handle() == own).then_some(stream.handle)
        });
        found.extend(handles(&self.events, |event| {
            (event.context == own).then_some(event.handle)
        }));
        found.extend(handles(&self.modules, |module| {
            (module.context.handle == own).then_some(module.handle)
        }));
        found.extend(handles(&self.functions, |function| {
            (function.module.context.handle == own).then_some(function.handle)
        }));
        lock(&self.reset_handles).extend(found);
    }

    /// Returns the status for a handle without an object.
    pub(in crate::driver) fn unknown_handle(&self, handle: u64) -> CUresult {
        match lock(&self.reset_handles).contains(&handle) {
            true => CONTEXT_IS_DESTROYED,
            false => INVALID_HANDLE,
        }
    }

    /// Returns `status`, the status for an address without memory, unless the current context was
    /// destroyed.
    pub(in crate::driver) fn unknown_address(&self, status: CUresult) -> CUresult {
        match self.current_even_if_lost() {
            Err(CONTEXT_IS_DESTROYED) => CONTEXT_IS_DESTROYED,
            _ => status,
        }
    }

    /// Returns the context of a handle that is made current. It may have been reset.
    pub(in crate::driver) fn context_to_enter(&self, handle: u64) -> Status<Arc<Context>> {
        let reset = || {
            let devices = self.devices.iter();
            let mut contexts = devices.filter_map(|device| device.primary().reset.clone());
            contexts.find(|context| context.handle == handle)
        };
        let context = self.contexts.get(handle);
        context.or_else(reset).ok_or(INVALID_CONTEXT)
    }
}
