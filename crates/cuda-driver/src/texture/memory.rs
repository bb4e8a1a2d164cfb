//! The memory of an array or of all levels of a mipmapped array, and its release.

use std::sync::Arc;

use cuda_ptx::analysis::{Object, ObjectKind};
use cuda_sys::{
    CUDA_RESOURCE_DESC, CUarray_st, CUdeviceptr, CUmipmappedArray_st, CUresourcetype, CUsurfObject,
};

use super::format::{ChannelFormat, Texel};
use super::limits::{check, not_supported_error, within};
use super::shape::{ArrayFlags, ArrayShape};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::{Destroy, Handle, SendPtr};
use crate::launch::ObjectArg;
use crate::memory::pitched::{ArrayBox, array_numbers};
use crate::memory::{Block, Memory, Reclaim, Source, bytes_of};
use crate::memory_ledger::MemoryKind;
use crate::stream::Stream;
use crate::tracking::{Access, Tracker};

/// The memory of an array or of a mipmapped array. Its owner and the textures share it.
pub(super) struct ArrayMemory {
    pub(super) memory: Memory,
    pub(super) handle: RawHandle,
    first: Level,
    /// All levels, the first one included.
    pub(super) levels: Vec<Level>,
    pub(super) flags: ArrayFlags,
    pub(super) format: ChannelFormat,
    pub(super) channels: u32,
}

/// The handle of an array or of a mipmapped array.
#[derive(Clone, Copy, Debug)]
pub(super) enum RawHandle {
    Array(SendPtr<CUarray_st>),
    Mipmapped(SendPtr<CUmipmappedArray_st>),
}

/// An array, or a level of a mipmapped array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) array: SendPtr<CUarray_st>,
    /// 0 without [`ArrayFlags::SURFACE`].
    pub(super) surface: CUsurfObject,
    pub(super) shape: ArrayShape,
    /// The number that identifies the array in accesses.
    pub(super) number: CUdeviceptr,
    /// The surface for safe launches.
    pub(super) object: ObjectArg,
}

/// The handles that are destroyed when the memory is released.
struct Owner {
    surfaces: Vec<Handle<RawSurface>>,
    array: OwnedArray,
}

enum OwnedArray {
    Array(Handle<RawArray>),
    Mipmapped(Handle<RawMipmapped>),
}

struct RawArray;

impl Destroy for RawArray {
    type Raw = SendPtr<CUarray_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the array must be alive and not used afterwards ← the caller guarantees it.
        unsafe { call!(driver, cuArrayDestroy(raw.0)) }
    }
}

struct RawMipmapped;

impl Destroy for RawMipmapped {
    type Raw = SendPtr<CUmipmappedArray_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: as in `RawArray`.
        unsafe { call!(driver, cuMipmappedArrayDestroy(raw.0)) }
    }
}

struct RawSurface;

impl Destroy for RawSurface {
    type Raw = CUsurfObject;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the surface must be alive and not used afterwards ← the caller guarantees it.
        unsafe { call!(driver, cuSurfObjectDestroy(raw)) }
    }
}

impl ArrayMemory {
    /// Creates an array.
    #[track_caller]
    pub(super) fn array<T: Texel>(
        stream: &Stream,
        shape: &ArrayShape,
        flags: ArrayFlags,
    ) -> Result<Arc<Self>> {
        stream.expect_direct("the creation of an array")?;
        let context = stream.context();
        check(context.device(), shape, flags)?;
        let desc = shape.descriptor::<T>(flags);
        let bytes = bytes_of::<T>(shape.extent().len::<T>()?)?;
        let _current = context.enter()?;
        let driver = context.driver();
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointers must be valid ← they point to local variables.
        unsafe { call!(driver, cuArray3DCreate_v2(&raw mut raw, &raw const desc)) }
            .map_err(|error| not_created(error, flags, bytes))?;
        let raw = SendPtr(raw);
        // SAFETY: the handle must be alive and have no other owner ← it was created just now.
        let array = OwnedArray::Array(unsafe { Handle::new(driver, raw) });
        let handle = RawHandle::Array(raw);
        Self::new::<T>(stream, (array, handle), vec![(raw, *shape)], flags)
    }

    /// Creates a mipmapped array.
    #[track_caller]
    pub(super) fn mipmapped<T: Texel>(
        stream: &Stream,
        shape: &ArrayShape,
        levels: u32,
        flags: ArrayFlags,
    ) -> Result<Arc<Self>> {
        stream.expect_direct("the creation of a mipmapped array")?;
        let context = stream.context();
        check(context.device(), shape, flags)?;
        let most = shape.most_levels();
        let (what, of) = ("number of levels", "a mipmapped array of this shape");
        let next = "create it with fewer levels";
        within(what, of, levels.into(), 1..=most.into(), next)?;
        let desc = shape.descriptor::<T>(flags);
        let shapes: Vec<ArrayShape> = (0..levels).map(|level| shape.level(level)).collect();
        let bytes = bytes_of::<T>(len_of::<T>(&shapes)?)?;
        let _current = context.enter()?;
        let driver = context.driver();
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointers must be valid ← they point to local variables.
        unsafe {
            call!(
                driver,
                cuMipmappedArrayCreate(&raw mut raw, &raw const desc, levels)
            )
        }
        .map_err(|error| not_created(error, flags, bytes))?;
        let raw = SendPtr(raw);
        // SAFETY: the handle must be alive and have no other owner ← it was created just now.
        let array = OwnedArray::Mipmapped(unsafe { Handle::new(driver, raw) });
        let mut all = Vec::with_capacity(shapes.len());
        for (level, shape) in (0..levels).zip(shapes) {
            let mut array = std::ptr::null_mut();
            // SAFETY: the pointer must be writable and the handle alive ← it points to a local
            // variable, and `array` owns the handle.
            unsafe {
                call!(
                    driver,
                    cuMipmappedArrayGetLevel(&raw mut array, raw.0, level)
                )
            }?;
            all.push((SendPtr(array), shape));
        }
        Self::new::<T>(stream, (array, RawHandle::Mipmapped(raw)), all, flags)
    }

    /// Takes ownership of an array with these levels, and creates their surfaces. The context is
    /// current.
    #[track_caller]
    fn new<T: Texel>(
        stream: &Stream,
        (array, handle): (OwnedArray, RawHandle),
        levels: Vec<(SendPtr<CUarray_st>, ArrayShape)>,
        flags: ArrayFlags,
    ) -> Result<Arc<Self>> {
        let driver = stream.driver();
        let first = array_numbers(levels.len());
        let mut surfaces = Vec::new();
        let mut all = Vec::with_capacity(levels.len());
        let mut bytes = 0;
        for (number, (array, shape)) in (first..).zip(levels) {
            let mut surface = 0;
            if flags.contains(ArrayFlags::SURFACE) {
                surface = create_surface(driver, array)?;
                // SAFETY: the handle must be alive and have no other owner ← it was created just
                // now.
                surfaces.push(unsafe { Handle::new(driver, surface) });
            }
            let extent = shape.extent();
            // No overflow: the caller has computed the sum of all levels.
            bytes += extent.width * extent.height * extent.depth * size_of::<T>();
            let row = extent.width * size_of::<T>();
            all.push(Level {
                array,
                surface,
                shape,
                number,
                object: ObjectArg {
                    handle: surface,
                    object: Object {
                        kind: ObjectKind::Surface {
                            // An element has at most 16 bytes.
                            element_bytes: size_of::<T>() as u32,
                            is_writable: true,
                        },
                        shape: shape.object_shape(),
                    },
                    extents: [row, extent.height, extent.depth].map(|size| size as u64),
                },
            });
        }
        let Some(first_level) = all.first().copied() else {
            return Err(Error::Unsupported {
                what: "an array without levels",
            });
        };
        let owner = Source::Other(Arc::new(Owner { surfaces, array }));
        // SAFETY: the memory must be usable, and only `owner` may release it ← the number
        // identifies the array, which was created in the context of the stream and which `owner`
        // owns. No call dereferences the number.
        let memory = unsafe { Memory::of_source(stream, first, bytes, owner) };
        Ok(Arc::new(Self {
            memory,
            handle,
            first: first_level,
            levels: all,
            flags,
            format: T::FORMAT,
            channels: T::CHANNELS,
        }))
    }

    /// Returns the first level.
    pub(super) fn first(&self) -> &Level {
        &self.first
    }

    /// Returns the driver's description of this memory as the resource of a texture.
    pub(super) fn resource(&self) -> CUDA_RESOURCE_DESC {
        match self.handle {
            RawHandle::Array(array) => resource_of(array),
            RawHandle::Mipmapped(array) => {
                let mut desc = no_resource();
                desc.resType = CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
                desc.res.mipmap.hMipmappedArray = array.0;
                desc
            }
        }
    }
}

impl Level {
    /// Returns all elements, each of which has `size` bytes.
    pub(super) fn whole(&self, size: usize) -> ArrayBox {
        let extent = self.shape.extent();
        ArrayBox {
            array: self.array,
            number: self.number,
            x: 0,
            y: 0,
            z: 0,
            width: extent.width * size,
            height: extent.height,
            depth: extent.depth,
        }
    }
}

impl Reclaim for Owner {
    fn reclaim(self: Arc<Self>, block: Block) -> Result<(), DriverError> {
        let stream = block.tracker.owning_stream().clone();
        if let Err(error) = block.tracker.synchronize(Access::WRITE) {
            Tracker::keep_context_while_used_elsewhere(&block.tracker);
            self.disown(&block);
            return Err(error);
        }
        let _current = stream.context().enter();
        let Some(Self { surfaces, array }) = Arc::into_inner(self) else {
            // Only the memory has a reference.
            return Ok(());
        };
        // All are destroyed; the first error is returned.
        let mut result = Ok(());
        for surface in surfaces {
            result = result.and(surface.close());
        }
        result.and(match array {
            OwnedArray::Array(array) => array.close(),
            OwnedArray::Mipmapped(array) => array.close(),
        })
    }

    fn disown(self: Arc<Self>, _: &Block) {
        // The array may still be in use, and ends with its context. Only the memory has a
        // reference.
        if let Some(Self { surfaces, array }) = Arc::into_inner(self) {
            surfaces.into_iter().for_each(Handle::abandon);
            match array {
                OwnedArray::Array(array) => array.abandon(),
                OwnedArray::Mipmapped(array) => array.abandon(),
            }
        }
    }

    fn origin(&self) -> (MemoryKind, u64) {
        (MemoryKind::Array, 0)
    }
}

/// Returns the error of the creation of an array with these flags and this size.
fn not_created(error: DriverError, flags: ArrayFlags, bytes: usize) -> Error {
    not_supported_error(error, flags.optional_feature())
        .unwrap_or_else(|| Error::of_allocation(error, bytes))
}

/// `cuSurfObjectCreate()`—Creates a surface of an array. The context is current.
fn create_surface(driver: &Driver, array: SendPtr<CUarray_st>) -> Result<CUsurfObject> {
    let (mut surface, desc) = (0, resource_of(array));
    // SAFETY: the pointers must be valid and the array alive ← they point to local variables, and
    // the caller owns the array.
    unsafe {
        call!(
            driver,
            cuSurfObjectCreate(&raw mut surface, &raw const desc)
        )
    }?;
    Ok(surface)
}

fn resource_of(array: SendPtr<CUarray_st>) -> CUDA_RESOURCE_DESC {
    let mut desc = no_resource();
    desc.resType = CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
    desc.res.array.hArray = array.0;
    desc
}

/// Returns a description in which all fields are zero.
pub(super) fn no_resource() -> CUDA_RESOURCE_DESC {
    // SAFETY: all-zero bytes must be a valid value ← the struct contains only numbers and pointers.
    unsafe { std::mem::zeroed() }
}

/// Returns the number of elements of all levels.
fn len_of<T: Texel>(levels: &[ArrayShape]) -> Result<usize> {
    let mut len = 0_usize;
    for level in levels {
        let more = level.extent().len::<T>()?;
        len = len.checked_add(more).ok_or(Error::SizeOverflow {
            len: usize::MAX,
            size: size_of::<T>(),
        })?;
    }
    Ok(len)
}
