//! Rewritten copies of a kernel, which are loaded when they are needed first.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use cuda_ptx::analysis::{Refusal, Root};
use cuda_ptx::instrument::{Check, ExtraParameter, Instrumented, Site, instrument};
use cuda_sys::image::Ptx;
use smallvec::SmallVec;

use super::kernel::{Inner, SafeKernel, refused};
use super::memories::Memories;
use super::node::CheckedNode;
use crate::error::{Error, Result, SafeLaunchError};
use crate::function::Function;
use crate::function::packing::UNPACKED;
use crate::launch::{KernelArg, KernelArgs, Tracked};
use crate::lock::{Mutex, rank};
use crate::memory::DeviceBuffer;
use crate::module::Module;
use crate::tracking::Access;
use crate::types::{ArgType, LaunchConfig};

/// A rewritten copy.
pub(super) struct Variant {
    checks: Vec<Check>,
    roots: Vec<Option<Root>>,
    pub(super) function: Function,
    pub(super) parameters: Vec<ExtraParameter>,
    pub(super) sites: Arc<[Site]>,
}

/// The copies of a kernel.
#[derive(Default)]
pub(super) struct Variants(Mutex<Vec<Arc<Variant>>, { rank::SAFE_VARIANTS }>);

impl Variants {
    /// Returns the copy in which these accesses are checked, or loads it. `explain` makes the error
    /// of a refusal.
    pub(super) fn get(
        &self,
        kernel: &SafeKernel,
        checks: Vec<Check>,
        memories: &Memories,
        explain: impl FnOnce(Refusal) -> Error,
    ) -> Result<Arc<Variant>> {
        let roots: Vec<Option<Root>> = memories.iter().map(|memory| memory.root()).collect();
        let variants = self.0.lock();
        let known = variants
            .iter()
            .find(|variant| variant.checks == checks && variant.roots == roots);
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        drop(variants);
        let variant = Arc::new(load(kernel, checks, roots, explain)?);
        self.0.lock().push(Arc::clone(&variant));
        Ok(variant)
    }
}

fn load(
    kernel: &SafeKernel,
    checks: Vec<Check>,
    roots: Vec<Option<Root>>,
    explain: impl FnOnce(Refusal) -> Error,
) -> Result<Variant> {
    let inner: &Inner = &kernel.inner;
    let syntax = |message: String| refused(SafeLaunchError::Syntax { message });
    let module = inner
        .text
        .parse()
        .map_err(|error| syntax(error.to_string()))?;
    let name = inner.analysis.name();
    let Some(function) = module.functions.first() else {
        return Err(syntax(format!("no kernel {name}")));
    };
    let Instrumented {
        text,
        parameters,
        sites,
    } = instrument(
        inner.text.text(),
        &module,
        function,
        &inner.analysis,
        &checks,
        &roots,
    )
    .map_err(explain)?;
    let ptx = Ptx::new(text).map_err(|error| syntax(error.to_string()))?;
    let context = kernel.function.context();
    // The program did not ask for this load, so it must not break a capture of other code.
    let _relaxed = context.driver().relaxed();
    let loaded = Module::load_with(context, &ptx, &inner.options)?;
    Ok(Variant {
        checks,
        roots,
        function: loaded.function(name)?,
        parameters,
        sites: sites.into(),
    })
}

/// The arguments of a kernel, followed by those of its rewritten copy.
pub(crate) struct CheckedArgs<'a, A> {
    args: A,
    extra: SmallVec<[u64; 16]>,
    sizes: Vec<usize>,
    types: Vec<ArgType>,
    record: RecordMemory<'a>,
}

/// The record that a launch writes.
pub(super) enum RecordMemory<'a> {
    /// A proven launch has none.
    None,
    /// The record of a launch on a stream.
    Launch(&'a mut DeviceBuffer<u32>),
    /// The record of a node of a graph.
    Node(Arc<CheckedNode>),
}

impl RecordMemory<'_> {
    fn buffer(&self) -> Option<&DeviceBuffer<u32>> {
        match self {
            Self::None => None,
            Self::Launch(buffer) => Some(buffer),
            Self::Node(node) => Some(node.record()),
        }
    }
}

impl<'a, A: KernelArgs> CheckedArgs<'a, A> {
    pub(super) fn new(
        args: A,
        parameters: &[ExtraParameter],
        memories: &Memories,
        config: &LaunchConfig,
        record: RecordMemory<'a>,
    ) -> Self {
        let value = |parameter: &ExtraParameter| match *parameter {
            ExtraParameter::Record => record.buffer().map_or(0, DeviceBuffer::as_raw),
            ExtraParameter::Base(memory) => memories.get(memory).map_or(0, |it| it.address),
            ExtraParameter::Start { memory, offset } => {
                let address = memories.get(memory).map_or(0, |it| it.address);
                address.wrapping_add_signed(offset)
            }
            ExtraParameter::Limit {
                memory,
                size,
                is_write,
            } => match memories.get(memory) {
                Some(memory) if memory.is_writable || !is_write => {
                    ExtraParameter::limit(memory.bytes, size)
                }
                _ => 0,
            },
            ExtraParameter::Surface {
                parameter,
                axis,
                size,
            } => {
                let object = memories.object(parameter);
                let extent = object.and_then(|it| it.extents.get(axis as usize).copied());
                // A negative coordinate is at least 2³¹ as an unsigned number.
                ExtraParameter::limit(extent.unwrap_or(0), size).min(1 << 31)
            }
            ExtraParameter::DynamicShared { size } => {
                ExtraParameter::limit(config.shared_bytes.into(), size)
            }
            // A limit of 0 permits nothing.
            _ => 0,
        };
        let extra: SmallVec<[u64; 16]> = parameters.iter().map(value).collect();
        let mut sizes = args.sizes().to_vec();
        sizes.resize(sizes.len() + extra.len(), size_of::<u64>());
        let mut types = args.types().to_vec();
        types.resize(types.len() + extra.len(), <u64 as KernelArg>::ARG_TYPE);
        Self {
            args,
            extra,
            sizes,
            types,
            record,
        }
    }
}

impl<A> CheckedArgs<'_, A> {
    /// The memory of the record.
    fn tracked(&self) -> Option<Tracked<'_>> {
        let record = self.record.buffer()?;
        Some(Tracked {
            memory: Some(&record.memory),
            access: Access::WRITE,
            address: record.as_raw(),
            bytes: record.len() * size_of::<u32>(),
            graph: 0,
            argument: 0,
            peer: None,
            kept: match &self.record {
                RecordMemory::Node(node) => Some(node),
                _ => None,
            },
            object: None,
        })
    }
}

// SAFETY: sizes, pointers and values must be of the same arguments ← each is that of `args`,
// followed by that of `extra`.
unsafe impl<A: KernelArgs> KernelArgs for CheckedArgs<'_, A> {
    fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    fn types(&self) -> &[ArgType] {
        &self.types
    }

    fn packed(&self) -> u128 {
        UNPACKED
    }

    fn with_pointers<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
        self.args.with_pointers(|pointers| {
            let mut all: SmallVec<[*mut c_void; 32]> = SmallVec::from_slice(pointers);
            let extra = self.extra.iter();
            all.extend(extra.map(|value| ptr::from_ref(value).cast_mut().cast()));
            f(&mut all)
        })
    }

    fn are_in_order(&self, stream: u64) -> bool {
        let record = self.tracked();
        self.args.are_in_order(stream) && record.is_none_or(|it| it.is_in_order(stream))
    }

    fn need_no_record(&self, stream: u64, epoch: u64) -> bool {
        let record = self.tracked();
        self.args.need_no_record(stream, epoch)
            && record.is_none_or(|it| it.needs_no_record(stream, epoch))
    }

    fn each_tracked(&self, f: &mut dyn FnMut(Tracked<'_>) -> Result<()>) -> Result<()> {
        self.args.each_tracked(f)?;
        self.tracked().map_or(Ok(()), f)
    }
}

impl fmt::Debug for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variant({:?}, {:?})", self.function, self.checks)
    }
}

impl fmt::Debug for Variants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variants({})", self.0.lock().len())
    }
}
