//! Kernels with a typed signature that is checked once.

use std::fmt;
use std::marker::PhantomData;

use super::args::KernelArgs;
use super::queue::sealed::TOKEN;
use super::{LaunchAttributes, LaunchConfig, Queue};
use crate::error::{Error, Result};
use crate::function::Function;
use crate::memory::{
    DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, GrowableBuffer, InPlace, SharedSlice,
    ThreadBuffer,
};
use crate::types::ArgType;
use crate::types::node::node_kind;

/// A [`Function`] with the types of its parameters, which are checked once against the kernel.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Kernel, LaunchConfig, Module, Ptx};
/// use cuda_driver::launch::{Reads, Writes};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// # let module = Module::load(&context, &mix)?;
/// type Mix = (Writes<u32>, Reads<u32>, u32);
///
/// let mix: Kernel<Mix> = module.function("mix")?.typed()?;
/// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
/// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
/// // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 100 words.
/// unsafe { mix.launch(&stream, LaunchConfig::for_num_elems(100)?, (&mut x, &y, 100_u32)) }?;
/// assert_eq!(x.to_vec()?, [7; 100]);
/// // Another signature is an error.
/// assert!(module.function("mix")?.typed::<(Writes<u32>, u32)>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Kernel<P: KernelParams> {
    function: Function,
    parameters: PhantomData<fn(P)>,
}

/// A parameter through which a kernel reads elements. It accepts a shared buffer, a read-only view,
/// or an [`InPlace`] argument. See [`Kernel`] for an example.
#[derive(Debug)]
pub struct Reads<T>(PhantomData<fn(T)>);

/// A parameter through which a kernel reads and writes elements. It accepts a `&mut` buffer, a
/// mutable view, or an [`InPlace`] argument. See [`Kernel`] for an example.
#[derive(Debug)]
pub struct Writes<T>(PhantomData<fn(T)>);

/// The type of a kernel parameter: a number or a struct, [`Reads`] or [`Writes`].
///
/// # Safety
///
/// `SIZE` is the size of the parameter in bytes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the type of a kernel parameter",
    label = "not a kernel parameter",
    note = "write `Reads<T>` for a `const T *` parameter and `Writes<T>` for a `T *` parameter",
    note = "write the type itself for a number, or for a struct that implements `DeviceRepr`",
    note = "write `u8` for a `bool` parameter"
)]
pub unsafe trait KernelParam {
    /// The size of the parameter in bytes.
    const SIZE: usize;

    /// The type of its arguments.
    #[doc(hidden)]
    const ARG_TYPE: ArgType = ArgType::Other;
}

/// States that a parameter (or a list of parameters) accepts an argument (or arguments) of type
/// `A`.
///
/// # Safety
///
/// The value of the argument has the size of the parameter.
#[diagnostic::on_unimplemented(
    message = "the kernel parameters `{Self}` do not accept the arguments `{A}`",
    label = "`{A}` does not match the signature of the kernel",
    note = "`Reads<T>` takes `&buffer` or a read-only view, and `Writes<T>` takes `&mut buffer` or a mutable view",
    note = "any other parameter takes a value of exactly its type: write `1.0_f32`, not `1.0`, for `f32`"
)]
pub unsafe trait Accepts<A> {}

/// The types of the parameters of a kernel: a tuple of [`KernelParam`]s.
///
/// # Safety
///
/// `SIZES` are the sizes of the parameters, in order.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the signature of a kernel",
    label = "expected a tuple of at most 16 parameters",
    note = "write one parameter as `(Parameter,)`; a kernel with more than 16 parameters is launched with an `ArgList`"
)]
pub unsafe trait KernelParams {
    /// The size of each parameter in bytes.
    const SIZES: &'static [usize];

    /// The type of the argument of each parameter.
    #[doc(hidden)]
    const ARG_TYPES: &'static [ArgType];
}

#[diagnostic::do_not_recommend]
// SAFETY: `SIZE` must be the size of the parameter ← the kernel takes the value itself.
unsafe impl<T: DeviceRepr> KernelParam for T {
    const SIZE: usize = size_of::<T>();

    const ARG_TYPE: ArgType = <T as DeviceRepr>::ARG_TYPE;
}

#[diagnostic::do_not_recommend]
// SAFETY: the sizes must be equal ← the argument and the parameter have the same type.
unsafe impl<T: DeviceRepr> Accepts<T> for T {}

macro_rules! view_parameter {
    ($parameter:ident: $($arg:ty),*) => {
        // SAFETY: `SIZE` must be the size of the parameter ← the kernel takes an address.
        unsafe impl<T: DeviceRepr> KernelParam for $parameter<T> {
            const SIZE: usize = size_of::<cuda_sys::CUdeviceptr>();

            const ARG_TYPE: ArgType = ArgType::address_of(T::ARG_TYPE);
        }

        $(
            // SAFETY: the sizes must be equal ← the value of a buffer or view is its address.
            unsafe impl<T: DeviceRepr> Accepts<$arg> for $parameter<T> {}
        )*
    };
}

view_parameter!(Reads: &DeviceBuffer<T>, &ThreadBuffer<T>, &GrowableBuffer<T>, DeviceSlice<'_, T>, &DeviceSlice<'_, T>, &SharedSlice<T>, InPlace<'_, T>);
view_parameter!(Writes: &mut DeviceBuffer<T>, &mut ThreadBuffer<T>, &mut GrowableBuffer<T>, DeviceSliceMut<'_, T>, &mut DeviceSliceMut<'_, T>, InPlace<'_, T>);

macro_rules! signature {
    ($($parameter:ident $arg:ident)*) => {
        // SAFETY: `SIZES` must be in order ← they are in the order of the tuple.
        unsafe impl<$($parameter: KernelParam),*> KernelParams for ($($parameter,)*) {
            const SIZES: &'static [usize] = &[$($parameter::SIZE),*];

            const ARG_TYPES: &'static [ArgType] = &[$($parameter::ARG_TYPE),*];
        }

        // SAFETY: the sizes must be equal ← each parameter accepts its argument, in the order of
        // the tuple.
        unsafe impl<$($parameter: Accepts<$arg>, $arg),*> Accepts<($($arg,)*)> for ($($parameter,)*) {}
    };
}

signature!();
signature!(A A1);
signature!(A A1 B B1);
signature!(A A1 B B1 C C1);
signature!(A A1 B B1 C C1 D D1);
signature!(A A1 B B1 C C1 D D1 E E1);
signature!(A A1 B B1 C C1 D D1 E E1 F F1);
signature!(A A1 B B1 C C1 D D1 E E1 F F1 G G1);
signature!(A A1 B B1 C C1 D D1 E E1 F F1 G G1 H H1);
signature!(A A1 B B1 C C1 D D1 E E1 F F1 G G1 H H1 I I1);
signature!(A A1 B B1 C C1 D D1 E E1 F F1 G G1 H H1 I I1 J J1);
signature!(A A1 B B1 C C1 D D1 E E1 F F1 G G1 H H1 I I1 J J1 K K1);
signature!(A A1 B B1 C C1 D D1 E E1 F F1 G G1 H H1 I I1 J J1 K K1 L L1);
signature!(A A1 B B1 C C1 D D1 E E1 F F1 G G1 H H1 I I1 J J1 K K1 L L1 M M1);
signature!(A A1 B B1 C C1 D D1 E E1 F F1 G G1 H H1 I I1 J J1 K K1 L L1 M M1 N N1);
signature!(A A1 B B1 C C1 D D1 E E1 F F1 G G1 H H1 I I1 J J1 K K1 L L1 M M1 N N1 O O1);
signature!(A A1 B B1 C C1 D D1 E E1 F F1 G G1 H H1 I I1 J J1 K K1 L L1 M M1 N N1 O O1 Q Q1);

/// A typed handle of the kernel.
impl Function {
    /// Returns this kernel with the types of its parameters. They are checked here once instead of
    /// at each launch, as [`Stream::launch`](crate::Stream::launch) checks arguments.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`](crate::Error::Argument) if the number, the sizes or the types of the
    /// parameters differ from those of the kernel. If neither the driver nor the image describes
    /// [the parameters](Self::parameters), nothing is checked.
    pub fn typed<P: KernelParams>(&self) -> Result<Kernel<P>> {
        self.check_arguments(P::SIZES, P::ARG_TYPES)
            .map_err(Error::in_signature)?;
        Ok(Kernel {
            function: self.clone(),
            parameters: PhantomData,
        })
    }
}

impl<P: KernelParams> Kernel<P> {
    /// `cuLaunchKernel(self, config, args)`—Queues the kernel on a stream, as
    /// [`Stream::launch`](crate::Stream::launch) does, or captures the launch, as
    /// [`CaptureScope::launch`](crate::graph::CaptureScope::launch) does.
    ///
    /// # Errors
    ///
    /// Fails as [`Queue::launch`] does, except that arguments of a wrong number or size do not
    /// compile.
    ///
    /// # Safety
    ///
    /// The requirements of [`Queue::launch`] apply.
    #[inline(always)]
    pub unsafe fn launch<Q: Queue, A: KernelArgs>(
        &self,
        queue: &Q,
        config: LaunchConfig,
        args: A,
    ) -> Result<Q::Queued<node_kind::Kernel>>
    where
        P: Accepts<A>,
    {
        // SAFETY: the sizes must match the parameters ← `typed` has compared those of `P`, and `P`
        // accepts `A`; the caller guarantees the rest.
        unsafe { queue.launch_checked(&self.function, config, None, args, TOKEN) }
    }

    /// `cuLaunchKernelEx(self, config, attributes, args)`—Queues the kernel with launch attributes,
    /// as [`Stream::launch_with`](crate::Stream::launch_with) does.
    ///
    /// # Errors
    ///
    /// Fails as [`Queue::launch_with`] does, except that arguments of a wrong number or size do
    /// not compile.
    ///
    /// # Safety
    ///
    /// The requirements of [`Queue::launch_with`] apply.
    pub unsafe fn launch_with<Q: Queue, A: KernelArgs>(
        &self,
        queue: &Q,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<Q::Queued<node_kind::Kernel>>
    where
        P: Accepts<A>,
    {
        // SAFETY: as in `launch`; the caller guarantees what `attributes` require.
        unsafe { queue.launch_checked(&self.function, config, Some(attributes), args, TOKEN) }
    }

    /// The function without the types of its parameters.
    #[must_use]
    pub fn function(&self) -> &Function {
        &self.function
    }
}

impl<P: KernelParams> Clone for Kernel<P> {
    fn clone(&self) -> Self {
        Self {
            function: self.function.clone(),
            parameters: PhantomData,
        }
    }
}

impl<P: KernelParams> fmt::Debug for Kernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({}, {:?})", self.function.name(), P::SIZES)
    }
}
