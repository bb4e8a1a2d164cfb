//! The options of the driver's compiler and linker.

use cuda_sys::{CUjit_cacheMode, CUjit_fallback, CUjit_option, CUjit_target, Version};

use crate::device::ComputeCapability;
use crate::error::{Error, Result};

/// Options for [`Module::load_with`](crate::Module::load_with),
/// [`Library::load`](crate::Library::load) and [`Linker::new`](crate::jit::Linker::new). The driver
/// chooses the value of an option that is not set. If an option is set twice, the last value is
/// used.
///
/// They apply only to code that is compiled, that is, PTX. Machine code is loaded unchanged. An
/// option that the driver does not know is an error.
///
/// A [`SafeModule`](crate::safe::SafeModule) is not loaded with an option for which it is not known
/// that it leaves the accesses of a kernel as they are: [`target`](Self::target),
/// [`position_independent_code`](Self::position_independent_code) and
/// [`override_directives`](Self::override_directives).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitOptions {
    values: Vec<(CUjit_option, u32)>,
}

/// The optimization level of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OptimizationLevel {
    /// No optimization.
    O0,
    /// Basic optimizations.
    O1,
    /// More optimizations than at `O1`.
    O2,
    /// More optimizations than at `O2`.
    O3,
    /// All optimizations. This is the default.
    O4,
}

/// The architecture to compile for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JitTarget(CUjit_target);

/// The choice for an image that contains PTX, and machine code that does not fit the device
/// exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JitFallback {
    /// Compile the PTX.
    Ptx,
    /// Use machine code for a compatible device.
    Binary,
}

/// The caches used by loads from global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JitCacheMode {
    /// The caches that the code specifies.
    AsWritten,
    /// L2 only: `-dlcm=cg`.
    L2,
    /// L1 and L2: `-dlcm=ca`.
    L1AndL2,
}

macro_rules! number_options {
    ($($(#[$doc:meta])* $name:ident($value:ident) = $option:ident;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(self, $value: u32) -> Self {
                self.set(CUjit_option::$option, $value)
            }
        )*
    };
}

macro_rules! switch_options {
    ($($(#[$doc:meta])* $name:ident = $option:ident;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(self, is_on: bool) -> Self {
                self.set(CUjit_option::$option, is_on.into())
            }
        )*
    };
}

impl JitOptions {
    /// Creates an empty set of options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    number_options! {
        /// `CU_JIT_MAX_REGISTERS`—Sets the maximum number of registers of a thread.
        max_registers(count) = CU_JIT_MAX_REGISTERS;
        /// `CU_JIT_THREADS_PER_BLOCK`—Sets the block size that must be launchable: the compiler
        /// limits the number of registers accordingly. Cannot be combined with
        /// [`target`](Self::target).
        threads_per_block(count) = CU_JIT_THREADS_PER_BLOCK;
        /// `CU_JIT_MIN_CTA_PER_SM`—Sets the number of blocks that must fit on a multiprocessor at
        /// once. Requires a driver newer than CUDA 12.0, and
        /// [`max_threads_per_block`](Self::max_threads_per_block). Cannot be combined with
        /// [`max_registers`](Self::max_registers) or
        /// [`threads_per_block`](Self::threads_per_block).
        min_blocks_per_multiprocessor(count) = CU_JIT_MIN_CTA_PER_SM;
        /// `CU_JIT_MAX_THREADS_PER_BLOCK`—Sets the maximum number of threads in a block. Requires a
        /// driver newer than CUDA 12.0.
        max_threads_per_block(count) = CU_JIT_MAX_THREADS_PER_BLOCK;
        /// `CU_JIT_SPLIT_COMPILE`—Sets the number of threads that compile; 0 uses one per
        /// processor. Requires CUDA 13.0.
        split_compile(threads) = CU_JIT_SPLIT_COMPILE;
        /// `CU_JIT_BINARY_LOADER_THREAD_COUNT`—Sets the number of threads that load machine code.
        /// Requires CUDA 13.1.
        binary_loader_threads(count) = CU_JIT_BINARY_LOADER_THREAD_COUNT;
    }

    switch_options! {
        /// `CU_JIT_GENERATE_DEBUG_INFO`—Sets whether to generate debug information.
        debug_info = CU_JIT_GENERATE_DEBUG_INFO;
        /// `CU_JIT_GENERATE_LINE_INFO`—Sets whether to generate line information, with which
        /// profilers show source lines.
        line_info = CU_JIT_GENERATE_LINE_INFO;
        /// `CU_JIT_LOG_VERBOSE`—Sets whether the [log](super::JitLog::info) lists the registers and
        /// the memory of each kernel.
        verbose = CU_JIT_LOG_VERBOSE;
        /// `CU_JIT_POSITION_INDEPENDENT_CODE`—Sets whether to generate position-independent code.
        position_independent_code = CU_JIT_POSITION_INDEPENDENT_CODE;
        /// `CU_JIT_OVERRIDE_DIRECTIVE_VALUES`—Sets whether the limits of registers, threads and
        /// blocks in these options override those in the PTX. Requires a driver newer than CUDA
        /// 12.0.
        override_directives = CU_JIT_OVERRIDE_DIRECTIVE_VALUES;
    }

    /// `CU_JIT_OPTIMIZATION_LEVEL`—Sets the optimization level.
    #[must_use]
    pub fn optimization_level(self, level: OptimizationLevel) -> Self {
        self.set(CUjit_option::CU_JIT_OPTIMIZATION_LEVEL, level as u32)
    }

    /// `CU_JIT_TARGET`—Sets the architecture to compile for. The default is that of the device.
    #[must_use]
    pub fn target(self, target: JitTarget) -> Self {
        self.set(CUjit_option::CU_JIT_TARGET, target.0.0)
    }

    /// `CU_JIT_FALLBACK_STRATEGY`—Sets the choice if an image has no machine code for exactly this
    /// device.
    #[must_use]
    pub fn fallback(self, fallback: JitFallback) -> Self {
        let value = match fallback {
            JitFallback::Ptx => CUjit_fallback::CU_PREFER_PTX,
            JitFallback::Binary => CUjit_fallback::CU_PREFER_BINARY,
        };
        self.set(CUjit_option::CU_JIT_FALLBACK_STRATEGY, value.0)
    }

    /// `CU_JIT_CACHE_MODE`—Sets the caches used by loads from global memory.
    #[must_use]
    pub fn cache_mode(self, mode: JitCacheMode) -> Self {
        let value = match mode {
            JitCacheMode::AsWritten => CUjit_cacheMode::CU_JIT_CACHE_OPTION_NONE,
            JitCacheMode::L2 => CUjit_cacheMode::CU_JIT_CACHE_OPTION_CG,
            JitCacheMode::L1AndL2 => CUjit_cacheMode::CU_JIT_CACHE_OPTION_CA,
        };
        self.set(CUjit_option::CU_JIT_CACHE_MODE, value.0)
    }

    /// Fails if it is not known that a kernel that was proven keeps its meaning with these options.
    pub(crate) fn expect_judged(&self) -> Result<()> {
        let is_set = |unjudged: &&(CUjit_option, bool, &str)| {
            let (option, is_switch, _) = **unjudged;
            let mut values = self.values.iter();
            values.any(|&(known, value)| known == option && !(is_switch && value == 0))
        };
        match UNJUDGED.iter().find(is_set) {
            Some(&(_, _, what)) => Err(Error::Unsupported { what }),
            None => Ok(()),
        }
    }

    fn set(mut self, option: CUjit_option, value: u32) -> Self {
        self.values.retain(|(known, _)| *known != option);
        self.values.push((option, value));
        self
    }

    /// Returns the options and their values, or an error if a driver of this version does not know
    /// one of them.
    pub(crate) fn for_driver(&self, driver: Version) -> Result<&[(CUjit_option, u32)]> {
        let unknown = |(option, _): &&(CUjit_option, u32)| {
            NEWER
                .iter()
                .any(|(newer, since, _)| newer == option && driver < *since)
        };
        let Some((option, _)) = self.values.iter().find(unknown) else {
            return Ok(&self.values);
        };
        let named = NEWER.iter().find(|(newer, ..)| newer == option);
        Err(Error::Unsupported {
            what: named.map_or("an option of the compiler", |(_, _, what)| what),
        })
    }
}

/// The options with which no safe module is loaded, and whether 0 switches one off. The others
/// choose registers, caches, threads of the compiler, or what is optimized. A proof assumes nothing
/// about them.
const UNJUDGED: [(CUjit_option, bool, &str); 3] = [
    (
        CUjit_option::CU_JIT_TARGET,
        false,
        "a safe module with the option CU_JIT_TARGET; load it without `JitOptions::target`, for the \
         device of the context",
    ),
    (
        CUjit_option::CU_JIT_POSITION_INDEPENDENT_CODE,
        true,
        "a safe module with the option CU_JIT_POSITION_INDEPENDENT_CODE; load it without \
         `JitOptions::position_independent_code`",
    ),
    (
        CUjit_option::CU_JIT_OVERRIDE_DIRECTIVE_VALUES,
        true,
        "a safe module with the option CU_JIT_OVERRIDE_DIRECTIVE_VALUES; change the directives in \
         the text instead of `JitOptions::override_directives`",
    ),
];

/// The options that CUDA 12.0 does not have, each with the first release whose header is known to
/// have it.
const NEWER: [(CUjit_option, Version, &str); 5] = [
    (
        CUjit_option::CU_JIT_MIN_CTA_PER_SM,
        Version::new(12010),
        "the option CU_JIT_MIN_CTA_PER_SM, which requires a driver newer than CUDA 12.0,",
    ),
    (
        CUjit_option::CU_JIT_MAX_THREADS_PER_BLOCK,
        Version::new(12010),
        "the option CU_JIT_MAX_THREADS_PER_BLOCK, which requires a driver newer than CUDA 12.0,",
    ),
    (
        CUjit_option::CU_JIT_OVERRIDE_DIRECTIVE_VALUES,
        Version::new(12010),
        "the option CU_JIT_OVERRIDE_DIRECTIVE_VALUES, which requires a driver newer than CUDA 12.0,",
    ),
    (
        CUjit_option::CU_JIT_SPLIT_COMPILE,
        Version::new(13000),
        "the option CU_JIT_SPLIT_COMPILE, which requires a driver of CUDA 13.0,",
    ),
    (
        CUjit_option::CU_JIT_BINARY_LOADER_THREAD_COUNT,
        Version::new(13010),
        "the option CU_JIT_BINARY_LOADER_THREAD_COUNT, which requires a driver of CUDA 13.1,",
    ),
];

impl JitTarget {
    /// Targets an architecture. The code also runs on later architectures of the same major
    /// version.
    #[must_use]
    pub fn new(capability: ComputeCapability) -> Self {
        Self::of(capability, 0)
    }

    /// Targets exactly one architecture, with the instructions that are specific to it: `sm_90a`.
    #[must_use]
    pub fn arch_specific(capability: ComputeCapability) -> Self {
        Self::of(capability, cuda_sys::CU_COMPUTE_ACCELERATED_TARGET_BASE)
    }

    /// Targets the family of an architecture, with the instructions that are specific to it:
    /// `sm_100f`.
    #[must_use]
    pub fn family_specific(capability: ComputeCapability) -> Self {
        Self::of(capability, cuda_sys::CU_COMPUTE_FAMILY_TARGET_BASE)
    }

    fn of(capability: ComputeCapability, base: u32) -> Self {
        let ComputeCapability { major, minor } = capability;
        let number = major.saturating_mul(10).saturating_add(minor);
        Self(CUjit_target(base.saturating_add(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::{CUjit_option, CUjit_target, JitOptions, JitTarget, OptimizationLevel, Version};
    use crate::device::ComputeCapability;

    #[test]
    fn the_last_value_counts_and_newer_options_fail() {
        let options = JitOptions::new()
            .max_registers(32)
            .verbose(true)
            .threads_per_block(128)
            .position_independent_code(true)
            .max_registers(64);
        let level = options.optimization_level(OptimizationLevel::O4);
        assert_eq!(
            level.for_driver(Version::new(12000)).unwrap(),
            [
                (CUjit_option::CU_JIT_LOG_VERBOSE, 1),
                (CUjit_option::CU_JIT_THREADS_PER_BLOCK, 128),
                (CUjit_option::CU_JIT_POSITION_INDEPENDENT_CODE, 1),
                (CUjit_option::CU_JIT_MAX_REGISTERS, 64),
                (CUjit_option::CU_JIT_OPTIMIZATION_LEVEL, 4),
            ]
        );
        let newer = JitOptions::new().split_compile(2);
        let error = newer.for_driver(Version::new(12090)).unwrap_err();
        assert!(
            error.to_string().contains("CU_JIT_SPLIT_COMPILE"),
            "{error}"
        );
        assert!(newer.for_driver(Version::new(13000)).is_ok());
    }

    #[test]
    fn targets_have_the_numbers_of_the_header() {
        let hopper = ComputeCapability { major: 9, minor: 0 };
        assert_eq!(JitTarget::new(hopper).0, CUjit_target::CU_TARGET_COMPUTE_90);
        let only = JitTarget::arch_specific(hopper);
        assert_eq!(only.0, CUjit_target::CU_TARGET_COMPUTE_90A);
        let blackwell = ComputeCapability {
            major: 10,
            minor: 3,
        };
        let family = JitTarget::family_specific(blackwell);
        assert_eq!(family.0, CUjit_target::CU_TARGET_COMPUTE_103F);
    }
}
