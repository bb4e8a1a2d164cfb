//! Arrays, textures and surfaces, created by C calls and destroyed on drop.

use std::ptr;

use cuda_sys::{
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY3D, CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC,
    CUDA_TEXTURE_DESC, CUaddress_mode, CUarray, CUdeviceptr, CUfilter_mode, CUmemorytype,
    CUmipmappedArray, CUresourcetype, CUresult, CUsurfObject, CUtexObject, DriverLibrary,
};

use super::elements::Elements;
use crate::support::Fixture;

pub(super) const LAYERED: u32 = 1;
pub(super) const SURFACE: u32 = 2;
pub(super) const CUBEMAP: u32 = 4;
pub(super) const GATHER: u32 = 8;
pub(super) const INTEGER: u32 = 1;
pub(super) const NORMALIZED: u32 = 2;
pub(super) const SRGB: u32 = 0x10;

pub(super) const WRAP: CUaddress_mode = CUaddress_mode::CU_TR_ADDRESS_MODE_WRAP;
pub(super) const CLAMP: CUaddress_mode = CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP;
pub(super) const MIRROR: CUaddress_mode = CUaddress_mode::CU_TR_ADDRESS_MODE_MIRROR;
pub(super) const BORDER: CUaddress_mode = CUaddress_mode::CU_TR_ADDRESS_MODE_BORDER;

#[track_caller]
fn ok(status: CUresult) {
    assert_eq!(status, CUresult::CUDA_SUCCESS, "{status}");
}

/// The driver's functions; makes the context of the fixture current.
fn calls(fixture: &Fixture) -> &DriverLibrary {
    let library = fixture.context.driver().library();
    // SAFETY: the context is alive ← the fixture owns it.
    ok(unsafe { library.cuCtxSetCurrent(fixture.context.as_raw()) });
    library
}

fn is_gone(status: CUresult) {
    if !std::thread::panicking() {
        ok(status);
    }
}

/// An array, or a level of a mipmapped array.
pub(super) struct Array<'b> {
    fixture: &'b Fixture,
    pub(super) raw: CUarray,
    is_level: bool,
}

fn desc(elements: &Elements, flags: u32) -> CUDA_ARRAY3D_DESCRIPTOR {
    let [width, height, depth] = elements.extent;
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: elements.format.raw(),
        NumChannels: elements.channels as u32,
        Flags: flags,
    }
}

impl<'b> Array<'b> {
    /// Creates an array that holds `elements`.
    pub(super) fn new(fixture: &'b Fixture, elements: &Elements, flags: u32) -> Self {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointers are to locals.
        ok(unsafe { calls(fixture).cuArray3DCreate_v2(&raw mut raw, &desc(elements, flags)) });
        let array = Self {
            fixture,
            raw,
            is_level: false,
        };
        array.put(elements);
        array
    }

    fn copy(&self, elements: &Elements, host: *mut u8, is_put: bool) {
        let [width, height, depth] = elements.size();
        let row = width * elements.bytes_of_one();
        // SAFETY: zero is a valid value of each field.
        let mut copy: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
        (copy.WidthInBytes, copy.Height, copy.Depth) = (row, height, depth);
        if is_put {
            copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
            (copy.srcHost, copy.srcPitch, copy.srcHeight) = (host.cast(), row, height);
            copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
            copy.dstArray = self.raw;
        } else {
            copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
            copy.srcArray = self.raw;
            copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
            (copy.dstHost, copy.dstPitch, copy.dstHeight) = (host.cast(), row, height);
        }
        let calls = calls(self.fixture);
        // SAFETY: the call takes no pointers.
        ok(unsafe { calls.cuCtxSynchronize() });
        // SAFETY: `host` points to as many bytes as the extent has ← both callers.
        ok(unsafe { calls.cuMemcpy3D_v2(&copy) });
        // SAFETY: the call takes no pointers. A copy from pageable memory may still be in flight.
        ok(unsafe { calls.cuCtxSynchronize() });
    }

    pub(super) fn put(&self, elements: &Elements) {
        let mut bytes = elements.bytes();
        self.copy(elements, bytes.as_mut_ptr(), true);
    }

    /// Copies the contents out; `elements` gives the shape.
    pub(super) fn take(&self, elements: &Elements) -> Vec<u8> {
        let mut bytes = elements.bytes();
        bytes.fill(0);
        self.copy(elements, bytes.as_mut_ptr(), false);
        bytes
    }

    pub(super) fn resource(&self) -> CUDA_RESOURCE_DESC {
        // SAFETY: zero is a valid value of each field.
        let mut desc: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
        desc.resType = CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
        desc.res.array.hArray = self.raw;
        desc
    }
}

impl Drop for Array<'_> {
    fn drop(&mut self) {
        if !self.is_level {
            // SAFETY: this value owns the array, and its uses are done ← results were copied
            // before.
            is_gone(unsafe { calls(self.fixture).cuArrayDestroy(self.raw) });
        }
    }
}

/// A mipmapped array that holds given levels.
pub(super) struct Mipmap<'b> {
    fixture: &'b Fixture,
    raw: CUmipmappedArray,
}

impl<'b> Mipmap<'b> {
    pub(super) fn new(fixture: &'b Fixture, levels: &[Elements], flags: u32) -> Self {
        let (mut raw, count) = (ptr::null_mut(), levels.len() as u32);
        let desc = desc(&levels[0], flags);
        // SAFETY: the pointers are to locals.
        ok(unsafe { calls(fixture).cuMipmappedArrayCreate(&raw mut raw, &desc, count) });
        let mipmap = Self { fixture, raw };
        for (number, elements) in levels.iter().enumerate() {
            let mut level = ptr::null_mut();
            let number = number as u32;
            // SAFETY: the pointers are to locals.
            ok(unsafe { calls(fixture).cuMipmappedArrayGetLevel(&raw mut level, raw, number) });
            let level = Array {
                fixture,
                raw: level,
                is_level: true,
            };
            level.put(elements);
        }
        mipmap
    }

    pub(super) fn resource(&self) -> CUDA_RESOURCE_DESC {
        // SAFETY: zero is a valid value of each field.
        let mut desc: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
        desc.resType = CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
        desc.res.mipmap.hMipmappedArray = self.raw;
        desc
    }
}

impl Drop for Mipmap<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the array, and its uses are done ← results were copied before.
        is_gone(unsafe { calls(self.fixture).cuMipmappedArrayDestroy(self.raw) });
    }
}

/// A resource of linear memory, as one row of elements.
pub(super) fn memory(start: CUdeviceptr, elements: &Elements) -> CUDA_RESOURCE_DESC {
    // SAFETY: zero is a valid value of each field.
    let mut desc: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
    desc.resType = CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
    desc.res.linear.devPtr = start;
    desc.res.linear.format = elements.format.raw();
    desc.res.linear.numChannels = elements.channels as u32;
    desc.res.linear.sizeInBytes = elements.size()[0] * elements.bytes_of_one();
    desc
}

/// A resource of pitched memory, as rows of elements.
pub(super) fn rows(start: CUdeviceptr, elements: &Elements, pitch: usize) -> CUDA_RESOURCE_DESC {
    // SAFETY: zero is a valid value of each field.
    let mut desc: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
    desc.resType = CUresourcetype::CU_RESOURCE_TYPE_PITCH2D;
    desc.res.pitch2D.devPtr = start;
    desc.res.pitch2D.format = elements.format.raw();
    desc.res.pitch2D.numChannels = elements.channels as u32;
    desc.res.pitch2D.width = elements.extent[0];
    desc.res.pitch2D.height = elements.extent[1];
    desc.res.pitch2D.pitchInBytes = pitch;
    desc
}

/// A texture descriptor that reads the nearest element of one level.
pub(super) fn reading(mode: CUaddress_mode, flags: u32) -> CUDA_TEXTURE_DESC {
    // SAFETY: zero is a valid value of each field.
    let mut desc: CUDA_TEXTURE_DESC = unsafe { std::mem::zeroed() };
    (desc.addressMode, desc.flags) = ([mode; 3], flags);
    desc
}

/// A texture descriptor that interpolates between elements.
pub(super) fn filtering(mode: CUaddress_mode, flags: u32) -> CUDA_TEXTURE_DESC {
    CUDA_TEXTURE_DESC {
        filterMode: CUfilter_mode::CU_TR_FILTER_MODE_LINEAR,
        ..reading(mode, flags)
    }
}

/// A texture object.
pub(super) struct Texture<'b> {
    pub(super) fixture: &'b Fixture,
    pub(super) raw: CUtexObject,
}

impl<'b> Texture<'b> {
    pub(super) fn new(
        fixture: &'b Fixture,
        resource: &CUDA_RESOURCE_DESC,
        texture: &CUDA_TEXTURE_DESC,
    ) -> Self {
        Self::with_view(fixture, resource, texture, None)
    }

    pub(super) fn with_view(
        fixture: &'b Fixture,
        resource: &CUDA_RESOURCE_DESC,
        texture: &CUDA_TEXTURE_DESC,
        view: Option<&CUDA_RESOURCE_VIEW_DESC>,
    ) -> Self {
        let mut raw = 0;
        let view = view.map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the pointers are to live values, or null.
        ok(unsafe { calls(fixture).cuTexObjectCreate(&raw mut raw, resource, texture, view) });
        Self { fixture, raw }
    }
}

impl Drop for Texture<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the texture, and its uses are done ← results were copied before.
        is_gone(unsafe { calls(self.fixture).cuTexObjectDestroy(self.raw) });
    }
}

/// A surface object.
pub(super) struct Surface<'b> {
    fixture: &'b Fixture,
    pub(super) raw: CUsurfObject,
}

impl<'b> Surface<'b> {
    pub(super) fn new(fixture: &'b Fixture, array: &Array<'_>) -> Self {
        let mut raw = 0;
        // SAFETY: the pointers are to locals.
        ok(unsafe { calls(fixture).cuSurfObjectCreate(&raw mut raw, &array.resource()) });
        Self { fixture, raw }
    }
}

impl Drop for Surface<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the surface, and its uses are done ← results were copied before.
        is_gone(unsafe { calls(self.fixture).cuSurfObjectDestroy(self.raw) });
    }
}
