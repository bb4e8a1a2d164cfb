//! Argument lists whose length is known only at run time.

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::slice;

use smallvec::SmallVec;

use super::SliceArg;
use super::arg_table::{ArgTable, INLINE, ValueBlock};
use super::args::{KernelArg, KernelArgs, Values};
use super::tracked::Tracked;
use crate::error::{Error, Result};
use crate::function::check::Layout;
use crate::memory::DeviceRepr;
use crate::types::ArgType;

/// A list of kernel arguments whose length is known only at run time. Use a tuple if the number is
/// known at compile time.
///
/// ```
/// use cuda_driver::{DeviceBuffer, LaunchConfig, Module, Ptx};
/// use cuda_driver::launch::ArgList;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// # let mix = Module::load(&context, &mix)?.function("mix")?;
/// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
/// let inputs = [DeviceBuffer::filled(&stream, 100, 5_u32)?];
/// let mut args = ArgList::new();
/// args.push(&mut x);
/// for input in &inputs {
///     args.push(input);
/// }
/// args.push(100_u32);
/// // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 100 words.
/// unsafe { stream.launch(&mix, LaunchConfig::for_num_elems(100)?, &args) }?;
/// drop(args);
/// assert_eq!(x.to_vec()?, [7; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The list borrows its arguments as long as it lives, and can be used for any number of launches.
/// It uses no heap memory for up to 64 arguments of up to 1024 bytes in total.
pub struct ArgList<'a> {
    /// The values, laid out like a C struct, which is the layout of most kernels' parameters.
    block: ValueBlock,
    /// The position, the size and the type of each value.
    table: ArgTable,
    /// The memory that the arguments refer to. The lifetime is erased so that the drop of a list
    /// does not count as a use of the borrows.
    uses: SmallVec<[Tracked<'static>; INLINE]>,
    /// A launch relies on exclusive access to the `&mut` borrows in the list, so two threads must
    /// not launch with it at the same time: the `Cell` makes the list not `Sync`.
    borrows: PhantomData<(&'a mut (), Cell<()>)>,
}

impl<'a> ArgList<'a> {
    /// Creates an empty list.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        Self {
            block: ValueBlock::new(),
            table: ArgTable::new(),
            uses: SmallVec::new(),
            borrows: PhantomData,
        }
    }

    /// Appends an argument. The argument must be `Send`, because the list is: pass a
    /// [writable alias](crate::DeviceBuffer::alias_mut) instead of an
    /// [`InPlace`](crate::memory::InPlace) argument.
    #[inline]
    pub fn push<A: KernelArg + Send + 'a>(&mut self, arg: A) -> &mut Self {
        const { assert!(align_of::<A::Value>() <= ValueBlock::ALIGN) };
        // The functions of the argument may be of another crate and panic, so the list is changed
        // only after they have returned.
        let value = arg.value();
        self.add_uses(arg, u8::try_from(self.len() + 1).unwrap_or(0));
        let (size, align) = (size_of::<A::Value>(), align_of::<A::Value>());
        let to = self.add_value(size, align, A::ARG_TYPE);
        // SAFETY: there must be aligned room for the value ← `add_value` returns room for its size,
        // aligned to its alignment, which is at most `ValueBlock::ALIGN`.
        unsafe { to.cast::<A::Value>().write(value) };
        self
    }

    /// Appends an argument of which only the bytes are known: a struct whose type is described at
    /// run time. `align` is the alignment of the parameter, as in C: a power of two up to 16. The
    /// kernel's parameters are known from [`Function::parameters`](crate::Function::parameters).
    ///
    /// Memory to which the bytes refer is added by [`uses`](Self::uses).
    ///
    /// ```
    /// use cuda_driver::launch::ArgList;
    ///
    /// let mut args = ArgList::new();
    /// args.push(1_u8);
    /// // A struct of a `u64` and a `u32`.
    /// args.push_bytes(&[0; 16], 8)?;
    /// assert_eq!(args.len(), 2);
    /// assert!(args.push_bytes(&[0; 16], 3).is_err());
    /// # Ok::<(), cuda_driver::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if `align` is not a power of two, or is larger than 16.
    pub fn push_bytes(&mut self, bytes: &[u8], align: usize) -> Result<&mut Self> {
        if !align.is_power_of_two() || align > ValueBlock::ALIGN {
            return Err(Error::Unsupported {
                what: "an argument whose alignment is not 1, 2, 4, 8 or 16; pass the alignment of \
                       the parameter",
            });
        }
        let to = self.add_value(bytes.len(), align, ArgType::Other);
        // SAFETY: both ranges must hold the bytes and must not overlap ← `add_value` returns room
        // for them in the list, which is borrowed exclusively.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(self)
    }

    /// Appends a slice as two arguments: the address, and the length as a `u64`. Some compilers for
    /// Rust pass slices to kernels in this way. If the kernel takes a slice as one parameter,
    /// `push` the [`SliceArg`].
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    /// use cuda_driver::launch::ArgList;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let buffer = DeviceBuffer::<f32>::zeroed(&stream, 10)?;
    /// let mut args = ArgList::new();
    /// args.push_slice(buffer.as_slice().with_len());
    /// assert_eq!(args.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn push_slice<T: DeviceRepr>(&mut self, slice: SliceArg<'a, T>) -> &mut Self {
        for (value, ty) in slice
            .value()
            .into_iter()
            .zip([ArgType::address_of(T::ARG_TYPE), ArgType::U64])
        {
            let to = self.add_value(size_of::<u64>(), align_of::<u64>(), ty);
            // SAFETY: there must be aligned room for the value ← `add_value` returns it.
            unsafe { to.cast::<u64>().write(value) };
        }
        // The address is the last argument but one.
        self.add_uses(slice, u8::try_from(self.len() - 1).unwrap_or(0))
    }

    /// Appends a value of `size` bytes, and returns the uninitialized room for it, aligned to
    /// `align`. `align` is a power of two, and at most [`ValueBlock::ALIGN`].
    // Inlined because `push` knows the size, the alignment and the type when it is compiled.
    #[inline(always)]
    fn add_value(&mut self, size: usize, align: usize, ty: ArgType) -> *mut u8 {
        let (gap, start) = self.block.add(size, align);
        self.table.push(gap, start, size, ty);
        self.block.at(start)
    }

    /// Adds memory that the kernel uses but that is not an argument itself: a buffer or view whose
    /// address is a field of a struct among the arguments. See [`Using`](super::Using).
    #[inline]
    pub fn uses<A: KernelArg + Send + 'a>(&mut self, memory: A) -> &mut Self {
        self.add_uses(memory, 0)
    }

    #[inline]
    fn add_uses<A: KernelArg + 'a>(&mut self, memory: A, argument: u8) -> &mut Self {
        if let Some(tracked) = memory.tracked() {
            let tracked = Tracked {
                argument,
                ..tracked
            };
            // SAFETY: the memory must be alive when `tracked` is used ← it lives as long as every
            // borrow in `A`, those outlive 'a, the list cannot be launched after 'a, and dropping
            // it does not use the entries.
            let tracked = unsafe { std::mem::transmute::<Tracked<'_>, Tracked<'static>>(tracked) };
            self.uses.push(tracked);
        }
        self
    }

    /// Returns the number of arguments.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether the list has no arguments.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }
}

impl Default for ArgList<'_> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: sizes, pointers and values must be of the same arguments ← `add_value` adds to all of
// them.
unsafe impl KernelArgs for &ArgList<'_> {
    #[inline]
    fn sizes(&self) -> &[usize] {
        self.table.sizes()
    }

    #[inline]
    fn types(&self) -> &[ArgType] {
        self.table.types()
    }

    #[inline]
    fn packed(&self) -> u128 {
        self.table.packed()
    }

    fn with_pointers<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
        let pointer = |start: &usize| self.block.value(*start).cast_mut().cast();
        let mut pointers: SmallVec<[*mut c_void; INLINE]> =
            self.table.starts().iter().map(pointer).collect();
        f(&mut pointers)
    }

    #[inline]
    fn with_values<R>(&self, layout: Layout<'_>, f: impl FnOnce(Values) -> R) -> R {
        if !self.table.has_layout(layout) {
            return self.with_pointers(|pointers| f(Values::pointers(pointers)));
        }
        Values::with_block(self.block.value(0), self.block.len(), f)
    }

    #[inline]
    fn are_in_order(&self, stream: u64) -> bool {
        self.uses.iter().all(|it| it.is_in_order(stream))
    }

    #[inline]
    fn need_no_record(&self, stream: u64, epoch: u64) -> bool {
        self.uses.iter().all(|it| it.needs_no_record(stream, epoch))
    }

    fn each_tracked(&self, f: &mut dyn FnMut(Tracked<'_>) -> Result<()>) -> Result<()> {
        self.uses.iter().try_for_each(|tracked| f(*tracked))
    }

    fn all_arguments(&self, mut f: impl FnMut(usize, &[u8], Option<Tracked<'_>>) -> bool) -> bool {
        // The uses of arguments are in the order of the arguments.
        let mut uses = self.uses.iter().filter(|it| it.argument != 0).peekable();
        let arguments = self.table.starts().iter().zip(self.table.sizes());
        arguments.enumerate().all(|(index, (&start, &size))| {
            let tracked = uses.next_if(|it| usize::from(it.argument) == index + 1);
            // SAFETY: there must be `size` initialized bytes ← the argument was written there, and
            // all bytes of a kernel argument are initialized.
            let bytes = unsafe { slice::from_raw_parts(self.block.value(start), size) };
            f(index, bytes, tracked.copied())
        })
    }
}

impl fmt::Debug for ArgList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArgList(of {:?} bytes)", self.table.sizes())
    }
}
