//! Kernels on a device: their resource limits and settings.
//!
//! A setting of a library's kernel applies in all contexts of the device. A setting of a function
//! applies in its context only and takes precedence over that of the kernel, in whichever order
//! they were set.

use std::sync::atomic::{AtomicI32, Ordering};

use cuda_sys::CUfunction_attribute;

use crate::driver::objects::device::Device;
use crate::driver::objects::jit::Code;
use crate::driver::status::{INVALID_VALUE, Status};
use crate::vm::Kernel;

/// The value of an attribute that was not set.
const UNSET: i32 = i32::MIN;

/// The settings of a kernel.
#[derive(Debug)]
pub(in crate::driver) struct Settings {
    /// The dynamic shared memory in bytes that a launch may request.
    max_dynamic_shared: AtomicI32,
    carveout: AtomicI32,
    non_portable_cluster: AtomicI32,
    cluster_policy: AtomicI32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_dynamic_shared: AtomicI32::new(UNSET),
            carveout: AtomicI32::new(UNSET),
            non_portable_cluster: AtomicI32::new(UNSET),
            cluster_policy: AtomicI32::new(UNSET),
        }
    }
}

/// A kernel on a device.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct OnDevice<'a> {
    pub(in crate::driver) code: &'a Code,
    pub(in crate::driver) kernel: &'a Kernel,
    pub(in crate::driver) device: &'a Device,
    /// The settings in order of precedence. New values are stored in the first.
    pub(in crate::driver) settings: [&'a Settings; 2],
}

impl OnDevice<'_> {
    fn set_value(self, place: impl Fn(&Settings) -> &AtomicI32) -> Option<i32> {
        let values = self.settings.map(|all| place(all).load(Ordering::Relaxed));
        values.into_iter().find(|&value| value != UNSET)
    }

    /// Returns the largest number of threads of a block: the value of `.reqntid` or `.maxntid`,
    /// otherwise 1024.
    ///
    /// On a GPU the registers of the kernel are another limit. Only an assembler knows their
    /// number; the number here is an estimate that may be too high, so it is not taken into
    /// account.
    pub(in crate::driver) fn max_threads(self) -> u32 {
        self.kernel.thread_bound().unwrap_or(1024).clamp(1, 1024) as u32
    }

    /// Returns the largest number of blocks of a cluster.
    pub(in crate::driver) fn max_cluster(self) -> u64 {
        match self.set_value(|all| &all.non_portable_cluster) {
            None | Some(0) => 8,
            Some(_) => 16,
        }
    }

    /// Returns the largest dynamic shared memory of a launch in bytes.
    pub(in crate::driver) fn dynamic_shared_limit(self) -> i32 {
        let limits = &self.device.limits;
        // A kernel that has more static shared memory than the default limit opts in to the larger
        // limit.
        let default = if self.kernel.static_shared as i32 > limits.shared_per_block {
            limits.shared_optin
        } else {
            limits.shared_per_block
        };
        match self.set_value(|all| &all.max_dynamic_shared) {
            Some(set) if set > default => set,
            // Unless the limit was raised above the default, static and dynamic memory share the
            // default.
            set => self
                .kernel
                .dynamic_room(default)
                .min(set.unwrap_or(default)),
        }
    }

    /// Returns the percentage of a multiprocessor's memory that is to be shared memory, or -1 if
    /// the driver chooses.
    pub(in crate::driver) fn carveout(self) -> i32 {
        self.set_value(|all| &all.carveout).unwrap_or(-1)
    }

    pub(in crate::driver) fn attribute(self, attribute: CUfunction_attribute) -> Status<i32> {
        type A = CUfunction_attribute;
        let kernel = self.kernel;
        let (major, minor) = self.device.capability;
        let cluster = kernel.cluster.unwrap_or_default();
        Ok(match attribute {
            A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => self.max_threads() as i32,
            A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => kernel.static_shared as i32,
            A::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES => kernel.const_bytes as i32,
            A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES => kernel.local_bytes as i32,
            A::CU_FUNC_ATTRIBUTE_NUM_REGS => kernel.registers as i32,
            A::CU_FUNC_ATTRIBUTE_PTX_VERSION => self.code.ptx_target,
            A::CU_FUNC_ATTRIBUTE_BINARY_VERSION => (10 * major + minor) as i32,
            A::CU_FUNC_ATTRIBUTE_CACHE_MODE_CA => 0,
            A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => self.dynamic_shared_limit(),
            A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => self.carveout(),
            A::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET => i32::from(kernel.cluster.is_some()),
            A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH => cluster[0] as i32,
            A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT => cluster[1] as i32,
            A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => cluster[2] as i32,
            A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
                self.set_value(|all| &all.non_portable_cluster).unwrap_or(0)
            }
            A::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
                self.set_value(|all| &all.cluster_policy).unwrap_or(0)
            }
            _ => return Err(INVALID_VALUE),
        })
    }

    pub(in crate::driver) fn set_attribute(
        self,
        attribute: CUfunction_attribute,
        value: i32,
    ) -> Status {
        type A = CUfunction_attribute;
        let room = self.kernel.dynamic_room(self.device.limits.shared_optin);
        let [settings, _] = self.settings;
        let (place, range) = match attribute {
            A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                (&settings.max_dynamic_shared, 0..=room)
            }
            A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => (&settings.carveout, -1..=100),
            A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
                (&settings.non_portable_cluster, 0..=1)
            }
            A::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
                (&settings.cluster_policy, 0..=2)
            }
            _ => return Err(INVALID_VALUE),
        };
        if !range.contains(&value) {
            return Err(INVALID_VALUE);
        }
        place.store(value, Ordering::Relaxed);
        Ok(())
    }
}
