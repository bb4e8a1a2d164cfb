//! Mipmapped arrays. Each level is an array with its own handle.

use std::sync::Arc;

use crate::driver::objects::array::Array;
use crate::driver::objects::device::Device;

/// A mipmapped array.
#[derive(Debug)]
pub(in crate::driver) struct Mipmap {
    pub(in crate::driver) context: u64,
    pub(in crate::driver) device: Arc<Device>,
    /// The levels, beginning with the most detailed.
    pub(in crate::driver) levels: Vec<Arc<Array>>,
}
