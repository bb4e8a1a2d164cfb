//! A decoded module: kernels, variables, code.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::code::{CallSite, FunctionCode, Ins, Slot};
use super::decode;
use super::fault::LoadError;
use super::image::Image;
use super::lines::Lines;
use super::matrix::{Product, Tile};
use crate::memory::Arena;
use crate::report::Place;

/// The device that PTX is loaded for.
#[derive(Clone, Copy, Debug)]
pub struct TargetInfo {
    /// Compute capability, as (9, 0).
    pub compute_capability: (u32, u32),
    /// The newest `.version` that the driver takes, as (9, 0) of CUDA 13.0.
    pub max_ptx: (u32, u32),
    /// Refuse to load instructions that are unknown, instead of failing when they are executed.
    pub strict: bool,
    /// Accesses to memory are observed, for [`Checks`](super::Checks).
    pub checked: bool,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Where it starts in the parameter buffer.
    pub offset: u32,
    /// Its size in bytes.
    pub size: u32,
    /// Its alignment.
    pub align: u32,
}

/// What is known about a kernel without running it.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// The size of the parameter buffer.
    pub param_bytes: u32,
    /// Bytes of shared memory that are declared with a size.
    pub static_shared: u32,
    /// The alignment that dynamic shared memory has, 16 or more.
    pub dynamic_align: u32,
    /// Bytes of local memory per thread.
    pub local_bytes: u32,
    /// Bytes of module-wide constants.
    pub const_bytes: u32,
    /// `.maxntid`
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`
    pub required_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`
    pub cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`
    pub max_cluster: Option<u32>,
    /// An estimate of 32-bit registers per thread, for occupancy figures only: an assembler may
    /// need fewer.
    pub registers: u32,
}

/// A multiprocessor has so many parts; a warp is on one of them.
pub(super) const PARTS: u32 = 4;
/// Registers of each; a warp takes them in units of 8 for each thread.
pub(super) const PART_REGISTERS: u32 = 16384;

impl Kernel {
    /// The threads that a block may have by `.maxntid`, however they lie.
    pub(crate) fn most_threads(&self) -> Option<u64> {
        self.max_threads.map(product)
    }

    /// The threads that a block may have by its directives.
    pub(crate) fn thread_bound(&self) -> Option<u64> {
        self.required_threads.map(product).or(self.most_threads())
    }

    /// Whether its blocks can be in such clusters, as far as its directives say.
    pub(crate) fn takes_cluster(&self, cluster: [u32; 3]) -> bool {
        self.cluster.is_none_or(|required| required == cluster)
            && self
                .max_cluster
                .is_none_or(|most| product(cluster) <= most.into())
    }

    /// The warps whose registers a multiprocessor has, by the estimate.
    pub(crate) fn warps_by_registers(&self) -> u32 {
        let each = 32 * self.registers.max(1).next_multiple_of(8);
        PARTS * (PART_REGISTERS / each)
    }

    /// What `limit` bytes of shared memory leave for dynamic memory; negative if the kernel itself
    /// needs more.
    pub(crate) fn dynamic_room(&self, limit: i32) -> i32 {
        limit.saturating_sub_unsigned(self.static_shared)
    }

    /// Where dynamic shared memory begins. (The gap before it is not counted: it is none of what a
    /// device has.)
    pub(crate) fn dynamic_start(&self) -> u32 {
        self.static_shared.next_multiple_of(self.dynamic_align)
    }
}

/// How many there are in all; programs may say any numbers.
pub(crate) fn product(dims: [u32; 3]) -> u64 {
    let times = |all: u64, &n: &u32| all.saturating_mul(u64::from(n));
    dims.iter().fold(1, times)
}

/// Where a module variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobalSpace {
    /// `.global`
    Global,
    /// `.const`
    Const,
}

/// A variable of the module.
#[derive(Clone, Debug)]
pub struct Global {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its alignment.
    pub align: u64,
    /// Where it lives.
    pub space: GlobalSpace,
    /// Whether `cuModuleGetGlobal` finds it (`.visible` and `.weak` do; so do internal ones, as on
    /// hardware).
    pub visible: bool,
    /// Whether it is declared as managed memory, which it is not here: the host cannot touch it.
    pub managed: bool,
    /// Its first bytes; the rest are zero.
    pub init: Vec<u8>,
    pub(crate) relocations: Vec<Relocation>,
}

/// An address inside an initial value.
#[derive(Clone, Debug)]
pub(crate) struct Relocation {
    pub(crate) at: u64,
    pub(crate) target: Symbol,
    pub(crate) offset: i64,
    /// Which byte of the address, or all eight.
    pub(crate) byte: Option<u32>,
}

/// What a symbol stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    /// Index into the globals.
    Global(usize),
    /// Index into the functions.
    Function(usize),
}

/// A constant that holds an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixup {
    pub(super) constant: u32,
    pub(super) target: Symbol,
    pub(super) offset: i64,
}

/// Decoded code, shared by every [`Image`] made of it.
#[derive(Debug, Default)]
pub struct Program {
    pub(super) kernels: Vec<Kernel>,
    pub(super) globals: Vec<Global>,
    /// The function of each kernel.
    pub(super) entries: Vec<usize>,
    /// Where each kernel has the shared variables that several may reach, by their numbers.
    pub(super) shared: Vec<BTreeMap<usize, u32>>,
    pub(super) functions: Vec<FunctionCode>,
    pub(super) code: Vec<Ins>,
    pub(super) sites: Vec<CallSite>,
    /// Branch tables.
    pub(super) tables: Vec<Vec<u32>>,
    pub(super) products: Vec<Product>,
    pub(super) tiles: Vec<Tile>,
    /// Registers that an instruction has a list of.
    pub(super) lists: Vec<Vec<Slot>>,
    pub(super) messages: Vec<String>,
    pub(super) consts32: Vec<u32>,
    pub(super) consts64: Vec<u64>,
    pub(super) fixups: Vec<Fixup>,
    pub(super) lines: Lines,
}

impl Program {
    /// Decodes `modules`, which may refer to each other's symbols as the JIT linker allows.
    ///
    /// # Errors
    ///
    /// [`LoadError`]: what the driver answers 218, 222 or 209 to, and unresolved symbols.
    pub fn load(modules: &[cuda_ptx::Module<'_>], target: &TargetInfo) -> Result<Self, LoadError> {
        decode::program(modules, target)
    }

    /// The function that an instruction is in.
    fn function_of(&self, pc: u32) -> Option<&FunctionCode> {
        self.functions
            .iter()
            .find(|function| function.entry.is_some_and(|entry| entry <= pc) && pc < function.end)
    }

    /// Where a thread of kernel number `kernel` is that stands at an instruction.
    pub(super) fn place(&self, kernel: usize, pc: u32, block: [u32; 3], thread: [u32; 3]) -> Place {
        let function = self.function_of(pc);
        let name = match (function, self.kernels.get(kernel)) {
            (Some(function), _) => function.name.clone(),
            (None, Some(kernel)) => kernel.name.clone(),
            (None, None) => String::new(),
        };
        let range = function.and_then(|function| Some((function.entry?, function.end)));
        Place {
            function: name,
            block,
            thread,
            ptx_line: self.code.get(pc as usize).map_or(0, |i| i.line),
            source: range.and_then(|range| self.lines.find(pc, range)),
        }
    }

    /// The kernels, in the order of the text.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The index of the kernel `name`.
    pub fn kernel(&self, name: &str) -> Option<usize> {
        self.kernels.iter().position(|kernel| kernel.name == name)
    }

    /// The variables of the module.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// Places and initialises the variables in `arena`.
    ///
    /// # Errors
    ///
    /// [`LoadError::OutOfMemory`] if there is no room; nothing stays allocated then.
    pub fn instantiate(self: &Arc<Self>, arena: &Arena) -> Result<Image, LoadError> {
        Image::new(Arc::clone(self), arena)
    }
}
