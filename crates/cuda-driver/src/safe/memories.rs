//! The memory among the arguments of a launch, and the values that a proof depends on.

use std::ops::Deref;
use std::slice;

use cuda_ptx::analysis::{Argument, Buffer, Object, ObjectKind, ObjectShape, Root};
use smallvec::SmallVec;

use crate::error::Result;
use crate::launch::{KernelArgs, ObjectArg};
use crate::memory::is_array_number;

/// Memory that a launch may access.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryArg {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) is_writable: bool,
    /// The parameter whose value is the address, from 0.
    pub(super) parameter: Option<u32>,
}

impl MemoryArg {
    /// The root of addresses that are derived from the parameter.
    pub(super) fn root(&self) -> Option<Root> {
        self.parameter.map(|parameter| Root::Buffer {
            parameter,
            offset: 0,
        })
    }

    /// The power of two that divides the address, up to 256, as an exponent.
    pub(super) fn align(&self) -> u32 {
        self.address.trailing_zeros().min(8)
    }
}

/// The size of buffers for the analysis.
pub(super) const UNLIMITED: u64 = 1 << 62;

/// The memory among the arguments, and the textures and surfaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Memories {
    list: SmallVec<[MemoryArg; 16]>,
    objects: SmallVec<[ParameterObject; 2]>,
}

/// A texture or surface whose handle is the value of a parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParameterObject {
    parameter: u32,
    handle: u64,
    object: Object,
    /// For a surface: the bytes of a row, the rows, and the planes or layers.
    pub(super) extents: [u64; 3],
}

impl Deref for Memories {
    type Target = [MemoryArg];

    fn deref(&self) -> &[MemoryArg] {
        &self.list
    }
}

impl Memories {
    /// The texture or surface in a parameter.
    pub(super) fn object(&self, parameter: u32) -> Option<&ParameterObject> {
        self.objects.iter().find(|it| it.parameter == parameter)
    }
}

impl ParameterObject {
    fn new(parameter: u32, arg: &ObjectArg, can_write: bool) -> Self {
        let mut object = arg.object;
        if let ObjectKind::Surface { is_writable, .. } = &mut object.kind {
            *is_writable &= can_write;
        }
        Self {
            parameter,
            handle: arg.handle,
            object,
            extents: arg.extents,
        }
    }

    /// Returns a number that encodes everything about the object that an evaluation depends on. It
    /// is below 256, and above the numbers that [`kind`] returns for memory.
    fn code(&self) -> u64 {
        let shape = match self.object.shape {
            ObjectShape::Linear => 0,
            ObjectShape::OneD => 1,
            ObjectShape::TwoD => 2,
            ObjectShape::ThreeD => 3,
            ObjectShape::OneDLayered => 4,
            ObjectShape::TwoDLayered => 5,
            ObjectShape::Cube => 6,
            _ => 7,
        };
        match self.object.kind {
            ObjectKind::Surface {
                element_bytes,
                is_writable,
            } => {
                // 1, 2, 4, 8 or 16 bytes.
                let size = u64::from(element_bytes.trailing_zeros() & 7);
                0x80 | u64::from(is_writable) << 6 | size << 3 | shape
            }
            ObjectKind::Texture { can_gather } => 0x40 | u64::from(can_gather) << 3 | shape,
            _ => 0x20,
        }
    }
}

/// A value of at most 8 bytes at `offset` of an argument, or `None` if it is not in the argument.
///
/// # Safety
///
/// `size` initialized bytes are at `argument`, and stay unchanged during the call.
unsafe fn word(argument: *const u8, size: usize, offset: u64, count: u32) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    let count = count as usize;
    let end = start.checked_add(count)?;
    if end > size || count > 8 {
        return None;
    }
    // SAFETY: the bytes must be initialized and unchanged ← the caller guarantees it for all bytes
    // of the argument, and the range is within it.
    let bytes = unsafe { slice::from_raw_parts(argument.wrapping_add(start), count) };
    let mut word = [0; 8];
    word.get_mut(..count)?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

/// Collects the memory of the arguments.
pub(super) fn collect<A: KernelArgs>(args: &A) -> Memories {
    let mut all = Memories::default();
    let Memories {
        list: memories,
        objects,
    } = &mut all;
    // The closure never fails.
    let _ = args.each_tracked(&mut |tracked| -> Result<()> {
        if let (Some(object), Some(parameter)) =
            (tracked.object, u32::from(tracked.argument).checked_sub(1))
        {
            let can_write = tracked.access.is_write();
            objects.push(ParameterObject::new(parameter, object, can_write));
        }
        // An array has no address.
        if is_array_number(tracked.address) {
            return Ok(());
        }
        memories.push(MemoryArg {
            address: tracked.address,
            bytes: tracked.bytes as u64,
            is_writable: tracked.access.is_write(),
            parameter: u32::from(tracked.argument).checked_sub(1),
        });
        Ok(())
    });
    let sizes = args.sizes();
    args.with_pointers(|pointers| {
        // The parameter must be the handle, and nothing else.
        objects.retain(|object| {
            let index = object.parameter as usize;
            let (Some(&size), Some(&pointer)) = (sizes.get(index), pointers.get(index)) else {
                return false;
            };
            // SAFETY: as below.
            let value = unsafe { word(pointer.cast_const().cast(), size, 0, 8) };
            size == 8 && value == Some(object.handle)
        });
        for memory in memories.iter_mut() {
            // The memory belongs to the parameter only if the parameter is its address, and
            // nothing else. An argument of no bytes may have any address.
            let is_address = memory.parameter.is_some_and(|parameter| {
                let index = parameter as usize;
                let (Some(&size), Some(&pointer)) = (sizes.get(index), pointers.get(index)) else {
                    return false;
                };
                // SAFETY: there must be `size` initialized bytes ← `with_pointers` gives pointers
                // to the values, whose sizes are `sizes`, and all bytes of a value are initialized.
                let value = unsafe { word(pointer.cast_const().cast(), size, 0, 8) };
                size == 8 && value == Some(memory.address) && memory.address != 0
            });
            if !is_address {
                memory.parameter = None;
            }
        }
    });
    // One parameter has one address.
    for index in 0..memories.len() {
        let (before, rest) = memories.split_at_mut(index);
        if let Some(this) = rest.first_mut()
            && this.parameter.is_some()
            && before.iter().any(|other| other.parameter == this.parameter)
        {
            this.parameter = None;
        }
    }
    all
}

/// Returns the kind of a parameter: 0 for a value, 1 to 9 for memory (1 + the exponent of its
/// alignment), and [`ParameterObject::code`] for textures and surfaces.
pub(super) fn kind(memories: &Memories, parameter: u32) -> u64 {
    if let Some(object) = memories.object(parameter) {
        return object.code();
    }
    let found = memories
        .iter()
        .find(|memory| memory.parameter == Some(parameter));
    found.map_or(0, |memory| 1 + u64::from(memory.align()))
}

/// Appends the values that a proof depends on.
pub(super) fn append_relevant<A: KernelArgs, const N: usize>(
    args: &A,
    memories: &Memories,
    relevant: &[(u32, u64, u32)],
    key: &mut SmallVec<[u64; N]>,
) {
    let sizes = args.sizes();
    args.with_pointers(|pointers| {
        for &(parameter, offset, count) in relevant {
            let index = parameter as usize;
            if kind(memories, parameter) != 0 {
                continue;
            }
            let (Some(&size), Some(&pointer)) = (sizes.get(index), pointers.get(index)) else {
                continue;
            };
            // SAFETY: as in `collect`.
            let value = unsafe { word(pointer.cast_const().cast(), size, offset, count) };
            key.push(value.unwrap_or(0));
        }
    });
}

/// The arguments as the analysis takes them. Each buffer is larger than any offset that the
/// analysis can prove, so that the result is a size to compare with, and it may be written.
pub(super) fn arguments<A: KernelArgs>(args: &A, memories: &Memories) -> Vec<Argument> {
    let sizes = args.sizes();
    args.with_pointers(|pointers| {
        let arguments = sizes.iter().zip(pointers.iter()).enumerate();
        let arguments = arguments.map(|(index, (&size, &pointer))| {
            let object = u32::try_from(index).ok();
            if let Some(object) = object.and_then(|index| memories.object(index)) {
                return Argument::object(object.object);
            }
            let found = memories
                .iter()
                .find(|memory| memory.parameter == u32::try_from(index).ok());
            match found {
                Some(memory) => Argument::buffer(Buffer {
                    bytes: UNLIMITED,
                    align: 1 << memory.align(),
                    is_writable: true,
                }),
                None => {
                    // SAFETY: as in `collect`.
                    let bytes = unsafe { slice::from_raw_parts(pointer.cast_const().cast(), size) };
                    let bytes: &[u8] = bytes;
                    Argument::scalar(bytes)
                }
            }
        });
        arguments.collect()
    })
}
