//! The memory of a process: one buffer with a window for the arguments in its middle. All words
//! that no argument may write have a known value, and a kernel compares them.

use std::fmt;

use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;
use cuda_driver::{DeviceSliceMut, Result};

use crate::module::WINDOW;

/// The number of differences that a comparison returns.
const SHOWN: usize = 15;

/// Kernels that fill and compare words, and one that writes to the buffers of another launch.
///
/// The value of word i is (low half of i · 0x9e3779b1) xor 0x5bd1e995 xor its high half.
const PTX: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 base, .param .u64 from, .param .u64 to) {
 .reg .b64 %d<9>; .reg .b32 %r<12>; .reg .pred %p;
 ld.param.u64 %d1, [base];
 ld.param.u64 %d2, [from];
 ld.param.u64 %d3, [to];
 mov.u32 %r1, %ctaid.x;
 mov.u32 %r2, %ntid.x;
 mov.u32 %r3, %tid.x;
 mov.u32 %r4, %nctaid.x;
 mad.lo.u32 %r5, %r1, %r2, %r3;
 mul.lo.u32 %r6, %r2, %r4;
 cvt.u64.u32 %d4, %r5;
 cvt.u64.u32 %d5, %r6;
 add.s64 %d2, %d2, %d4;
LOOP:
 setp.ge.u64 %p, %d2, %d3;
 @%p ret;
 mov.b64 {%r7, %r8}, %d2;
 mul.lo.u32 %r7, %r7, 0x9e3779b1;
 xor.b32 %r7, %r7, 0x5bd1e995;
 xor.b32 %r7, %r7, %r8;
 shl.b64 %d6, %d2, 2;
 add.s64 %d6, %d1, %d6;
 st.global.u32 [%d6], %r7;
 add.s64 %d2, %d2, %d5;
 bra LOOP;
}
.visible .entry compare(.param .u64 base, .param .u64 from, .param .u64 to, .param .u64 report) {
 .reg .b64 %d<12>; .reg .b32 %r<12>; .reg .pred %p;
 ld.param.u64 %d1, [base];
 ld.param.u64 %d2, [from];
 ld.param.u64 %d3, [to];
 ld.param.u64 %d7, [report];
 mov.u32 %r1, %ctaid.x;
 mov.u32 %r2, %ntid.x;
 mov.u32 %r3, %tid.x;
 mov.u32 %r4, %nctaid.x;
 mad.lo.u32 %r5, %r1, %r2, %r3;
 mul.lo.u32 %r6, %r2, %r4;
 cvt.u64.u32 %d4, %r5;
 cvt.u64.u32 %d5, %r6;
 add.s64 %d2, %d2, %d4;
LOOP:
 setp.ge.u64 %p, %d2, %d3;
 @%p ret;
 mov.b64 {%r7, %r8}, %d2;
 mul.lo.u32 %r7, %r7, 0x9e3779b1;
 xor.b32 %r7, %r7, 0x5bd1e995;
 xor.b32 %r7, %r7, %r8;
 shl.b64 %d6, %d2, 2;
 add.s64 %d6, %d1, %d6;
 ld.global.u32 %r9, [%d6];
 setp.eq.u32 %p, %r9, %r7;
 @%p bra NEXT;
 atom.global.add.u32 %r10, [%d7], 1;
 setp.ge.u32 %p, %r10, 15;
 @%p bra NEXT;
 mul.wide.u32 %d8, %r10, 16;
 add.s64 %d8, %d7, %d8;
 mov.b64 {%r7, %r8}, %d2;
 st.global.u32 [%d8+16], %r7;
 st.global.u32 [%d8+20], %r8;
 st.global.u32 [%d8+24], %r9;
NEXT:
 add.s64 %d2, %d2, %d5;
 bra LOOP;
}
.visible .entry disturb(.param .u64 at, .param .u32 words, .param .u32 rounds, .param .u32 large) {
 .reg .b64 %d<4>; .reg .b32 %r<12>; .reg .pred %p; .reg .pred %q;
 ld.param.u64 %d1, [at];
 ld.param.u32 %r1, [words];
 ld.param.u32 %r2, [rounds];
 ld.param.u32 %r9, [large];
 mov.u32 %r3, %tid.x;
 rem.u32 %r4, %r3, %r1;
 mad.wide.u32 %d2, %r4, 4, %d1;
 mov.u32 %r5, 0;
LOOP:
 mad.lo.u32 %r6, %r5, 0x9e3779b1, %r3;
 shr.u32 %r7, %r6, 7;
 and.b32 %r7, %r7, 3;
 and.b32 %r8, %r6, 0x000fffff;
 add.u32 %r8, %r8, %r9;
 and.b32 %r6, %r6, 0x1000;
 setp.ne.u32 %q, %r6, 0;
 selp.u32 %r8, %r8, %r7, %q;
 st.volatile.global.u32 [%d2], %r8;
 add.u32 %r5, %r5, 1;
 setp.lt.u32 %p, %r5, %r2;
 @%p bra LOOP;
 st.volatile.global.u32 [%d2], %r7;
 ret;
}
";

/// A word that has the wrong value.
#[derive(Clone, Copy)]
pub(crate) struct Changed {
    /// The word, counted from the first word of the window.
    word: i64,
    value: u32,
}

impl fmt::Debug for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "word {} of the window: {:#x}", self.word, self.value)
    }
}

#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) context: Context,
    pub(crate) stream: Stream,
    /// The stream of the kernel that writes meanwhile.
    other: Stream,
    memory: DeviceBuffer<u32>,
    /// The number of words on each side of the window.
    side: usize,
    fill: Function,
    compare: Function,
    disturb: Function,
    report: DeviceBuffer<u32>,
    blocks: u32,
}

impl Arena {
    /// Allocates the window with `side` words before and behind it.
    pub(crate) fn new(context: &Context, side: usize, is_software: bool) -> Result<Self> {
        let stream = Stream::new(context, StreamFlags::NON_BLOCKING, 0)?;
        let other = Stream::new(context, StreamFlags::NON_BLOCKING, 0)?;
        let module = Module::load(context, &Ptx::new(PTX)?)?;
        let memory = DeviceBuffer::zeroed_in(&Unpooled, &stream, 2 * side + WINDOW)?;
        let mut arena = Self {
            context: context.clone(),
            other,
            memory,
            side,
            fill: module.function("fill")?,
            compare: module.function("compare")?,
            disturb: module.function("disturb")?,
            report: DeviceBuffer::zeroed_in(&Unpooled, &stream, 4 + 4 * SHOWN)?,
            blocks: if is_software { 4 } else { 2048 },
            stream,
        };
        arena.refill()?;
        Ok(arena)
    }

    fn config(&self) -> LaunchConfig {
        LaunchConfig::new(self.blocks, 256)
    }

    /// The number of words on each side of the window.
    pub(crate) fn side_words(&self) -> usize {
        self.side
    }

    /// The address of a word, counted from the first word of the window.
    pub(crate) fn address(&self, word: i64) -> u64 {
        let first = self.memory.as_raw() + 4 * self.side as u64;
        first.wrapping_add_signed(4 * word)
    }

    /// Gives all words their value.
    pub(crate) fn refill(&mut self) -> Result<()> {
        self.fill(0, self.memory.len())
    }

    /// Gives the words of arguments their value.
    pub(crate) fn restore(&mut self, ranges: &[(usize, usize)]) -> Result<()> {
        for (from, words) in ranges {
            self.fill(self.side + from, self.side + from + words)?;
        }
        Ok(())
    }

    fn fill(&mut self, from: usize, to: usize) -> Result<()> {
        assert!(from <= to && to <= self.memory.len(), "{from} to {to}");
        let (config, args) = (self.config(), (&mut self.memory, from as u64, to as u64));
        // SAFETY: the kernel must stay in the buffer ← it writes the words from `from` to `to`,
        // which was compared with the number of words.
        unsafe { self.stream.launch(&self.fill, config, args) }?;
        self.stream.synchronize()
    }

    /// Compares all words outside of the ranges, which begin in the window. Returns the number of
    /// words that have changed, and some of them.
    pub(crate) fn compare(&mut self, ranges: &[(usize, usize)]) -> Result<(u64, Vec<Changed>)> {
        let mut ranges: Vec<(usize, usize)> = ranges
            .iter()
            .map(|(from, words)| (self.side + from, self.side + from + words))
            .collect();
        ranges.sort_unstable();
        ranges.push((self.memory.len(), 0));
        self.report.set_zero()?;
        let (config, mut from) = (self.config(), 0);
        for (to, next) in ranges {
            let args = (&self.memory, from as u64, to as u64, &mut self.report);
            // SAFETY: the kernel must stay in its buffers ← it reads the words from `from` to `to`,
            // which is at most the number of words, and writes the count and 15 entries of 16 bytes
            // behind the first 16 bytes of the report.
            unsafe { self.stream.launch(&self.compare, config, args) }?;
            from = next;
        }
        let report = self.report.to_vec()?;
        let entries = report[4..].chunks_exact(4).take(report[0] as usize);
        let changed = entries.map(|entry| Changed {
            word: (u64::from(entry[0]) | u64::from(entry[1]) << 32) as i64 - self.side as i64,
            value: entry[2],
        });
        Ok((u64::from(report[0]), changed.collect()))
    }

    /// Returns the buffers in the window.
    pub(crate) fn buffers(
        &mut self,
        ranges: [(usize, usize); 3],
    ) -> Result<[DeviceSliceMut<'_, u32>; 3]> {
        let mut order = [0, 1, 2];
        order.sort_unstable_by_key(|buffer| ranges[*buffer]);
        let mut rest = self.memory.slice_mut(self.side..)?;
        let (mut at, mut parts) = (0, [None, None, None]);
        for buffer in order {
            let (from, words) = ranges[buffer];
            let (_, behind) = rest.split_at_mut(from - at)?;
            let (part, behind) = behind.split_at_mut(words)?;
            parts[buffer] = Some(part);
            (rest, at) = (behind, from + words);
        }
        Ok(parts.map(|part| part.expect("each buffer has a part")))
    }

    /// Begins to write small and large numbers to the first words of a range, or of a variable at
    /// an address, and ends with small ones.
    pub(crate) fn disturb(&self, at: Place, words: usize, rounds: u32) -> Result<()> {
        let address = match at {
            Place::Window(word) => self.address(word as i64),
            Place::Address(address) => address,
        };
        let args = (address, words.min(16) as u32, rounds, 1000_u32);
        // SAFETY: the kernel must write only memory that is there ← at most `words` words at the
        // address, in the window or in a variable. It races with launches that use the memory,
        // which is what a launch must survive.
        unsafe {
            self.other
                .launch(&self.disturb, LaunchConfig::new(1, 32), args)
        }
    }

    /// Waits for the writes of [`disturb`](Self::disturb).
    pub(crate) fn settle(&self) -> Result<()> {
        self.other.synchronize()
    }
}

/// Memory that [`Arena::disturb`] writes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A word of the window.
    Window(usize),
    /// An address.
    Address(u64),
}
