//! Creating, describing and destroying arrays.

use std::sync::Arc;

use cuda_sys::{CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUarray, CUarray_st};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::array::{Array, check};
use crate::driver::status::{INVALID_HANDLE, Status};

exports! {
    cuArrayCreate_v2 => array_create;
    cuArray3DCreate_v2 => array_3d_create;
    cuArrayGetDescriptor_v2 => array_get_descriptor;
    cuArray3DGetDescriptor_v2 => array_3d_get_descriptor;
    cuArrayDestroy => array_destroy;
}

impl Call {
    pub(in crate::driver) fn array(&self, handle: u64) -> Status<Arc<Array>> {
        let array = self.arrays.get(handle).ok_or(INVALID_HANDLE)?;
        array.device.alive()?;
        Ok(array)
    }

    fn array_create(&self, array: Out<CUarray>, desc: In<CUDA_ARRAY_DESCRIPTOR>) -> Status {
        let desc = desc.get()?;
        self.create_array(
            array,
            CUDA_ARRAY3D_DESCRIPTOR {
                Width: desc.Width,
                Height: desc.Height,
                Depth: 0,
                Format: desc.Format,
                NumChannels: desc.NumChannels,
                Flags: 0,
            },
        )
    }

    fn array_3d_create(&self, array: Out<CUarray>, desc: In<CUDA_ARRAY3D_DESCRIPTOR>) -> Status {
        self.create_array(array, desc.get()?)
    }

    fn create_array(&self, array: Out<CUarray>, desc: CUDA_ARRAY3D_DESCRIPTOR) -> Status {
        array.required()?;
        let context = self.home()?;
        check(&desc)?;
        let created = Array::new(&context, desc, 0)?;
        let handle = created.handle;
        self.arrays.insert(handle, created);
        array.set(pointer(handle))
    }

    fn array_get_descriptor(
        &self,
        desc: Out<CUDA_ARRAY_DESCRIPTOR>,
        array: Out<CUarray_st>,
    ) -> Status {
        let array = self.array(array.handle())?;
        desc.set(CUDA_ARRAY_DESCRIPTOR {
            Width: array.desc.Width,
            Height: array.desc.Height,
            Format: array.desc.Format,
            NumChannels: array.desc.NumChannels,
        })
    }

    fn array_3d_get_descriptor(
        &self,
        desc: Out<CUDA_ARRAY3D_DESCRIPTOR>,
        array: Out<CUarray_st>,
    ) -> Status {
        desc.set(self.array(array.handle())?.desc)
    }

    /// `cuArrayDestroy()`—Waits for the context of the array, as freeing memory does.
    fn array_destroy(&self, array: Out<CUarray_st>) -> Status {
        let handle = array.handle();
        // A level is destroyed only with its mipmapped array.
        if self
            .arrays
            .get(handle)
            .is_some_and(|level| level.mipmap != 0)
        {
            return Err(INVALID_HANDLE);
        }
        let array = self.arrays.get(handle).ok_or(INVALID_HANDLE)?;
        self.potentially_unsafe()?;
        self.arrays.remove(handle).ok_or(INVALID_HANDLE)?;
        self.drain_context(array.context);
        array.device.alive()
    }
}
