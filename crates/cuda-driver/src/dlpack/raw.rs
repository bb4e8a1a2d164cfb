//! The structs of `dlpack.h`, version 1.

use std::ffi::c_void;

/// `DLDevice`—The device of a tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// The kind of device: one of the constants `CPU`, `CUDA`, `CUDA_HOST` and `CUDA_MANAGED`.
    pub device_type: i32,
    /// The ordinal of the device.
    pub device_id: i32,
}

impl DLDevice {
    /// `kDLCPU`: host memory.
    pub const CPU: i32 = 1;
    /// `kDLCUDA`: device memory.
    pub const CUDA: i32 = 2;
    /// `kDLCUDAHost`: page-locked host memory.
    pub const CUDA_HOST: i32 = 3;
    /// `kDLCUDAManaged`: managed memory.
    pub const CUDA_MANAGED: i32 = 13;
}

/// `DLDataType`—The type of an element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// The kind: 0 is a signed integer, 1 an unsigned one, 2 a float, 4 a `bfloat16`, and 10 and
    /// 12 are the 8-bit floats `e4m3fn` and `e5m2`.
    pub code: u8,
    /// The size of a lane in bits.
    pub bits: u8,
    /// The number of lanes: 1, except for vectors.
    pub lanes: u16,
}

/// `DLTensor`—A tensor that is owned by something else.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// The address of the memory.
    pub data: *mut c_void,
    /// The device of the memory.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// The length of each dimension.
    pub shape: *mut i64,
    /// The distance of neighbours along each dimension, in elements. Null if the tensor is compact
    /// and row-major.
    pub strides: *mut i64,
    /// The offset of the first element from `data`.
    pub byte_offset: u64,
}

/// `DLPackVersion`—The version of the structs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Structs of different major versions are not compatible.
    pub major: u32,
    /// Later minor versions add constants.
    pub minor: u32,
}

/// `DLManagedTensorVersioned`—A tensor with the function that releases it.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version of this struct.
    pub version: DLPackVersion,
    /// A pointer of the producer.
    pub manager_ctx: *mut c_void,
    /// Releases the tensor; called once by the consumer.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// The flags `READ_ONLY` and `COPIED`.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

impl DLManagedTensorVersioned {
    /// `DLPACK_FLAG_BITMASK_READ_ONLY`: the consumer must not write the memory.
    pub const READ_ONLY: u64 = 1;
    /// `DLPACK_FLAG_BITMASK_IS_COPIED`: the memory is a copy made for the consumer.
    pub const COPIED: u64 = 2;
}

/// `DLManagedTensor`—A tensor with the function that releases it, before version 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// A pointer of the producer.
    pub manager_ctx: *mut c_void,
    /// Releases the tensor; called once by the consumer.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}
