//! `tensormap.replace` and `tensormap.cp_fenceproxy`: kernels that change tensor maps.

use super::access::{Translator, copy, store};
use super::check::{ObservedAccess, Observer};
use super::code::Ins;
use super::fault::FaultKind;
use super::lane_fault::LaneFault;
use super::lanes::MemoryOp;
use super::space::Env;
use super::tensor::read_bytes;
use super::tensor_map::{BYTES, Element, Swizzle, TensorMap};
use super::vector::bits;
use super::warp::Warp;

/// A field of a tensor map, and its dimension if there is one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    GlobalAddress,
    Rank,
    BoxDim(usize),
    GlobalDim(usize),
    GlobalStride(usize),
    ElementStride(usize),
    ElementType,
    SwizzleMode,
}

impl Field {
    /// Decodes the number that [`number`](Self::number) returns.
    fn of_number(number: u64) -> Self {
        let dimension = (number >> 8) as usize;
        match number & 0xff {
            0 => Self::GlobalAddress,
            1 => Self::Rank,
            2 => Self::BoxDim(dimension),
            3 => Self::GlobalDim(dimension),
            4 => Self::GlobalStride(dimension),
            5 => Self::ElementStride(dimension),
            6 => Self::ElementType,
            _ => Self::SwizzleMode,
        }
    }

    /// The encoding in `Ins::imm`.
    pub(super) fn number(self) -> u64 {
        let (field, dimension) = match self {
            Self::GlobalAddress => (0, 0),
            Self::Rank => (1, 0),
            Self::BoxDim(dimension) => (2, dimension),
            Self::GlobalDim(dimension) => (3, dimension),
            Self::GlobalStride(dimension) => (4, dimension),
            Self::ElementStride(dimension) => (5, dimension),
            Self::ElementType => (6, 0),
            Self::SwizzleMode => (7, 0),
        };
        field | (dimension as u64) << 8
    }

    /// Sets this field. Copies refuse a map with a value that is out of range.
    fn set(self, map: &mut TensorMap, value: u64) {
        let small = value as u32;
        match self {
            Self::GlobalAddress => map.address = value,
            Self::Rank => map.rank = small.saturating_add(1).min(255) as usize,
            Self::BoxDim(d) => put(&mut map.extent, d, small.min(0xffff) as u16),
            Self::GlobalDim(d) => put(&mut map.dims, d, small.into()),
            Self::GlobalStride(d) => put(&mut map.strides, d, value),
            Self::ElementStride(d) => put(&mut map.steps, d, small.min(255) as u8),
            Self::ElementType => map.element = element(value).unwrap_or_default(),
            Self::SwizzleMode => map.swizzle = Swizzle::of_number(small).unwrap_or_default(),
        }
    }
}

fn put<T>(all: &mut [T], index: usize, value: T) {
    if let Some(place) = all.get_mut(index) {
        *place = value;
    }
}

/// The element type with this number in the PTX manual, if copies do not convert it. These are not
/// the numbers of `CUtensorMapDataType`.
pub(super) fn element(number: u64) -> Option<Element> {
    Some(match number {
        0..=7 => Element::of_number(number as u32)?,
        9 => Element::F64,
        10 => Element::Bf16,
        _ => return None,
    })
}

/// `tensormap.replace`: sets the field `imm` of the map at `a` to `b`.
pub(super) struct ReplaceField;

impl MemoryOp for ReplaceField {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let (maps, values) = (w.get64(i.a), w.get64(i.b));
        let field = Field::of_number(i.imm);
        for lane in bits(m) {
            let at = maps[lane];
            let bytes = read_bytes(w, env, at, lane)?;
            let Some(mut map) = TensorMap::fields(&bytes) else {
                let message =
                    format!("the memory at {at:#x} holds neither a tensor map nor 128 zeros");
                return Err(LaneFault::of(FaultKind::IllegalInstruction, lane, message));
            };
            field.set(&mut map, values[lane]);
            let host = Translator::default().translate(w, env, at, BYTES as u64, 64, lane)?;
            for (index, word) in map.encode().chunks(8).enumerate() {
                let word = word
                    .iter()
                    .rev()
                    .fold(0, |word, &byte| word << 8 | u64::from(byte));
                // SAFETY: these are 8 of the live bytes, aligned to 8 ← `Translator::translate`
                // checked them.
                unsafe { store(8, host + 8 * index as u64, word) };
            }
            if let Some(mut observer) = Observer::new(w, env, i) {
                let map = ObservedAccess::new(lane, at, BYTES as u64);
                observer.read(map);
                observer.write(map, true);
            }
        }
        Ok(())
    }
}

/// `tensormap.cp_fenceproxy`: copies the map at `b` to `a`, once for all lanes.
pub(super) struct CopyMap;

impl MemoryOp for CopyMap {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let lane = m.trailing_zeros() as usize & 31;
        let (to, from) = (w.get64(i.a)[lane], w.get64(i.b)[lane]);
        let bytes = BYTES as u64;
        let target = Translator::default().translate(w, env, to, bytes, bytes, lane)?;
        let source = Translator::default().translate(w, env, from, bytes, bytes, lane)?;
        // SAFETY: both ranges have `bytes` live bytes ← `Translator::translate` checked them.
        unsafe { copy(target, source, bytes) };
        if let Some(mut observer) = Observer::new(w, env, i) {
            observer.read(ObservedAccess::new(lane, from, bytes));
            observer.write(ObservedAccess::new(lane, to, bytes), true);
        }
        Ok(())
    }
}
