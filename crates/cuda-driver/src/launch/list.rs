//! Arguments whose number is known only when the program runs.

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use smallvec::SmallVec;

use super::args::{KernelArg, KernelArgs, Tracked, Values};
use crate::error::Result;
use crate::function::check::{Layout, UNPACKED};

/// So many arguments need no memory of the heap.
const INLINE: usize = 64;

/// Arguments of a kernel, one after the other: what a tuple is for a number known when the program
/// is written.
///
/// ```no_run
/// # use cuda_driver::{ArgList, DeviceBuffer, Function, LaunchConfig, Stream};
/// # fn f(stream: &Stream, kernel: &Function, inputs: &[DeviceBuffer<f32>], output: &mut DeviceBuffer<f32>)
/// #     -> cuda_driver::Result<()> {
/// let mut args = ArgList::new();
/// for input in inputs {
///     args.push(input);
/// }
/// args.push(output).push(1_u32);
/// // SAFETY: the kernel takes as many inputs, an output and a number.
/// unsafe { stream.launch(kernel, LaunchConfig::new(1, 256), &args) }
/// # }
/// ```
///
/// What it borrows stays borrowed as long as it lives; it can be launched with any number of times.
/// Up to 64 arguments of up to 1024 bytes together it uses no memory of the heap.
#[derive(Default)]
pub struct ArgList<'a> {
    /// The values as C has them in a struct, which is where most kernels have them.
    block: SmallVec<[Chunk; INLINE]>,
    /// Where each begins, in bytes.
    starts: SmallVec<[usize; INLINE]>,
    sizes: SmallVec<[usize; INLINE]>,
    /// Where the last one ends.
    end: usize,
    /// Without its lifetime, so that a list that is only dropped later borrows nothing any more.
    uses: SmallVec<[Tracked<'static>; INLINE]>,
    /// Whoever launches it has what it borrows to itself, so two threads must not do it at once: it
    /// is not `Sync`.
    borrows: PhantomData<(&'a mut (), Cell<()>)>,
}

/// As aligned as any value that a kernel takes.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Chunk(MaybeUninit<[u8; 16]>);

impl<'a> ArgList<'a> {
    /// No arguments.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One more argument.
    #[inline]
    pub fn push<A: KernelArg + 'a>(&mut self, arg: A) -> &mut Self {
        const { assert!(align_of::<A::Value>() <= align_of::<Chunk>()) };
        let size = size_of::<A::Value>();
        let start = self.end.next_multiple_of(align_of::<A::Value>());
        self.end = start + size;
        while self.block.len() * size_of::<Chunk>() < self.end {
            self.block.push(Chunk(MaybeUninit::uninit()));
        }
        let to = self.block.as_mut_ptr().wrapping_byte_add(start);
        // SAFETY: there must be room for the value, aligned ← the chunks reach to `end`, are as
        // aligned as asserted above, and `start` is a multiple of the value's alignment.
        unsafe { to.cast::<A::Value>().write(arg.value()) };
        self.starts.push(start);
        self.sizes.push(size);
        self.uses(arg)
    }

    /// Memory that the kernel uses beside its arguments: a buffer or view whose address is in a
    /// struct of them. See [`Using`](super::Using).
    #[inline]
    pub fn uses<A: KernelArg + 'a>(&mut self, memory: A) -> &mut Self {
        if let Some(tracked) = memory.tracked() {
            // SAFETY: it must be alive when it is used ← it lives as long as every borrow in `A`,
            // and those are for 'a; the list is of 'a, and a drop of it uses nothing.
            let tracked = unsafe { std::mem::transmute::<Tracked<'_>, Tracked<'static>>(tracked) };
            self.uses.push(tracked);
        }
        self
    }

    /// The number of arguments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Whether there is no argument.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }
}

// SAFETY: `push` adds to both.
unsafe impl KernelArgs for &ArgList<'_> {
    fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    fn packed_sizes(&self) -> u128 {
        // They are compared as they are: that is less than packing them.
        UNPACKED
    }

    fn with_pointers<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
        let block = self.block.as_ptr();
        let pointer = |start: &usize| block.wrapping_byte_add(*start).cast_mut().cast();
        let mut pointers: SmallVec<[*mut c_void; INLINE]> =
            self.starts.iter().map(pointer).collect();
        f(&mut pointers)
    }

    fn with_values<R>(&self, layout: Layout<'_>, f: impl FnOnce(Values) -> R) -> R {
        if self.is_empty() || layout.offsets != self.starts.as_slice() {
            return self.with_pointers(|pointers| f(Values::pointers(pointers)));
        }
        Values::with_block(self.block.as_ptr(), self.end, f)
    }

    fn are_in_order(&self, stream: u64) -> bool {
        self.uses.iter().all(|it| it.is_in_order(stream))
    }

    fn are_noted(&self, stream: u64, epoch: u64) -> bool {
        self.uses.iter().all(|it| it.is_noted(stream, epoch))
    }

    fn each_tracked(&self, f: &mut dyn FnMut(Tracked<'_>) -> Result<()>) -> Result<()> {
        self.uses.iter().try_for_each(|tracked| f(*tracked))
    }
}

impl fmt::Debug for ArgList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArgList(of {:?} bytes)", self.sizes.as_slice())
    }
}
