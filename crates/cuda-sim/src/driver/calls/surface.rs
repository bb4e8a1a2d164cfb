//! Surface objects, through which kernels write arrays.

use std::sync::Arc;

use cuda_sys::{CUDA_RESOURCE_DESC, CUsurfObject};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::fresh;
use crate::driver::objects::resource::Resource;
use crate::driver::objects::surface::SurfaceObject;
use crate::driver::status::{INVALID_HANDLE, INVALID_VALUE, Status};

exports! {
    cuSurfObjectCreate => surf_object_create;
    cuSurfObjectDestroy => surf_object_destroy;
    cuSurfObjectGetResourceDesc => surf_object_get_resource_desc;
}

impl Call {
    /// `cuSurfObjectCreate()`—The resource must be an array that was created with
    /// `CUDA_ARRAY3D_SURFACE_LDST`.
    fn surf_object_create(
        &self,
        object: Out<CUsurfObject>,
        resource: In<CUDA_RESOURCE_DESC>,
    ) -> Status {
        object.required()?;
        let resource = Resource::new(&resource.get()?)?;
        let context = self.home()?;
        let Resource::Array(array) = resource else {
            return Err(INVALID_VALUE);
        };
        if !self.array(array)?.is_for_surfaces() {
            return Err(INVALID_VALUE);
        }
        let handle = fresh();
        let created = SurfaceObject {
            context: context.handle,
            device: Arc::clone(&context.device),
            resource,
            elements: Arc::new(self.elements(resource, &context.device)?),
        };
        self.surfaces.insert(handle, Arc::new(created));
        object.set(handle)
    }

    fn surf_object_destroy(&self, object: CUsurfObject) -> Status {
        let gone = self.surfaces.remove(object).ok_or(INVALID_HANDLE)?;
        gone.device.alive()
    }

    fn surf_object_get_resource_desc(
        &self,
        desc: Out<CUDA_RESOURCE_DESC>,
        object: CUsurfObject,
    ) -> Status {
        let object = self.surfaces.get(object).ok_or(INVALID_HANDLE)?;
        object.device.alive()?;
        desc.set(object.resource.desc())
    }
}
