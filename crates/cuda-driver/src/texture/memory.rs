//! The memory of an array or of all levels of a mipmapped array, and its release.

use std::ops::Range;
use std::sync::Arc;

use cuda_ptx::analysis::{Object, ObjectKind};
use cuda_sys::{
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, CUDA_RESOURCE_DESC, CUarray_st, CUdeviceptr,
    CUmipmappedArray_st, CUresourcetype, CUsurfObject,
};

use super::format::{ChannelFormat, Texel};
use super::limits::{check, not_supported_error, within};
use super::shape::{ArrayFlags, ArrayShape};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::{Destroy, Handle};
use crate::launch::ObjectArg;
use crate::memory::pitched::{ArrayBox, array_numbers};
use crate::memory::{Block, ExternalMemory, ExternalPart, Memory, Reclaim, Source, bytes_of};
use crate::memory_ledger::MemoryKind;
use crate::stream::Stream;
use crate::tracking::{Access, Tracker};
use crate::types::SendPtr;

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

/// An image in external memory.
pub(super) struct Image<'a> {
    pub(super) memory: &'a ExternalMemory,
    pub(super) range: Range<usize>,
    pub(super) shape: ArrayShape,
    pub(super) levels: u32,
    pub(super) flags: ArrayFlags,
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
    /// The memory of another API that has the elements. It is unmapped with the array.
    part: Option<ExternalPart>,
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
            .map_err(|error| not_created(context, error, flags, bytes))?;
        // SAFETY: the handle must be alive and have no other owner ← it was created just now.
        let array = OwnedArray::Array(unsafe { Handle::new(driver, SendPtr(raw)) });
        Self::new::<T>(stream, Owner::new(array, None), vec![*shape], false, flags)
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
        check_levels(shape, levels)?;
        let desc = shape.descriptor::<T>(flags);
        let shapes = shape.all_levels(levels);
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
        .map_err(|error| not_created(context, error, flags, bytes))?;
        // SAFETY: the handle must be alive and have no other owner ← it was created just now.
        let array = OwnedArray::Mipmapped(unsafe { Handle::new(driver, SendPtr(raw)) });
        Self::new::<T>(stream, Owner::new(array, None), shapes, true, flags)
    }

    /// Maps an image in external memory, as a mipmapped array or as an array.
    #[track_caller]
    pub(super) fn external<T: Texel>(
        stream: &Stream,
        image: Image<'_>,
        is_mipmapped: bool,
    ) -> Result<Arc<Self>> {
        stream.expect_direct("ExternalMemory::map_array")?;
        let (context, memory) = (stream.context(), image.memory);
        stream.expect_context(memory.context(), "the external memory")?;
        let (shape, flags) = (image.shape, image.flags);
        check(context.device(), &shape, flags)?;
        check_levels(&shape, image.levels)?;
        let shapes = shape.all_levels(image.levels);
        let part = image.claim(bytes_of::<T>(len_of::<T>(&shapes)?)?)?;
        let desc = CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC {
            offset: image.range.start as u64,
            arrayDesc: shape.descriptor::<T>(flags),
            numLevels: image.levels,
            reserved: [0; 16],
        };
        let _current = context.enter()?;
        let driver = context.driver();
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointers must be valid and the memory alive ← they point to local variables,
        // and the memory is borrowed.
        unsafe {
            call!(
                driver,
                cuExternalMemoryGetMappedMipmappedArray(
                    &raw mut raw,
                    memory.as_raw(),
                    &raw const desc
                )
            )
        }?;
        // SAFETY: the handle must be alive and have no other owner ← it was created just now.
        let array = OwnedArray::Mipmapped(unsafe { Handle::new(driver, SendPtr(raw)) });
        Self::new::<T>(
            stream,
            Owner::new(array, Some(part)),
            shapes,
            is_mipmapped,
            flags,
        )
    }

    /// Takes ownership of an array whose levels have these shapes, and creates their surfaces. The
    /// context is current. Unless `is_mipmapped`, the memory is used as an array, which is the only
    /// level.
    #[track_caller]
    fn new<T: Texel>(
        stream: &Stream,
        mut owner: Owner,
        shapes: Vec<ArrayShape>,
        is_mipmapped: bool,
        flags: ArrayFlags,
    ) -> Result<Arc<Self>> {
        let created = owner.create_levels(stream.driver(), shapes, size_of::<T>(), flags);
        let (first_level, all) = match created {
            Ok(created) => created,
            Err(error) => {
                // The first error is returned.
                let _ = owner.destroy();
                return Err(error);
            }
        };
        let handle = match &owner.array {
            OwnedArray::Mipmapped(array) if is_mipmapped => RawHandle::Mipmapped(array.raw()),
            _ => RawHandle::Array(first_level.array),
        };
        // No overflow: the callers have computed the sum of all levels.
        let bytes = all.iter().map(|level| level.whole(size_of::<T>()).bytes());
        let (bytes, first) = (bytes.sum::<usize>(), first_level.number);
        let owner = Source::Other(Arc::new(owner));
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

impl Owner {
    fn new(array: OwnedArray, part: Option<ExternalPart>) -> Self {
        Self {
            surfaces: Vec::new(),
            array,
            part,
        }
    }

    /// Returns the first level and all levels, which have these shapes and elements of this size,
    /// and creates their surfaces. The context is current.
    fn create_levels(
        &mut self,
        driver: &Driver,
        shapes: Vec<ArrayShape>,
        element_bytes: usize,
        flags: ArrayFlags,
    ) -> Result<(Level, Vec<Level>)> {
        let mut all = Vec::with_capacity(shapes.len());
        let numbers = array_numbers(shapes.len())..;
        for ((index, number), shape) in (0..).zip(numbers).zip(shapes) {
            let array = match &self.array {
                OwnedArray::Array(array) => array.raw(),
                OwnedArray::Mipmapped(array) => level_of(driver, array, index)?,
            };
            let mut surface = 0;
            if flags.contains(ArrayFlags::SURFACE) {
                surface = create_surface(driver, array)?;
                // SAFETY: the handle must be alive and have no other owner ← it was created just
                // now.
                self.surfaces.push(unsafe { Handle::new(driver, surface) });
            }
            let extent = shape.extent();
            let row = extent.width * element_bytes;
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
                            element_bytes: element_bytes as u32,
                            is_writable: true,
                        },
                        shape: shape.object_shape(),
                    },
                    extents: [row, extent.height, extent.depth].map(|size| size as u64),
                },
            });
        }
        let first = all.first().copied().ok_or(Error::Unsupported {
            what: "an array without levels",
        })?;
        Ok((first, all))
    }

    /// Destroys all, and returns the first error. The context is current, and all uses have ended.
    fn destroy(self) -> Result<(), DriverError> {
        let mut result = Ok(());
        for surface in self.surfaces {
            result = result.and(surface.close());
        }
        let destroyed = match self.array {
            OwnedArray::Array(array) => array.close(),
            OwnedArray::Mipmapped(array) => array.close(),
        };
        if let (Err(_), Some(part)) = (&destroyed, &self.part) {
            part.keep();
        }
        result.and(destroyed)
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
        // Only the memory has a reference.
        Arc::into_inner(self).map_or(Ok(()), Self::destroy)
    }

    fn disown(self: Arc<Self>, _: &Block) {
        // The array may still be in use, and ends with its context. Only the memory has a
        // reference.
        if let Some(this) = Arc::into_inner(self) {
            this.surfaces.into_iter().for_each(Handle::abandon);
            match this.array {
                OwnedArray::Array(array) => array.abandon(),
                OwnedArray::Mipmapped(array) => array.abandon(),
            }
            if let Some(part) = &this.part {
                part.keep();
            }
        }
    }

    fn origin(&self) -> (MemoryKind, u64) {
        (MemoryKind::Array, 0)
    }
}

/// Returns the error of the creation of an array with these flags and this size.
fn not_created(context: &Context, error: DriverError, flags: ArrayFlags, bytes: usize) -> Error {
    not_supported_error(error, flags.optional_feature())
        .unwrap_or_else(|| context.allocation_error(error, bytes))
}

/// Fails if no mipmapped array of this shape has as many levels.
fn check_levels(shape: &ArrayShape, levels: u32) -> Result<()> {
    let most = shape.most_levels();
    let (what, of) = ("number of levels", "a mipmapped array of this shape");
    let next = "create it with fewer levels";
    within(what, of, levels.into(), 1..=most.into(), next)
}

/// `cuMipmappedArrayGetLevel()`—Returns a level of a mipmapped array.
fn level_of(
    driver: &Driver,
    owner: &Handle<RawMipmapped>,
    level: u32,
) -> Result<SendPtr<CUarray_st>> {
    let mut array = std::ptr::null_mut();
    // SAFETY: the pointer must be writable and the handle alive ← it points to a local variable,
    // and the handle is borrowed.
    unsafe {
        call!(
            driver,
            cuMipmappedArrayGetLevel(&raw mut array, owner.raw().0, level)
        )
    }?;
    Ok(SendPtr(array))
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
