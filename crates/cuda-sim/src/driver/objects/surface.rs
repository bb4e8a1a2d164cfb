//! Surface objects.

use std::sync::Arc;

use crate::driver::objects::device::Device;
use crate::driver::objects::resource::Resource;
use crate::vm::Elements;

/// A surface object.
#[derive(Debug)]
pub(in crate::driver) struct SurfaceObject {
    pub(in crate::driver) context: u64,
    pub(in crate::driver) device: Arc<Device>,
    pub(in crate::driver) resource: Resource,
    pub(in crate::driver) elements: Arc<Elements>,
}
