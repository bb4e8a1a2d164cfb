//! The storage of an [`ArgList`](super::ArgList): the values, and what is known about them.
//!
//! A list is made for each launch in many programs, so neither part initializes memory that it does
//! not use, and a push checks one capacity of each.

use std::mem::MaybeUninit;
use std::slice;

use crate::function::check::Layout;
use crate::function::packing::{NO_CODE, PACKED, UNPACKED, code};
use crate::types::ArgType;

/// The number of arguments that are kept without heap memory.
pub(super) const INLINE: usize = 64;

/// Values, laid out like a C struct.
pub(super) struct ValueBlock {
    inline: [Chunk; INLINE],
    /// The chunks, once they do not fit in `inline`; empty until then.
    heap: Vec<Chunk>,
    /// The size of the chunks in use, `inline` or `heap`, in bytes.
    room: usize,
    /// The end of the last value in bytes, which is at most `room`.
    end: usize,
}

/// A unit of storage, aligned for any value that a kernel takes.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Chunk(MaybeUninit<[u8; 16]>);

impl Chunk {
    const UNINIT: Self = Self(MaybeUninit::uninit());
}

impl ValueBlock {
    /// The largest alignment of a value.
    pub(super) const ALIGN: usize = align_of::<Chunk>();

    #[inline]
    pub(super) fn new() -> Self {
        Self {
            inline: [Chunk::UNINIT; INLINE],
            heap: Vec::new(),
            room: INLINE * size_of::<Chunk>(),
            end: 0,
        }
    }

    /// Adds room for a value of `size` bytes, aligned to `align`, which is a power of two and at
    /// most [`ALIGN`](Self::ALIGN). Returns the number of bytes before the value that are padding,
    /// and the offset of the value.
    #[inline(always)]
    pub(super) fn add(&mut self, size: usize, align: usize) -> (usize, usize) {
        let gap = self.end.wrapping_neg() & (align - 1);
        let start = self.end + gap;
        let end = start + size;
        if end > self.room {
            self.grow(end);
        }
        // After `grow`, which panics if the size is not possible.
        self.end = end;
        (gap, start)
    }

    /// Makes room for at least `bytes` bytes.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, bytes: usize) {
        if self.heap.is_empty() {
            self.heap.extend_from_slice(&self.inline);
        }
        let least = bytes.div_ceil(size_of::<Chunk>());
        self.heap
            .resize(least.max(2 * self.heap.len()), Chunk::UNINIT);
        self.room = self.heap.len() * size_of::<Chunk>();
    }

    /// Returns the address of the value at an offset, to write it.
    #[inline(always)]
    pub(super) fn at(&mut self, start: usize) -> *mut u8 {
        let chunks = if self.heap.is_empty() {
            self.inline.as_mut_ptr()
        } else {
            self.heap.as_mut_ptr()
        };
        chunks.wrapping_byte_add(start).cast()
    }

    /// Returns the address of the value at an offset, to read it.
    #[inline]
    pub(super) fn value(&self, start: usize) -> *const u8 {
        let chunks = if self.heap.is_empty() {
            self.inline.as_ptr()
        } else {
            self.heap.as_ptr()
        };
        chunks.wrapping_byte_add(start).cast()
    }

    /// Returns the end of the last value in bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.end
    }
}

/// The position, the size and the type of each argument of a list.
pub(super) struct ArgTable {
    len: usize,
    /// The offset of each value in bytes. The first `len` entries of this array and of the next two
    /// are initialized, unless `heap` is set.
    starts: [MaybeUninit<usize>; INLINE],
    sizes: [MaybeUninit<usize>; INLINE],
    types: [MaybeUninit<ArgType>; INLINE],
    /// All entries, once they do not fit in the arrays.
    heap: Option<Box<Columns>>,
    /// The code of each size and type: see [`pack`](crate::function::packing::pack).
    /// Two words of [`PACKED`] bytes in total.
    codes: [u64; 2],
    /// The padding before each value: see [`pack_gaps`](crate::function::packing::pack_gaps).
    gaps: [u64; 2],
    /// Whether `codes` and `gaps` describe all values.
    is_packed: bool,
}

/// The entries of a long list.
struct Columns {
    starts: Vec<usize>,
    sizes: Vec<usize>,
    types: Vec<ArgType>,
}

impl ArgTable {
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            len: 0,
            starts: [const { MaybeUninit::uninit() }; INLINE],
            sizes: [const { MaybeUninit::uninit() }; INLINE],
            types: [const { MaybeUninit::uninit() }; INLINE],
            heap: None,
            codes: [0; 2],
            gaps: [0; 2],
            is_packed: true,
        }
    }

    /// Appends an argument.
    #[inline(always)]
    pub(super) fn push(&mut self, gap: usize, start: usize, size: usize, ty: ArgType) {
        let (at, code) = (self.len, code(size, ty));
        if at < PACKED && code != NO_CODE {
            let (word, byte) = (at / 8, 8 * (at % 8));
            self.codes[word] |= u64::from(code) << byte;
            // `gap` is at most 15, because the largest alignment is 16.
            self.gaps[word] |= (gap as u64) << byte;
        } else {
            self.is_packed = false;
        }
        if at < INLINE {
            self.starts[at].write(start);
            self.sizes[at].write(size);
            self.types[at].write(ty);
        } else {
            self.push_to_heap(start, size, ty);
        }
        self.len = at + 1;
    }

    #[cold]
    #[inline(never)]
    fn push_to_heap(&mut self, start: usize, size: usize, ty: ArgType) {
        let mut heap = self.heap.take().unwrap_or_else(|| {
            Box::new(Columns {
                starts: self.starts().to_vec(),
                sizes: self.sizes().to_vec(),
                types: self.types().to_vec(),
            })
        });
        heap.starts.push(start);
        heap.sizes.push(size);
        heap.types.push(ty);
        self.heap = Some(heap);
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn starts(&self) -> &[usize] {
        match &self.heap {
            Some(heap) => &heap.starts,
            None => {
                // SAFETY: `len` entries must be initialized ← `push` has written one for each
                // argument, because `heap` is not set.
                unsafe { slice::from_raw_parts(self.starts.as_ptr().cast(), self.len) }
            }
        }
    }

    #[inline]
    pub(super) fn sizes(&self) -> &[usize] {
        match &self.heap {
            Some(heap) => &heap.sizes,
            None => {
                // SAFETY: as for `starts`.
                unsafe { slice::from_raw_parts(self.sizes.as_ptr().cast(), self.len) }
            }
        }
    }

    #[inline]
    pub(super) fn types(&self) -> &[ArgType] {
        match &self.heap {
            Some(heap) => &heap.types,
            None => {
                // SAFETY: as for `starts`.
                unsafe { slice::from_raw_parts(self.types.as_ptr().cast(), self.len) }
            }
        }
    }

    /// Returns the sizes and types, packed into one word by
    /// [`pack`](crate::function::packing::pack).
    #[inline]
    pub(super) fn packed(&self) -> u128 {
        if self.is_packed {
            joined(self.codes)
        } else {
            UNPACKED
        }
    }

    /// Returns whether the values are where a kernel with this layout expects them. The sizes of
    /// the values are those of the kernel's parameters, if these are known.
    #[inline]
    pub(super) fn has_layout(&self, layout: Layout<'_>) -> bool {
        if self.is_packed && layout.gaps != UNPACKED {
            // No layout of 0 parameters is packed.
            return layout.gaps == joined(self.gaps);
        }
        self.len > 0 && layout.offsets == self.starts()
    }
}

#[inline]
fn joined([low, high]: [u64; 2]) -> u128 {
    u128::from(low) | (u128::from(high) << 64)
}
