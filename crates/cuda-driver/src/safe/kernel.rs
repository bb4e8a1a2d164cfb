//! Modules and kernels with their PTX text.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};

use cuda_ptx::analysis::Analysis;
use cuda_ptx::canonical::{Canonical, KernelText};
use cuda_sys::CUdeviceptr;
use cuda_sys::image::Ptx;

use super::certificate::Certificates;
use super::inferred_contract::InferredContract;
use super::memories;
use super::plan::{Plan, Plans, key};
use super::ranges;
use super::refusal::{error_of_refusal, of_refusal, refused};
use super::variant::Variants;
use crate::context::Context;
use crate::error::{Result, SafeLaunchError};
use crate::function::Function;
use crate::launch::KernelArgs;
use crate::lock::{Mutex, rank};
#[cfg(feature = "nvrtc")]
use crate::module::Pointees;
use crate::module::{Image, JitOptions, Module, Printed, ptx_of};
use crate::types::{Dim3, LaunchConfig};

/// A [`Module`] that keeps its PTX text, so that its kernels can be launched safely. With the
/// feature `nvrtc`, `SafeModule::from_source` compiles CUDA C++.
///
/// ```
/// use cuda_driver::prelude::*;
/// use cuda_driver::safe::SafeModule;
///
/// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let ptx = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// // The kernel computes `x[i] = 2 * x[i] + y[i]` for `i` below `n`.
/// let module = SafeModule::load(&context, &ptx)?;
/// let mix = module.kernel("mix")?;
/// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
/// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
/// let config = LaunchConfig::for_num_elems(100)?;
/// stream.launch_safe(&mix, config, (&mut x, &y, 100_u32))?;
/// assert_eq!(x.to_vec()?, [7; 100]);
///
/// // `n` is larger than the buffers. The accesses beyond their ends are not made, and reported.
/// let launch = stream.launch_safe(&mix, config, (&mut x, &y, 101_u32))?;
/// let violation = launch.wait().unwrap_err();
/// assert!(violation.to_string().contains("which has 400 bytes"));
/// assert_eq!(x.to_vec()?, [19; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SafeModule {
    module: Module,
    shared: Arc<Shared>,
}

/// The text that was loaded, and the kernels that were looked up, without a handle of the module.
struct Shared {
    text: Canonical,
    options: JitOptions,
    kernels: Mutex<HashMap<String, Arc<Inner>>, { rank::SAFE_KERNELS }>,
}

/// A kernel of a [`SafeModule`]: see [`Stream::launch_safe`](crate::Stream::launch_safe). It keeps
/// the module loaded, and is cheap to clone.
///
/// ```
/// use cuda_driver::error::SafeLaunchError;
/// use cuda_driver::prelude::*;
/// use cuda_driver::safe::{SafeModule, Unproven};
/// use cuda_driver::Error;
///
/// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let ptx = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// // The kernel computes `x[i] = 2 * x[i] + y[i]` for `i` below `n`.
/// let mix = SafeModule::load(&context, &ptx)?.kernel("mix")?;
/// let mix = mix.with_unproven(Unproven::Reject);
/// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
/// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
/// let config = LaunchConfig::for_num_elems(100)?;
/// mix.launch(&stream, config, (&mut x, &y, 100_u32))?;
/// assert_eq!(x.to_vec()?, [7; 100]);
///
/// // The kernel would access `x[100]`.
/// let refused = mix.launch(&stream, config, (&mut x, &y, 101_u32)).unwrap_err();
/// let Error::SafeLaunch(refused) = refused else { panic!("{refused}") };
/// assert!(matches!(*refused, SafeLaunchError::NotProven { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SafeKernel {
    pub(super) function: Function,
    pub(super) unproven: Unproven,
    pub(super) inner: Arc<Inner>,
}

/// The behaviour of a launch for which not every access is proven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unproven {
    /// Launches a copy of the kernel in which these accesses are checked when they run.
    #[default]
    Check,
    /// Fails with [`SafeLaunchError::NotProven`].
    Reject,
    /// Launches a copy in which every access to an argument is checked, even if it is proven.
    /// A kernel with an access to an argument that cannot be checked, such as `wmma.load`, is
    /// refused. This is for tests of the analysis, and for measuring the cost of the checks.
    CheckAll,
}

/// The facts about a kernel, without its handles.
pub(super) struct Inner {
    /// The part of the text that was loaded which has this kernel.
    pub(super) text: KernelText,
    pub(super) options: JitOptions,
    pub(super) analysis: Analysis,
    /// The sizes of the parameters.
    pub(super) sizes: Vec<usize>,
    /// The parts of the arguments that a proof depends on: the index of the parameter, the offset
    /// in it, and the number of bytes.
    pub(super) relevant: Vec<(u32, u64, u32)>,
    /// Whether the kernel contains `trap`, `brkpt` or an `assert`, which can cause a fault on the
    /// device.
    pub(super) has_traps: bool,
    /// Whether the kernel uses textures or surfaces.
    pub(super) has_objects: bool,
    /// Whether the kernel uses variables of its module.
    pub(super) has_variables: bool,
    /// The constant tables of the module that the kernel reads.
    pub(super) tables: Vec<String>,
    /// Whether none of the tables can be looked up any more.
    pub(super) are_tables_constant: AtomicBool,
    /// The first proofs. A kernel with `trap`, textures, surfaces or variables of its module has
    /// none.
    pub(super) certificates: Certificates,
    /// The number of attempts to prove a range of numbers.
    pub(super) range_attempts: AtomicU32,
    pub(super) plans: Plans,
    pub(super) variants: Variants,
    /// The addresses and sizes of the variables that the kernel uses.
    pub(super) variables: OnceLock<Vec<(String, CUdeviceptr, usize)>>,
}

impl SafeModule {
    /// `cuModuleLoadDataEx(ptx)`—Prints the kernels of a PTX text again, in the form in which they
    /// are analysed, and loads the new text into `context`.
    ///
    /// So what is analysed is what the driver compiles. The names of kernels and variables stay,
    /// and messages have the lines of `ptx`. A kernel that cannot be launched safely is not loaded:
    /// [`kernel`](Self::kernel) and [`Module::function`] return the reason. [`Module::load`] loads
    /// all kernels of a text.
    ///
    /// # Errors
    ///
    /// Fails as [`Module::load`] does, and with [`Error::SafeLaunch`](crate::Error::SafeLaunch) if
    /// the text is not UTF-8, has a syntax error, or has an option of the target that is not
    /// supported.
    #[doc(alias = "cuModuleLoadDataEx")]
    pub fn load(context: &Context, ptx: &Ptx) -> Result<Self> {
        Self::load_with(context, ptx, &JitOptions::new())
    }

    /// `cuModuleLoadDataEx(text)`—Loads PTX text, as [`Module::load_text`] does, and keeps it.
    ///
    /// # Errors
    ///
    /// Fails as [`load`](Self::load) and [`Module::load_text`] do.
    pub fn load_text(context: &Context, text: impl AsRef<[u8]>) -> Result<Self> {
        Self::load(context, &ptx_of(text.as_ref())?)
    }

    /// `cuModuleLoadDataEx(ptx, options)`—Loads PTX with options for the driver's compiler. They
    /// also apply to the checked copies of kernels.
    ///
    /// # Errors
    ///
    /// Fails as [`load`](Self::load) does, and with
    /// [`Error::Unsupported`](crate::Error::Unsupported) if an option may change what the kernels
    /// do ([`JitOptions`] lists them).
    #[doc(alias = "cuModuleLoadDataEx")]
    pub fn load_with(context: &Context, ptx: &Ptx, options: &JitOptions) -> Result<Self> {
        Image::from(ptx).check()?;
        let syntax = |message| refused(SafeLaunchError::Syntax { message });
        let text = ptx.as_c_str().to_str();
        let text = text.map_err(|error| syntax(error.to_string()))?;
        options.expect_judged()?;
        let at_line =
            |error: cuda_ptx::Error| syntax(format!("line {}: {}", error.line, error.message));
        let module = cuda_ptx::parse(text).map_err(|error| syntax(error.to_string()))?;
        cuda_ptx::check(&module).map_err(at_line)?;
        let text = Canonical::new(&module).map_err(at_line)?;
        let left_out = text.refusals().map(|refusal| {
            let error = error_of_refusal(refusal.clone());
            (refusal.kernel.clone(), error)
        });
        let printed = Printed {
            ptx: &Ptx::new(text.text()).map_err(|error| syntax(error.to_string()))?,
            original_line: &|line| text.original_line(line),
            left_out: left_out.collect(),
        };
        let module = Module::load_printed(context, printed, options)?;
        let shared = Shared {
            text,
            options: options.clone(),
            kernels: Mutex::default(),
        };
        Ok(Self {
            module,
            shared: Arc::new(shared),
        })
    }

    /// `cuModuleGetFunction(name)`—Returns a kernel. The first lookup of a name analyses the
    /// kernel.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFunction`](crate::Error::NoSuchFunction) if the module has no kernel with
    /// this name, and [`Error::SafeLaunch`](crate::Error::SafeLaunch) if no launch of the kernel
    /// can be safe, with the reason and the line.
    #[doc(alias = "cuModuleGetFunction")]
    pub fn kernel(&self, name: &str) -> Result<SafeKernel> {
        let function = self.module.function(name)?;
        let name = self.module.name_in_image(name);
        let known = self.shared.kernels.lock().get(name).cloned();
        let inner = match known {
            Some(known) => known,
            None => {
                let inner = Arc::new(Inner::new(&self.shared, name)?);
                let mut kernels = self.shared.kernels.lock();
                Arc::clone(kernels.entry(name.to_owned()).or_insert(inner))
            }
        };
        Ok(SafeKernel {
            function,
            unproven: Unproven::Check,
            inner,
        })
    }

    /// Adds the name expressions with which the text was compiled.
    #[cfg(feature = "nvrtc")]
    pub(crate) fn with_names(mut self, names: &[(String, String)]) -> Self {
        self.module = self.module.with_names(names);
        self
    }

    /// Adds the types that the parameters of kernels point to, as the source states them.
    #[cfg(feature = "nvrtc")]
    pub(crate) fn with_pointees(mut self, pointees: HashMap<String, Pointees>) -> Self {
        self.module = self.module.with_pointees(pointees);
        self
    }

    /// Returns the module.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }
}

impl Inner {
    fn new(shared: &Shared, name: &str) -> Result<Self> {
        let missing = || {
            refused(SafeLaunchError::Refused {
                kernel: name.to_owned(),
                line: 0,
                reason: String::from("the PTX text does not define the kernel"),
            })
        };
        let text = shared.text.kernel(name).ok_or_else(missing)?;
        let module = text.parse().map_err(|error| {
            let message = error.to_string();
            refused(SafeLaunchError::Syntax { message })
        })?;
        let function = module.functions.first().ok_or_else(missing)?;
        let analysis = Analysis::of(&module, function);
        if let Some(refusal) = analysis.refusal() {
            return Err(of_refusal(refusal));
        }
        let sizes = analysis.parameters();
        let sizes: Option<Vec<usize>> = sizes
            .into_iter()
            .map(|size| usize::try_from(size).ok())
            .collect();
        let (has_traps, has_objects) = (!analysis.traps().is_empty(), analysis.uses_objects());
        Ok(Self {
            options: shared.options.clone(),
            relevant: analysis.relevant(),
            has_traps,
            has_objects,
            has_variables: !analysis.variables().is_empty(),
            tables: analysis.tables(),
            are_tables_constant: AtomicBool::new(false),
            analysis,
            text,
            sizes: sizes.unwrap_or_default(),
            certificates: Certificates::default(),
            range_attempts: AtomicU32::new(0),
            plans: Plans::default(),
            variants: Variants::default(),
            variables: OnceLock::new(),
        })
    }

    /// Returns the plan of a launch, which is made if it is new. The sizes of the arguments are
    /// those of the parameters.
    pub(super) fn plan<A: KernelArgs>(
        &self,
        config: &LaunchConfig,
        cluster: Option<Dim3>,
        args: &A,
        memories: &memories::Memories,
    ) -> Result<Arc<Plan>> {
        let key = key(self, config, cluster, args, memories);
        if let Some(plan) = self.plans.find(&key) {
            return Ok(plan);
        }
        let plan = Plan::new(self, config, cluster, args, memories, key).map_err(of_refusal)?;
        let plan = Arc::new(plan);
        // A certificate compares neither the kind of a texture or surface nor the cluster.
        if cluster.is_none()
            && plan.is_proven
            && !self.has_traps
            && !self.has_variables
            && !self.has_objects
        {
            let range = ranges::certificate(self, config, args, memories, &plan.key);
            let certificate = range.or_else(|| plan.certificate(self, config, args, memories));
            certificate
                .into_iter()
                .for_each(|it| self.certificates.add(it));
        }
        self.plans.add(Arc::clone(&plan));
        Ok(plan)
    }
}

impl SafeKernel {
    /// Returns the kernel with another behaviour for launches that are not proven.
    #[must_use]
    pub fn with_unproven(mut self, unproven: Unproven) -> Self {
        self.unproven = unproven;
        self
    }

    /// Returns the function, for unsafe launches.
    #[must_use]
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Returns what a launch with this configuration requires of its arguments, such as the
    /// smallest size of each buffer. The buffers in `args` may be smaller. `Display` prints the
    /// requirements and the accesses that are not proven, with their PTX lines.
    ///
    /// ```
    /// use cuda_driver::prelude::*;
    /// use cuda_driver::safe::SafeModule;
    ///
    /// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// # let ptx = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
    /// let mix = SafeModule::load(&context, &ptx)?.kernel("mix")?;
    /// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
    /// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
    /// let config = LaunchConfig::for_num_elems(100)?;
    /// let contract = mix.contract(config, (&mut x, &y, 100_u32))?;
    /// assert!(contract.is_proven());
    /// assert_eq!(contract.needed_bytes(1), 400);
    /// assert!(contract.to_string().contains("4·n ≤ bytes(x), writes, PTX line"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Argument`](crate::Error::Argument) if the arguments do not match the parameters,
    /// and [`Error::SafeLaunch`](crate::Error::SafeLaunch) if the launch cannot be safe.
    pub fn contract<A: KernelArgs>(
        &self,
        config: LaunchConfig,
        args: A,
    ) -> Result<InferredContract> {
        self.check_sizes(&args)?;
        let memories = memories::collect(&args);
        let plan = self.inner.plan(&config, None, &args, &memories)?;
        Ok(InferredContract(plan.contract.clone()))
    }

    /// Returns whether a proof is known for a launch of the original kernel. Takes no lock.
    #[inline]
    pub(super) fn is_certified<A: KernelArgs>(&self, config: &LaunchConfig, args: &A) -> bool {
        self.unproven != Unproven::CheckAll
            && self.inner.certificates.prove(config, args)
            && self.changed_tables().is_empty()
    }

    /// Fails unless the arguments have the sizes and types of the parameters.
    #[inline]
    pub(super) fn check_sizes<A: KernelArgs>(&self, args: &A) -> Result<()> {
        self.function
            .check_packed(args.packed(), args.sizes(), args.types())?;
        if self.inner.sizes == args.sizes() {
            return Ok(());
        }
        Err(refused(SafeLaunchError::Refused {
            kernel: self.function.name().to_owned(),
            line: 0,
            reason: format!(
                "the arguments have {:?} bytes, but the parameters in the PTX text have {:?}; pass \
                 arguments of these sizes",
                args.sizes(),
                self.inner.sizes
            ),
        }))
    }
}

impl fmt::Debug for SafeModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SafeModule({:?})", self.module.as_raw())
    }
}

impl fmt::Debug for SafeKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unproven) = (self.function.name(), self.unproven);
        write!(f, "SafeKernel({name}, {unproven:?})")
    }
}
