//! The values of one launch.

use crate::flow::{Kernel, Object};

/// The values that a launch gives a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchValues {
    /// The number of blocks in x, y and z.
    pub grid: [u32; 3],
    /// The number of threads of a block in x, y and z.
    pub block: [u32; 3],
    /// The number of blocks of a cluster in x, y and z, or `None` if it is not known.
    pub cluster: Option<[u32; 3]>,
    /// The bytes of dynamic shared memory of a block.
    pub dynamic_shared: u32,
    /// One argument for each parameter of the kernel.
    pub arguments: Vec<Argument>,
}

/// The bytes of one argument, and the buffers whose addresses are among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Argument {
    pub(super) bytes: Vec<u8>,
    pub(super) buffers: Vec<(u64, Buffer)>,
    /// The texture or surface whose handle is the argument.
    pub(super) object: Option<Object>,
    /// The offset, the size, and the smallest and largest value of numbers that are not fixed.
    pub(super) ranges: Vec<(u64, u32, u64, u64)>,
}

/// A buffer in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// The size in bytes.
    pub bytes: u64,
    /// A power of two that divides the address.
    pub align: u64,
    /// Whether the kernel may write to the buffer.
    pub is_writable: bool,
}

impl Argument {
    /// An argument that contains no address of a buffer: a number, a struct of numbers, or a null
    /// pointer. The bytes are those that the kernel gets.
    pub fn scalar(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            buffers: Vec::new(),
            object: None,
            ranges: Vec::new(),
        }
    }

    /// The address of a buffer. It is not null.
    pub fn buffer(buffer: Buffer) -> Self {
        Self::scalar([0; 8]).with_buffer(0, buffer)
    }

    /// The handle of a texture or surface object. A proof does not depend on the number.
    pub fn object(object: Object) -> Self {
        Self {
            object: Some(object),
            ..Self::scalar([0; 8])
        }
    }

    /// Returns the argument with the address of `buffer` in the 8 bytes at `offset`.
    #[must_use]
    pub fn with_buffer(mut self, offset: u64, buffer: Buffer) -> Self {
        self.buffers.push((offset, buffer));
        self
    }

    /// The buffers and the offsets of their addresses.
    pub fn buffers(&self) -> impl Iterator<Item = (u64, &Buffer)> {
        self.buffers
            .iter()
            .map(|(offset, buffer)| (*offset, buffer))
    }

    /// The buffer whose address is at `offset`.
    pub(super) fn buffer_at(&self, offset: u64) -> Option<&Buffer> {
        let found = self.buffers.iter().find(|(at, _)| *at == offset);
        found.map(|(_, buffer)| buffer)
    }

    /// The smallest and the largest number that may be in `size` bytes at `offset`, unless an
    /// address is among them, or a part of a number that is not fixed.
    pub(super) fn interval(&self, offset: u64, size: u32) -> Option<(u64, u64)> {
        let number = self.number(offset, size)?;
        let mut ranges = self.ranges.iter();
        if let Some(&(_, _, low, high)) = ranges.find(|it| (it.0, it.1) == (offset, size)) {
            return Some((low, high));
        }
        let end = offset.checked_add(u64::from(size))?;
        let mut ranges = self.ranges.iter();
        let overlaps = ranges.any(|it| it.0 < end && offset < it.0 + u64::from(it.1));
        (!overlaps).then_some((number, number))
    }

    /// The number in `size` bytes at `offset`, unless an address or a handle is among them.
    pub(super) fn number(&self, offset: u64, size: u32) -> Option<u64> {
        let end = offset.checked_add(u64::from(size))?;
        let overlaps = |&(at, _): &(u64, Buffer)| at < end && offset < at.saturating_add(8);
        if size > 8 || self.object.is_some() || self.buffers.iter().any(overlaps) {
            return None;
        }
        let range = usize::try_from(offset).ok()?..usize::try_from(end).ok()?;
        let mut value = [0; 8];
        value
            .get_mut(..size as usize)?
            .copy_from_slice(self.bytes.get(range)?);
        Some(u64::from_le_bytes(value))
    }
}

/// The reason for which an argument breaks the alignment that the kernel declares for it.
fn misaligned(name: &str, align: u64, argument: &Argument) -> Option<String> {
    let is_aligned = match argument.buffer_at(0) {
        Some(buffer) => buffer.align.is_multiple_of(align),
        None => {
            let number = argument.number(0, 8);
            number.is_none_or(|number| number.is_multiple_of(align))
        }
    };
    let text = || {
        format!(
            "the memory at {name} is not aligned to {align} bytes, which the parameter declares (`.ptr .align`)"
        )
    };
    (align > 1 && !is_aligned).then(text)
}

/// The reason for which a launch does not fit a kernel.
pub(super) fn mismatch(kernel: &Kernel, launch: &LaunchValues) -> Option<String> {
    let (given, expected) = (launch.arguments.len(), kernel.params.len());
    if given != expected {
        return Some(format!("{given} arguments for {expected} parameters"));
    }
    for (param, argument) in kernel.params.iter().zip(&launch.arguments) {
        let (given, expected) = (argument.bytes.len() as u64, param.size);
        let name = &param.name;
        if given != expected {
            return Some(format!("{given} bytes for {name}, which has {expected}"));
        }
        let mut at: Vec<u64> = argument.buffers.iter().map(|(offset, _)| *offset).collect();
        at.sort_unstable();
        let overlaps = at.windows(2).any(|pair| pair[1] - pair[0] < 8);
        if overlaps
            || at
                .last()
                .is_some_and(|last| last.saturating_add(8) > expected)
        {
            return Some(format!(
                "the addresses in {name} overlap, or are outside of it"
            ));
        }
        if argument.object.is_some() && (expected != 8 || !argument.buffers.is_empty()) {
            return Some(format!(
                "the argument for {name} is a texture or surface, so the parameter must be its handle of 8 bytes and nothing else"
            ));
        }
        // The assembler relies on the alignment that `.ptr` declares, and a handle has none.
        if argument.object.is_some() && param.target_align > 1 {
            return Some(format!(
                "{name} is declared as an address (`.ptr .align`), but the argument is a texture or surface"
            ));
        }
        if let Some(reason) = misaligned(name, param.target_align, argument) {
            return Some(reason);
        }
        let is_power = |(_, buffer): &(u64, Buffer)| buffer.align.is_power_of_two();
        if !argument.buffers.iter().all(is_power) {
            return Some(format!("an alignment in {name} is not a power of two"));
        }
    }
    let sizes = launch.block.iter().map(|&size| u64::from(size));
    let threads = sizes.fold(1, u64::saturating_mul);
    let (least, line) = kernel.least_threads;
    if threads < u64::from(least) {
        return Some(format!(
            "a block has {threads} threads, but the barrier in line {line} is for {least}; use a \
             block of at least {least} threads"
        ));
    }
    let sizes = launch.grid.iter().chain(&launch.block);
    if sizes
        .clone()
        .any(|&size| size == 0 || size > i32::MAX as u32)
    {
        return Some("a grid or block size is 0 or above 2147483647".to_owned());
    }
    None
}
