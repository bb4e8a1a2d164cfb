//! Device resources: multiprocessors and work queues that a program can give to a green context.

use cuda_sys::{
    CUdevResource, CUdevResource_st__bindgen_ty_1, CUdevResourceType, CUdevSmResource_st,
    CUdevWorkqueueConfigResource_st,
};

use crate::driver::objects::device::Device;
use crate::driver::objects::sm_set::{SmSet, Workqueues};
use crate::driver::status::{
    INVALID_RESOURCE_CONFIGURATION, INVALID_RESOURCE_TYPE, INVALID_VALUE, Status,
};

type Type = CUdevResourceType;

/// The resources of a green context that is to be created.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Descriptor {
    pub(in crate::driver) device: usize,
    pub(in crate::driver) sms: Option<SmSet>,
    pub(in crate::driver) workqueues: Option<Workqueues>,
}

/// A set of multiprocessors that the program holds as a resource.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct SmResource {
    pub(in crate::driver) device: usize,
    pub(in crate::driver) sms: SmSet,
    /// The number of the split that created it; 0 if it is the resource of a device or a context.
    pub(in crate::driver) split: u64,
}

/// The first bytes of the part of a resource that belongs to the driver.
const MAGIC: [u8; 8] = *b"cuda-sim";

/// Returns the smallest number of multiprocessors of a part, and the number that the size of a part
/// is a multiple of.
pub(in crate::driver) fn granularity(device: &Device, is_fine: bool) -> (u32, u32) {
    match device.capability.0 {
        _ if is_fine => (2, 2),
        ..=7 => (2, 2),
        8 => (4, 2),
        _ => (8, 8),
    }
}

/// Returns a resource that is not valid.
pub(in crate::driver) fn invalid() -> CUdevResource {
    CUdevResource {
        type_: Type::CU_DEV_RESOURCE_TYPE_INVALID,
        _internal_padding: [0; 92],
        __bindgen_anon_1: CUdevResource_st__bindgen_ty_1 { _oversize: [0; 40] },
        nextResource: std::ptr::null_mut(),
    }
}

/// Returns the resource for a configuration of work queues.
pub(in crate::driver) fn raw_workqueues(device: usize, queues: Workqueues) -> CUdevResource {
    let mut raw = invalid();
    raw.type_ = Type::CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG;
    raw._internal_padding[..8].copy_from_slice(&MAGIC);
    raw.__bindgen_anon_1.wqConfig = CUdevWorkqueueConfigResource_st {
        device: device as i32,
        wqConcurrencyLimit: queues.limit,
        sharingScope: queues.scope,
    };
    raw
}

impl SmResource {
    /// Returns the resource as C stores it.
    pub(in crate::driver) fn raw(self, device: &Device) -> CUdevResource {
        let (least, align) = granularity(device, false);
        let mut raw = invalid();
        raw.type_ = Type::CU_DEV_RESOURCE_TYPE_SM;
        let own = &mut raw._internal_padding;
        own[..8].copy_from_slice(&MAGIC);
        own[8..16].copy_from_slice(&(self.device as u64).to_ne_bytes());
        own[16..24].copy_from_slice(&self.split.to_ne_bytes());
        for (bytes, word) in own[24..56].chunks_exact_mut(8).zip(self.sms.0) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        raw.__bindgen_anon_1.sm = CUdevSmResource_st {
            smCount: self.sms.len(),
            minSmPartitionSize: least,
            smCoscheduledAlignment: align,
            flags: 0,
            localityDomainId: 0,
        };
        raw
    }

    /// Reads a resource that the program passes back.
    pub(in crate::driver) fn of(raw: &CUdevResource) -> Status<Self> {
        if raw.type_ != Type::CU_DEV_RESOURCE_TYPE_SM {
            return Err(INVALID_RESOURCE_TYPE);
        }
        let own = &raw._internal_padding;
        if own[..8] != MAGIC {
            return Err(INVALID_VALUE);
        }
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&own[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        let this = Self {
            device: word(8) as usize,
            split: word(16),
            sms: SmSet([24, 32, 40, 48].map(word)),
        };
        // SAFETY: the field of the union must be set ← the type says so, and it consists of
        // integers.
        let stated = unsafe { raw.__bindgen_anon_1.sm };
        if stated.smCount != this.sms.len() {
            return Err(INVALID_VALUE);
        }
        Ok(this)
    }
}

impl Descriptor {
    /// Combines resources.
    pub(in crate::driver) fn of(resources: &[CUdevResource]) -> Status<Self> {
        let mut all: Option<Self> = None;
        let mut split = None;
        for raw in resources {
            let (device, sms, workqueues) = match raw.type_ {
                Type::CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG => {
                    // SAFETY: the field of the union must be set ← the type says so, and it
                    // consists of integers.
                    let config = unsafe { raw.__bindgen_anon_1.wqConfig };
                    let device = usize::try_from(config.device).map_err(|_| INVALID_VALUE)?;
                    let (limit, scope) = (config.wqConcurrencyLimit, config.sharingScope);
                    if limit == 0 || scope.0 > 1 {
                        return Err(INVALID_RESOURCE_CONFIGURATION);
                    }
                    (device, None, Some(Workqueues { limit, scope }))
                }
                _ => {
                    let part = SmResource::of(raw)?;
                    if split.is_some_and(|split| split == 0 || split != part.split) {
                        return Err(INVALID_RESOURCE_CONFIGURATION);
                    }
                    split = Some(part.split);
                    (part.device, Some(part.sms), None)
                }
            };
            let all = all.get_or_insert(Self {
                device,
                sms: None,
                workqueues: None,
            });
            let is_twice = all.workqueues.is_some() && workqueues.is_some();
            let overlaps = all.sms.zip(sms).is_some_and(|(a, b)| !a.is_disjoint(b));
            if all.device != device || is_twice || overlaps {
                return Err(INVALID_RESOURCE_CONFIGURATION);
            }
            all.workqueues = all.workqueues.or(workqueues);
            all.sms = match (all.sms, sms) {
                (Some(one), Some(other)) => Some(one.union(other)),
                (one, other) => one.or(other),
            };
        }
        all.ok_or(INVALID_VALUE)
    }
}
