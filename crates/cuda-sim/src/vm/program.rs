//! A decoded module: kernels, variables, code.

use std::sync::Arc;

use super::fault::LoadError;
use super::image::Image;
use crate::memory::Arena;
use crate::ptx;

/// The device that PTX is loaded for.
#[derive(Clone, Copy, Debug)]
pub struct TargetInfo {
    /// Compute capability, as (9, 0).
    pub compute_capability: (u32, u32),
    /// The newest `.version` that the driver takes, as (9, 0) of CUDA 13.0.
    pub max_ptx: (u32, u32),
    /// Refuse to load instructions that are unknown, instead of failing when they are executed.
    pub strict: bool,
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
    /// An estimate of 32-bit registers per thread.
    pub registers: u32,
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
    /// Whether `cuModuleGetGlobal` finds it (`.visible` and `.weak` do; so do internal ones, as on hardware).
    pub visible: bool,
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

/// Decoded code, shared by every [`Image`] made of it.
#[derive(Debug)]
pub struct Program {
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) globals: Vec<Global>,
}

impl Program {
    /// Decodes `modules`, which may refer to each other's symbols as the JIT linker allows.
    ///
    /// # Errors
    ///
    /// [`LoadError`]: what the driver answers 218, 222 or 209 to, and unresolved symbols.
    pub fn load(_modules: &[ptx::Module<'_>], _target: &TargetInfo) -> Result<Self, LoadError> {
        Err(LoadError::InvalidPtx(String::from(
            "decoding is not implemented yet",
        )))
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
