//! What the compiler says of a kernel, and what can be asked of it for all its launches.

use std::sync::atomic::Ordering;

use cuda_sys::CUfunction;

use super::{Function, FunctionAttribute};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::launch::{ClusterScheduling, Dim3};

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident = $attribute:ident;)*) => {
        impl Function {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// What the call answers.
                #[doc(alias = "cuFuncGetAttribute")]
                pub fn $name(&self) -> Result<u32> {
                    let value = self.attribute(FunctionAttribute::$attribute)?;
                    Ok(u32::try_from(value).unwrap_or(0))
                }
            )*
        }
    };
}

attributes! {
    /// `cuFuncGetAttribute(SHARED_SIZE_BYTES)`—The bytes of shared memory that each block has
    /// without asking.
    static_shared_bytes = CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    /// `cuFuncGetAttribute(CONST_SIZE_BYTES)`—The bytes of constant memory that the kernel's source
    /// declares.
    const_bytes = CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES;
    /// `cuFuncGetAttribute(LOCAL_SIZE_BYTES)`—The bytes of local memory of each thread.
    local_bytes = CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
    /// `cuFuncGetAttribute(NUM_REGS)`—The registers of each thread.
    registers = CU_FUNC_ATTRIBUTE_NUM_REGS;
    /// `cuFuncGetAttribute(PTX_VERSION)`—The virtual architecture it was compiled for, as 90 for
    /// 9.0.
    ptx_version = CU_FUNC_ATTRIBUTE_PTX_VERSION;
    /// `cuFuncGetAttribute(BINARY_VERSION)`—The architecture of its machine code, as 90 for 9.0.
    binary_version = CU_FUNC_ATTRIBUTE_BINARY_VERSION;
}

impl Function {
    /// `cuFuncGetAttribute(attribute)`—Any attribute, as the driver gives it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` for an attribute that this driver does not know.
    #[doc(alias = "cuFuncGetAttribute")]
    pub fn attribute(&self, attribute: FunctionAttribute) -> Result<i32> {
        Ok(read(self.driver(), self.as_raw(), attribute)?)
    }

    /// `cuFuncSetAttribute(PREFERRED_SHARED_MEMORY_CARVEOUT)`—The share of the first-level cache
    /// that is shared memory for this kernel, in percent; the driver may take more. `None`: as the
    /// driver likes.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` for more than 100.
    #[doc(alias = "cuFuncSetAttribute")]
    pub fn set_shared_memory_carveout(&self, percent: Option<u32>) -> Result<()> {
        let value = percent.map_or(-1, |percent| i32::try_from(percent).unwrap_or(i32::MAX));
        self.set(
            FunctionAttribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
            value,
        )
    }

    /// `cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)`—Whether launches may have clusters
    /// of more blocks than every device of the capability has: more than 8.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuFuncSetAttribute")]
    pub fn allow_non_portable_cluster_size(&self, is_allowed: bool) -> Result<()> {
        self.set(
            FunctionAttribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
            is_allowed.into(),
        )
    }

    /// `cuFuncSetAttribute(CLUSTER_SCHEDULING_POLICY_PREFERENCE)`—How the clusters of its launches
    /// spread.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuFuncSetAttribute")]
    pub fn set_cluster_scheduling(&self, policy: ClusterScheduling) -> Result<()> {
        self.set(
            FunctionAttribute::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
            policy.raw().0.cast_signed(),
        )
    }

    /// `cuFuncGetAttribute(REQUIRED_CLUSTER_WIDTH, …)`—The shape of the clusters that the kernel
    /// was compiled for, if it was for one.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn required_cluster(&self) -> Result<Option<Dim3>> {
        let dim = |attribute| {
            Ok::<_, crate::Error>(u32::try_from(self.attribute(attribute)?).unwrap_or(0))
        };
        let x = dim(FunctionAttribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)?;
        let y = dim(FunctionAttribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT)?;
        let z = dim(FunctionAttribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)?;
        Ok((x != 0).then_some(Dim3 { x, y, z }))
    }

    /// Lets launches have this much dynamic shared memory. What is allowed is never lowered:
    /// another thread may be about to launch with more.
    pub(super) fn allow_shared(&self, bytes: u32) -> Result<()> {
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // Other handles of the same function go through the same lock.
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
        // SAFETY: the function must be alive ← `self` keeps its module.
        Ok(unsafe {
            call!(
                self.driver(),
                cuFuncSetAttribute(self.as_raw(), attribute, value)
            )
        }?)
    }
}

pub(super) fn read(
    driver: &Driver,
    function: CUfunction,
    attribute: FunctionAttribute,
) -> Result<i32, DriverError> {
    let mut value = 0;
    // SAFETY: the pointer must be writable and the function alive ← a local, and the caller keeps
    // its module.
    unsafe {
        call!(
            driver,
            cuFuncGetAttribute(&raw mut value, attribute, function)
        )
    }?;
    Ok(value)
}
