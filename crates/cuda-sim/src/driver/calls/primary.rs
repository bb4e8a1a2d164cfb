//! Primary contexts: one for each device, with a retain count.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use cuda_sys::{CUcontext, CUdevice};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::context::is_schedule;
use crate::driver::status::{INVALID_VALUE, PRIMARY_CONTEXT_ACTIVE, Status};

exports! {
    cuDevicePrimaryCtxRetain => primary_retain;
    cuDevicePrimaryCtxRelease | cuDevicePrimaryCtxRelease_v2 => primary_release;
    cuDevicePrimaryCtxReset | cuDevicePrimaryCtxReset_v2 => primary_reset;
    cuDevicePrimaryCtxGetState => primary_get_state;
    cuDevicePrimaryCtxSetFlags => primary_set_flags_v1;
    cuDevicePrimaryCtxSetFlags_v2 => primary_set_flags;
}

impl Call {
    fn primary_retain(&self, pctx: Out<CUcontext>, dev: CUdevice) -> Status {
        pctx.required()?;
        let device = self.primary_device(dev)?;
        device.alive()?;
        pctx.set(pointer(self.retain_primary(device).handle))
    }

    fn primary_release(&self, dev: CUdevice) -> Status {
        let device = self.primary_device(dev)?;
        self.release_primary(device)?;
        device.alive()
    }

    /// `cuDevicePrimaryCtxReset()`—Destroys the context. Its handle and the retain count stay.
    fn primary_reset(&self, dev: CUdevice) -> Status {
        let device = self.primary_device(dev)?;
        self.reset_primary(device);
        device.alive()
    }

    fn primary_get_state(&self, dev: CUdevice, flags: Out<c_uint>, active: Out<c_int>) -> Status {
        let primary = self.primary_device(dev)?.primary();
        flags.required()?;
        active.set(c_int::from(primary.context.is_some()))?;
        flags.set(primary.flags)
    }

    /// `cuDevicePrimaryCtxSetFlags()` as before CUDA 11.0—Fails if the context is active, because
    /// its flags could not change then.
    fn primary_set_flags_v1(&self, dev: CUdevice, flags: c_uint) -> Status {
        if self.primary_device(dev)?.primary().context.is_some() {
            return Err(PRIMARY_CONTEXT_ACTIVE);
        }
        self.primary_set_flags(dev, flags)
    }

    fn primary_set_flags(&self, dev: CUdevice, flags: c_uint) -> Status {
        let device = Arc::clone(self.primary_device(dev)?);
        if flags & !0xFF != 0 || !is_schedule(flags) {
            return Err(INVALID_VALUE);
        }
        device.primary().flags = flags;
        Ok(())
    }
}
