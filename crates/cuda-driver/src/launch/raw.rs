//! Launches and copies with raw pointers, for runtimes that keep their own argument arrays and
//! memory.
//!
//! As in C, the values and the addresses are taken as they are. Unlike in C, the memory that a call
//! uses can be declared, and is then ordered with other uses.

use std::cell::Cell;
use std::ffi::c_void;

use cuda_sys::{CUDA_MEMCPY2D, CUdeviceptr};

use super::args::{KernelArgs, Values};
use super::launch::{acquire, commit};
use super::tracked::Tracked;
use super::{LaunchAttributes, LaunchConfig};
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::function::Function;
use crate::function::check::Layout;
use crate::function::packing::UNPACKED;
use crate::stream::Stream;
use crate::tracking::Scope;
use crate::types::ArgType;

/// Launches and copies with raw pointers.
impl Stream {
    /// `cuLaunchKernel(function, config, params)`—Queues a kernel whose arguments are an array of
    /// pointers to values, as in C. With `attributes` the call is `cuLaunchKernelEx`.
    ///
    /// `uses` declares the memory that the kernel uses: a tuple of buffers and views, or an
    /// [`ArgList`](super::ArgList) of them. The launch waits for conflicting uses of this memory on
    /// other streams, and later conflicting uses wait for the launch. The caller orders all other
    /// memory; pass `()` to order nothing.
    ///
    /// ```
    /// use cuda_driver::prelude::*;
    ///
    /// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
    /// # let mix = Module::load(&context, &mix)?.function("mix")?;
    /// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
    /// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
    /// let (mut to, mut from, mut len) = (x.as_raw(), y.as_raw(), 100_u32);
    /// let mut params = [
    ///     (&raw mut to).cast(),
    ///     (&raw mut from).cast(),
    ///     (&raw mut len).cast(),
    /// ];
    /// let config = LaunchConfig::for_num_elems(100)?;
    /// // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 100 words, and takes two addresses
    /// // and a `u32`.
    /// unsafe { stream.launch_raw(&mix, config, None, &mut params, (&mut x, &y)) }?;
    /// assert_eq!(x.to_vec()?, [7; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`launch`](Self::launch) and [`launch_with`](Self::launch_with) do, except that
    /// only the number of arguments is compared with the kernel's parameters.
    ///
    /// # Safety
    ///
    /// - Each pointer is to an initialized value of the size and the type that the kernel expects.
    /// - The kernel accesses only memory that `uses` permits, and memory that the caller keeps
    ///   allocated and orders in another way. If an [eager capture](crate::graph::EagerCapture)
    ///   captures the launch, this holds for each launch of the graph.
    /// - The other requirements of [`launch`](Self::launch), and with attributes those of
    ///   [`launch_with`](Self::launch_with), apply.
    #[doc(alias = "cuLaunchKernel")]
    #[doc(alias = "cuLaunchKernelEx")]
    #[doc(alias = "cudaLaunchKernelEx")]
    pub unsafe fn launch_raw<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        params: &mut [*mut c_void],
        uses: A,
    ) -> Result<()> {
        function.expect_parameters(params.len())?;
        let args = RawArgs {
            params: Cell::new(params),
            uses,
        };
        // SAFETY: the sizes must match the parameters, and the kernel must stay within its memory ←
        // the number was compared; the caller guarantees the rest.
        unsafe { self.queue(function, config, attributes, args) }
    }

    /// `cuMemcpyAsync(to, from, bytes)`—Queues a copy between two addresses, of device memory or of
    /// host memory. The driver finds out which they are.
    ///
    /// `uses` declares memory that the copy uses, as for [`launch_raw`](Self::launch_raw). Pass
    /// `()` for memory that the caller orders.
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let source = DeviceBuffer::from_host(&stream, &[1_u8, 2, 3, 4])?;
    /// let mut target = DeviceBuffer::<u8>::zeroed(&stream, 4)?;
    /// let (to, from) = (target.as_raw() + 1, source.as_raw());
    /// // SAFETY: both ranges of 3 bytes are within the buffers, which are declared.
    /// unsafe { stream.copy_raw(to, from, 3, (&mut target, &source)) }?;
    /// assert_eq!(target.to_vec()?, [0, 1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the driver finds that an address is invalid, and
    /// [`Error::OtherContext`](crate::Error::OtherContext) if memory of `uses` belongs to another
    /// context.
    ///
    /// # Safety
    ///
    /// - Both ranges are valid until the copy is complete, and do not overlap. Host memory is not
    ///   used in a conflicting way until then: wait for the stream or for an event first.
    /// - The source has been written.
    /// - The copy accesses only memory that `uses` permits, and memory that the caller keeps
    ///   allocated and orders in another way.
    #[doc(alias = "cuMemcpyAsync")]
    #[doc(alias = "cuMemcpyHtoDAsync")]
    #[doc(alias = "cuMemcpyDtoHAsync")]
    #[doc(alias = "cuMemcpyDtoDAsync")]
    #[doc(alias = "cudaMemcpyAsync")]
    pub unsafe fn copy_raw<A: KernelArgs>(
        &self,
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        uses: A,
    ) -> Result<()> {
        self.queue_raw("Stream::copy_raw", uses, || {
            // The memory may be mapped, or of another device than the current context.
            let _current = self.context().enter()?;
            // SAFETY: the ranges must be valid until the copy is complete ← the caller guarantees
            // it.
            unsafe { call!(self.driver(), cuMemcpyAsync(to, from, bytes, self.as_raw())) }
        })
    }

    /// `cuMemcpy2DAsync(copy)`—Queues a copy of rows between two addresses.
    ///
    /// `copy` is a [`RawRows`](super::RawRows) or a [`CUDA_MEMCPY2D`]. `uses` declares memory that
    /// the copy uses, as for [`copy_raw`](Self::copy_raw).
    ///
    /// # Errors
    ///
    /// Fails as [`copy_raw`](Self::copy_raw) does, and with `CUDA_ERROR_INVALID_VALUE` if a pitch
    /// is smaller than the width.
    ///
    /// # Safety
    ///
    /// The requirements of [`copy_raw`](Self::copy_raw) apply to the rows that `copy` describes.
    #[doc(alias = "cuMemcpy2DAsync")]
    #[doc(alias = "cudaMemcpy2DAsync")]
    pub unsafe fn copy_rows_raw<A: KernelArgs>(
        &self,
        copy: impl Into<CUDA_MEMCPY2D>,
        uses: A,
    ) -> Result<()> {
        let copy = copy.into();
        self.queue_raw("Stream::copy_rows_raw", uses, || {
            // The memory may be mapped, or of another device than the current context.
            let _current = self.context().enter()?;
            // SAFETY: the rows must be valid until the copy is complete, and the struct readable ←
            // the caller guarantees the former; `copy` is a local.
            unsafe {
                call!(
                    self.driver(),
                    cuMemcpy2DAsync_v2(&raw const copy, self.as_raw())
                )
            }
        })
    }

    /// Acquires the memory of `uses`, calls `queue`, and records the uses. They are recorded also
    /// if `queue` fails, because a part of the work may have been queued.
    fn queue_raw<A: KernelArgs>(
        &self,
        call: &'static str,
        uses: A,
        queue: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<()> {
        let mut scope = Scope::acquire(self, call, |scope| acquire(scope, &uses))?;
        let queued = queue();
        commit(&mut scope, uses);
        Ok(queued?)
    }
}

/// An array of pointers to values, and the memory that the kernel uses.
///
/// It is only passed to [`Stream::queue`], which neither asks for the sizes nor for the types.
struct RawArgs<'a, A> {
    /// Taken by the only call of [`with_pointers`](KernelArgs::with_pointers).
    params: Cell<&'a mut [*mut c_void]>,
    uses: A,
}

// SAFETY: sizes, pointers and values must be of the same arguments ← the caller of `launch_raw`
// guarantees that the values have the sizes of the parameters, with which no size is compared.
unsafe impl<A: KernelArgs> KernelArgs for RawArgs<'_, A> {
    fn sizes(&self) -> &[usize] {
        &[]
    }

    fn types(&self) -> &[ArgType] {
        &[]
    }

    fn packed(&self) -> u128 {
        UNPACKED
    }

    #[inline]
    fn with_pointers<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
        f(self.params.take())
    }

    #[inline]
    fn with_values<R>(&self, _: Layout<'_>, f: impl FnOnce(Values) -> R) -> R {
        self.with_pointers(|pointers| f(Values::pointers(pointers)))
    }

    #[inline]
    fn are_in_order(&self, stream: u64) -> bool {
        self.uses.are_in_order(stream)
    }

    #[inline]
    fn need_no_record(&self, stream: u64, epoch: u64) -> bool {
        self.uses.need_no_record(stream, epoch)
    }

    fn each_tracked(&self, f: &mut dyn FnMut(Tracked<'_>) -> Result<()>) -> Result<()> {
        self.uses.each_tracked(&mut |tracked| {
            f(Tracked {
                argument: 0,
                ..tracked
            })
        })
    }
}
