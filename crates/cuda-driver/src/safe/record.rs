//! The records of checked launches, and how a record becomes a violation.
//!
//! A launch on a stream has one record. A replay of a graph has one for each checked node.

use std::sync::Arc;

use cuda_ptx::analysis::{AccessKind, Contract, Root};
use cuda_ptx::instrument::{RECORD_WORDS, Record, Site};
use smallvec::SmallVec;

use super::memories::{Memories, MemoryArg};
use super::plan::Plan;
use super::variant::Variant;
use crate::error::{SurfacePlace, Violation, ViolationKind};
use crate::lock::{Mutex, rank};
use crate::memory::DeviceBuffer;
use crate::reports::Report;

/// The facts about a checked launch that a violation names.
pub(crate) struct Origin {
    plan: Arc<Plan>,
    sites: Arc<[Site]>,
    memories: Memories,
}

/// The records of one launch of a kernel, or of one replay of a graph, in device memory.
pub(crate) struct LaunchRecords {
    state: Mutex<State, { rank::SAFE_RECORD }>,
    /// One for each record.
    origins: SmallVec<[Arc<Origin>; 1]>,
}

enum State {
    /// The launch may still write the records.
    Queued(DeviceBuffer<u32>),
    /// Another thread waits for the launch.
    Reading,
    /// The violations that have not been reported yet, the last one first.
    Found(Vec<Violation>),
}

impl LaunchRecords {
    /// `buffer` has [`RECORD_WORDS`] words for each origin.
    pub(crate) fn new(buffer: DeviceBuffer<u32>, origins: SmallVec<[Arc<Origin>; 1]>) -> Self {
        Self {
            state: Mutex::new(State::Queued(buffer)),
            origins,
        }
    }

    /// Waits for the launch, and reads its records.
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
        let (records, _) = words.as_chunks::<RECORD_WORDS>();
        let all = records.iter().zip(&self.origins);
        let found = all.filter_map(|(words, origin)| Some(origin.violation(&Record::read(words)?)));
        let mut found: Vec<Violation> = found.collect();
        found.reverse();
        *self.state.lock() = State::Found(found);
    }
}

impl Origin {
    pub(super) fn new(plan: Arc<Plan>, variant: &Variant, memories: Memories) -> Self {
        Self {
            plan,
            sites: Arc::clone(&variant.sites),
            memories,
        }
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
        let is_global = access.is_some_and(|access| {
            matches!(access.space, None | Some(cuda_ptx::Space::Global)) && !access.is_object
        });
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
        let surface = match root {
            Some(Root::Object { parameter }) => self.memories.object(*parameter).map(|object| {
                let at = [
                    record.address as u32,
                    (record.address >> 32) as u32,
                    record.third,
                ];
                let place = SurfacePlace {
                    coordinates: at.map(u32::cast_signed),
                    extents: object.extents,
                };
                (*parameter as usize + 1, place)
            }),
            _ => None,
        };
        let location = access.and_then(|access| access.location);
        let source = location.and_then(|at| contract.source(at));
        Violation {
            kernel: contract.kernel.clone(),
            kind,
            ptx_line: site.map_or(0, |site| site.line),
            source,
            block: record.block,
            thread: record.thread,
            address: match surface {
                Some(_) => 0,
                None => record.address,
            },
            bytes: access.map_or(0, |access| access.size),
            argument: match surface {
                Some((argument, _)) => Some(argument),
                None => memory.and_then(|memory| Some(memory.parameter? as usize + 1)),
            },
            surface: surface.map(|it| it.1),
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

impl Report for LaunchRecords {
    fn take(&self) -> Option<Violation> {
        self.read();
        match &mut *self.state.lock() {
            State::Found(violations) => violations.pop(),
            _ => None,
        }
    }

    fn settle(&self) -> bool {
        self.read();
        matches!(&*self.state.lock(), State::Found(violations) if !violations.is_empty())
    }
}
