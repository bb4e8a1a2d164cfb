//! Arguments for a call: numbers, handles, and pointers to memory that the call may use as it likes.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use arbitrary::Unstructured;
use cuda_sys::{CUpointer_attribute, DriverLibrary};

use crate::calls::{IMAGES, STRINGS};

/// Bytes of host memory that is always there. Sizes are so that nothing reaches its end.
const SCRATCH: usize = 8 << 20;
/// The largest offset into it.
const OFFSET: usize = 4096;
/// More than the bytes from the first to the last of a copy of three dimensions, and what lies before them.
const LONGEST_COPY: usize = 128 << 10;
/// Words of what a pointer to a structure or a list points to: a list of 8 of the largest fits.
const SLOT: usize = 512;
/// How many of a kind are remembered.
const KEPT: usize = 32;

/// Makes arguments out of random bytes, and remembers what calls give.
pub(crate) struct Maker<'a> {
    source: Unstructured<'a>,
    driver: &'a DriverLibrary,
    function: &'static str,
    /// Nothing is wrong on purpose.
    plain: bool,
    /// What pointers of this run point to. Nothing moves or goes before the run ends.
    slots: Vec<Box<Slot>>,
    /// Where the call under way may write what is to be remembered, and what that is.
    results: Vec<(&'static str, *const u64)>,
    handles: HashMap<&'static str, Vec<u64>>,
    /// Device addresses, and whether they fault for good once they are freed. Others are the host's again.
    addresses: Vec<(u64, bool)>,
}

#[repr(C, align(128))]
pub(crate) struct Slot(pub(crate) [u64; SLOT]);

/// The memory that host pointers point to; the last byte is and stays a NUL.
fn scratch() -> *mut c_void {
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
            plain: false,
            slots: Vec::new(),
            results: Vec::new(),
            handles: HashMap::new(),
            addresses: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.source.is_empty()
    }

    /// Whether arguments are to be right as far as that is known.
    pub(crate) fn plainly(&mut self, plain: bool) {
        self.plain = plain;
    }

    /// A random number below `end`, which is not 0; 0 once there are no more random bytes.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.source.int_in_range(0..=end - 1).unwrap_or(0)
    }

    fn one_in(&mut self, chances: usize) -> bool {
        !self.plain && self.below(chances) == chances - 1
    }

    /// Begins a call of `function`.
    pub(crate) fn begin(&mut self, function: &'static str) {
        self.function = function;
        self.results.clear();
    }

    /// Remembers what the call gave.
    pub(crate) fn end(&mut self, succeeded: bool) {
        for (kind, place) in std::mem::take(&mut self.results) {
            if !succeeded {
                continue;
            }
            // SAFETY: the place is the first word of a slot, all of which live as long as `self`.
            let value = unsafe { place.read_volatile() };
            if value == 0 {
                continue;
            }
            if matches!(kind, "CUdeviceptr" | "c_void") {
                let for_good = [
                    "cuMemAlloc_v2",
                    "cuMemAllocPitch_v2",
                    "cuMemAllocAsync",
                    "cuMemAllocFromPoolAsync",
                ]
                .contains(&self.function);
                if self.addresses.len() == KEPT {
                    self.addresses.remove(0);
                }
                self.addresses.push((value, for_good));
            } else {
                let known = self.handles.entry(kind).or_default();
                if known.len() == KEPT {
                    known.remove(0);
                }
                known.push(value);
            }
        }
    }

    /// A handle of this kind, or something that is none.
    pub(crate) fn handle(&mut self, kind: &'static str) -> *mut c_void {
        let value = if self.one_in(16) {
            match self.below(4) {
                0 => 0x5C00_0000_0000_0000 + 16 * self.below(256) as u64,
                1 => self.below(4) as u64,
                2 => 0xDEAD_0000,
                _ => {
                    let kinds: Vec<&'static str> = self.handles.keys().copied().collect();
                    match kinds.len() {
                        0 => 0,
                        count => {
                            let kind = kinds[self.below(count)];
                            self.known(kind)
                        }
                    }
                }
            }
        } else if kind == "CUstream" && self.below(4) == 0 {
            // The NULL stream, the legacy one, and the per-thread one.
            self.below(3) as u64
        } else {
            self.known(kind)
        };
        ptr::without_provenance_mut(value as usize)
    }

    fn known(&mut self, kind: &str) -> u64 {
        match self.handles.get(kind).map(Vec::len) {
            None | Some(0) => 0,
            Some(count) => {
                let index = self.below(count);
                self.handles[kind][index]
            }
        }
    }

    /// A device address: of memory, of what was freed, near one, or of the host memory that is always there.
    pub(crate) fn address(&mut self) -> u64 {
        let count = self.addresses.len();
        if count == 0 || self.one_in(32) {
            return 0;
        }
        let index = self.below(count);
        let (addr, for_good) = self.addresses[index];
        if !for_good {
            let mut sort = 0_u32;
            // SAFETY: the attribute is a number of 32 bits, and the place a local.
            let status = unsafe {
                self.driver.cuPointerGetAttribute(
                    (&raw mut sort).cast(),
                    CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                    addr,
                )
            };
            // Not memory of the driver's any more: it would be taken for the host's, which it is not.
            if !status.is_success() {
                self.addresses.remove(index);
                return scratch().addr() as u64;
            }
            return addr;
        }
        if self.one_in(8) {
            addr + self.below(OFFSET) as u64
        } else {
            addr
        }
    }

    /// A device address for one side of a copy. What lies behind memory that the host can reach, or behind address 0,
    /// would be taken for the host's own.
    pub(crate) fn side_address(&mut self) -> u64 {
        let addr = self.address();
        let is_hosts = self
            .addresses
            .iter()
            .any(|&(known, for_good)| known == addr && !for_good);
        if addr == 0 || is_hosts && !self.has_room(addr) {
            return scratch().addr() as u64;
        }
        addr
    }

    /// Whether all that a call copies at once fits into the allocation at `addr`.
    fn has_room(&self, addr: u64) -> bool {
        let mut size = 0_usize;
        // SAFETY: the attribute is a size, and the place a local.
        let status = unsafe {
            self.driver.cuPointerGetAttribute(
                (&raw mut size).cast(),
                CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                addr,
            )
        };
        status.is_success() && size >= LONGEST_COPY
    }

    /// A number for a parameter of this type and name.
    pub(crate) fn number(&mut self, ty: &'static str, param: &'static str) -> u64 {
        match ty {
            "CUdeviceptr" => return self.address(),
            "CUmemGenericAllocationHandle" | "CUgraphConditionalHandle" => {
                return self.handle(ty).addr() as u64;
            }
            "CUdevice" => {
                return if self.one_in(16) {
                    u64::MAX
                } else {
                    self.below(2) as u64
                };
            }
            _ => {}
        }
        let lower = param.to_lowercase();
        let is = |part: &str| lower.contains(part);
        // How many elements a list has.
        if is("num") || is("count") && !is("byte") && self.function != "cuMemcpy" {
            return self.below(5) as u64;
        }
        // A large grid would only take long.
        if is("griddim") {
            return [1, 2, 3, 5, 0, u64::from(u32::MAX)]
                [if self.plain { 0 } else { self.below(6) }];
        }
        if is("dim") || is("blocksize") {
            return [1, 2, 32, 64, 3, 0, 1025][if self.plain { 0 } else { self.below(7) }];
        }
        if is("flags") {
            return match self.below(4) {
                0 | 1 => 0,
                2 => 1 << self.below(8),
                _ if self.plain => 0,
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
            return match self.below(if self.plain { 2 } else { 5 }) {
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

    /// A value of an enum, or of a structure that goes by value.
    pub(crate) fn other<T>(&mut self) -> T {
        let mut words = [0_u32; 64];
        words[0] = match self.below(if self.plain { 1 } else { 3 }) {
            0 => self.below(12) as u32,
            1 => self.below(160) as u32,
            _ => 1 << self.below(32),
        };
        words[1] = self.below(3) as u32;
        assert!(
            size_of::<T>() <= size_of_val(&words),
            "no parameter is as large"
        );
        // SAFETY: `T` is a C structure or a number of 32 bits, for which any bits are a value, and no larger ← the
        // types of the parameters of cuda.h that come here.
        unsafe { words.as_ptr().cast::<T>().read_unaligned() }
    }

    /// A place for `words`, with zeros behind, that lives as long as `self`.
    pub(crate) fn place(&mut self, words: &[u64]) -> *mut c_void {
        let mut slot = Box::new(Slot([0; SLOT]));
        slot.0[..words.len()].copy_from_slice(words);
        let place = (&raw mut slot.0).cast();
        self.slots.push(slot);
        place
    }

    /// Host memory.
    pub(crate) fn host(&mut self) -> *mut c_void {
        let pinned = self.addresses.iter().rposition(|&(_, for_good)| !for_good);
        if let Some(index) = pinned
            && self.one_in(4)
        {
            let (addr, _) = self.addresses[index];
            let mut host = ptr::null_mut::<c_void>();
            // SAFETY: the attribute is an address, and the place a local.
            let on_host = unsafe {
                self.driver.cuPointerGetAttribute(
                    (&raw mut host).cast(),
                    CUpointer_attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER,
                    addr,
                )
            };
            if on_host.is_success() && !host.is_null() && self.has_room(addr) {
                return host;
            }
        }
        let offset = if self.plain { 0 } else { self.below(OFFSET) };
        scratch().wrapping_byte_add(offset)
    }

    /// A pointer to a `pointee`, or to a pointer to one.
    pub(crate) fn pointer(
        &mut self,
        pointee: &'static str,
        stars: usize,
        param: &'static str,
    ) -> *mut c_void {
        if self.one_in(24) {
            return ptr::null_mut();
        }
        match (stars, pointee) {
            (1, "c_void") => match param {
                "image" | "code" | "data" | "fatCubin" => {
                    let index = self.below(IMAGES.len());
                    return self.text(IMAGES[index].to_bytes_with_nul());
                }
                _ => return self.host(),
            },
            (1, "c_char")
                if param.starts_with("log") || ["name", "pciBusId", "luid"].contains(&param) =>
            {
                // The name of a device is written, that of a function is read.
                let read = ["cuModuleGet", "cuLibraryGet", "cuDeviceGetBy", "cuLinkAdd"]
                    .iter()
                    .any(|prefix| self.function.starts_with(prefix));
                if !read {
                    return self.host();
                }
                let index = self.below(STRINGS.len());
                return self.text(STRINGS[index].to_bytes_with_nul());
            }
            (1, "c_char") => {
                let index = self.below(STRINGS.len());
                return self.text(STRINGS[index].to_bytes_with_nul());
            }
            (2, "c_void") => {
                let place = self.pointers(param);
                if !place.is_null() {
                    self.results
                        .push(("c_void", place.cast::<u64>().cast_const()));
                }
                return place;
            }
            (1, "usize" | "c_int" | "c_uint" | "cuuint64_t" | "cuuint32_t" | "c_ulonglong") => {
                let words = [1, 2, 3, 4].map(|_: i32| self.below(64) as u64);
                return self.place(&words);
            }
            _ => {}
        }
        if let Some(fields) = self.structure(pointee) {
            return self.place(&fields);
        }
        let words: [u64; 8] = std::array::from_fn(|_| match pointee {
            "CUdeviceptr" => self.address(),
            kind if self.handles.contains_key(kind) => self.handle(kind).addr() as u64,
            _ => self.below(24) as u64,
        });
        let place = self.place(&words);
        self.results
            .push((pointee, place.cast::<u64>().cast_const()));
        place
    }

    fn text(&mut self, text: &[u8]) -> *mut c_void {
        let mut words = [0_u64; SLOT];
        for (word, bytes) in words.iter_mut().zip(text.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
        self.place(&words)
    }

    /// A list of pointers to host memory; for a kernel's parameters, to values that make sense to it.
    pub(crate) fn pointers(&mut self, param: &str) -> *mut c_void {
        if param == "extra" {
            return ptr::null_mut();
        }
        let words: [u64; 12] = std::array::from_fn(|_| {
            let place = if param == "kernelParams" {
                let value = self.address();
                let count = self.below(64) as u64;
                let word = if self.below(3) == 0 { count } else { value };
                self.place(&[word])
            } else {
                self.host()
            };
            place.expose_provenance() as u64
        });
        self.place(&words)
    }
}
