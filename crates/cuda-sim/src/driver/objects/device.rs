//! Devices and their properties.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use cuda_sys::CUresult;

use crate::config::Config;
use crate::driver::arg::Out;
use crate::driver::attributes::Limits;
use crate::driver::handle::Table;
use crate::driver::objects::context::Primary;
use crate::driver::objects::pool::Pool;
use crate::driver::objects::sm_set::SmSet;
use crate::driver::status::{INVALID_VALUE, Status};
use crate::lock::lock;
use crate::machine::{MachineDevice, pci_bus_id};
use crate::memory::{Arena, MemoryMap};
use crate::report::{Report, ReportKind};

/// The maximum number of reports that are kept until they are taken.
const REPORTS_KEPT: usize = 1000;

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(in crate::driver) ordinal: usize,
    /// The name, the NUMA node and the connections.
    pub(in crate::driver) described: MachineDevice,
    pub(in crate::driver) capability: (u32, u32),
    pub(in crate::driver) limits: Limits,
    pub(in crate::driver) arena: Arena,
    /// The limit of allocated memory in bytes.
    pub(crate) memory_limit: AtomicU64,
    /// The status code that every call returns since a fault; 0 before.
    lost: AtomicU32,
    fault: Mutex<Option<String>>,
    /// The reports of errors in kernels, copies and fills.
    reports: Mutex<Vec<Report>>,
    /// Set to end running kernels.
    pub(in crate::driver) cancel: AtomicBool,
    pub(in crate::driver) primary: Mutex<Primary>,
    pub(in crate::driver) default_pool: Arc<Pool>,
    pub(in crate::driver) pool: Mutex<Arc<Pool>>,
    /// The pool of each allocation from a pool, by address, until the free was executed.
    pool_memory: Mutex<BTreeMap<u64, Arc<Pool>>>,
    /// The ordinals of the devices that were given access to a pool of this device.
    sharing: Mutex<BTreeSet<usize>>,
}

impl Device {
    pub(in crate::driver) fn new(
        ordinal: usize,
        config: &Config,
        pools: &Table<Pool>,
    ) -> std::io::Result<Self> {
        let described = config.device(ordinal);
        let default_pool = Arc::new(Pool::new(ordinal, true));
        pools.insert(default_pool.handle, Arc::clone(&default_pool));
        Ok(Self {
            ordinal,
            capability: described.capability,
            limits: Limits::of(&described),
            arena: Arena::new(described.memory)?
                .keep_freed(config.check_freed)
                .know_written(config.checks.uninitialized),
            memory_limit: AtomicU64::new(u64::MAX),
            lost: AtomicU32::new(0),
            fault: Mutex::default(),
            reports: Mutex::default(),
            cancel: AtomicBool::new(false),
            primary: Mutex::default(),
            pool: Mutex::new(Arc::clone(&default_pool)),
            default_pool,
            pool_memory: Mutex::default(),
            sharing: Mutex::default(),
            described,
        })
    }

    /// Records that the allocation at `addr` comes from `pool`.
    pub(in crate::driver) fn add_pool_memory(&self, addr: u64, pool: &Arc<Pool>) {
        lock(&self.pool_memory).insert(addr, Arc::clone(pool));
    }

    /// Frees an allocation from a pool.
    pub(in crate::driver) fn free_pool_memory(&self, addr: u64, by: &'static str) -> bool {
        self.remove_pool_memory(addr);
        self.arena.free(addr, by).is_ok()
    }

    /// Records that the allocation at `addr` no longer exists.
    pub(in crate::driver) fn remove_pool_memory(&self, addr: u64) {
        lock(&self.pool_memory).remove(&addr);
    }

    /// Returns the pool of the allocation at `addr`, or `None` if it does not come from a pool.
    pub(in crate::driver) fn pool_of(&self, addr: u64) -> Option<Arc<Pool>> {
        lock(&self.pool_memory).get(&addr).cloned()
    }

    /// Records that the device with this ordinal was given access to a pool of this device.
    pub(in crate::driver) fn share_pools_with(&self, ordinal: usize) {
        lock(&self.sharing).insert(ordinal);
    }

    pub(in crate::driver) fn shares_pools_with(&self, ordinal: usize) -> bool {
        lock(&self.sharing).contains(&ordinal)
    }

    pub(in crate::driver) fn primary(&self) -> MutexGuard<'_, Primary> {
        lock(&self.primary)
    }

    /// Fails with the code of the fault that lost the device, if it is lost.
    pub(in crate::driver) fn alive(&self) -> Status {
        match self.lost.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(CUresult(code)),
        }
    }

    /// Loses the device: from now on every call returns `code`. Only the first fault has an effect.
    pub(crate) fn lose(&self, code: CUresult, message: String) {
        let mut fault = lock(&self.fault);
        if self.lost.load(Ordering::Acquire) == 0 {
            eprintln!("cuda-sim: device {} is lost: {message}", self.ordinal);
            *fault = Some(message);
            self.lost.store(code.0, Ordering::Release);
        }
    }

    /// Returns the message of the fault that lost the device.
    pub(crate) fn fault(&self) -> Option<String> {
        lock(&self.fault).clone()
    }

    /// Keeps a report and prints it to stderr. After [`REPORTS_KEPT`] reports, further ones are
    /// only printed.
    pub(in crate::driver) fn report(&self, mut report: Report) {
        report.device = self.ordinal;
        // A report of an error that ends a kernel is not printed here, because the loss of the
        // device prints it.
        if report.status.is_none() || report.kind == ReportKind::Unsupported {
            eprintln!("cuda-sim: device {}: {report}", self.ordinal);
        }
        report.append_to_file();
        let mut reports = lock(&self.reports);
        if reports.len() < REPORTS_KEPT {
            reports.push(report);
        }
    }

    /// Returns and removes the reports.
    pub(crate) fn take_reports(&self) -> Vec<Report> {
        std::mem::take(&mut *lock(&self.reports))
    }

    /// Returns all multiprocessors.
    pub(in crate::driver) fn sms(&self) -> SmSet {
        SmSet::first(self.limits.multiprocessors as u32)
    }

    pub(in crate::driver) fn map(&self) -> Arc<MemoryMap> {
        self.arena.map()
    }

    /// Returns the total number of bytes that can be allocated.
    pub(in crate::driver) fn capacity(&self) -> u64 {
        self.arena
            .capacity()
            .min(self.memory_limit.load(Ordering::Relaxed))
    }

    /// Allocates `size` bytes, or returns `None` if that exceeds the limit or the free memory.
    pub(in crate::driver) fn allocate(&self, size: u64, align: u64) -> Option<u64> {
        if self.arena.used().checked_add(size)? > self.capacity() {
            return None;
        }
        self.arena.alloc(size, align)
    }

    pub(in crate::driver) fn name(&self) -> String {
        match &self.described.name {
            Some(name) => name.clone(),
            None => format!("Software device {} (cuda-sim)", self.ordinal),
        }
    }

    pub(in crate::driver) fn uuid(&self) -> [u8; 16] {
        // Version 8 (custom) of RFC 9562: the name of this crate and the ordinal.
        let mut bytes = *b"cuda-sim\0\0\0\0\0\0\0\0";
        bytes[6] = 0x80 | (bytes[6] & 0x0F);
        bytes[8] = 0x80;
        bytes[15] = self.ordinal as u8;
        bytes
    }

    pub(in crate::driver) fn pci_bus_id(&self) -> String {
        pci_bus_id(self.ordinal)
    }
}

/// Writes `text` and a NUL to `to`, truncated to `len` characters including the NUL.
pub(in crate::driver) fn put_text(to: Out<c_char>, len: c_int, text: &str) -> Status {
    to.required()?;
    let len = usize::try_from(len)
        .ok()
        .filter(|&len| len > 0)
        .ok_or(INVALID_VALUE)?;
    let kept = &text.as_bytes()[..text.len().min(len - 1)];
    for (index, &byte) in kept.iter().chain(&[0]).enumerate() {
        to.set_at(index, byte as c_char);
    }
    Ok(())
}
