//! A decoded module: kernels, variables and code.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::code::{CallSite, FunctionCode, Ins, Kind, Slot};
use super::lines::Lines;
use super::matrix::{GroupProduct, Product, Tile};
use crate::report::CodeLocation;

/// The device that PTX is loaded for.
#[derive(Clone, Copy, Debug)]
pub struct TargetInfo {
    /// The compute capability, such as (9, 0).
    pub compute_capability: (u32, u32),
    /// The newest `.version` that the driver accepts, such as (9, 0) for CUDA 13.0.
    pub max_ptx: (u32, u32),
    /// Fail to load code with unsupported instructions, instead of failing to launch it.
    pub strict: bool,
    /// The largest number of registers of a thread (`CU_JIT_MAX_REGISTERS`), if it is limited.
    pub max_registers: Option<u32>,
    /// Whether memory accesses are observed, for [`Checks`](super::Checks).
    pub checked: bool,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// The offset in the parameter buffer.
    pub offset: u32,
    /// Its size in bytes.
    pub size: u32,
    /// Its alignment.
    pub align: u32,
}

/// The static properties of a kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// The size of the parameter buffer.
    pub param_bytes: u32,
    /// The bytes of shared memory that are declared with a size.
    pub static_shared: u32,
    /// The alignment of dynamic shared memory, 16 or more.
    pub dynamic_align: u32,
    /// Whether it asks for the address of the shared memory that is reserved for the system.
    pub reserved_shared: bool,
    /// Bytes of local memory per thread.
    pub local_bytes: u32,
    /// The bytes of module-wide constants.
    pub const_bytes: u32,
    /// `.maxntid`
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`
    pub required_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`
    pub cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`
    pub max_cluster: Option<u32>,
    /// The line and the message of an instruction that is not implemented, in the kernel or in a
    /// function that it calls.
    pub unsupported: Option<(u32, String)>,
    /// An estimate of 32-bit registers per thread, for occupancy figures only: an assembler may
    /// need fewer.
    pub registers: u32,
}

/// The number of partitions of a multiprocessor; a warp runs on one of them.
pub(super) const PARTS: u32 = 4;
/// The registers of each partition; a warp allocates them in units of 8 per thread.
pub(super) const PART_REGISTERS: u32 = 16384;

impl Kernel {
    /// The number of threads in a block that `.maxntid` allows, in any shape.
    pub(crate) fn most_threads(&self) -> Option<u64> {
        self.max_threads.map(product)
    }

    /// The number of threads in a block that the directives allow.
    pub(crate) fn thread_bound(&self) -> Option<u64> {
        self.required_threads.map(product).or(self.most_threads())
    }

    /// Whether the directives allow clusters of this shape.
    pub(crate) fn takes_cluster(&self, cluster: [u32; 3]) -> bool {
        self.cluster.is_none_or(|required| required == cluster)
            && self
                .max_cluster
                .is_none_or(|most| product(cluster) <= most.into())
    }

    /// The number of warps that fit into a multiprocessor's registers, by the estimate.
    pub(crate) fn warps_by_registers(&self) -> u32 {
        let each = 32 * self.registers.max(1).next_multiple_of(8);
        PARTS * (PART_REGISTERS / each)
    }

    /// The part of `limit` bytes of shared memory that is left for dynamic memory; negative if the
    /// kernel itself needs more.
    pub(crate) fn dynamic_room(&self, limit: i32) -> i32 {
        limit.saturating_sub_unsigned(self.static_shared)
    }

    /// The offset of dynamic shared memory. The padding before it does not count towards the
    /// device's limit.
    pub(crate) fn dynamic_start(&self) -> u32 {
        self.static_shared.next_multiple_of(self.dynamic_align)
    }
}

/// The number of items in a box of these dimensions. It saturates, because programs may pass any
/// numbers.
pub(crate) fn product(dims: [u32; 3]) -> u64 {
    let times = |all: u64, &n: &u32| all.saturating_mul(u64::from(n));
    dims.iter().fold(1, times)
}

/// The state space of a module variable.
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
    /// The state space.
    pub space: GlobalSpace,
    /// Whether `cuModuleGetGlobal` finds it: `.visible` and `.weak` variables, and internal ones
    /// too, as on hardware.
    pub visible: bool,
    /// Whether it is declared as managed memory. The software device does not support this: the
    /// host cannot access it.
    pub managed: bool,
    /// The initial bytes; the rest are zero.
    pub init: Vec<u8>,
    pub(crate) relocations: Vec<Relocation>,
}

/// An address inside an initial value.
#[derive(Clone, Debug)]
pub(crate) struct Relocation {
    pub(crate) at: u64,
    pub(crate) target: Symbol,
    pub(crate) offset: i64,
    /// The byte of the address to store, or all eight if `None`.
    pub(crate) byte: Option<u32>,
}

/// The definition that a symbol refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    /// Index into the globals.
    Global(usize),
    /// Index into the functions.
    Function(usize),
}

/// A constant that holds the address of a symbol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixup {
    pub(super) constant: u32,
    pub(super) target: Symbol,
    pub(super) offset: i64,
}

/// Decoded code, shared by every [`Image`](super::Image) that is made from it.
#[derive(Debug, Default)]
pub struct Program {
    pub(super) kernels: Vec<Kernel>,
    pub(super) globals: Vec<Global>,
    /// The function index of each kernel.
    pub(super) entries: Vec<usize>,
    /// For each kernel, the offsets of the shared variables that several kernels may use, by their
    /// numbers.
    pub(super) shared: Vec<BTreeMap<usize, u32>>,
    pub(super) functions: Vec<FunctionCode>,
    pub(super) code: Vec<Ins>,
    pub(super) sites: Vec<CallSite>,
    /// Branch tables.
    pub(super) tables: Vec<Vec<u32>>,
    pub(super) products: Vec<Product>,
    pub(super) group_products: Vec<GroupProduct>,
    pub(super) tiles: Vec<Tile>,
    /// The register lists of instructions.
    pub(super) lists: Vec<Vec<Slot>>,
    pub(super) messages: Vec<String>,
    pub(super) consts32: Vec<u32>,
    pub(super) consts64: Vec<u64>,
    pub(super) fixups: Vec<Fixup>,
    pub(super) lines: Lines,
    /// Whether the code has a barrier of a block, once that was asked for.
    pub(super) has_barriers: OnceLock<bool>,
}

impl Program {
    /// Whether the code has a barrier of a block.
    pub(super) fn has_barriers(&self) -> bool {
        *self.has_barriers.get_or_init(|| {
            let mut code = self.code.iter();
            code.any(|i| matches!(i.kind, Kind::Barrier(_)))
        })
    }

    /// The function that contains an instruction.
    fn function_of(&self, pc: u32) -> Option<&FunctionCode> {
        self.functions
            .iter()
            .find(|function| function.entry.is_some_and(|entry| entry <= pc) && pc < function.end)
    }

    /// The place of a thread of kernel number `kernel` that executes the instruction at `pc`.
    pub(super) fn place(
        &self,
        kernel: usize,
        pc: u32,
        block: [u32; 3],
        thread: [u32; 3],
    ) -> CodeLocation {
        let function = self.function_of(pc);
        let name = match (function, self.kernels.get(kernel)) {
            (Some(function), _) => function.name.clone(),
            (None, Some(kernel)) => kernel.name.clone(),
            (None, None) => String::new(),
        };
        let range = function.and_then(|function| Some((function.entry?, function.end)));
        CodeLocation {
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
}
