//! Makes arguments for calls: numbers, handles, and pointers to memory that the call may use in any
//! way.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::OnceLock;

use arbitrary::Unstructured;
use cuda_sys::{CUpointer_attribute, DriverLibrary};

use crate::fitting::{EXTREMES, takes_any_number, type_name};
use crate::known::{Known, Memory, destroys, wanted_memory};
use crate::nodes::Graphs;

/// The bytes of host memory that always exist. Sizes are limited so that no access reaches its end.
const SCRATCH: usize = 8 << 20;
/// The largest offset into the memory.
pub(crate) const OFFSET: usize = 4096;
/// More than the bytes from the first to the last of a three-dimensional copy, plus those before
/// them.
const LONGEST_COPY: usize = 128 << 10;
/// The number of words behind a pointer to a structure or a list: a list of 8 of the largest
/// structures fits.
pub(crate) const SLOT: usize = 512;
/// The length of the longest text that is read from a slot, including its NUL.
pub(crate) const LONGEST_TEXT: usize = 8 * SLOT;
/// Structures that a call returns and others take, and their numbers of words.
pub(crate) const STRUCTURES: &[(&str, usize)] = &[
    ("CUdevResource", 18),
    ("CUipcEventHandle", 8),
    ("CUipcMemHandle", 8),
    ("CUmemPoolPtrExportData", 8),
    ("CUtensorMap", 16),
];

/// Which arguments of a call are made at random.
#[derive(Clone, Copy, PartialEq)]
enum Random {
    None,
    One(usize),
    All,
}

/// A place in which a call may store a result, and its value before the call.
pub(crate) struct Place {
    pub(crate) kind: &'static str,
    pub(crate) at: *const u64,
    pub(crate) before: u64,
}

/// Makes arguments from random bytes, and remembers the results of calls.
pub(crate) struct Maker<'a> {
    source: Unstructured<'a>,
    pub(crate) driver: &'a DriverLibrary,
    pub(crate) function: &'static str,
    random: Random,
    /// The number of the current argument.
    argument: usize,
    /// Whether the current argument fits the call as far as that is known.
    pub(crate) plain: bool,
    /// The memory behind the pointers of this run. It is neither moved nor freed before the run
    /// ends.
    slots: Vec<Box<Slot>>,
    /// The places of the results of the current call that are to be remembered.
    pub(crate) results: Vec<Place>,
    /// The handles and addresses in the arguments of the current call.
    pub(crate) used: Vec<u64>,
    pub(crate) known: Known,
    pub(crate) graphs: Graphs,
    /// The index of the text that the current call loads.
    pub(crate) image: Option<usize>,
    /// The last function or kernel in the arguments of the current call.
    pub(crate) callee: u64,
    /// A descriptor of a file in the current call, which the driver owns if the call succeeds.
    pub(crate) descriptor: Option<File>,
    /// The place of a descriptor that the current call may return, and all returned ones.
    pub(crate) exported: Option<*const u64>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

#[repr(C, align(128))]
pub(crate) struct Slot(pub(crate) [u64; SLOT]);

/// The memory behind host pointers; its last byte is always a NUL.
pub(crate) fn scratch() -> *mut c_void {
    static SCRATCH_AT: OnceLock<usize> = OnceLock::new();
    let addr = SCRATCH_AT.get_or_init(|| {
        Vec::leak(vec![0_u64; SCRATCH / 8])
            .as_mut_ptr()
            .expose_provenance()
    });
    ptr::with_exposed_provenance_mut(*addr)
}

impl<'a> Maker<'a> {
    pub(crate) fn new(data: &'a [u8], driver: &'a DriverLibrary) -> Self {
        Self {
            source: Unstructured::new(data),
            driver,
            function: "",
            random: Random::None,
            argument: 0,
            plain: true,
            slots: Vec::new(),
            results: Vec::new(),
            used: Vec::new(),
            known: Known::default(),
            graphs: Graphs::default(),
            image: None,
            callee: 0,
            descriptor: None,
            exported: None,
            descriptors: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.source.is_empty()
    }

    /// Returns a random number below `end`, which is not 0; returns 0 once the random bytes are
    /// used up.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.source.int_in_range(0..=end - 1).unwrap_or(0)
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        !self.plain && self.below(chances) == chances - 1
    }

    pub(crate) fn choose(&mut self, choices: &[u64]) -> u64 {
        choices[self.below(choices.len())]
    }

    /// Chooses one of the valid values, or of the others if the argument need not fit.
    pub(crate) fn pick(&mut self, valid: &[u64], others: &[u64]) -> u64 {
        let others = if self.plain { &[] } else { others };
        let index = self.below(valid.len() + others.len());
        valid.iter().chain(others).copied().nth(index).unwrap_or(0)
    }

    /// Begins a call of `function`. All arguments fit if `plain` is true; otherwise, some calls get
    /// one argument that need not fit, and some only such arguments.
    pub(crate) fn begin(&mut self, function: &'static str, plain: bool) {
        self.function = function;
        self.random = Random::None;
        if !plain {
            self.random = match self.below(8) {
                0..5 => Random::None,
                5 | 6 => Random::One(1 + self.below(8)),
                _ => Random::All,
            };
        }
        self.argument = 0;
        self.plain = true;
        self.graphs = Graphs::default();
        self.image = None;
        self.callee = 0;
        self.descriptor = None;
        self.exported = None;
        self.results.clear();
        self.used.clear();
    }

    /// Begins the next argument of the call.
    pub(crate) fn next(&mut self) {
        self.argument += 1;
        self.plain = match self.random {
            Random::None => true,
            Random::One(argument) => argument != self.argument,
            Random::All => false,
        };
    }

    /// Remembers the results of the call.
    pub(crate) fn end(&mut self, succeeded: bool) {
        let descriptor = self.descriptor.take();
        let exported = self.exported.take();
        if !succeeded {
            return;
        }
        if let Some(descriptor) = descriptor {
            let _ = descriptor.into_raw_fd();
        }
        if let Some(place) = exported {
            // SAFETY: the place is a slot, and all slots live as long as `self`.
            let number = unsafe { place.cast::<RawFd>().read_volatile() };
            // SAFETY: the function returned a new descriptor, which this program owns.
            self.descriptors
                .push(unsafe { OwnedFd::from_raw_fd(number) });
        }
        let first = self.used.first().copied().unwrap_or(0);
        if destroys(self.function) {
            self.known.destroy(first);
        }
        // The address of an argument can now be used.
        if matches!(
            self.function,
            "cuMemSetAccess" | "cuMemHostRegister" | "cuMemHostRegister_v2"
        ) {
            self.known.add_address(first, self.function);
        }
        for Place { kind, at, before } in std::mem::take(&mut self.results) {
            if let Some((_, count)) = STRUCTURES.iter().find(|(name, _)| *name == kind) {
                // SAFETY: the place is in a slot with more words, and all slots live as long as
                // `self`.
                let words = unsafe { std::slice::from_raw_parts(at, *count) };
                self.known.add_structure(kind, words);
                continue;
            }
            // SAFETY: the place is in a slot, and all slots live as long as `self`.
            let value = unsafe { at.read_volatile() };
            if value == 0 || value == before {
                continue;
            }
            if matches!(kind, "CUdeviceptr" | "c_void") {
                self.known.add_address(value, self.function);
                continue;
            }
            self.known.add(kind, value, first);
            if let Some(image) = self.image {
                self.known.set_image(value, image);
            }
        }
    }

    /// Makes a handle of this kind, or a value that is not a handle.
    pub(crate) fn handle(&mut self, kind: &'static str) -> *mut c_void {
        let value = if self.one_in(16) {
            match self.below(5) {
                0 => 0x5C00_0000_0000_0000 + 16 * self.below(256) as u64,
                1 => self.below(4) as u64,
                2 => 0xDEAD_0000,
                3 => {
                    let destroyed = self.known.destroyed().to_vec();
                    self.choose(if destroyed.is_empty() {
                        &[0]
                    } else {
                        &destroyed
                    })
                }
                _ => match self.known.kinds() {
                    kinds if kinds.is_empty() => 0,
                    kinds => {
                        let kind = kinds[self.below(kinds.len())];
                        self.known_handle(kind)
                    }
                },
            }
        } else if !self.plain {
            self.known_handle(kind)
        } else {
            match kind {
                // The NULL stream, the legacy stream, and the per-thread stream.
                "CUstream" if self.takes_default_stream() => self.below(3) as u64,
                "CUstream" => self.fitting_stream(),
                "CUgraph" => self.fitting_graph(),
                "CUgraphExec" => self.fitting_exec(),
                "CUgraphNode" => self.fitting_node(""),
                // A kernel can be launched like a function.
                "CUfunction" if self.function.starts_with("cuLaunchK") && self.below(4) == 0 => {
                    self.known_handle("CUkernel")
                }
                _ => self.known_handle(kind),
            }
        };
        self.used.push(value);
        if matches!(kind, "CUfunction" | "CUkernel") {
            self.callee = value;
        }
        ptr::without_provenance_mut(value as usize)
    }

    fn takes_default_stream(&mut self) -> bool {
        let never = ["cuStreamDestroy", "Capture", "Batch"];
        !never.iter().any(|part| self.function.contains(part)) && self.below(4) == 0
    }

    pub(crate) fn known_handle(&mut self, kind: &str) -> u64 {
        match self.known.handles(kind).len() {
            0 => 0,
            count => {
                let index = self.below(count);
                self.known.handles(kind)[index]
            }
        }
    }

    /// Makes a device address: of memory, of freed memory, near an allocation, or of the host
    /// memory that always exists.
    pub(crate) fn address(&mut self) -> u64 {
        self.address_of(wanted_memory(self.function))
    }

    pub(crate) fn address_of(&mut self, wanted: &[Memory]) -> u64 {
        if !self.known.freed().is_empty() && self.one_in(16) {
            let freed = self.known.freed().to_vec();
            return self.choose(&freed);
        }
        // Addresses without memory would be mistaken for those of host memory.
        let fits = |memory| wanted.contains(&memory) || !self.plain && memory < Memory::Reserved;
        let all = self.known.addresses.iter().copied();
        let all: Vec<_> = all.filter(|known| fits(known.memory())).collect();
        if all.is_empty() || self.one_in(32) {
            return 0;
        }
        let chosen = all[self.below(all.len())];
        let addr = chosen.value;
        self.used.push(addr);
        if !chosen.is_for_good() {
            // Reserved addresses are used only where they are not accessed.
            if chosen.memory() >= Memory::Reserved || self.is_memory(addr) {
                return addr;
            }
            // The memory no longer belongs to the driver, which would mistake the address for a
            // host address.
            self.known.destroy(addr);
            return scratch().addr() as u64;
        }
        if self.one_in(8) {
            addr + self.below(OFFSET) as u64
        } else {
            addr
        }
    }

    /// Whether an address belongs to the driver.
    fn is_memory(&self, addr: u64) -> bool {
        let mut sort = 0_u32;
        // SAFETY: the attribute is a number of 32 bits, and the destination a local.
        let status = unsafe {
            self.driver.cuPointerGetAttribute(
                (&raw mut sort).cast(),
                CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                addr,
            )
        };
        status.is_success()
    }

    /// Makes a device address for one side of a copy. An address after memory that the host can
    /// reach, or after address 0, would be mistaken for a host address.
    pub(crate) fn side_address(&mut self) -> u64 {
        let addr = self.address();
        let is_hosts =
            (self.known.addresses.iter()).any(|known| known.value == addr && !known.is_for_good());
        if addr == 0 || is_hosts && !self.has_room(addr) {
            return scratch().addr() as u64;
        }
        addr
    }

    /// Whether the most that a call copies at once fits into the allocation at `addr`.
    pub(crate) fn has_room(&self, addr: u64) -> bool {
        let mut size = 0_usize;
        // SAFETY: the attribute is a size, and the destination a local.
        let status = unsafe {
            self.driver.cuPointerGetAttribute(
                (&raw mut size).cast(),
                CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                addr,
            )
        };
        status.is_success() && size >= LONGEST_COPY
    }

    /// Makes a number for a parameter of this type and name.
    pub(crate) fn number(&mut self, ty: &'static str, param: &'static str) -> u64 {
        match ty {
            "CUdeviceptr" if param == "addr" && self.function == "cuMemAddressReserve" => {
                return 0;
            }
            "CUdeviceptr" => return self.address(),
            "CUmemGenericAllocationHandle" | "CUgraphConditionalHandle" => {
                return self.handle(ty).addr() as u64;
            }
            "CUdevice" if self.function.starts_with("cuDevicePrimary") => {
                return self.pick(&[0, 1], &[u64::MAX]);
            }
            "CUdevice" => {
                return self.pick(&[0, 0, 0, 1], &[u64::MAX]);
            }
            _ => {}
        }
        if self.plain
            && let Some(number) = self.fitting_number(param)
        {
            return number;
        }
        if takes_any_number(self.function, param) && self.below(2) == 0 {
            return self.choose(EXTREMES);
        }
        let lower = param.to_lowercase();
        let is = |part: &str| lower.contains(part);
        // The number of elements in a list.
        let is_count = is("num") || is("nbresources") || is("count") && !is("byte");
        if is_count && self.function != "cuMemcpy" {
            return self.below(5) as u64;
        }
        // A large grid would only take long.
        if lower.starts_with("grid") {
            return self.choose(&[1, 2, 3, 5, 0, u64::from(u32::MAX)]);
        }
        if is("dim") || is("blocksize") {
            return self.choose(&[1, 2, 32, 64, 3, 0, 1025]);
        }
        if is("flags") {
            return match self.below(4) {
                0 | 1 => 0,
                2 => 1 << self.below(8),
                _ => 1 << self.below(32),
            };
        }
        if [
            "cuMemAlloc",
            "cuMemAddressReserve",
            "cuMemCreate",
            "cuMemHostAlloc",
        ]
        .iter()
        .any(|prefix| self.function.starts_with(prefix))
        {
            return match self.below(5) {
                0 => 4096,
                1 => 1000,
                2 => 2 << 20,
                3 => self.below(1 << 16) as u64,
                _ => [0, u64::MAX, 1 << 40, 9 << 20, u64::MAX - 255][self.below(5)],
            };
        }
        match self.below(4) {
            0 => self.below(4) as u64,
            1 => 1 << self.below(13),
            2 => self.below(4096) as u64,
            _ => [0, 1, 4, 16, 64, 100, 256][self.below(7)],
        }
    }

    /// Makes a value of an enum, or of a structure that is passed by value.
    pub(crate) fn other<T>(&mut self) -> T {
        let mut words = [0_u32; 64];
        words[0] = match self.below(3) {
            0 => self.below(12) as u32,
            1 => self.below(160) as u32,
            _ => 1 << self.below(32),
        };
        words[1] = self.below(3) as u32;
        if self.plain
            && let Some(fitting) = self.fitting_value::<T>()
        {
            words[..2].copy_from_slice(&fitting);
        }
        let structures = self.known.structures(type_name::<T>()).to_vec();
        if self.plain && !structures.is_empty() {
            let chosen = &structures[self.below(structures.len())];
            let halves = chosen
                .iter()
                .flat_map(|word| [*word as u32, (word >> 32) as u32]);
            words
                .iter_mut()
                .zip(halves)
                .for_each(|(to, from)| *to = from);
        }
        assert!(
            size_of::<T>() <= size_of_val(&words),
            "no parameter is larger"
        );
        // SAFETY: `T` is a C structure or a number of 32 bits, for which any bits are valid, and it
        // is not larger ← the types of the parameters of cuda.h that reach this function.
        unsafe { words.as_ptr().cast::<T>().read_unaligned() }
    }

    /// Returns a place that holds `words` followed by zeros and lives as long as `self`.
    pub(crate) fn place(&mut self, words: &[u64]) -> *mut c_void {
        let mut slot = Box::new(Slot([0; SLOT]));
        slot.0[..words.len()].copy_from_slice(words);
        let place = (&raw mut slot.0).cast();
        self.slots.push(slot);
        place
    }
}
