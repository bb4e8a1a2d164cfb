//! Sizes, types and offsets of parameters, packed into one word so that a launch compares them at
//! once.

use std::sync::atomic::{AtomicU64, Ordering};

use cuda_sys::image::{Parameter, ParameterKind};

use crate::types::{ArgType, Number};

/// The result of [`pack`] for arguments that do not fit in one word.
pub(crate) const UNPACKED: u128 = u128::MAX;

/// Packs the sizes of arguments, and whether they are integers or floats, into one word, so that
/// they can be compared at once. Up to 16 arguments fit, each of 1 to 244 bytes.
pub(crate) const fn pack(sizes: &[usize], types: &[ArgType]) -> u128 {
    let (mut packed, mut at) = (0, 0);
    while at < sizes.len() && at < types.len() {
        packed = pack_next(packed, at, sizes[at], types[at]);
        at += 1;
    }
    if sizes.len() == types.len() {
        packed
    } else {
        UNPACKED
    }
}

/// The number of arguments of which [`pack`] and [`pack_gaps`] pack one byte each.
pub(crate) const PACKED: usize = 16;

/// The result of [`code`] for an argument that cannot be packed.
pub(crate) const NO_CODE: u8 = 255;

/// Adds the argument with the index `at` to the result of [`pack`] for those before it.
const fn pack_next(packed: u128, at: usize, size: usize, ty: ArgType) -> u128 {
    let code = code(size, ty);
    if packed == UNPACKED || at >= PACKED || code == NO_CODE {
        return UNPACKED;
    }
    packed | ((code as u128) << (8 * at))
}

/// The size of the largest argument that is packed.
const LARGEST: u8 = 250 - Number::MAX_CLASS;
const LARGEST_SIZE: usize = LARGEST as usize;

/// Returns the byte that describes the size and the type of an argument in the result of [`pack`].
#[inline(always)]
pub(crate) const fn code(size: usize, ty: ArgType) -> u8 {
    // The code is the size, except for the types that may contradict the kind of a parameter, and
    // for buffers whose elements may contradict the type of a pointer. No packed argument has the
    // code 255, so no result of `pack` is `UNPACKED`.
    match size {
        8 if ty.element_class() > 0 => LARGEST + ty.element_class(),
        4 if ty.is_integer() => 251,
        4 if ty.is_float() => 252,
        8 if ty.is_integer() => 253,
        8 if ty.is_float() => 254,
        1..=LARGEST_SIZE => size as u8,
        _ => NO_CODE,
    }
}

/// A list of arguments that was compared with the parameters of the kernel and matches them, in the
/// form of [`pack`].
///
/// A thread may read one word of one list and the other word of another list, because the two words
/// are stored one after the other. The combination then matches too: each argument is compared on
/// its own, and all lists that match have the same number of arguments. If the parameters are not
/// known, every list matches.
#[derive(Debug)]
pub(super) struct Matching([AtomicU64; 2]);

impl Matching {
    pub(super) fn none() -> Self {
        Self([AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)])
    }

    #[inline]
    pub(super) fn is(&self, packed: u128) -> bool {
        let [low, high] = halves(packed);
        self.0[0].load(Ordering::Relaxed) == low && self.0[1].load(Ordering::Relaxed) == high
    }

    pub(super) fn set(&self, packed: u128) {
        for (half, value) in self.0.iter().zip(halves(packed)) {
            half.store(value, Ordering::Relaxed);
        }
    }
}

#[inline]
const fn halves(packed: u128) -> [u64; 2] {
    [packed as u64, (packed >> 64) as u64]
}

/// Packs the padding before each parameter, in the form of [`pack`]. If both the sizes and the gaps
/// of two lists are equal, their layouts are equal.
pub(crate) const fn pack_gaps(offsets: &[usize], sizes: &[usize]) -> u128 {
    let (mut packed, mut at, mut end) = (0, 0, 0);
    if offsets.len() != sizes.len() || sizes.is_empty() || sizes.len() > PACKED {
        return UNPACKED;
    }
    while at < offsets.len() {
        if sizes[at] == 0 || sizes[at] > 254 || offsets[at] < end || offsets[at] - end > 254 {
            return UNPACKED;
        }
        packed |= ((offsets[at] - end) as u128) << (8 * at);
        end = offsets[at] + sizes[at];
        at += 1;
    }
    packed
}

/// Computes the C (`repr(C)`) layout of fields of these sizes and alignments. Returns the packed
/// gaps and the end of the last field.
pub(crate) const fn c_layout<const N: usize>(fields: &[(usize, usize); N]) -> (u128, usize) {
    let (mut sizes, mut offsets) = ([0; N], [0; N]);
    let (mut at, mut end) = (0, 0_usize);
    while at < N {
        let (size, align) = fields[at];
        offsets[at] = end.next_multiple_of(align);
        sizes[at] = size;
        end = offsets[at] + size;
        at += 1;
    }
    (pack_gaps(&offsets, &sizes), end)
}

/// Returns the kind of a parameter with which the type of an argument is compared. Only types of 4
/// or 8 bytes are compared: C++ programs use 16-bit integers to store halves.
pub(super) fn checked_kind(parameter: &Parameter) -> ParameterKind {
    match parameter.size {
        4 | 8 => parameter.kind,
        _ => ParameterKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::{UNPACKED, c_layout, pack_gaps};

    #[test]
    fn fields_are_where_c_has_them() {
        #[repr(C)]
        struct Fields {
            a: u8,
            b: u64,
            c: f32,
            d: [u16; 3],
            e: u128,
            f: u8,
            g: u16,
            h: u8,
            i: u32,
        }
        let fields = [
            (1, 1),
            (8, 8),
            (4, 4),
            (6, 2),
            (16, align_of::<u128>()),
            (1, 1),
            (2, 2),
            (1, 1),
            (4, 4),
        ];
        let offsets = [
            offset_of!(Fields, a),
            offset_of!(Fields, b),
            offset_of!(Fields, c),
            offset_of!(Fields, d),
            offset_of!(Fields, e),
            offset_of!(Fields, f),
            offset_of!(Fields, g),
            offset_of!(Fields, h),
            offset_of!(Fields, i),
        ];
        let sizes = fields.map(|(size, _)| size);
        let (gaps, end) = c_layout(&fields);
        assert_eq!(gaps, pack_gaps(&offsets, &sizes));
        assert_ne!(gaps, UNPACKED);
        assert_eq!(end, offset_of!(Fields, i) + 4);
        // A field with another alignment changes the layout.
        let mut moved = fields;
        moved[3].1 = 8;
        assert_ne!(c_layout(&moved).0, gaps);
    }

    #[test]
    fn sizes_that_do_not_fit_in_a_word_are_unpacked() {
        assert_eq!(pack_gaps(&[], &[]), UNPACKED);
        assert_eq!(pack_gaps(&[0, 256], &[1, 1]), UNPACKED);
        assert_eq!(pack_gaps(&[0], &[300]), UNPACKED);
        assert_eq!(pack_gaps(&[8, 0], &[8, 8]), UNPACKED);
        assert_eq!(pack_gaps(&[0, 255], &[1, 1]), 254 << 8);
    }
}
