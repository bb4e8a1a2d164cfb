//! The type [`Function`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use cuda_sys::CUfunction;
use cuda_sys::image::{Parameter, ParameterKind};

use super::{FunctionAttribute, packing, parameters};
use crate::context::{Context, Limits};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::launch_log::NameId;
use crate::module::{ModuleInner, Pointees, of_mangled};
use crate::types::SendPtr;

/// A kernel of a [`Module`](crate::Module). It keeps the module loaded, and is cheap to clone.
///
/// ```
/// use cuda_driver::{DeviceBuffer, LaunchConfig, Module, Ptx};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// // This kernel computes `x[i] = 2 * x[i] + y[i]` for `i` below `n`.
/// let mix = Module::load(&context, &mix)?.function("mix")?;
/// let mut x = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3])?;
/// let y = DeviceBuffer::from_host(&stream, &[10_u32, 20, 30])?;
/// // SAFETY: the kernel reads 3 words of `y`, and reads and writes 3 words of `x`.
/// unsafe { stream.launch(&mix, LaunchConfig::for_num_elems(3)?, (&mut x, &y, 3_u32)) }?;
/// assert_eq!(x.to_vec()?, [12, 24, 36]);
///
/// // The arguments are checked: this kernel takes three.
/// // SAFETY: the kernel is not launched.
/// assert!(unsafe { stream.launch(&mix, LaunchConfig::new(1, 1), (&mut x, &y)) }.is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Function(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) raw: SendPtr<cuda_sys::CUfunc_st>,
    pub(super) name: String,
    /// The id of the name, which a launch records with its stream.
    pub(super) launch_name: NameId,
    pub(super) parameters: Option<Vec<Parameter>>,
    /// The sizes of `parameters`, and the kinds of their types, for comparison with arguments.
    pub(super) sizes: Vec<usize>,
    pub(super) kinds: Vec<ParameterKind>,
    /// The types that the parameters point to, as far as they are known.
    pub(super) pointees: Pointees,
    /// The arguments of an earlier launch. A launch with arguments of the same types compares
    /// nothing else.
    pub(super) matching: packing::Matching,
    /// The offset of each parameter in bytes. `gaps` holds the padding between them in one word.
    pub(super) offsets: Vec<usize>,
    pub(super) gaps: u128,
    pub(super) max_threads: u32,
    /// The limits of the context, copied because each launch checks them.
    pub(super) limits: Limits,
    /// The known limit of dynamic shared memory, in bytes. It only grows.
    pub(super) allowed_shared: AtomicU32,
    pub(super) module: Arc<ModuleInner>,
}

impl Function {
    pub(crate) fn new(module: &Arc<ModuleInner>, raw: CUfunction, name: &str) -> Result<Self> {
        let driver = module.context().driver();
        let parameters = parameters::parameters_of(module, raw, name)?;
        let read = |attribute| read_attribute(driver, raw, attribute);
        let max_threads = read(FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        let allowed = read(FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)?;
        let sizes: Vec<usize> = parameters
            .iter()
            .flatten()
            .map(|parameter| parameter.size)
            .collect();
        let offsets = parameters
            .iter()
            .flatten()
            .map(|parameter| parameter.offset);
        let offsets: Vec<usize> = offsets.collect();
        let gaps = match &parameters {
            Some(_) => packing::pack_gaps(&offsets, &sizes),
            None => packing::UNPACKED,
        };
        let kinds = parameters.iter().flatten().map(packing::checked_kind);
        let kinds = kinds.collect();
        let (name, module) = (name.to_owned(), Arc::clone(module));
        Ok(Self(Arc::new(Inner {
            raw: SendPtr(raw),
            launch_name: module.context().launches().name(&name),
            pointees: of_mangled(&name),
            name,
            parameters,
            sizes,
            kinds,
            matching: packing::Matching::none(),
            offsets,
            gaps,
            max_threads: u32::try_from(max_threads).unwrap_or(0),
            limits: *module.context().limits(),
            allowed_shared: AtomicU32::new(u32::try_from(allowed).unwrap_or(0)),
            module,
        })))
    }

    /// Adds the types that the parameters point to, unless the mangled name states them. The
    /// function was created just now, so this is its only handle.
    pub(super) fn with_pointees(mut self, pointees: &Pointees) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0)
            && inner.pointees.is_empty()
        {
            inner.pointees = pointees.clone();
        }
        self
    }

    /// Returns the name that the kernel was looked up by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the parameters of the kernel, as described by the driver or the image.
    ///
    /// `None` if neither describes them: that is the case on a driver older than CUDA 12.4 for an
    /// image without [signatures](cuda_sys::image::Signature). In that case arguments are not
    /// checked.
    #[must_use]
    pub fn parameters(&self) -> Option<&[Parameter]> {
        self.0.parameters.as_deref()
    }

    /// `cuFuncGetAttribute(MAX_THREADS_PER_BLOCK)`—Returns the maximum number of threads in a block
    /// of this kernel on its device.
    #[must_use]
    pub fn max_threads_per_block(&self) -> u32 {
        self.0.max_threads
    }

    #[inline]
    pub(crate) fn launch_name(&self) -> NameId {
        self.0.launch_name
    }

    pub(crate) fn driver(&self) -> &Driver {
        self.context().driver()
    }

    pub(crate) fn code(&self) -> &ModuleInner {
        &self.0.module
    }

    /// Returns the context of the kernel's module.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.module.context()
    }

    /// Returns the raw function. It stays alive as long as any handle of the kernel.
    #[must_use]
    pub fn as_raw(&self) -> CUfunction {
        self.0.raw.0
    }
}

/// `cuFuncGetAttribute(attribute)`—Returns the value of an attribute.
pub(super) fn read_attribute(
    driver: &Driver,
    function: CUfunction,
    attribute: FunctionAttribute,
) -> Result<i32, DriverError> {
    let mut value = 0;
    // SAFETY: the pointer must be writable and the function alive ← `value` is a local, and the
    // caller keeps the module loaded.
    unsafe {
        call!(
            driver,
            cuFuncGetAttribute(&raw mut value, attribute, function)
        )
    }?;
    Ok(value)
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.name())
    }
}
