//! Kernels whose signature is known only at run time, as in an interpreter or a scripting language.
//!
//! C checks no argument. Here the signature is compared with the kernel once, each argument with
//! the signature when it is appended to a list, and a launch of the list repeats neither.

use std::fmt;
use std::sync::Arc;

use super::queue::sealed::TOKEN;
use super::{ArgList, KernelArg, LaunchConfig, Queue};
use crate::error::{ArgumentError, Error, Result};
use crate::function::Function;
use crate::memory::DeviceRepr;
use crate::types::ArgType;
use crate::types::node::node_kind;

/// A [`Function`] with a signature that was given at run time: see [`Function::prepare`]. If the
/// signature is known when the program is compiled, use [`Kernel`](super::Kernel).
///
/// ```
/// use cuda_driver::prelude::*;
/// use cuda_driver::launch::ParamType;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// # let module = Module::load(&context, &mix)?;
/// let signature = [
///     ParamType::writes::<u32>(),
///     ParamType::reads::<u32>(),
///     ParamType::value::<u32>(),
/// ];
/// let mix = module.function("mix")?.prepare(&signature)?;
/// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
/// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
/// let mut args = mix.args();
/// args.push(&mut x)?.push(&y)?.push(100_u32)?;
/// let config = LaunchConfig::for_num_elems(100)?;
/// // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 100 words.
/// unsafe { mix.launch(&stream, config, &args) }?;
/// // SAFETY: as above.
/// unsafe { mix.launch(&stream, config, &args) }?;
/// drop(args);
/// assert_eq!(x.to_vec()?, [19; 100]);
/// // Another type is an error.
/// assert!(mix.args().push(1.0_f64).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PreparedKernel {
    function: Function,
    signature: Arc<[ParamType]>,
}

/// The type of a kernel parameter in a signature that is given at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamType {
    size: usize,
    ty: ArgType,
    access: ParamAccess,
    /// The name of the type of the value or of the elements.
    name: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParamAccess {
    Value,
    Reads,
    Writes,
}

/// The arguments of a [`PreparedKernel`]: see [`PreparedKernel::args`].
pub struct PreparedArgs<'a> {
    list: ArgList<'a>,
    kernel: PreparedKernel,
}

impl ParamType {
    /// Returns the type of a parameter that is passed by value: a number or a struct.
    #[must_use]
    pub fn value<T: DeviceRepr>() -> Self {
        Self {
            size: size_of::<T>(),
            ty: T::ARG_TYPE,
            access: ParamAccess::Value,
            name: std::any::type_name::<T>(),
        }
    }

    /// Returns the type of a parameter through which the kernel reads elements of `T`: a
    /// `const T *`.
    #[must_use]
    pub fn reads<T: DeviceRepr>() -> Self {
        Self::address::<T>(ParamAccess::Reads)
    }

    /// Returns the type of a parameter through which the kernel writes elements of `T`: a `T *`.
    #[must_use]
    pub fn writes<T: DeviceRepr>() -> Self {
        Self::address::<T>(ParamAccess::Writes)
    }

    fn address<T: DeviceRepr>(access: ParamAccess) -> Self {
        Self {
            size: size_of::<cuda_sys::CUdeviceptr>(),
            ty: ArgType::address_of(T::ARG_TYPE),
            access,
            name: std::any::type_name::<T>(),
        }
    }

    /// Returns whether the parameter accepts the argument. The types of elements are not compared.
    #[inline]
    fn accepts<A: KernelArg>(&self, arg: &A) -> bool {
        let is_same = size_of::<A::Value>() == self.size
            && const { A::ARG_TYPE.without_elements() } == self.ty.without_elements();
        let writes = || arg.tracked().is_some_and(|it| it.access.is_write());
        is_same && (self.access != ParamAccess::Writes || writes())
    }
}

impl fmt::Display for ParamType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.access {
            ParamAccess::Value => f.write_str(self.name),
            ParamAccess::Reads => write!(f, "Reads<{}>", self.name),
            ParamAccess::Writes => write!(f, "Writes<{}>", self.name),
        }
    }
}

/// A handle of the kernel with a signature that is given at run time.
impl Function {
    /// Returns this kernel with the types of its parameters, which are compared with the kernel
    /// here once, as [`typed`](Self::typed) does.
    ///
    /// # Errors
    ///
    /// Fails as [`typed`](Self::typed) does.
    pub fn prepare(&self, signature: &[ParamType]) -> Result<PreparedKernel> {
        let sizes: Vec<usize> = signature.iter().map(|it| it.size).collect();
        let types: Vec<ArgType> = signature.iter().map(|it| it.ty).collect();
        self.check_arguments(&sizes, &types)
            .map_err(Error::in_signature)?;
        Ok(PreparedKernel {
            function: self.clone(),
            signature: signature.into(),
        })
    }
}

impl PreparedKernel {
    /// Returns an empty list for the arguments of this kernel. A list can be launched any number of
    /// times.
    #[must_use]
    pub fn args<'a>(&self) -> PreparedArgs<'a> {
        PreparedArgs {
            list: ArgList::new(),
            kernel: self.clone(),
        }
    }

    /// `cuLaunchKernel(self, config, args)`—Queues the kernel on a stream or captures the launch,
    /// as [`Kernel::launch`](super::Kernel::launch) does.
    ///
    /// # Errors
    ///
    /// The errors of [`Queue::launch`], except that the types of the arguments are not compared
    /// again. [`Error::Argument`] if arguments are missing, and [`Error::Unsupported`] if `args`
    /// were made by another kernel.
    ///
    /// # Safety
    ///
    /// The requirements of [`Queue::launch`] apply.
    #[inline]
    pub unsafe fn launch<Q: Queue>(
        &self,
        queue: &Q,
        config: LaunchConfig,
        args: &PreparedArgs<'_>,
    ) -> Result<Q::Queued<node_kind::Kernel>> {
        if !Arc::ptr_eq(&self.signature, &args.kernel.signature) {
            return Err(Error::Unsupported {
                what: "a launch with arguments that another prepared kernel made; make them with \
                       the `PreparedKernel` that is launched",
            });
        }
        if args.list.len() != self.signature.len() {
            return Err(self.count_error(args.list.len()));
        }
        // SAFETY: the sizes must match the parameters ← `prepare` has compared those of the
        // signature, and `push` those of the arguments; the caller guarantees the rest.
        unsafe { queue.launch_checked(&self.function, config, None, &args.list, TOKEN) }
    }

    /// Returns the function without its signature.
    #[must_use]
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Returns the signature.
    #[must_use]
    pub fn signature(&self) -> &[ParamType] {
        &self.signature
    }

    #[cold]
    fn count_error(&self, given: usize) -> Error {
        Error::Argument(Box::new(ArgumentError::Count {
            kernel: self.function.name().to_owned(),
            expected: self.signature.len(),
            parameters: {
                let types: Vec<String> = self.signature.iter().map(ToString::to_string).collect();
                format!("({})", types.join(", "))
            },
            given,
        }))
    }
}

impl<'a> PreparedArgs<'a> {
    /// Appends an argument, as [`ArgList::push`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the kernel has no such parameter, or if the argument does not fit the
    /// signature: it has another type, or it is a `&buffer` where the kernel writes. The types of
    /// the elements of buffers are not compared.
    #[inline]
    pub fn push<A: KernelArg + Send + 'a>(&mut self, arg: A) -> Result<&mut Self> {
        let index = self.list.len();
        let Some(parameter) = self.kernel.signature.get(index) else {
            return Err(self.kernel.count_error(index + 1));
        };
        if !parameter.accepts(&arg) {
            return Err(Error::Argument(Box::new(ArgumentError::Prepared {
                kernel: self.kernel.function.name().to_owned(),
                index,
                expected: parameter.to_string(),
                given: std::any::type_name::<A>(),
            })));
        }
        self.list.push(arg);
        Ok(self)
    }

    /// Adds memory that the kernel uses but that is not an argument itself: see [`ArgList::uses`].
    pub fn uses<A: KernelArg + Send + 'a>(&mut self, memory: A) -> &mut Self {
        self.list.uses(memory);
        self
    }
}

impl fmt::Debug for PreparedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = self.signature.iter().map(ToString::to_string);
        write!(
            f,
            "PreparedKernel({}, [{}])",
            self.function.name(),
            types.collect::<Vec<_>>().join(", ")
        )
    }
}

impl fmt::Debug for PreparedArgs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PreparedArgs({} of {:?})", self.list.len(), self.kernel)
    }
}
