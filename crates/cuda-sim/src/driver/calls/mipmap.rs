//! Mipmapped arrays: an array at several levels of detail.
//!
//! Each level is an array with its own handle and lives as long as the mipmapped array.

use std::ffi::c_uint;
use std::sync::Arc;

use cuda_sys::{
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, CUarray, CUextMemory_st,
    CUmipmappedArray, CUmipmappedArray_st,
};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::array;
use crate::driver::objects::array::{Array, COLOR_ATTACHMENT, CUBEMAP, LAYERED};
use crate::driver::objects::context::Context;
use crate::driver::objects::imported::Imported;
use crate::driver::objects::mipmap::Mipmap;
use crate::driver::status::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Status};

exports! {
    cuMipmappedArrayCreate => mipmapped_array_create;
    cuExternalMemoryGetMappedMipmappedArray => external_memory_get_mapped_mipmapped_array;
    cuMipmappedArrayGetLevel => mipmapped_array_get_level;
    cuMipmappedArrayDestroy => mipmapped_array_destroy;
}

/// Returns the descriptor of level `level`.
fn level_desc(desc: &CUDA_ARRAY3D_DESCRIPTOR, level: u32) -> CUDA_ARRAY3D_DESCRIPTOR {
    // An extent of 0 means that the array does not have that dimension.
    let less = |axis: usize| if axis == 0 { 0 } else { (axis >> level).max(1) };
    let is_space = desc.Flags & (LAYERED | CUBEMAP) == 0;
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: less(desc.Width),
        Height: less(desc.Height),
        Depth: if is_space {
            less(desc.Depth)
        } else {
            desc.Depth
        },
        ..*desc
    }
}

/// Returns the largest possible number of levels.
fn most_levels(desc: &CUDA_ARRAY3D_DESCRIPTOR) -> u32 {
    let is_space = desc.Flags & (LAYERED | CUBEMAP) == 0;
    let depth = if is_space { desc.Depth } else { 1 };
    1 + desc.Width.max(desc.Height).max(depth).max(1).ilog2()
}

impl Call {
    pub(in crate::driver) fn mipmap(&self, handle: u64) -> Status<Arc<Mipmap>> {
        let mipmap = self.mipmaps.get(handle).ok_or(INVALID_HANDLE)?;
        mipmap.device.alive()?;
        Ok(mipmap)
    }

    fn mipmapped_array_create(
        &self,
        array: Out<CUmipmappedArray>,
        desc: In<CUDA_ARRAY3D_DESCRIPTOR>,
        levels: c_uint,
    ) -> Status {
        array.required()?;
        let desc = desc.get()?;
        let context = self.home()?;
        array::check(&desc)?;
        let handle = fresh();
        let levels = (0..levels.clamp(1, most_levels(&desc)))
            .map(|level| Array::new(&context, level_desc(&desc, level), handle))
            .collect::<Status<Vec<_>>>()?;
        self.note_mipmap(handle, &context, levels);
        array.set(pointer(handle))
    }

    fn note_mipmap(&self, handle: u64, context: &Context, levels: Vec<Arc<Array>>) {
        for level in &levels {
            self.arrays.insert(level.handle(), Arc::clone(level));
        }
        let created = Mipmap {
            context: context.handle,
            device: Arc::clone(&context.device),
            levels,
        };
        self.mipmaps.insert(handle, Arc::new(created));
    }

    /// `cuExternalMemoryGetMappedMipmappedArray()`—Maps an image in external memory as a mipmapped
    /// array. The image has its levels one after another, with contiguous rows, beginning with the
    /// most detailed.
    fn external_memory_get_mapped_mipmapped_array(
        &self,
        array: Out<CUmipmappedArray>,
        memory: Out<CUextMemory_st>,
        desc: In<CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC>,
    ) -> Status {
        array.required()?;
        let context = self.home()?;
        let memory = self.external_memory.get(memory.handle());
        let memory = memory.ok_or(INVALID_HANDLE)?;
        if memory.is_dma_buf {
            return Err(NOT_SUPPORTED);
        }
        let CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC {
            offset,
            arrayDesc: mut desc,
            numLevels: levels,
            ..
        } = desc.get()?;
        desc.Flags &= !COLOR_ATTACHMENT;
        array::check(&desc)?;
        let is_aligned = offset.is_multiple_of(array::element_bytes(&desc)?);
        if !is_aligned || !(1..=most_levels(&desc)).contains(&levels) {
            return Err(INVALID_VALUE);
        }
        let mut places = Vec::new();
        let mut size = 0_u64;
        for level in 0..levels {
            let desc = level_desc(&desc, level);
            places.push((size, desc));
            let bytes = array::size_of(&desc)?;
            size = size.checked_add(bytes).ok_or(INVALID_VALUE)?;
        }
        let end = offset.checked_add(size).ok_or(INVALID_VALUE)?;
        if end > memory.size {
            return Err(INVALID_VALUE);
        }
        let part = self.map_part(&memory.file, memory.start + offset, size)?;
        let devices = vec![Arc::clone(&context.device)];
        let imported = Arc::new(Imported::new(part, size, devices, None));
        let handle = fresh();
        let level = |(start, desc)| {
            let place = (imported.addr() + start, Some(Arc::clone(&imported)));
            Array::at(&context, desc, handle, place)
        };
        let levels = places.into_iter().map(level).collect::<Status<Vec<_>>>()?;
        self.note_mipmap(handle, &context, levels);
        array.set(pointer(handle))
    }

    fn mipmapped_array_get_level(
        &self,
        level: Out<CUarray>,
        array: Out<CUmipmappedArray_st>,
        number: c_uint,
    ) -> Status {
        let mipmap = self.mipmap(array.handle())?;
        let found = mipmap.levels.get(number as usize).ok_or(INVALID_VALUE)?;
        level.set(pointer(found.handle()))
    }

    /// `cuMipmappedArrayDestroy()`—Waits for the context of the array, as freeing memory does.
    fn mipmapped_array_destroy(&self, array: Out<CUmipmappedArray_st>) -> Status {
        let handle = array.handle();
        let mipmap = self.mipmaps.remove(handle).ok_or(INVALID_HANDLE)?;
        self.drain_context(mipmap.context);
        self.arrays.drain(|level| level.mipmap == handle);
        mipmap.device.alive()
    }
}
