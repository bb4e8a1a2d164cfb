//! The access of a device to memory that can belong to another device.

use std::ffi::c_ulonglong;

use cuda_sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemLocation, CUmemLocation_st__bindgen_ty_1,
    CUmemLocationType,
};

use crate::device::Device;

/// The access of a device to the memory of a [`MemoryPool`](super::MemoryPool) or of a
/// [`Mapping`](super::Mapping).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "CUmemAccess_flags")]
pub enum MemoryAccess {
    /// The device has no access.
    None,
    /// The device can read.
    Read,
    /// The device can read and write.
    ReadWrite,
}

impl MemoryAccess {
    pub(super) fn of_raw(flags: CUmemAccess_flags) -> Self {
        match flags {
            CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE => Self::None,
            CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ => Self::Read,
            _ => Self::ReadWrite,
        }
    }

    /// Returns the access for flags that the driver writes as a 64-bit number.
    pub(super) fn of_bits(bits: c_ulonglong) -> Self {
        // The known flags are in the lower half.
        Self::of_raw(CUmemAccess_flags(bits as u32))
    }

    /// Returns the description of this access by `device`.
    pub(super) fn to(self, device: &Device) -> CUmemAccessDesc {
        CUmemAccessDesc {
            location: location_of(device),
            flags: match self {
                Self::None => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
                Self::Read => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
                Self::ReadWrite => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            },
        }
    }
}

pub(super) fn location_of(device: &Device) -> CUmemLocation {
    location(
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        device.as_raw(),
    )
}

/// Returns a location of this type. The meaning of `id` depends on the type.
pub(crate) fn location(type_: CUmemLocationType, id: i32) -> CUmemLocation {
    CUmemLocation {
        type_,
        __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 { id },
    }
}
