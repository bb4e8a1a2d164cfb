//! `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor`: copies of boxes of a tensor and of
//! im2col columns of images.

use super::access::{Translator, copy, load};
use super::atomic::{self, Shared};
use super::bulk::{barriers, in_block, masks, targets};
use super::check::{ObservedAccess, Observer};
use super::code::Ins;
use super::decode::Class;
use super::fault::FaultKind;
use super::lane_fault::LaneFault;
use super::lanes::MemoryOp;
use super::mbarrier;
use super::space::Env;
use super::tensor_map::{BYTES, Element, MAX_RANK, TensorMap};
use super::vector::bits;
use super::warp::Warp;

/// The bytes of a chunk, which a swizzle keeps together.
const CHUNK: u64 = 16;
/// The alignment of a box in shared memory.
const BOX_ALIGN: u64 = 128;

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Load,
    Store,
    /// A reduction to global memory, with this index into [`OPERATIONS`].
    Reduce(u64),
}

/// The names of reductions.
pub(super) const OPERATIONS: [&str; 8] = ["add", "min", "max", "inc", "dec", "and", "or", "xor"];

impl Direction {
    /// Decodes the number that [`number`](Self::number) returns.
    fn of_number(number: u64) -> Self {
        match number {
            0 => Self::Load,
            1 => Self::Store,
            other => Self::Reduce(other - 2),
        }
    }

    /// The encoding in the upper half of `Ins::imm`.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Load => 0,
            Self::Store => 1,
            Self::Reduce(operation) => operation + 2,
        }
    }
}

/// The reduction with this number, for elements of this type.
fn operation(number: u64, element: Element) -> Option<atomic::Op> {
    let name = OPERATIONS.get(number as usize)?;
    let (class, bits) = match element {
        Element::U32 => (Class::Unsigned, 32),
        Element::U64 => (Class::Unsigned, 64),
        Element::S32 => (Class::Signed, 32),
        Element::S64 => (Class::Signed, 64),
        Element::F16 => (Class::Float, 16),
        Element::F32 => (Class::Float, 32),
        Element::F64 => (Class::Float, 64),
        Element::Bf16 => (Class::Brain, 16),
        Element::U8 | Element::U16 => return None,
    };
    let class = match *name {
        "and" | "or" | "xor" if matches!(class, Class::Unsigned | Class::Signed) => Class::Bits,
        _ => class,
    };
    atomic::Op::parse(name, class, bits, false)
}

/// The bit of `Ins::imm` that marks an im2col instruction.
pub(super) const IMAGES: u64 = 1 << 40;

/// Iterates over the positions of a tensor, dimension 1 fastest. Dimension 0 does not change.
struct Walk {
    rank: usize,
    at: [i64; MAX_RANK],
    /// For each dimension, the first and the last position.
    bounds: [(i64, i64); MAX_RANK],
    steps: [i64; MAX_RANK],
}

impl Walk {
    fn new(map: &TensorMap, start: [i64; MAX_RANK]) -> Self {
        let mut steps = map.steps.map(i64::from);
        let mut bounds = start.map(|at| (at, i64::MAX));
        for d in 1..map.rank {
            match &map.columns {
                Some(columns) if d + 1 < map.rank => bounds[d] = map.corners(columns, d),
                // The dimension of images has a step of one and no end.
                Some(_) => steps[d] = 1,
                None => bounds[d].1 = start[d] + (map.count(d) as i64 - 1) * steps[d],
            }
        }
        Self {
            rank: map.rank,
            at: start,
            bounds,
            steps,
        }
    }

    fn advance(&mut self) {
        for d in 1..self.rank {
            self.at[d] += self.steps[d];
            if self.at[d] <= self.bounds[d].1 {
                return;
            }
            self.at[d] = self.bounds[d].0;
        }
    }
}

/// One lane's copy.
struct Transfer<'a, 'e> {
    w: &'a Warp,
    env: &'a Env<'e>,
    lane: usize,
    map: TensorMap,
    direction: Direction,
    start: [i64; MAX_RANK],
    /// The offset of the pixel to read from the current position.
    offsets: [i64; MAX_RANK],
    ins: &'a Ins,
}

impl Transfer<'_, '_> {
    fn wrong(&self, message: String) -> LaneFault {
        LaneFault::of(FaultKind::IllegalInstruction, self.lane, message)
    }

    /// Checks that the instruction matches the map. The manual does not specify a mismatch.
    fn check_map(&self, coordinates: usize) -> Result<(), LaneFault> {
        let rank = self.map.rank;
        if rank != coordinates {
            return Err(self.wrong(format!(
                "the instruction has {coordinates} coordinates, but the map has {rank} dimensions"
            )));
        }
        match (self.map.columns.is_some(), self.ins.imm & IMAGES != 0) {
            (true, false) => Err(self.wrong("a tiled copy through an im2col tensor map".into())),
            (false, true) => Err(self.wrong("an im2col copy through a tiled tensor map".into())),
            _ => Ok(()),
        }
    }

    /// Checks the start. For boxes, it rejects what an H200 reports as an illegal instruction,
    /// which the manual does not specify; for images, what the manual forbids.
    fn check_start(&self) -> Result<(), LaneFault> {
        let start = &self.start[..self.map.rank];
        let row = start[0] * self.map.element.bytes() as i64;
        if row % CHUNK as i64 != 0 {
            let message = format!("rows of the box begin at byte {row}, not at a multiple of 16");
            return Err(self.wrong(message));
        }
        self.check_written(start)?;
        let Some(columns) = &self.map.columns else {
            return Ok(());
        };
        let row = self.map.dims[0] * self.map.element.bytes();
        if matches!(self.direction, Direction::Reduce(_)) && !row.is_multiple_of(CHUNK) {
            let message =
                format!("a reduction of pixels of {row} bytes, which is not a multiple of 16");
            return Err(self.wrong(message));
        }
        let most = match self.map.rank {
            3 => 0xffff,
            4 => 0xff,
            _ => 0x1f,
        };
        for (d, &at) in start.iter().enumerate().take(self.map.rank - 1).skip(1) {
            let (first, last) = self.map.corners(columns, d);
            let offset = self.offsets[d];
            if at < first || at > last {
                let message = format!(
                    "the filter is at {at} in dimension {d}; the limits are {first} to {last}"
                );
                return Err(self.wrong(message));
            }
            if offset > most {
                let message = format!("the offset {offset} along dimension {d} exceeds {most}");
                return Err(self.wrong(message));
            }
        }
        Ok(())
    }

    /// Checks that no element is written at a negative coordinate.
    fn check_written(&self, place: &[i64]) -> Result<(), LaneFault> {
        if self.direction != Direction::Load && place.iter().any(|at| *at < 0) {
            let message =
                format!("the write at {place:?} is before the first element of the tensor");
            return Err(self.wrong(message));
        }
        Ok(())
    }

    /// Copies the box from or to shared memory at the generic address `shared`.
    fn run(&self, shared: u64) -> Result<(), LaneFault> {
        let map = &self.map;
        self.check_start()?;
        let row = map.row();
        Translator::default().translate(
            self.w,
            self.env,
            shared,
            map.shared_bytes(),
            BOX_ALIGN,
            self.lane,
        )?;
        let (mut inside, mut outside) = (Translator::default(), Translator::default());
        let mut walk = Walk::new(map, self.start);
        for number in 0..map.rows() {
            self.check_written(&walk.at[..map.rank])?;
            let mut address = map.address;
            let mut is_there = true;
            for d in 1..map.rank {
                let at = walk.at[d] + self.offsets[d];
                is_there &= usize::try_from(at).is_ok_and(|at| (at as u64) < map.dims[d]);
                address = address.wrapping_add_signed(at.wrapping_mul(map.strides[d - 1] as i64));
            }
            for chunk in (0..row).step_by(CHUNK as usize) {
                let at = map.swizzle.place(shared + number * map.pitch() + chunk);
                let place = inside.translate(self.w, self.env, at, CHUNK, CHUNK, self.lane)?;
                self.observe(at);
                self.chunk(chunk, address, is_there, place, &mut outside)?;
            }
            walk.advance();
        }
        Ok(())
    }

    /// The number of elements of a row to copy. An H200 writes the channels of images in whole
    /// chunks.
    fn columns(&self) -> u64 {
        let columns = self.map.dims[0];
        if self.map.columns.is_none() || self.direction != Direction::Store {
            return columns;
        }
        let size = self.map.element.bytes();
        (columns * size).next_multiple_of(CHUNK) / size
    }

    /// Reports the access to a chunk of shared memory to the checks.
    fn observe(&self, at: u64) {
        if let Some(mut observer) = Observer::new(self.w, self.env, self.ins) {
            let chunk = ObservedAccess::new(self.lane, at, CHUNK);
            match self.direction {
                Direction::Load => observer.write(chunk, true),
                Direction::Store | Direction::Reduce(_) => observer.read(chunk),
            }
        }
    }

    /// Copies the elements from byte `chunk` of a row onwards. The first byte of the chunk would be
    /// at `address`; the chunk is at `place` in this process.
    fn chunk(
        &self,
        chunk: u64,
        address: u64,
        is_there: bool,
        place: u64,
        outside: &mut Translator,
    ) -> Result<(), LaneFault> {
        let size = self.map.element.bytes();
        let columns = self.columns();
        for at in (0..CHUNK).step_by(size as usize) {
            let column = self.start[0] + ((chunk + at) / size) as i64;
            let is_there =
                is_there && usize::try_from(column).is_ok_and(|at| (at as u64) < columns);
            if !is_there {
                if self.direction == Direction::Load {
                    // SAFETY: `place + at` is an element of the chunk of live bytes at `place` ←
                    // the caller guarantees it.
                    unsafe { super::access::store(size, place + at, 0) };
                }
                continue;
            }
            let global = address.wrapping_add(column as u64 * size);
            let element = ObservedAccess::new(self.lane, global, size);
            let global = outside.translate(self.w, self.env, global, size, size, self.lane)?;
            if let Some(mut observer) = Observer::new(self.w, self.env, self.ins) {
                match self.direction {
                    Direction::Load => observer.read(element),
                    Direction::Store => observer.write(element, true),
                    Direction::Reduce(_) => observer.update(element, true),
                }
            }
            match self.direction {
                // SAFETY: both are live elements ← the caller guarantees `place`, and
                // `Translator::translate` checked `global`.
                Direction::Load => unsafe { copy(place + at, global, size) },
                // SAFETY: as above.
                Direction::Store => unsafe { copy(global, place + at, size) },
                Direction::Reduce(number) => {
                    let Some(op) = operation(number, self.map.element) else {
                        let name = OPERATIONS.get(number as usize).copied().unwrap_or_default();
                        let element = self.map.element;
                        return Err(self.wrong(format!(
                            "the reduction `{name}` does not support elements of type {element:?}"
                        )));
                    };
                    // SAFETY: `place + at` is an element of the chunk ← the caller guarantees it.
                    let value = unsafe { load(size, place + at) };
                    let change = |old| atomic::apply(op, size as u32 * 8, old, value, 0);
                    match size {
                        // SAFETY: `global` is a live, aligned element ← `Translator::translate`
                        // checked it.
                        2 => unsafe { u16::update(global, change) },
                        // SAFETY: as above.
                        4 => unsafe { u32::update(global, change) },
                        // SAFETY: as above.
                        _ => unsafe { u64::update(global, change) },
                    };
                }
            }
        }
        Ok(())
    }
}

/// Reads the bytes of a tensor map at the generic address `at`.
pub(super) fn read_bytes(
    w: &Warp,
    env: &Env<'_>,
    at: u64,
    lane: usize,
) -> Result<[u8; BYTES], LaneFault> {
    let host = Translator::default().translate(w, env, at, BYTES as u64, 64, lane)?;
    let mut bytes = [0; BYTES];
    for (index, place) in bytes.chunks_mut(8).enumerate() {
        // SAFETY: these are 8 of the live bytes, aligned to 8 ← `Translator::translate` checked
        // them.
        let word = unsafe { load(8, host + 8 * index as u64) };
        place.copy_from_slice(&word.to_le_bytes());
    }
    Ok(bytes)
}

/// Reads the tensor map at the generic address `at`.
fn read_map(w: &Warp, env: &Env<'_>, at: u64, lane: usize) -> Result<TensorMap, LaneFault> {
    let bytes = read_bytes(w, env, at, lane)?;
    TensorMap::decode(&bytes).ok_or_else(|| {
        let message = format!("the memory at {at:#x} does not hold a tensor map");
        LaneFault::of(FaultKind::IllegalInstruction, lane, message)
    })
}

/// Copies the box at the coordinates in list `imm` of the map `b`, from or to shared memory `a`, in
/// the blocks of the mask `d`; then reports the bytes to the barrier `e`. For a load of images, the
/// offsets follow the coordinates in the list.
pub(super) struct CopyTensor;

impl MemoryOp for CopyTensor {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let Some(slots) = env.program.lists.get(i.imm as u32 as usize) else {
            return Ok(());
        };
        let direction = Direction::of_number((i.imm & !IMAGES) >> 32);
        // There are two offsets fewer than coordinates.
        let coordinates = if i.imm & IMAGES != 0 && direction == Direction::Load {
            slots.len() / 2 + 1
        } else {
            slots.len()
        };
        let values: Vec<_> = slots.iter().map(|&slot| w.get32(slot)).collect();
        let (shared, maps) = (w.get64(i.a), w.get64(i.b));
        let (masks, barriers) = (masks(w, i.d), barriers(w, i.e));
        for lane in bits(m) {
            let (mut start, mut offsets) = ([0; MAX_RANK], [0; MAX_RANK]);
            let (places, behind) = values.split_at(coordinates);
            for (start, place) in start.iter_mut().zip(places) {
                *start = i64::from(place[lane] as i32);
            }
            for (offset, value) in offsets[1..].iter_mut().zip(behind) {
                *offset = i64::from(value[lane] as u16);
            }
            let transfer = Transfer {
                w,
                env,
                lane,
                map: read_map(w, env, maps[lane], lane)?,
                direction,
                start,
                offsets,
                ins: i,
            };
            transfer.check_map(coordinates)?;
            for rank in targets(masks[lane]) {
                let place = |address| rank.map_or(address, |rank| in_block(address, rank));
                transfer.run(place(shared[lane]))?;
                if let Some(barrier) = barriers[lane] {
                    let bytes = transfer.map.bytes() as u32;
                    mbarrier::complete(w, env, place(barrier), bytes, lane)?;
                }
            }
        }
        Ok(())
    }
}
