//! The last accesses to each byte of shared memory.

use super::order::Order;
use crate::report::Hazard;

/// A thread number for accesses from another block of the cluster.
pub(super) const ELSEWHERE: u16 = u16::MAX;

/// A past access.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// The stamp; 0 if the byte was never accessed.
    pub(super) stamp: u32,
    /// The instruction.
    pub(super) pc: u32,
    /// The number of the thread in its block.
    pub(super) thread: u16,
    /// Whether it is atomic or ordered in another way, so that it does not race with others of this
    /// kind.
    pub(super) is_strong: bool,
}

/// The last accesses to a byte.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    write: Mark,
    /// The last reads of two threads, the latest first.
    reads: [Mark; 2],
}

#[derive(Debug, Default)]
pub(super) struct SharedShadow {
    cells: Vec<Cell>,
}

impl SharedShadow {
    pub(super) fn clear(&mut self) {
        self.cells.clear();
    }

    pub(super) fn resize(&mut self, bytes: usize) {
        self.cells.resize(bytes, Cell::default());
    }

    fn cells(&mut self, at: u64, size: u64) -> &mut [Cell] {
        let at = at as usize;
        self.cells
            .get_mut(at..at + size as usize)
            .unwrap_or(&mut [])
    }

    /// The first of `size` bytes at `at` that has not been written.
    pub(super) fn unwritten(&mut self, order: &Order, at: u64, size: u64) -> Option<u64> {
        let cells = self.cells(at, size).iter();
        let first = cells
            .take_while(|cell| order.is_current(&cell.write))
            .count();
        (first < size as usize).then(|| at + first as u64)
    }

    /// Records a read; returns the unordered write before it, if there was one.
    pub(super) fn read(
        &mut self,
        order: &Order,
        (at, size): (u64, u64),
        (warp, lane): (usize, usize),
        now: Mark,
    ) -> Option<(Hazard, Mark)> {
        let mut found = None;
        for cell in self.cells(at, size) {
            if conflicts(order, &cell.write, &now, warp, lane) {
                found = found.or(Some((Hazard::ReadAfterWrite, cell.write)));
            }
            if cell.reads[0].thread != now.thread {
                cell.reads[1] = cell.reads[0];
            }
            cell.reads[0] = now;
        }
        found
    }

    /// Records a write; `changes` says whether it changes the value. Returns the unordered access
    /// before it, if there was one. A write that changes nothing does not conflict with accesses
    /// before it; a later read conflicts with it as with any other write.
    pub(super) fn write(
        &mut self,
        order: &Order,
        (at, size): (u64, u64),
        (warp, lane): (usize, usize),
        now: Mark,
        changes: bool,
    ) -> Option<(Hazard, Mark)> {
        let mut found = None;
        for cell in self.cells(at, size) {
            if changes && found.is_none() {
                let writes = [(Hazard::WriteAfterWrite, cell.write)];
                let reads = cell.reads.map(|read| (Hazard::WriteAfterRead, read));
                found = writes
                    .into_iter()
                    .chain(reads)
                    .find(|(_, mark)| conflicts(order, mark, &now, warp, lane));
            }
            cell.write = now;
        }
        found
    }
}

fn conflicts(order: &Order, before: &Mark, now: &Mark, warp: usize, lane: usize) -> bool {
    order.is_current(before)
        && before.thread != ELSEWHERE
        && before.thread != now.thread
        && !(before.is_strong && now.is_strong)
        && !order.is_before(before, warp, lane)
}
