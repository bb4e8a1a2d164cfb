//! Kernels whose author states under which conditions they stay in their arguments.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use cuda_sys::image::Ptx;
use smallvec::SmallVec;

use super::certificate::{is_memory, word};
use super::refusal::refused;
use crate::error::{Error, Result, SafeLaunchError};
use crate::function::Function;

use crate::launch::queue_sealed::TOKEN;
use crate::launch::{Accepts, Kernel, KernelArgs, KernelParams, Queue};
use crate::types::node::node_kind;
use crate::types::{Dim3, LaunchConfig};

/// A [`Kernel`] with a [`LaunchContract`]. Its launches are not `unsafe`: they fail if a condition
/// does not hold.
///
/// ```
/// use cuda_driver::prelude::*;
/// use cuda_driver::safe::{ContractKernel, LaunchContract};
///
/// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let ptx = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// let mix = Module::load(&context, &ptx)?.function("mix")?;
/// let contract = LaunchContract::from_ptx(&ptx, "mix")?
///     .requires("n <= x.len()", |launch| launch.number(3) <= launch.len::<u32>(1))
///     .requires("n <= y.len()", |launch| launch.number(3) <= launch.len::<u32>(2));
/// // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for `i` below `n`, and nothing else.
/// let mix: ContractKernel<(Writes<u32>, Reads<u32>, u32)> = unsafe { mix.with_contract(contract) }?;
///
/// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
/// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
/// let config = LaunchConfig::for_num_elems(100)?;
/// mix.launch(&stream, config, (&mut x, &y, 100_u32))?;
/// assert_eq!(x.to_vec()?, [7; 100]);
/// let error = mix.launch(&stream, config, (&mut x, &y, 101_u32)).unwrap_err();
/// assert!(error.to_string().contains("n <= x.len()"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ContractKernel<P: KernelParams> {
    kernel: Kernel<P>,
    contract: LaunchContract,
}

/// The conditions under which a kernel stays in its arguments.
#[derive(Clone, Default)]
pub struct LaunchContract {
    block: Option<Dim3>,
    most_threads: Option<u64>,
    /// The grid is a multiple of it.
    grid_multiple: Option<Dim3>,
    /// Whether the kernel requires a cluster size among the attributes of the launch.
    needs_cluster_size: bool,
    shared_bytes: Option<RangeInclusive<u32>>,
    conditions: Vec<(Arc<str>, Arc<Condition>)>,
}

/// Whether a launch fulfils a condition.
type Condition = dyn for<'a> Fn(&LaunchShape<'a>) -> bool + Send + Sync;

/// The configuration and the arguments of a launch, for the conditions of a [`LaunchContract`].
/// Arguments are counted from 1.
#[derive(Debug)]
pub struct LaunchShape<'a> {
    config: LaunchConfig,
    arguments: &'a [Argument],
}

/// An argument as conditions see it.
#[derive(Clone, Copy, Debug)]
struct Argument {
    /// The value, if it has at most 8 bytes.
    number: Option<u64>,
    /// The size of the memory whose address the value is.
    bytes: Option<u64>,
}

impl LaunchContract {
    /// Returns a contract without conditions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the conditions that the PTX text of a kernel states:
    ///
    /// | directive | condition |
    /// |---|---|
    /// | `.reqntid` | blocks of this size |
    /// | `.maxntid` | at most the product of these sizes as threads per block |
    /// | `.reqnctapercluster` | a grid that is a multiple of this size, unless `.blocksareclusters` says that the grid counts clusters |
    /// | `.explicitcluster` without `.reqnctapercluster` | none fulfils it: a launch with a contract has no attribute with the size of a cluster |
    ///
    /// `.maxclusterrank` gives no condition, because only an attribute could make larger clusters.
    ///
    /// # Errors
    ///
    /// [`Error::SafeLaunch`] if the text cannot be parsed, and [`Error::NoSuchFunction`] if it has
    /// no kernel with this name.
    pub fn from_ptx(ptx: &Ptx, kernel: &str) -> Result<Self> {
        let syntax = |message: String| refused(SafeLaunchError::Syntax { message });
        let text = ptx.as_c_str().to_str();
        let text = text.map_err(|error| syntax(error.to_string()))?;
        let module = cuda_ptx::parse(text).map_err(|error| syntax(error.to_string()))?;
        let mut functions = module.functions.iter();
        let Some(function) = functions.find(|it| it.name == kernel && it.body.is_some()) else {
            let kernels = module.functions.iter().filter(|it| it.entry);
            return Err(Error::NoSuchFunction {
                name: kernel.to_owned(),
                kernels: Some(kernels.map(|it| it.name.to_owned()).collect()),
            });
        };
        let mut contract = Self::new();
        let mut grid_counts_clusters = false;
        for (name, sizes) in &function.directives {
            let size = |axis: usize| sizes.get(axis).map_or(1, |&size| size);
            let product = size(0).saturating_mul(size(1)).saturating_mul(size(2));
            let [x, y, z] = [0, 1, 2].map(|axis| u32::try_from(size(axis)).unwrap_or(0));
            match *name {
                "reqntid" => contract.block = Some(Dim3 { x, y, z }),
                "maxntid" => contract.most_threads = Some(product),
                "reqnctapercluster" => contract.grid_multiple = Some(Dim3 { x, y, z }),
                "explicitcluster" => contract.needs_cluster_size = true,
                "blocksareclusters" => grid_counts_clusters = true,
                _ => {}
            }
        }
        contract.needs_cluster_size &= contract.grid_multiple.is_none();
        contract.grid_multiple = contract.grid_multiple.filter(|_| !grid_counts_clusters);
        Ok(contract)
    }

    /// Requires blocks of this size.
    #[must_use]
    pub fn block(mut self, block: impl Into<Dim3>) -> Self {
        self.block = Some(block.into());
        self
    }

    /// Requires a grid that is a multiple of this size in each dimension.
    #[must_use]
    pub fn grid_multiple_of(mut self, blocks: impl Into<Dim3>) -> Self {
        self.grid_multiple = Some(blocks.into());
        self
    }

    /// Requires dynamic shared memory of a size in this range.
    #[must_use]
    pub fn shared_bytes(mut self, bytes: RangeInclusive<u32>) -> Self {
        self.shared_bytes = Some(bytes);
        self
    }

    /// Requires that `condition` returns `true`. `text` is its description in errors.
    #[must_use]
    pub fn requires(
        mut self,
        text: impl Into<Arc<str>>,
        condition: impl for<'a> Fn(&LaunchShape<'a>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.conditions.push((text.into(), Arc::new(condition)));
        self
    }

    /// Returns the first condition that does not hold.
    #[inline]
    fn broken<A: KernelArgs>(&self, config: &LaunchConfig, args: &A) -> Option<String> {
        let wrong = self.broken_by_config(config);
        if wrong.is_some() || self.conditions.is_empty() {
            return wrong;
        }
        let mut arguments = SmallVec::<[Argument; 16]>::new();
        let is_complete = args.all_arguments(|_, bytes, tracked| {
            let number = (bytes.len() <= 8).then(|| word(bytes));
            let is_memory = number.is_some_and(|number| is_memory(bytes, number, tracked.as_ref()));
            let memory = tracked.filter(|_| is_memory);
            arguments.push(Argument {
                number,
                bytes: memory.map(|memory| memory.bytes as u64),
            });
            true
        });
        if !is_complete {
            return Some("arguments whose values can be read; pass a tuple".to_owned());
        }
        self.broken_by_arguments(&LaunchShape {
            config: *config,
            arguments: &arguments,
        })
    }

    /// Returns the first condition on the configuration that does not hold.
    fn broken_by_config(&self, config: &LaunchConfig) -> Option<String> {
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
        } = *config;
        let size = |block: Dim3| format!("({}, {}, {})", block.x, block.y, block.z);
        if let Some(wanted) = self.block.filter(|wanted| *wanted != block) {
            return Some(format!(
                "blocks of {} threads; the launch has {}",
                size(wanted),
                size(block)
            ));
        }
        let threads = block.count();
        if let Some(most) = self.most_threads.filter(|most| threads > *most) {
            return Some(format!(
                "at most {most} threads per block; the launch has {threads}"
            ));
        }
        let is_multiple = |of: &Dim3| {
            let axes = [(grid.x, of.x), (grid.y, of.y), (grid.z, of.z)];
            axes.into_iter().all(|(grid, of)| grid.is_multiple_of(of))
        };
        if let Some(wanted) = self.grid_multiple.filter(|wanted| !is_multiple(wanted)) {
            return Some(format!(
                "a grid that is a multiple of {} blocks; the launch has {}",
                size(wanted),
                size(grid)
            ));
        }
        if self.needs_cluster_size {
            return Some(
                "an attribute with the size of its clusters (`.explicitcluster`), which a launch \
                 with a contract does not have; use the unsafe `launch_with`"
                    .to_owned(),
            );
        }
        if let Some(range) = &self.shared_bytes
            && !range.contains(&shared_bytes)
        {
            let (least, most) = (range.start(), range.end());
            return Some(format!(
                "{least} to {most} bytes of dynamic shared memory; the launch has {shared_bytes}"
            ));
        }
        None
    }

    /// Returns the first condition on the arguments that does not hold.
    fn broken_by_arguments(&self, launch: &LaunchShape<'_>) -> Option<String> {
        let mut conditions = self.conditions.iter();
        let broken = conditions.find(|(_, condition)| !condition(launch));
        broken.map(|(text, _)| format!("{text}; {}", Values(launch)))
    }
}

/// Prints the sizes and numbers that a condition can read.
struct Values<'a>(&'a LaunchShape<'a>);

impl fmt::Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let launch = self.0;
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
            ..
        } = launch.config;
        write!(
            f,
            "the launch has a grid of ({}, {}, {}) blocks of ({}, {}, {}) threads",
            grid.x, grid.y, grid.z, block.x, block.y, block.z
        )?;
        if shared_bytes > 0 {
            write!(f, ", {shared_bytes} bytes of dynamic shared memory")?;
        }
        for (argument, it) in (1_usize..).zip(launch.arguments) {
            match (it.bytes, it.number) {
                (Some(bytes), _) => write!(f, ", argument {argument} of {bytes} bytes")?,
                (None, Some(number)) => write!(f, ", argument {argument} = {number}")?,
                (None, None) => {}
            }
        }
        Ok(())
    }
}

impl LaunchShape<'_> {
    /// Returns the grid, the block and the dynamic shared memory.
    #[must_use]
    pub fn config(&self) -> LaunchConfig {
        self.config
    }

    /// The argument with this number.
    fn argument(&self, argument: usize) -> Option<&Argument> {
        self.arguments.get(argument.checked_sub(1)?)
    }

    /// Returns the number of bytes of the memory of an argument; 0 if it has none.
    #[must_use]
    pub fn bytes(&self, argument: usize) -> u64 {
        let bytes = self.argument(argument).and_then(|it| it.bytes);
        bytes.unwrap_or(0)
    }

    /// Returns the number of elements of type `T` in the memory of an argument.
    #[must_use]
    pub fn len<T>(&self, argument: usize) -> u64 {
        self.bytes(argument) / (size_of::<T>() as u64).max(1)
    }

    /// Returns the value of an argument of at most 8 bytes, extended by zeros; [`u64::MAX`] if it
    /// is longer, or if there is no such argument.
    #[must_use]
    pub fn number(&self, argument: usize) -> u64 {
        let number = self.argument(argument).and_then(|it| it.number);
        number.unwrap_or(u64::MAX)
    }
}

/// Launch contracts.
impl Function {
    /// Returns this kernel with the types of its parameters and the conditions of its launches.
    ///
    /// # Errors
    ///
    /// Fails as [`typed`](Self::typed) does.
    ///
    /// # Safety
    ///
    /// Each launch with arguments of the types `P` that fulfils the contract meets the requirements
    /// of [`Queue::launch`], on streams and in captures: whatever is in the buffers, and even if
    /// several arguments share memory [in place](crate::memory::InPlace).
    pub unsafe fn with_contract<P: KernelParams>(
        &self,
        contract: LaunchContract,
    ) -> Result<ContractKernel<P>> {
        Ok(ContractKernel {
            kernel: self.typed()?,
            contract,
        })
    }
}

impl<P: KernelParams> ContractKernel<P> {
    /// `cuLaunchKernel(self, config, args)`—Queues the kernel on a stream, or captures the launch,
    /// as [`Kernel::launch`] does.
    ///
    /// # Errors
    ///
    /// [`Error::SafeLaunch`] with the condition that does not hold. Otherwise fails as
    /// [`Kernel::launch`] does.
    #[doc(alias = "cuLaunchKernel")]
    #[doc(alias = "cudaLaunchKernel")]
    pub fn launch<Q: Queue, A: KernelArgs>(
        &self,
        queue: &Q,
        config: LaunchConfig,
        args: A,
    ) -> Result<Q::Queued<node_kind::Kernel>>
    where
        P: Accepts<A>,
    {
        self.check(&config, &args)?;
        let function = self.kernel.function();
        // SAFETY: the sizes must match the parameters ← `typed` has compared those of `P`, and `P`
        // accepts `A`. The kernel must meet the requirements of `Queue::launch` ← the author of the
        // contract guarantees it for launches that fulfil the conditions, as this one does.
        unsafe { queue.launch_checked(function, config, None, args, TOKEN) }
    }

    /// Fails if a condition does not hold.
    #[inline]
    pub(crate) fn check<A: KernelArgs>(&self, config: &LaunchConfig, args: &A) -> Result<()>
    where
        P: Accepts<A>,
    {
        match self.contract.broken(config, args) {
            None => Ok(()),
            Some(condition) => Err(refused(SafeLaunchError::Contract {
                kernel: self.kernel.function().name().to_owned(),
                condition,
            })),
        }
    }

    /// Returns the kernel without its contract, for unsafe launches.
    #[must_use]
    pub fn kernel(&self) -> &Kernel<P> {
        &self.kernel
    }
}

impl fmt::Debug for LaunchContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.conditions.iter().map(|(text, _)| text);
        f.debug_struct("LaunchContract")
            .field("block", &self.block)
            .field("most_threads", &self.most_threads)
            .field("grid_multiple", &self.grid_multiple)
            .field("needs_cluster_size", &self.needs_cluster_size)
            .field("shared_bytes", &self.shared_bytes)
            .field("conditions", &texts.collect::<Vec<_>>())
            .finish()
    }
}

impl<P: KernelParams> fmt::Debug for ContractKernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContractKernel({:?}, {:?})", self.kernel, self.contract)
    }
}
