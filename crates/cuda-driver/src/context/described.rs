//! Descriptions of contexts, devices and drivers in errors.

use super::Context;
use crate::device::Device;
use crate::driver::Driver;
use crate::error::Described;

impl Described for Context {
    fn described(&self) -> String {
        format!(
            "the context {:?} of device {}",
            self.as_raw(),
            self.device().ordinal()
        )
    }
}

impl Described for Device {
    fn described(&self) -> String {
        format!("device {}", self.ordinal())
    }
}

impl Described for Driver {
    fn described(&self) -> String {
        format!("the driver {}", self.origin())
    }
}
