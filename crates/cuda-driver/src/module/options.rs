//! What the driver's compiler and linker are told.

use cuda_sys::{CUjit_cacheMode, CUjit_fallback, CUjit_option, CUjit_target, Version};

use crate::device::ComputeCapability;
use crate::error::{Error, Result};

/// Options for [`Module::load_with`](crate::Module::load_with),
/// [`Library::load`](crate::Library::load) and [`Linker::new`](crate::Linker::new). What is not set
/// is as the driver likes; what is set twice is as set last.
///
/// They are for code that is compiled: PTX. Machine code is loaded as it is. An option that the
/// driver does not know is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitOptions {
    values: Vec<(CUjit_option, u32)>,
}

/// How much the compiler optimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OptimizationLevel {
    /// Not at all.
    O0,
    /// A little.
    O1,
    /// More.
    O2,
    /// Much.
    O3,
    /// As much as it can: what it does by itself.
    O4,
}

/// The architecture to compile for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JitTarget(CUjit_target);

/// What to make of an image that has PTX, and machine code that the device does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JitFallback {
    /// Compile the PTX.
    Ptx,
    /// Take machine code of a device that is compatible.
    Binary,
}

/// Where loads from global memory are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JitCacheMode {
    /// As the code says.
    AsWritten,
    /// In L2 only: `-dlcm=cg`.
    L2,
    /// In L1 and L2: `-dlcm=ca`.
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
    /// No options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    number_options! {
        /// `CU_JIT_MAX_REGISTERS`—The most registers that a thread may use.
        max_registers(count) = CU_JIT_MAX_REGISTERS;
        /// `CU_JIT_THREADS_PER_BLOCK`—So many threads in a block must be possible: the compiler
        /// keeps the registers few enough. Not together with [`target`](Self::target).
        threads_per_block(count) = CU_JIT_THREADS_PER_BLOCK;
        /// `CU_JIT_MIN_CTA_PER_SM`—So many blocks on a multiprocessor at once are to be possible.
        /// Not in CUDA 12.0. It needs [`max_threads_per_block`](Self::max_threads_per_block), and
        /// goes not together with [`max_registers`](Self::max_registers) and
        /// [`threads_per_block`](Self::threads_per_block).
        min_blocks_per_multiprocessor(count) = CU_JIT_MIN_CTA_PER_SM;
        /// `CU_JIT_MAX_THREADS_PER_BLOCK`—The most threads in a block. Not in CUDA 12.0.
        max_threads_per_block(count) = CU_JIT_MAX_THREADS_PER_BLOCK;
        /// `CU_JIT_SPLIT_COMPILE`—Compile on so many threads; 0: one for each processor. From CUDA
        /// 13.0 on.
        split_compile(threads) = CU_JIT_SPLIT_COMPILE;
        /// `CU_JIT_BINARY_LOADER_THREAD_COUNT`—Load machine code on so many threads. From CUDA 13.1
        /// on.
        binary_loader_threads(count) = CU_JIT_BINARY_LOADER_THREAD_COUNT;
    }

    switch_options! {
        /// `CU_JIT_GENERATE_DEBUG_INFO`—Whether to make what a debugger needs.
        debug_info = CU_JIT_GENERATE_DEBUG_INFO;
        /// `CU_JIT_GENERATE_LINE_INFO`—Whether to make what a profiler needs to show lines of
        /// source.
        line_info = CU_JIT_GENERATE_LINE_INFO;
        /// `CU_JIT_LOG_VERBOSE`—Whether the [log](super::JitLog::info) tells registers and memory
        /// of each kernel.
        verbose = CU_JIT_LOG_VERBOSE;
        /// `CU_JIT_POSITION_INDEPENDENT_CODE`—Whether the code may lie anywhere.
        position_independent_code = CU_JIT_POSITION_INDEPENDENT_CODE;
        /// `CU_JIT_OVERRIDE_DIRECTIVE_VALUES`—Whether limits of registers, threads and blocks that
        /// are given here go before those in the PTX. Not in CUDA 12.0.
        override_directives = CU_JIT_OVERRIDE_DIRECTIVE_VALUES;
    }

    /// `CU_JIT_OPTIMIZATION_LEVEL`—How much to optimise.
    #[must_use]
    pub fn optimization_level(self, level: OptimizationLevel) -> Self {
        self.set(CUjit_option::CU_JIT_OPTIMIZATION_LEVEL, level as u32)
    }

    /// `CU_JIT_TARGET`—The architecture to compile for, if it is not that of the device.
    #[must_use]
    pub fn target(self, target: JitTarget) -> Self {
        self.set(CUjit_option::CU_JIT_TARGET, target.0.0)
    }

    /// `CU_JIT_FALLBACK_STRATEGY`—What to do where there is no machine code for the device.
    #[must_use]
    pub fn fallback(self, fallback: JitFallback) -> Self {
        let value = match fallback {
            JitFallback::Ptx => CUjit_fallback::CU_PREFER_PTX,
            JitFallback::Binary => CUjit_fallback::CU_PREFER_BINARY,
        };
        self.set(CUjit_option::CU_JIT_FALLBACK_STRATEGY, value.0)
    }

    /// `CU_JIT_CACHE_MODE`—Where loads from global memory are cached.
    #[must_use]
    pub fn cache_mode(self, mode: JitCacheMode) -> Self {
        let value = match mode {
            JitCacheMode::AsWritten => CUjit_cacheMode::CU_JIT_CACHE_OPTION_NONE,
            JitCacheMode::L2 => CUjit_cacheMode::CU_JIT_CACHE_OPTION_CG,
            JitCacheMode::L1AndL2 => CUjit_cacheMode::CU_JIT_CACHE_OPTION_CA,
        };
        self.set(CUjit_option::CU_JIT_CACHE_MODE, value.0)
    }

    fn set(mut self, option: CUjit_option, value: u32) -> Self {
        self.values.retain(|(known, _)| *known != option);
        self.values.push((option, value));
        self
    }

    /// The options and their values, if a driver of this version knows them all.
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

/// Options that CUDA 12.0 did not have, and the first release whose header is known to have each.
const NEWER: [(CUjit_option, Version, &str); 5] = [
    (
        CUjit_option::CU_JIT_MIN_CTA_PER_SM,
        Version::new(12010),
        "CU_JIT_MIN_CTA_PER_SM, which CUDA 12.0 has not,",
    ),
    (
        CUjit_option::CU_JIT_MAX_THREADS_PER_BLOCK,
        Version::new(12010),
        "CU_JIT_MAX_THREADS_PER_BLOCK, which CUDA 12.0 has not,",
    ),
    (
        CUjit_option::CU_JIT_OVERRIDE_DIRECTIVE_VALUES,
        Version::new(12010),
        "CU_JIT_OVERRIDE_DIRECTIVE_VALUES, which CUDA 12.0 has not,",
    ),
    (
        CUjit_option::CU_JIT_SPLIT_COMPILE,
        Version::new(13000),
        "CU_JIT_SPLIT_COMPILE, of CUDA 13.0,",
    ),
    (
        CUjit_option::CU_JIT_BINARY_LOADER_THREAD_COUNT,
        Version::new(13010),
        "CU_JIT_BINARY_LOADER_THREAD_COUNT, of CUDA 13.1,",
    ),
];

impl JitTarget {
    /// Code for the architecture, which later ones of the same major version run too.
    #[must_use]
    pub fn new(capability: ComputeCapability) -> Self {
        Self::of(capability, 0)
    }

    /// Code with the instructions that only this very architecture has: `sm_90a`.
    #[must_use]
    pub fn arch_specific(capability: ComputeCapability) -> Self {
        Self::of(capability, cuda_sys::CU_COMPUTE_ACCELERATED_TARGET_BASE)
    }

    /// Code with the instructions that only its family has: `sm_100f`.
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
    fn the_last_value_counts_and_newer_options_are_refused() {
        let options = JitOptions::new()
            .max_registers(32)
            .verbose(true)
            .max_registers(64);
        let level = options.optimization_level(OptimizationLevel::O4);
        assert_eq!(
            level.for_driver(Version::new(12000)).unwrap(),
            [
                (CUjit_option::CU_JIT_LOG_VERBOSE, 1),
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
