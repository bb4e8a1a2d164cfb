//! Texture objects.

use std::sync::Arc;

use cuda_sys::{CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC};

use crate::driver::objects::device::Device;
use crate::driver::objects::resource::Resource;
use crate::vm::Texture;

/// A texture object.
#[derive(Debug)]
pub(in crate::driver) struct TextureObject {
    pub(in crate::driver) context: u64,
    pub(in crate::driver) device: Arc<Device>,
    pub(in crate::driver) resource: Resource,
    pub(in crate::driver) desc: CUDA_TEXTURE_DESC,
    pub(in crate::driver) view: Option<CUDA_RESOURCE_VIEW_DESC>,
    pub(in crate::driver) texture: Arc<Texture>,
}
