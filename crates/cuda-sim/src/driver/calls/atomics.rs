//! Atomic operations on the memory of other devices and of the host. All are native here, as on a
//! machine with NVLink to its processors.

use std::ffi::{c_int, c_uint};

use cuda_sys::{CUatomicOperation, CUatomicOperationCapability, CUdevice};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::status::{INVALID_DEVICE, INVALID_VALUE, Status};

exports! {
    cuDeviceGetP2PAtomicCapabilities => device_get_p2p_atomic_capabilities;
    cuDeviceGetHostAtomicCapabilities => device_get_host_atomic_capabilities;
}

/// Returns the forms in which the instructions `atom` and `red` have an operation.
fn forms(operation: CUatomicOperation) -> Option<c_uint> {
    type O = CUatomicOperation;
    type C = CUatomicOperationCapability;
    let scalar = C::CU_ATOMIC_CAPABILITY_SCALAR_32.0 | C::CU_ATOMIC_CAPABILITY_SCALAR_64.0;
    let (signed, unsigned) = (
        C::CU_ATOMIC_CAPABILITY_SIGNED.0,
        C::CU_ATOMIC_CAPABILITY_UNSIGNED.0,
    );
    let reduction = C::CU_ATOMIC_CAPABILITY_REDUCTION.0;
    Some(match operation {
        O::CU_ATOMIC_OPERATION_INTEGER_ADD
        | O::CU_ATOMIC_OPERATION_INTEGER_MIN
        | O::CU_ATOMIC_OPERATION_INTEGER_MAX => signed | unsigned | reduction | scalar,
        O::CU_ATOMIC_OPERATION_INTEGER_INCREMENT | O::CU_ATOMIC_OPERATION_INTEGER_DECREMENT => {
            unsigned | reduction | C::CU_ATOMIC_CAPABILITY_SCALAR_32.0
        }
        O::CU_ATOMIC_OPERATION_AND | O::CU_ATOMIC_OPERATION_OR | O::CU_ATOMIC_OPERATION_XOR => {
            unsigned | reduction | scalar
        }
        O::CU_ATOMIC_OPERATION_EXCHANGE | O::CU_ATOMIC_OPERATION_CAS => {
            unsigned | scalar | C::CU_ATOMIC_CAPABILITY_SCALAR_128.0
        }
        O::CU_ATOMIC_OPERATION_FLOAT_ADD => signed | reduction | scalar,
        O::CU_ATOMIC_OPERATION_FLOAT_MIN | O::CU_ATOMIC_OPERATION_FLOAT_MAX => 0,
        _ => return None,
    })
}

impl Call {
    fn device_get_p2p_atomic_capabilities(
        &self,
        capabilities: Out<c_uint>,
        operations: In<CUatomicOperation>,
        count: c_uint,
        src: CUdevice,
        dst: CUdevice,
    ) -> Status {
        self.device(src)?;
        self.device(dst)?;
        if src == dst {
            return Err(INVALID_DEVICE);
        }
        Self::put_forms(capabilities, operations, count)
    }

    fn device_get_host_atomic_capabilities(
        &self,
        capabilities: Out<c_uint>,
        operations: In<CUatomicOperation>,
        count: c_uint,
        dev: c_int,
    ) -> Status {
        self.device(dev)?;
        Self::put_forms(capabilities, operations, count)
    }

    fn put_forms(
        capabilities: Out<c_uint>,
        operations: In<CUatomicOperation>,
        count: c_uint,
    ) -> Status {
        if count == 0 {
            return Err(INVALID_VALUE);
        }
        capabilities.required()?;
        for index in 0..count as usize {
            let forms = forms(operations.get_at(index)?).ok_or(INVALID_VALUE)?;
            capabilities.set_at(index, forms);
        }
        Ok(())
    }
}
