//! Safe kernels with the types of their parameters.

use std::fmt;
use std::marker::PhantomData;

use super::kernel::SafeKernel;
use super::launch::SafeLaunch;
use crate::error::Result;
use crate::launch::{Accepts, KernelArgs, KernelParams, LaunchAttributes, Queue};
use crate::types::LaunchConfig;

/// A [`SafeKernel`] with the types of its parameters. Its launches need no `unsafe`, and arguments
/// of other types do not compile. Returned by [`SafeKernel::typed`].
///
/// The crate `cuda-build` generates such kernels from CUDA C++.
///
/// ```
/// use cuda_driver::prelude::*;
/// use cuda_driver::safe::{SafeModule, TypedSafeKernel};
///
/// /// The parameters of a kernel that computes `x[i] = 2 * x[i] + y[i]` for `i` below `n`.
/// type Mix = TypedSafeKernel<(Writes<u32>, Reads<u32>, u32)>;
///
/// /// Computes `x = 2 * x + y`.
/// fn mix_all(
///     mix: &Mix,
///     stream: &Stream,
///     x: &mut DeviceBuffer<u32>,
///     y: &DeviceBuffer<u32>,
/// ) -> cuda_driver::Result<()> {
///     let config = LaunchConfig::for_num_elems(100)?;
///     mix.launch(stream, config, (x, y, 100)).map(drop)
/// }
///
/// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let ptx = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// let mix: Mix = SafeModule::load(&context, &ptx)?.kernel("mix")?.typed()?;
/// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
/// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
/// mix_all(&mix, &stream, &mut x, &y)?;
/// assert_eq!(x.to_vec()?, [7; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedSafeKernel<P> {
    kernel: SafeKernel,
    parameters: PhantomData<fn(P)>,
}

/// Kernels with types.
impl SafeKernel {
    /// Returns this kernel with the types of its parameters.
    ///
    /// ```
    /// use cuda_driver::prelude::*;
    /// use cuda_driver::safe::{SafeModule, TypedSafeKernel};
    ///
    /// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// # let ptx = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
    /// // The kernel computes `x[i] = 2 * x[i] + y[i]` for `i` below `n`.
    /// let mix = SafeModule::load(&context, &ptx)?.kernel("mix")?;
    /// let mix: TypedSafeKernel<(Writes<u32>, Reads<u32>, u32)> = mix.typed()?;
    /// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
    /// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
    /// mix.launch(&stream, LaunchConfig::for_num_elems(100)?, (&mut x, &y, 100))?;
    /// assert_eq!(x.to_vec()?, [7; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Function::typed`](crate::Function::typed) does.
    pub fn typed<P: KernelParams>(self) -> Result<TypedSafeKernel<P>> {
        self.function.typed::<P>()?;
        Ok(TypedSafeKernel {
            kernel: self,
            parameters: PhantomData,
        })
    }
}

impl<P: KernelParams> TypedSafeKernel<P> {
    /// `cuLaunchKernel(self, config, args)`—Queues the kernel on a stream, or captures the launch,
    /// as [`SafeKernel::launch`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`SafeKernel::launch`].
    #[doc(alias = "cuLaunchKernel")]
    #[doc(alias = "cudaLaunchKernel")]
    pub fn launch<'a, Q: Queue, A: KernelArgs>(
        &self,
        queue: &'a Q,
        config: LaunchConfig,
        args: A,
    ) -> Result<SafeLaunch<'a>>
    where
        P: Accepts<A>,
    {
        self.kernel.launch(queue, config, args)
    }

    /// `cuLaunchKernelEx(self, config, attributes, args)`—Queues the kernel with launch attributes,
    /// or captures the launch, as [`SafeKernel::launch_with`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`SafeKernel::launch_with`].
    #[doc(alias = "cuLaunchKernelEx")]
    #[doc(alias = "cudaLaunchKernelExC")]
    pub fn launch_with<'a, Q: Queue, A: KernelArgs>(
        &self,
        queue: &'a Q,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<SafeLaunch<'a>>
    where
        P: Accepts<A>,
    {
        self.kernel.launch_with(queue, config, attributes, args)
    }

    /// Returns the kernel without types.
    #[must_use]
    pub fn kernel(&self) -> &SafeKernel {
        &self.kernel
    }
}

impl<P> Clone for TypedSafeKernel<P> {
    fn clone(&self) -> Self {
        Self {
            kernel: self.kernel.clone(),
            parameters: PhantomData,
        }
    }
}

impl<P> fmt::Debug for TypedSafeKernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypedSafeKernel({:?})", self.kernel)
    }
}
