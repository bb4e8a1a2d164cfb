//! The record of one checked launch: where it is, and what it says.

use std::sync::Arc;

use cuda_ptx::analysis::{AccessKind, Contract, Root};
use cuda_ptx::instrument::{RECORD_WORDS, Record, Site};

use super::memories::{Memories, MemoryArg};
use super::plan::Plan;
use super::variant::Variant;
use crate::error::{Violation, ViolationKind};
use crate::lock::{Mutex, rank};
use crate::memory::DeviceBuffer;
use crate::reports::Report;

/// The record of a launch in device memory.
pub(super) struct LaunchRecord {
    state: Mutex<State, { rank::SAFE_RECORD }>,
    plan: Arc<Plan>,
    sites: Arc<[Site]>,
    files: Arc<[(u32, String)]>,
    memories: Memories,
}

enum State {
    /// The launch may still write the record.
    Queued(DeviceBuffer<u32>),
    /// Another thread waits for the launch.
    Reading,
    /// The violation has not been reported yet.
    Found(Box<Violation>),
    Reported,
}

impl LaunchRecord {
    pub(super) fn new(
        buffer: DeviceBuffer<u32>,
        plan: Arc<Plan>,
        variant: &Variant,
        memories: Memories,
    ) -> Self {
        Self {
            state: Mutex::new(State::Queued(buffer)),
            plan,
            sites: Arc::clone(&variant.sites),
            files: Arc::clone(&variant.files),
            memories,
        }
    }

    /// Waits for the launch, and reads its record.
    fn read(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Queued(_)) {
            return;
        }
        let queued = std::mem::replace(&mut *state, State::Reading);
        drop(state);
        let State::Queued(buffer) = queued else {
            return;
        };
        // A lost context reports its own error, at every call.
        let words = buffer.to_vec().unwrap_or_default();
        drop(buffer);
        let words: Option<[u32; RECORD_WORDS]> = words.try_into().ok();
        let record = words.and_then(|words| Record::read(&words));
        let found = record.map(|record| Box::new(self.violation(&record)));
        *self.state.lock() = match found {
            Some(violation) => State::Found(violation),
            None => State::Reported,
        };
    }

    fn violation(&self, record: &Record) -> Violation {
        let contract: &Contract = &self.plan.contract;
        let site = self.sites.get(record.site);
        let access = site.and_then(|site| contract.accesses.get(site.access?));
        let kind = match access.map(|access| access.kind) {
            None => ViolationKind::Trap,
            Some(AccessKind::Read) => ViolationKind::Read,
            Some(AccessKind::Atomic) => ViolationKind::Atomic,
            Some(_) => ViolationKind::Write,
        };
        let is_global = access
            .is_some_and(|access| matches!(access.space, None | Some(cuda_ptx::Space::Global)));
        let root = site.and_then(|site| site.root.as_ref());
        let memory = match (is_global, root) {
            (true, Some(Root::Buffer { parameter, .. })) => {
                let mut all = self.memories.iter();
                all.find(|memory| memory.parameter == Some(*parameter))
            }
            (true, None) => {
                let all = self
                    .memories
                    .iter()
                    .filter(|memory| memory.parameter.is_some());
                all.min_by_key(|memory| distance(memory, record.address))
            }
            _ => None,
        };
        let location = access.and_then(|access| access.location);
        let source = location.and_then(|at| {
            let (_, name) = self.files.iter().find(|file| file.0 == at.file)?;
            Some(format!("{name}:{}", at.line))
        });
        Violation {
            kernel: contract.kernel.clone(),
            kind,
            ptx_line: site.map_or(0, |site| site.line),
            source,
            block: record.block,
            thread: record.thread,
            address: record.address,
            bytes: access.map_or(0, |access| access.size),
            argument: memory.and_then(|memory| Some(memory.parameter? as usize + 1)),
            argument_bytes: memory.map_or(0, |memory| memory.bytes),
            offset: memory.map_or(0, |memory| {
                i128::from(record.address) - i128::from(memory.address)
            }),
            threads: record.threads,
        }
    }
}

/// The number of bytes between an address and memory.
fn distance(memory: &MemoryArg, address: u64) -> u64 {
    let end = memory.address.saturating_add(memory.bytes);
    match address < memory.address {
        true => memory.address - address,
        false => address.saturating_sub(end),
    }
}

impl Report for LaunchRecord {
    fn take(&self) -> Option<Violation> {
        self.read();
        let mut state = self.state.lock();
        if !matches!(*state, State::Found(_)) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Reported) {
            State::Found(violation) => Some(*violation),
            _ => None,
        }
    }

    fn settle(&self) -> bool {
        self.read();
        matches!(*self.state.lock(), State::Found(_))
    }
}
