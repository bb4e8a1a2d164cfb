//! Textures, through which kernels read memory.

use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

use cuda_sys::CUtexObject;

use super::limits::{contradiction, not_supported_error, within};
use super::resource::{Channels, Kind, ResourceView, TOKEN, TextureMemory, TextureSource};
use super::sampler::{AddressMode, Filter, ReadMode, Sampler};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};
use crate::launch::ObjectArg;
use crate::memory::{Part, when_not_captured};
use crate::tracking::Access;

/// Memory that a kernel reads through the texture units: with filters, address modes and
/// conversions. `&texture` is an argument for a parameter of the type `cudaTextureObject_t`.
///
/// A texture shares its memory: arrays stay writable through copies and
/// [surfaces](super::Array::surface_mut). A launch with a texture is a read of the memory, and is
/// ordered with all writes on all streams. Buffers are shared by `Arc`. While a texture has them,
/// only [`Stream::write_value`](crate::stream::Stream::write_value) and
/// [`ValueBatch`](crate::stream::ValueBatch) can change their elements.
///
/// Dropping a texture waits until the device no longer uses its memory. A graph with a node that
/// uses a texture keeps it alive.
///
/// ```
/// use std::sync::Arc;
/// use cuda_driver::memory::{PitchedBuffer, SharedSlice};
/// use cuda_driver::prelude::*;
/// use cuda_driver::texture::{Sampler, Texture};
///
/// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// // Rows in pitched memory, and a table in linear memory.
/// let image = Arc::new(PitchedBuffer::<f32>::zeroed(&stream, (640, 480))?);
/// let image = Texture::new(&image, &Sampler::new())?;
/// let table = SharedSlice::from(DeviceBuffer::<[i16; 2]>::zeroed(&stream, 1000)?);
/// let table = Texture::new(&table, &Sampler::new())?;
/// # let _ = (image, table);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[doc(alias = "CUtexObject")]
#[doc(alias = "cudaTextureObject_t")]
pub struct Texture {
    object: Arc<TextureObject>,
}

/// A texture object, with its memory.
struct TextureObject {
    /// Taken only when the object is dropped.
    handle: ManuallyDrop<Handle<RawTexture>>,
    /// Taken only when the object is dropped.
    source: ManuallyDrop<TextureMemory>,
    arg: ObjectArg,
}

struct RawTexture;

impl Destroy for RawTexture {
    type Raw = CUtexObject;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the texture must be alive and not used afterwards ← the caller guarantees it.
        unsafe { call!(driver, cuTexObjectDestroy(raw)) }
    }
}

// SAFETY: the source must not depend on its thread ← the only field that is not `Send` and `Sync`
// by itself is the driver's description, whose pointers are never dereferenced here and name memory
// that `owner` keeps alive; the driver is thread-safe (docs/safety.md, Threads).
unsafe impl Send for TextureMemory {}
// SAFETY: as above.
unsafe impl Sync for TextureMemory {}

impl Texture {
    /// `cuTexObjectCreate(source, sampler)`—Creates a texture of `source`.
    ///
    /// # Errors
    ///
    /// - [`Error::Array`](crate::Error::Array) with the limit that the memory exceeds, or with the
    ///   settings that contradict each other.
    /// - [`Error::Unsupported`](crate::Error::Unsupported) for managed memory.
    /// - [`ArrayError::NotSupported`](crate::error::ArrayError::NotSupported) with the setting that
    ///   the device does not support.
    #[doc(alias = "cuTexObjectCreate")]
    #[doc(alias = "cudaCreateTextureObject")]
    pub fn new(source: &impl TextureSource, sampler: &Sampler) -> Result<Self> {
        Self::create(source.source(TOKEN)?, sampler, None)
    }

    /// `cuTexObjectCreate(source, sampler, view)`—Creates a texture of a part of an array, or of an
    /// array with elements in another format.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new), and [`Error::Array`](crate::Error::Array) if the array
    /// does not have the levels or layers of the view. `CUDA_ERROR_INVALID_VALUE` if the elements
    /// of the format have another size.
    pub fn with_view(
        source: &impl TextureSource,
        sampler: &Sampler,
        view: &ResourceView,
    ) -> Result<Self> {
        Self::create(source.source(TOKEN)?, sampler, Some(view))
    }

    fn create(
        mut source: TextureMemory,
        sampler: &Sampler,
        view: Option<&ResourceView>,
    ) -> Result<Self> {
        check(&source, sampler, view)?;
        let channels = source.channels_read(view);
        let feature = if view.is_some_and(ResourceView::is_block_compressed) {
            Some((
                "block-compressed views",
                "decompress the blocks on the host",
            ))
        } else {
            sampler.optional_feature()
        };
        let mut view_desc = None;
        if let Some(view) = view {
            let (desc, (first, last)) = view.raw(&source)?;
            // A kernel can read the selected levels only.
            source.range = (
                source.range.0 + u64::from(first),
                (last - first) as usize + 1,
            );
            view_desc = Some(desc);
        }
        let owner = Arc::clone(&source.owner);
        let memory = owner.memory();
        if matches!(source.kind, Kind::Array { .. }) {
            // The array can be written while the texture exists, without a borrow that excludes
            // launches with the texture.
            memory.allow_aliases()?;
        } else if memory.is_managed() {
            return Err(crate::error::Error::Unsupported {
                what: "a texture of managed memory; copy it to a `DeviceBuffer` or an `Array`",
            });
        }
        let context = memory.owning_stream().context();
        let texture_desc = sampler.raw(channels == Channels::Float, source.kind.dimensions());
        let view_desc = view_desc.as_ref().map_or(ptr::null(), ptr::from_ref);
        let _current = context.enter()?;
        let driver = context.driver();
        let mut raw = 0;
        // SAFETY: the pointers must be valid and the memory alive ← they point to local variables,
        // or are null for no view; `source` owns the memory.
        unsafe {
            call!(
                driver,
                cuTexObjectCreate(
                    &raw mut raw,
                    &raw const source.desc,
                    &raw const texture_desc,
                    view_desc
                )
            )
        }
        .map_err(|error| not_supported_error(error, feature).unwrap_or_else(|| error.into()))?;
        // SAFETY: the handle must be alive and have no other owner ← it was created just now.
        let handle = unsafe { Handle::new(driver, raw) };
        Ok(Self {
            object: Arc::new(TextureObject {
                arg: source.object(raw),
                handle: ManuallyDrop::new(handle),
                source: ManuallyDrop::new(source),
            }),
        })
    }

    /// Returns the raw handle.
    ///
    /// The crate does not track uses of the raw handle. The caller must order them with the tracked
    /// uses, and must not destroy the texture.
    #[must_use]
    pub fn as_raw(&self) -> CUtexObject {
        self.object.handle.raw()
    }

    /// Returns the context of the texture.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.part().memory.owning_stream().context()
    }

    /// Returns the use of the memory by a kernel that reads the texture.
    pub(super) fn part(&self) -> Part<'_> {
        self.object.source.part()
    }

    /// Returns the texture for safe launches.
    pub(super) fn as_arg(&self) -> &ObjectArg {
        &self.object.arg
    }

    /// Returns an owner of the texture object.
    pub(super) fn object(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.object) as Arc<dyn Any + Send + Sync>
    }
}

/// The device may still read through the texture object, so it is destroyed after all uses of the
/// memory, and the memory is released after that.
impl Drop for TextureObject {
    fn drop(&mut self) {
        // SAFETY: the field must not be used again ← `self` is being dropped.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        // SAFETY: as above.
        let source = unsafe { ManuallyDrop::take(&mut self.source) };
        let driver = handle.driver().clone();
        driver.run_or_defer_wait(move || {
            let tracker = Arc::clone(&source.owner.memory().tracker);
            when_not_captured(tracker, move |tracker| {
                let context = tracker.owning_stream().context().clone();
                match tracker.synchronize(Access::WRITE) {
                    Ok(()) => {
                        let _current = context.enter();
                        // The error cannot be reported: the owner was dropped before.
                        let _ = handle.close();
                    }
                    // The object may still be in use, and ends with its context.
                    Err(_) => handle.abandon(),
                }
                drop(source);
            });
        });
    }
}

/// Fails if settings contradict each other or the memory.
fn check(source: &TextureMemory, sampler: &Sampler, view: Option<&ResourceView>) -> Result<()> {
    within(
        "largest anisotropic ratio",
        "a texture",
        sampler.anisotropy().into(),
        0..=16,
        "lower Sampler::max_anisotropy",
    )?;
    let channels = source.channels_read(view);
    let repeats = |mode: &AddressMode| matches!(mode, AddressMode::Wrap | AddressMode::Mirror);
    if !sampler.is_normalized && sampler.address.iter().any(repeats) {
        return Err(contradiction(
            "AddressMode::Wrap and AddressMode::Mirror need normalized coordinates",
            "add Sampler::normalized_coordinates, or use AddressMode::Clamp",
        ));
    }
    let is_read_as_float = match channels {
        Channels::Float => true,
        Channels::SmallInteger => sampler.read == ReadMode::NormalizedFloat,
        Channels::Integer => false,
    };
    let is_mipmapped = matches!(
        source.kind,
        Kind::Array {
            is_mipmapped: true,
            ..
        }
    );
    let is_filtered =
        sampler.filter == Filter::Linear || is_mipmapped && sampler.level_filter == Filter::Linear;
    if is_filtered && !is_read_as_float {
        return Err(contradiction(
            "Filter::Linear needs a texture that returns floats",
            "use ReadMode::NormalizedFloat with elements of 8 or 16 bits, or Filter::Point",
        ));
    }
    if sampler.read == ReadMode::NormalizedFloat && channels == Channels::Integer {
        return Err(contradiction(
            "ReadMode::NormalizedFloat needs elements of 8 or 16 bits",
            "use ReadMode::Element",
        ));
    }
    match source.kind {
        Kind::Linear => {
            let is_plain = sampler.filter == Filter::Point
                && !sampler.is_normalized
                && !sampler.is_srgb
                && sampler.address == [AddressMode::Clamp; 3];
            if !is_plain {
                return Err(contradiction(
                    "a texture of linear memory reads whole elements at integer coordinates",
                    "copy the elements to an array, or set only Sampler::read",
                ));
            }
        }
        Kind::Array { .. } if is_mipmapped && !sampler.is_normalized => {
            return Err(contradiction(
                "a texture of a mipmapped array needs normalized coordinates",
                "add Sampler::normalized_coordinates",
            ));
        }
        Kind::Array { shape, .. } if sampler.is_seamless && !shape.is_cube() => {
            return Err(contradiction(
                "Sampler::seamless needs a cube",
                "leave it out, or use ArrayShape::cube",
            ));
        }
        Kind::Array { .. } | Kind::Pitched => {}
    }
    Ok(())
}

impl fmt::Debug for Texture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source: &TextureMemory = &self.object.source;
        write!(f, "Texture({:#x}, {source:?})", self.as_raw())
    }
}
