//! A texture and a surface of each shape, for kernels that use one.

use std::ptr;

use cuda_sys::{
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC, CUarray_format, CUfilter_mode,
    CUresourcetype, CUresult, DriverLibrary,
};

/// The name of a shape in instructions, its extent, and the flags of its arrays: layers, surfaces,
/// cubes, gather.
const SHAPES: [(&str, [usize; 3], u32); 7] = [
    (".acube.", [8, 8, 12], 1 | 2 | 4),
    (".cube.", [8, 8, 6], 2 | 4),
    (".a2d.", [8, 8, 3], 1 | 2),
    (".a1d.", [8, 0, 3], 1 | 2),
    (".3d.", [8, 8, 4], 2),
    (".2d.", [8, 8, 0], 2 | 8),
    (".1d.", [8, 0, 0], 2),
];

/// The handles of a texture and a surface for each of [`SHAPES`].
#[derive(Default)]
pub(crate) struct Objects([[u64; 2]; SHAPES.len()]);

fn must(status: CUresult) {
    assert!(status.is_success(), "no object: {status}");
}

impl Objects {
    /// Creates the objects on mipmapped arrays of two levels; surfaces use the first level.
    pub(crate) fn new(driver: &DriverLibrary) -> Self {
        let mut all = Self::default();
        for (objects, (_, [width, height, depth], flags)) in all.0.iter_mut().zip(SHAPES) {
            let desc = CUDA_ARRAY3D_DESCRIPTOR {
                Width: width,
                Height: height,
                Depth: depth,
                Format: CUarray_format::CU_AD_FORMAT_FLOAT,
                NumChannels: 1,
                Flags: flags,
            };
            let (mut array, mut level) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the pointers are to locals.
            must(unsafe { driver.cuMipmappedArrayCreate(&raw mut array, &desc, 2) });
            // SAFETY: the pointer is to a local.
            must(unsafe { driver.cuMipmappedArrayGetLevel(&raw mut level, array, 0) });
            // SAFETY: zero is a valid value of each field.
            let mut resource: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
            resource.resType = CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
            resource.res.mipmap.hMipmappedArray = array;
            // SAFETY: zero is a valid value of each field.
            let mut texture: CUDA_TEXTURE_DESC = unsafe { std::mem::zeroed() };
            // `CU_TRSF_NORMALIZED_COORDINATES`
            texture.flags = 2;
            texture.filterMode = CUfilter_mode::CU_TR_FILTER_MODE_LINEAR;
            texture.mipmapFilterMode = CUfilter_mode::CU_TR_FILTER_MODE_LINEAR;
            texture.maxMipmapLevelClamp = 9.0;
            // SAFETY: the pointers are to locals, or null.
            must(unsafe {
                driver.cuTexObjectCreate(&raw mut objects[0], &resource, &texture, ptr::null())
            });
            resource.resType = CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
            resource.res.array.hArray = level;
            // SAFETY: the pointers are to locals.
            must(unsafe { driver.cuSurfObjectCreate(&raw mut objects[1], &resource) });
        }
        all
    }

    /// Likely values of the first parameters of the kernels in a text: handles of objects, or none.
    pub(crate) fn of(&self, text: &str) -> Vec<u64> {
        let is_texture = text.contains("tex.") || text.contains("tld4.");
        let is_surface = ["suld.", "sust.", "sured."]
            .iter()
            .any(|name| text.contains(name));
        let shape = SHAPES.iter().position(|(name, ..)| text.contains(name));
        let [texture, surface] = self.0[shape.unwrap_or_default()];
        match (is_texture, is_surface) {
            (true, true) => vec![texture, surface],
            (true, false) => vec![texture],
            (false, true) => vec![surface, surface],
            (false, false) => Vec::new(),
        }
    }
}
