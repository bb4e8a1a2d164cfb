//! The attributes of a kernel: its properties as compiled, and settings for all of its launches
//! (`cuFuncGetAttribute`, `cuFuncSetAttribute`).

use std::sync::atomic::Ordering;

use super::function::read_attribute;
use super::{Function, FunctionAttribute};
use crate::driver::call;
use crate::error::Result;
use crate::types::{ClusterScheduling, Dim3};

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident = $attribute:ident;)*) => {
        impl Function {
            $(
                $(#[$doc])*
                #[doc(alias = "cuFuncGetAttribute")]
                #[doc(alias = "cudaFuncGetAttributes")]
                pub fn $name(&self) -> Result<u32> {
                    let value = self.attribute(FunctionAttribute::$attribute)?;
                    Ok(u32::try_from(value).unwrap_or(0))
                }
            )*
        }
    };
}

attributes! {
    /// `cuFuncGetAttribute(SHARED_SIZE_BYTES)`—Returns the static shared memory of each block, in
    /// bytes.
    static_shared_bytes = CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    /// `cuFuncGetAttribute(CONST_SIZE_BYTES)`—Returns the constant memory that the kernel's source
    /// declares, in bytes.
    const_bytes = CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES;
    /// `cuFuncGetAttribute(LOCAL_SIZE_BYTES)`—Returns the local memory of each thread, in bytes.
    local_bytes = CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
    /// `cuFuncGetAttribute(NUM_REGS)`—Returns the number of registers of each thread.
    registers = CU_FUNC_ATTRIBUTE_NUM_REGS;
    /// `cuFuncGetAttribute(PTX_VERSION)`—Returns the virtual architecture that the kernel was
    /// compiled for, for example 90 for 9.0.
    ptx_version = CU_FUNC_ATTRIBUTE_PTX_VERSION;
    /// `cuFuncGetAttribute(BINARY_VERSION)`—Returns the architecture of the machine code, for
    /// example 90 for 9.0.
    binary_version = CU_FUNC_ATTRIBUTE_BINARY_VERSION;
}

/// Attributes of the kernel.
impl Function {
    /// `cuFuncGetAttribute(attribute)`—Returns any attribute, as the driver reports it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if this driver does not know the attribute.
    #[doc(alias = "cuFuncGetAttribute")]
    #[doc(alias = "cudaFuncGetAttributes")]
    pub fn attribute(&self, attribute: FunctionAttribute) -> Result<i32> {
        Ok(read_attribute(self.driver(), self.as_raw(), attribute)?)
    }

    /// `cuFuncSetAttribute(PREFERRED_SHARED_MEMORY_CARVEOUT)`—Sets the preferred share of the L1
    /// cache that is used as shared memory for this kernel, in percent. The driver may use more.
    /// With `None` the driver decides.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if `percent` is more than 100.
    #[doc(alias = "cuFuncSetAttribute")]
    #[doc(alias = "cudaFuncSetAttribute")]
    pub fn set_shared_memory_carveout(&self, percent: Option<u32>) -> Result<()> {
        let value = percent.map_or(-1, |percent| i32::try_from(percent).unwrap_or(i32::MAX));
        self.set(
            FunctionAttribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
            value,
        )
    }

    /// `cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)`—Sets whether launches may use
    /// clusters of more blocks than every device of the compute capability supports, which is 8.
    #[doc(alias = "cuFuncSetAttribute")]
    #[doc(alias = "cudaFuncSetAttribute")]
    pub fn allow_non_portable_cluster_size(&self, is_allowed: bool) -> Result<()> {
        self.set(
            FunctionAttribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
            is_allowed.into(),
        )
    }

    /// `cuFuncSetAttribute(CLUSTER_SCHEDULING_POLICY_PREFERENCE)`—Sets how the clusters of launches
    /// are spread over the device.
    #[doc(alias = "cuFuncSetAttribute")]
    #[doc(alias = "cudaFuncSetAttribute")]
    pub fn set_cluster_scheduling(&self, policy: ClusterScheduling) -> Result<()> {
        self.set(
            FunctionAttribute::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
            policy.raw().0.cast_signed(),
        )
    }

    /// `cuFuncGetAttribute(REQUIRED_CLUSTER_WIDTH, …)`—Returns the cluster shape that the kernel
    /// was compiled for, if there is one.
    pub fn required_cluster(&self) -> Result<Option<Dim3>> {
        let dim = |attribute| {
            Ok::<_, crate::Error>(u32::try_from(self.attribute(attribute)?).unwrap_or(0))
        };
        let x = dim(FunctionAttribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)?;
        let y = dim(FunctionAttribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT)?;
        let z = dim(FunctionAttribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)?;
        Ok((x != 0).then_some(Dim3 { x, y, z }))
    }

    /// `cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)`—Raises the limit of dynamic shared
    /// memory of a block to at least `bytes`. The limit is never lowered.
    ///
    /// A new function can use 48 KiB of shared memory. A launch and the
    /// [occupancy](Self::max_active_blocks) functions raise the limit by themselves; this method
    /// serves [`available_shared_bytes`](Self::available_shared_bytes) and raw calls.
    ///
    /// # Errors
    ///
    /// [`Error::LaunchConfig`](crate::Error::LaunchConfig) if the device allows less.
    #[doc(alias = "cuFuncSetAttribute")]
    #[doc(alias = "cudaFuncSetAttribute")]
    pub fn allow_shared_bytes(&self, bytes: u32) -> Result<()> {
        if bytes <= self.0.allowed_shared.load(Ordering::Relaxed) {
            return Ok(());
        }
        let most = self.max_shared()?;
        if bytes > most {
            return Err(self.shared_out_of_range(bytes, most));
        }
        self.allow_shared(bytes)
    }

    /// Raises the limit of dynamic shared memory to the largest of these amounts that the device
    /// allows.
    pub(crate) fn allow_shared_for(&self, bytes: impl IntoIterator<Item = usize>) -> Result<()> {
        let allowed = self.0.allowed_shared.load(Ordering::Relaxed);
        let above = |bytes: usize| u32::try_from(bytes).ok().filter(|bytes| *bytes > allowed);
        let above: Vec<u32> = bytes.into_iter().filter_map(above).collect();
        if above.is_empty() {
            return Ok(());
        }
        let most = self.max_shared()?;
        match above.into_iter().filter(|bytes| *bytes <= most).max() {
            Some(bytes) => self.allow_shared(bytes),
            None => Ok(()),
        }
    }

    /// Returns the most dynamic shared memory, in bytes, that the device allows for a block.
    pub(super) fn max_shared(&self) -> Result<u32> {
        let fixed = self.static_shared_bytes()?;
        Ok(self.0.limits.shared.saturating_sub(fixed))
    }

    /// Raises the limit of dynamic shared memory to `bytes`. The limit is never lowered, because
    /// another thread may be about to launch with more.
    pub(super) fn allow_shared(&self, bytes: u32) -> Result<()> {
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // All handles of the same function take this lock.
        let _raising = self.0.module.raising();
        let known = u32::try_from(self.attribute(attribute)?).unwrap_or(0);
        if known < bytes {
            self.set(attribute, i32::try_from(bytes).unwrap_or(i32::MAX))?;
        }
        self.0
            .allowed_shared
            .fetch_max(known.max(bytes), Ordering::Relaxed);
        Ok(())
    }

    fn set(&self, attribute: FunctionAttribute, value: i32) -> Result<()> {
        // SAFETY: the function must be alive ← `self` keeps the module loaded.
        Ok(unsafe {
            call!(
                self.driver(),
                cuFuncSetAttribute(self.as_raw(), attribute, value)
            )
        }?)
    }
}
