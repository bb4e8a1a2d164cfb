//! Arrays, textures and surfaces: memory that kernels read with filters and address modes.
//!
//! An [`Array`] is device memory without an address, in the layout that the texture units read
//! fast. A [`Texture`] describes how a kernel reads an array or a buffer: how it filters between
//! elements, what it returns beyond the edges, and whether it converts integers to numbers between
//! 0 and 1. A [`Surface`] or a [`SurfaceMut`] lets a kernel read or write the elements of an array
//! as they are.
//!
//! In C all of these are handles, and the program has to order the copies and kernels that use one
//! array. Here an array records its uses as a buffer does: copies and launches with
//! textures and surfaces are ordered on all streams, in captures and in graphs.
//!
//! | use | kind |
//! |---|---|
//! | a copy from an array, a launch with a [`Texture`] or a [`Surface`] | read |
//! | a copy to an array, a launch with a [`SurfaceMut`] | write |
//!
//! A write waits for earlier uses of the array, and later uses wait for it. Reads do not wait for
//! each other. Streams order uses of a [`MipmappedArray`] as uses of one array. Graphs order each
//! level on its own. A launch that writes an array or a level, and also reads it through a texture,
//! fails with [`ArrayError::Conflict`](crate::error::ArrayError::Conflict): the values would be
//! undefined.
//!
//! ```
//! use cuda_driver::prelude::*;
//! use cuda_driver::texture::{Array, ArrayShape, Filter, Sampler, Texture};
//!
//! # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
//! # let context = driver.device(0)?.primary_context()?;
//! # let stream = context.default_stream()?;
//! # let look = Ptx::new(std::fs::read("tests/it/kernels/texture.ptx")?)?;
//! # let look = Module::load(&context, &look)?.function("look_2d")?;
//! // An image of 2 x 2 pixels, and a texture that interpolates between them.
//! let image = Array::from_host(&stream, &ArrayShape::two_d(2, 2), &[0.0_f32, 1.0, 2.0, 3.0])?;
//! let smooth = Texture::new(&image, &Sampler::new().filter(Filter::Linear))?;
//!
//! // The middle of the image. Each point has four coordinates.
//! let at = DeviceBuffer::from_host(&stream, &[[1.0_f32, 1.0, 0.0, 0.0]])?;
//! let mut out = DeviceBuffer::<[f32; 4]>::zeroed(&stream, 1)?;
//! // SAFETY: the kernel reads a point and writes a pixel for each of 1 threads.
//! unsafe { stream.launch(&look, LaunchConfig::new(1, 1), (&smooth, &at, &mut out, 1_u32)) }?;
//! assert_eq!(out.to_vec()?[0][0], 1.5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// The modules of the main types come first, as on the pages of rustdoc.
mod array;
mod texture;
mod view;

mod arg;
mod copy;
mod external;
mod format;
mod limits;
mod memory;
mod mipmapped;
mod peer;
mod resource;
mod sampler;
mod shape;
mod surface;

pub use array::Array;
pub(crate) use copy::BoxCopy;
pub use copy::{ArraySource, ArrayTarget};
pub use format::{ChannelFormat, Texel};
pub use mipmapped::MipmappedArray;
pub use resource::{ResourceView, TextureSource, ViewFormat};
pub use sampler::{AddressMode, Filter, ReadMode, Sampler};
pub use shape::{ArrayFlags, ArrayShape};
pub use surface::{Surface, SurfaceMut};
pub use texture::Texture;
pub use view::{ArraySlice, ArraySliceMut};
