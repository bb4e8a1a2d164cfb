//! Arguments of a launch together with memory whose addresses they contain.

use std::ffi::c_void;

use super::args::{KernelArgs, Values};
use super::kernel::{Accepts, KernelParams};
use super::tracked::Tracked;
use crate::error::Result;
use crate::function::check::Layout;
use crate::types::ArgType;

/// Arguments of a kernel, and other memory that the kernel uses. An example is a packed batch: a
/// struct of settings and of the addresses of several buffers.
///
/// A launch waits for conflicting uses of the buffers among its arguments. It cannot know which
/// addresses a struct contains, so those buffers are named here, as `&buffer` or as `&mut buffer`.
///
/// ```no_run
/// # #[cfg(feature = "derive")]
/// # mod with_the_feature_derive {
/// use cuda_driver::launch::Using;
/// use cuda_driver::memory::DevicePtr;
/// use cuda_driver::prelude::*;
///
/// #[repr(C)]
/// #[derive(Clone, Copy, DeviceRepr)] // the feature `derive`
/// struct Batch {
///     points: DevicePtr<f32>,
///     sums: DevicePtr<f32>,
///     scale: f32,
///     count: u32,
/// }
///
/// # fn f(stream: &Stream, kernel: &Function, points: &DeviceBuffer<f32>, sums: &mut DeviceBuffer<f32>)
/// #     -> cuda_driver::Result<()> {
/// let batch = Batch {
///     points: points.device_ptr(),
///     sums: sums.device_ptr(),
///     scale: 0.5,
///     count: 1000,
/// };
/// let args = Using::new((batch,), (points, sums));
/// // SAFETY: the kernel takes the struct, reads `points` and writes `sums`.
/// unsafe { stream.launch(kernel, LaunchConfig::for_num_elems(1000)?, args) }
/// # }
/// # }
/// ```
///
/// If the number of buffers is known only at run time, use [`ArgList::uses`](super::ArgList::uses).
#[derive(Clone, Copy, Debug)]
pub struct Using<A, M> {
    args: A,
    memory: M,
}

impl<A: KernelArgs, M: KernelArgs> Using<A, M> {
    /// Creates arguments for a kernel that takes `args` and uses `memory`, a tuple of buffers and
    /// views.
    pub fn new(args: A, memory: M) -> Self {
        Self { args, memory }
    }
}

// SAFETY: sizes, pointers and values must be of the same arguments ← all are those of `args`.
unsafe impl<A: KernelArgs, M: KernelArgs> KernelArgs for Using<A, M> {
    #[inline]
    fn sizes(&self) -> &[usize] {
        self.args.sizes()
    }

    #[inline]
    fn types(&self) -> &[ArgType] {
        self.args.types()
    }

    #[inline]
    fn packed(&self) -> u128 {
        self.args.packed()
    }

    #[inline]
    fn with_pointers<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
        self.args.with_pointers(f)
    }

    #[inline]
    fn with_values<R>(&self, layout: Layout<'_>, f: impl FnOnce(Values) -> R) -> R {
        self.args.with_values(layout, f)
    }

    #[inline]
    fn are_in_order(&self, stream: u64) -> bool {
        self.args.are_in_order(stream) && self.memory.are_in_order(stream)
    }

    #[inline]
    fn need_no_record(&self, stream: u64, epoch: u64) -> bool {
        self.args.need_no_record(stream, epoch) && self.memory.need_no_record(stream, epoch)
    }

    fn each_tracked(&self, f: &mut dyn FnMut(Tracked<'_>) -> Result<()>) -> Result<()> {
        self.args.each_tracked(f)?;
        self.memory.each_tracked(&mut |tracked| {
            f(Tracked {
                argument: 0,
                ..tracked
            })
        })
    }

    #[inline]
    fn all_arguments(&self, f: impl FnMut(usize, &[u8], Option<Tracked<'_>>) -> bool) -> bool {
        self.args.all_arguments(f)
    }
}

// SAFETY: the sizes must be equal ← the values are those of `A`, which `P` accepts.
unsafe impl<P: KernelParams + Accepts<A>, A, M> Accepts<Using<A, M>> for P {}
