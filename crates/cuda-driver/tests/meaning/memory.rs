//! Instructions that access memory: which bytes they change, and on which bytes their results
//! depend.
//!
//! A base is an operand set with contents of memory. Each base is executed several times: as it is,
//! with all bytes changed that the row does not name, and with one byte changed that it names. A
//! base belongs to one thread, or to one warp if all its threads execute the instruction together.

use cuda_ptx::analysis::AccessKind;
use fastrand::Rng;

use crate::inputs::{Inputs, Outputs};
use crate::item::{Address, Item, Place, Run};
use crate::kernel::{AREA, AT, CONST_AREA, CONST_AT, CONSTANTS, MATRIX_AT};
use crate::values::BLOCK;

/// The bases of an instruction at least, so that each byte changes in one of them.
const LEAST_BASES: usize = 32;
/// The bases of an instruction for whole warps at least.
const LEAST_WARPS: usize = 2;

/// A change of the memory of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// All bytes that the row does not name.
    Outside,
    /// A byte of the memory at the address with this number.
    Byte(usize, usize),
}

/// The bytes of a space that an instruction accesses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) kind: AccessKind,
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    /// Whether the bytes are those of a matrix, with gaps between its lines.
    pub(crate) is_matrix: bool,
}

/// The runs of one instruction with all changes.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) targets: Vec<Target>,
    pub(crate) changes: Vec<Change>,
    /// The threads of a base.
    pub(crate) unit: usize,
    /// The number of bases.
    pub(crate) bases: usize,
}

impl Layout {
    /// `spans` are the bytes of matrices, of which the row says nothing.
    pub(crate) fn new(item: &Item, run: Run, spans: &[usize], count: usize) -> Self {
        let target = |(address, span): (&Address, &usize)| {
            let place = address.space.or(run.place).unwrap_or(Place::Global);
            let is_matrix = address.bytes.is_none();
            Target {
                place,
                kind: address.kind,
                at: match (place, is_matrix) {
                    (Place::Const, _) => CONST_AT,
                    (_, true) => MATRIX_AT,
                    _ => AT,
                },
                bytes: address.bytes.map_or(*span, |bytes| bytes as usize),
                is_matrix,
            }
        };
        let targets: Vec<Target> = item.addresses.iter().zip(spans).map(target).collect();
        let mut changes = vec![Change::None];
        if !is_hint(item) {
            for (number, target) in targets.iter().enumerate() {
                if target.kind == AccessKind::Write {
                    continue;
                }
                if !changes.contains(&Change::Outside) {
                    changes.push(Change::Outside);
                }
                let bytes = match target.is_matrix {
                    true => vec![0, target.bytes - 1],
                    false => (0..target.bytes).collect(),
                };
                changes.extend(bytes.iter().map(|byte| Change::Byte(number, *byte)));
            }
        }
        let unit = if item.is_aligned() { BLOCK } else { 1 };
        let least = if unit == 1 { LEAST_BASES } else { LEAST_WARPS };
        let has_constants = targets.iter().any(|it| it.place == Place::Const);
        let most = match has_constants {
            true => (CONSTANTS / CONST_AREA) / (unit * changes.len()),
            false => usize::MAX,
        };
        let bases = count.div_ceil(unit * changes.len()).max(least).min(most);
        Self {
            targets,
            changes,
            unit,
            bases,
        }
    }

    /// The number of threads, which is a multiple of those of a block.
    pub(crate) fn threads(&self) -> usize {
        (self.bases * self.changes.len() * self.unit).next_multiple_of(BLOCK)
    }

    /// The first thread of a base with a change.
    fn first(&self, base: usize, change: usize) -> usize {
        (base * self.changes.len() + change) * self.unit
    }

    /// Fills the memory and chooses the operands.
    pub(crate) fn inputs(&self, item: &Item, rng: &mut Rng) -> Inputs {
        let mut inputs = Inputs::random(item, self.threads(), rng);
        for base in 0..self.bases {
            let first = self.first(base, 0);
            for thread in first..first + self.unit {
                self.prepare(item, base, thread, &mut inputs, rng);
            }
            for (number, change) in self.changes.iter().enumerate().skip(1) {
                let to = self.first(base, number);
                for lane in 0..self.unit {
                    inputs.copy_thread(first + lane, to + lane);
                }
                self.change(*change, to, &mut inputs, rng);
            }
        }
        for thread in self.first(self.bases, 0)..inputs.threads {
            inputs.record_mut(thread)[0] = 0;
        }
        inputs
    }

    /// Chooses operands with which the instruction does something.
    fn prepare(&self, item: &Item, base: usize, thread: usize, inputs: &mut Inputs, rng: &mut Rng) {
        let is_plain = base.is_multiple_of(2);
        let is_active = self.unit > 1 || base % 5 != 4;
        inputs.record_mut(thread)[0] = u64::from(is_active);
        // Some atomic operations change all bytes of these numbers only.
        match base % 8 {
            3 => inputs.fill(thread, 0),
            5 => inputs.fill(thread, 0xff),
            _ => {}
        }
        let target = self.targets.iter().find(|it| it.kind == AccessKind::Atomic);
        if let Some(target) = target
            && item.has("cas")
            && is_plain
            && !item.sources.is_empty()
        {
            for byte in 0..target.bytes {
                let value = inputs.byte(target.place, thread, target.at + byte);
                let word = &mut inputs.record_mut(thread)[1 + byte / 8];
                let shift = 8 * (byte % 8);
                *word = *word & !(0xff << shift) | u64::from(value) << shift;
            }
        }
        if item.opcode == "cp"
            && let Some(source) = item.sources.first()
        {
            let size = self.targets[0].bytes as u64;
            let value = match (source.bits, is_plain) {
                (1, true) => 0,
                (1, false) => rng.u64(..2),
                (_, true) => size,
                (_, false) => rng.u64(..=size),
            };
            inputs.record_mut(thread)[1] = value;
        }
        if item.has_stride
            && let Some(last) = inputs.record_mut(thread).last_mut()
        {
            *last = stride(item);
        }
    }

    fn change(&self, change: Change, first: usize, inputs: &mut Inputs, rng: &mut Rng) {
        match change {
            Change::None => {}
            Change::Outside => {
                for thread in first..first + self.unit {
                    for (place, bytes) in inputs.places() {
                        for at in 0..bytes {
                            if self.target(place, thread, at).is_none() {
                                let byte = rng.u8(1..);
                                *inputs.byte_mut(place, thread, at) ^= byte;
                            }
                        }
                    }
                }
            }
            Change::Byte(number, byte) => {
                let target = self.targets[number];
                let (bytes, lanes) = match target.is_matrix {
                    true => (target.at + byte, 0..1),
                    false => (target.at + byte, 0..self.unit),
                };
                for lane in lanes {
                    let (thread, at) = (first + lane + bytes / AREA, bytes % AREA);
                    *inputs.byte_mut(target.place, thread, at) ^= rng.u8(1..);
                }
            }
        }
    }

    /// The number of the target that has a byte of the area of a thread.
    fn target(&self, place: Place, thread: usize, at: usize) -> Option<usize> {
        self.targets.iter().position(|target| {
            let at = match target.is_matrix {
                true => thread % BLOCK * AREA + at,
                false => at,
            };
            target.place == place && (target.at..target.at + target.bytes).contains(&at)
        })
    }

    /// Compares the memory after a run with that before. Returns what is wrong.
    pub(crate) fn faults(&self, item: &Item, inputs: &Inputs, outputs: &Outputs) -> Vec<String> {
        let mut faults = Vec::new();
        // With one number as operand, an atomic operation may change few bytes.
        let has_number = matches!(item.opcode.as_str(), "atom" | "red")
            && (item.text.contains(", 3")
                || item.text.contains(", 0f")
                || item.text.contains(", 1"));
        let mut changed: Vec<Vec<bool>> = self
            .targets
            .iter()
            .map(|target| vec![false; target.bytes])
            .collect();
        let places: Vec<(Place, usize)> = inputs
            .places()
            .into_iter()
            .filter(|place| place.0 != Place::Const)
            .collect();
        for thread in 0..inputs.threads {
            for &(place, bytes) in &places {
                for at in 0..bytes {
                    if inputs.byte(place, thread, at) == outputs.byte(place, thread, at) {
                        continue;
                    }
                    let number = self.target(place, thread, at);
                    let number = number.filter(|it| self.targets[*it].kind != AccessKind::Read);
                    let Some(number) = number else {
                        let base = self.base_of(place);
                        faults.push(format!(
                            "thread {thread} changes byte {} of {} memory, counted from the address",
                            at as i64 - base as i64,
                            place.name()
                        ));
                        continue;
                    };
                    let target = self.targets[number];
                    let byte = match target.is_matrix {
                        true => thread % BLOCK * AREA + at,
                        false => at,
                    };
                    changed[number][byte - target.at] = true;
                }
            }
        }
        if is_hint(item) {
            return faults;
        }
        for (target, changed) in self.targets.iter().zip(&changed) {
            if target.kind == AccessKind::Read {
                continue;
            }
            let needed: Vec<usize> = match target.is_matrix {
                true => vec![0, target.bytes - 1],
                false if has_number => Vec::new(),
                false => (0..target.bytes).collect(),
            };
            let missing: Vec<usize> = needed.into_iter().filter(|byte| !changed[*byte]).collect();
            if !missing.is_empty() {
                faults.push(format!(
                    "bytes {missing:?} of the {} bytes are never changed",
                    target.bytes
                ));
            }
        }
        self.dependences(item, inputs, outputs, has_number, &mut faults);
        faults
    }

    fn base_of(&self, place: Place) -> usize {
        let target = self.targets.iter().find(|target| target.place == place);
        target.map_or(AT, |target| target.at)
    }

    /// Checks that results depend on the bytes of the row, and on no others.
    fn dependences(
        &self,
        item: &Item,
        inputs: &Inputs,
        outputs: &Outputs,
        has_number: bool,
        faults: &mut Vec<String>,
    ) {
        let observed = |base: usize, change: usize| {
            let first = self.first(base, change);
            let mut seen: Vec<u64> = Vec::new();
            for thread in first..first + self.unit {
                seen.extend(outputs.results(thread));
                for target in &self.targets {
                    if target.kind != AccessKind::Read && !target.is_matrix {
                        let bytes = target.at..target.at + target.bytes;
                        seen.extend(
                            bytes.map(|at| u64::from(outputs.byte(target.place, thread, at))),
                        );
                    }
                }
            }
            seen
        };
        for (number, change) in self.changes.iter().enumerate().skip(1) {
            let active = (0..self.bases).filter(|base| inputs.is_active(self.first(*base, 0)));
            let differing = active
                .filter(|base| observed(*base, 0) != observed(*base, number))
                .count();
            match change {
                Change::Outside if differing > 0 => faults.push(format!(
                    "results depend on bytes that the row does not name, in {differing} of {} \
                     cases",
                    self.bases
                )),
                // The discarded elements of a vector need not be read.
                Change::Byte(address, byte)
                    if differing == 0 && !item.text.contains('_') && !has_number =>
                {
                    faults.push(format!(
                        "results never depend on byte {byte} of {} at address {address}",
                        self.targets[*address].bytes
                    ));
                }
                _ => {}
            }
        }
    }
}

/// Whether the instruction changes no contents of memory and has no results.
pub(crate) fn is_hint(item: &Item) -> bool {
    matches!(
        item.opcode.as_str(),
        "prefetch" | "prefetchu" | "applypriority" | "discard"
    )
}

/// A distance between the lines of a matrix, in elements.
pub(crate) fn stride(item: &Item) -> u64 {
    if item.has("m8n8k128") && item.has("b1") {
        return 256;
    }
    if item.has("m8n8k32") && !item.has("s32") {
        return 64;
    }
    if item.has("m8n8k4") { 8 } else { 32 }
}

/// The bytes of constants of a thread.
pub(crate) const fn bytes_of(place: Place) -> usize {
    match place {
        Place::Const => CONST_AREA,
        _ => AREA,
    }
}
