//! Texture objects. Block-compressed formats, anisotropic filters, and filters across the edges of
//! cubes are not implemented.

use std::sync::Arc;

use cuda_sys::{
    CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUaddress_mode, CUfilter_mode,
    CUtexObject,
};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::fresh;
use crate::driver::objects::resource;
use crate::driver::objects::resource::Resource;
use crate::driver::objects::texture::TextureObject;
use crate::driver::status::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Status};
use crate::vm::{AddressMode, Channel, Elements, Sampler, Shape, Texture};

exports! {
    cuTexObjectCreate => tex_object_create;
    cuTexObjectDestroy => tex_object_destroy;
    cuTexObjectGetResourceDesc => tex_object_get_resource_desc;
    cuTexObjectGetTextureDesc => tex_object_get_texture_desc;
    cuTexObjectGetResourceViewDesc => tex_object_get_resource_view_desc;
}

/// `CU_TRSF_READ_AS_INTEGER`, `_NORMALIZED_COORDINATES`, `_SRGB`,
/// `_DISABLE_TRILINEAR_OPTIMIZATION`, `_SEAMLESS_CUBEMAP`
const INTEGER: u32 = 1;
const NORMALIZED: u32 = 2;
const SRGB: u32 = 0x10;
const FULL_TRILINEAR: u32 = 0x20;
const SEAMLESS: u32 = 0x40;

fn address_mode(mode: CUaddress_mode) -> Status<AddressMode> {
    Ok(match mode {
        CUaddress_mode::CU_TR_ADDRESS_MODE_WRAP => AddressMode::Wrap,
        CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP => AddressMode::Clamp,
        CUaddress_mode::CU_TR_ADDRESS_MODE_MIRROR => AddressMode::Mirror,
        CUaddress_mode::CU_TR_ADDRESS_MODE_BORDER => AddressMode::Border,
        _ => return Err(INVALID_VALUE),
    })
}

fn is_linear(mode: CUfilter_mode) -> Status<bool> {
    match mode {
        CUfilter_mode::CU_TR_FILTER_MODE_POINT => Ok(false),
        CUfilter_mode::CU_TR_FILTER_MODE_LINEAR => Ok(true),
        _ => Err(INVALID_VALUE),
    }
}

/// Returns the sampler for `elements`.
fn sampler(desc: &CUDA_TEXTURE_DESC, resource: Resource, elements: &Elements) -> Status<Sampler> {
    if desc.flags & !(INTEGER | NORMALIZED | SRGB | FULL_TRILINEAR | SEAMLESS) != 0 {
        return Err(INVALID_VALUE);
    }
    let has = |flag: u32| desc.flags & flag != 0;
    if resource.is_linear() {
        // The remaining fields have no meaning in this case.
        if has(SRGB) {
            return Err(NOT_SUPPORTED);
        }
        return Ok(Sampler {
            address: [AddressMode::Border; 3],
            linear: false,
            levels_linear: false,
            normalized: false,
            integer: has(INTEGER),
            srgb: false,
            bias: 0.0,
            detail: [0.0; 2],
            border: [0; 4],
        });
    }
    let is_cube = matches!(elements.shape, Shape::Cube | Shape::Cubes);
    if matches!(resource, Resource::Mipmap(_)) && !has(NORMALIZED) || has(SEAMLESS) && !is_cube {
        return Err(INVALID_VALUE);
    }
    let mut address = [AddressMode::Clamp; 3];
    for (mode, given) in address.iter_mut().zip(desc.addressMode) {
        *mode = address_mode(given)?;
        // The documentation says that these modes then become `Clamp`. Cube maps are excluded,
        // because their coordinates are directions.
        let repeats = matches!(mode, AddressMode::Wrap | AddressMode::Mirror);
        if repeats && !has(NORMALIZED) && !is_cube || has(SEAMLESS) {
            *mode = AddressMode::Clamp;
        }
    }
    let (linear, levels_linear) = (
        is_linear(desc.filterMode)?,
        is_linear(desc.mipmapFilterMode)?,
    );
    let is_coloured = elements.channel == Channel::U8 && elements.channels == 4 && !has(INTEGER);
    if desc.maxAnisotropy > 1 || has(SEAMLESS) && linear || has(SRGB) && !is_coloured {
        return Err(NOT_SUPPORTED);
    }
    Ok(Sampler {
        address,
        linear,
        levels_linear,
        normalized: has(NORMALIZED),
        integer: has(INTEGER),
        srgb: has(SRGB),
        bias: desc.mipmapLevelBias,
        detail: [desc.minMipmapLevelClamp, desc.maxMipmapLevelClamp],
        border: border(desc, elements, has(INTEGER)),
    })
}

/// Returns the bits of the border colour. Numbers of small integers are rounded as an H100 does,
/// which was measured with bytes.
fn border(desc: &CUDA_TEXTURE_DESC, elements: &Elements, is_integer: bool) -> [u32; 4] {
    let (least, most) = match elements.channel {
        _ if is_integer => return desc.borderColor.map(f32::to_bits),
        Channel::U8 => (0.0, 255.0),
        Channel::U16 => (0.0, 65535.0),
        Channel::S8 => (-1.0, 127.0),
        Channel::S16 => (-1.0, 32767.0),
        _ => return desc.borderColor.map(f32::to_bits),
    };
    let nearest = |colour: f32| (colour.max(least).min(1.0) * most).round() / most;
    desc.borderColor.map(|colour| nearest(colour).to_bits())
}

impl Call {
    fn texture_object(&self, handle: u64) -> Status<Arc<TextureObject>> {
        let object = self.textures.get(handle).ok_or(INVALID_HANDLE)?;
        object.device.alive()?;
        Ok(object)
    }

    fn tex_object_create(
        &self,
        object: Out<CUtexObject>,
        resource: In<CUDA_RESOURCE_DESC>,
        texture: In<CUDA_TEXTURE_DESC>,
        view: In<CUDA_RESOURCE_VIEW_DESC>,
    ) -> Status {
        object.required()?;
        let (resource, desc) = (Resource::new(&resource.get()?)?, texture.get()?);
        let context = self.home()?;
        let mut elements = self.elements(resource, &context.device)?;
        let view = if view.raw().is_null() {
            None
        } else {
            let view = view.get()?;
            elements = resource::view(elements, resource, &view)?;
            Some(view)
        };
        let sampler = sampler(&desc, resource, &elements)?;
        let texture = Texture { elements, sampler };
        let mixes_levels = texture.sampler.levels_linear && texture.elements.levels.len() > 1;
        let filters = texture.sampler.linear || mixes_levels;
        if filters && !texture.is_float() {
            return Err(INVALID_VALUE);
        }
        let handle = fresh();
        let created = TextureObject {
            context: context.handle,
            device: Arc::clone(&context.device),
            resource,
            desc,
            view,
            texture: Arc::new(texture),
        };
        self.textures.insert(handle, Arc::new(created));
        object.set(handle)
    }

    fn tex_object_destroy(&self, object: CUtexObject) -> Status {
        let gone = self.textures.remove(object).ok_or(INVALID_HANDLE)?;
        gone.device.alive()
    }

    fn tex_object_get_resource_desc(
        &self,
        desc: Out<CUDA_RESOURCE_DESC>,
        object: CUtexObject,
    ) -> Status {
        desc.set(self.texture_object(object)?.resource.desc())
    }

    fn tex_object_get_texture_desc(
        &self,
        desc: Out<CUDA_TEXTURE_DESC>,
        object: CUtexObject,
    ) -> Status {
        desc.set(self.texture_object(object)?.desc)
    }

    /// `cuTexObjectGetResourceViewDesc()`—Fails with `INVALID_VALUE` if the texture has no view.
    fn tex_object_get_resource_view_desc(
        &self,
        desc: Out<CUDA_RESOURCE_VIEW_DESC>,
        object: CUtexObject,
    ) -> Status {
        desc.set(self.texture_object(object)?.view.ok_or(INVALID_VALUE)?)
    }
}
