//! Textures and surfaces as arguments of kernels.

use std::any::Any;
use std::sync::Arc;

use super::surface::{Surface, SurfaceMut};
use super::texture::Texture;
use crate::launch::{Accepts, Keep, KernelArg, KernelParam, ObjectArg, Tracked};
use crate::memory::Memory;
use crate::tracking::Access;
use crate::types::ArgType;

impl Keep for Texture {
    fn keep(&self) -> Arc<dyn Any + Send + Sync> {
        self.object()
    }
}

// SAFETY: `Value` must be what the kernel expects and `tracked` must cover it ← the kernel takes
// the handle of the texture, which refers to the memory that `tracked` returns; the texture keeps
// both alive as long as it is borrowed, and its drop waits for all uses.
unsafe impl KernelArg for &Texture {
    type Value = u64;

    const ARG_TYPE: ArgType = ArgType::U64;

    #[inline]
    fn value(&self) -> u64 {
        self.as_raw()
    }

    fn tracked(&self) -> Option<Tracked<'_>> {
        let part = self.part();
        Some(Tracked {
            memory: Some(part.memory),
            access: part.access,
            address: part.address,
            bytes: part.bytes,
            graph: 0,
            argument: 0,
            peer: None,
            kept: Some(*self),
            object: Some(self.as_arg()),
        })
    }
}

macro_rules! surface_arg {
    ($($ty:ty, $access:expr;)*) => {
        $(
            // SAFETY: `Value` must be what the kernel expects and `tracked` must cover it ← the
            // kernel takes the handle of the surface, which lives as long as the memory of the
            // array, which `tracked` returns; the surface borrows that memory.
            unsafe impl KernelArg for $ty {
                type Value = u64;

                const ARG_TYPE: ArgType = ArgType::U64;

                #[inline]
                fn value(&self) -> u64 {
                    self.as_raw()
                }

                fn tracked(&self) -> Option<Tracked<'_>> {
                    Some(tracked(self.memory, $access, self.number, self.object))
                }
            }
        )*
    };
}

surface_arg! {
    Surface<'_>, Access::READ;
    &Surface<'_>, Access::READ;
    SurfaceMut<'_>, Access::WRITE.of_part();
    &mut SurfaceMut<'_>, Access::WRITE.of_part();
}

fn tracked<'a>(
    memory: &'a Memory,
    access: Access,
    number: u64,
    object: &'a ObjectArg,
) -> Tracked<'a> {
    Tracked {
        memory: Some(memory),
        access,
        address: number,
        bytes: 1,
        graph: 0,
        argument: 0,
        peer: None,
        kept: None,
        object: Some(object),
    }
}

// SAFETY: `SIZE` must be the size of the parameter ← it is the size of a handle.
unsafe impl KernelParam for Texture {
    const SIZE: usize = size_of::<u64>();
}

// SAFETY: the sizes must be equal ← the value of the argument is a handle.
unsafe impl Accepts<&Texture> for Texture {}

// SAFETY: `SIZE` must be the size of the parameter ← it is the size of a handle.
unsafe impl KernelParam for Surface<'static> {
    const SIZE: usize = size_of::<u64>();
}

// SAFETY: the sizes must be equal ← the value of the argument is a handle.
unsafe impl Accepts<Surface<'_>> for Surface<'static> {}

// SAFETY: as above.
unsafe impl Accepts<&Surface<'_>> for Surface<'static> {}

// SAFETY: `SIZE` must be the size of the parameter ← it is the size of a handle.
unsafe impl KernelParam for SurfaceMut<'static> {
    const SIZE: usize = size_of::<u64>();
}

// SAFETY: the sizes must be equal ← the value of the argument is a handle.
unsafe impl Accepts<SurfaceMut<'_>> for SurfaceMut<'static> {}

// SAFETY: as above.
unsafe impl Accepts<&mut SurfaceMut<'_>> for SurfaceMut<'static> {}
