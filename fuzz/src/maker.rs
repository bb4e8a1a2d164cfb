//! Makes arguments for calls: numbers, handles, and pointers to memory that the call may use in any
//! way.

use std::collections::HashMap;
use std::env;
use std::ffi::c_void;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::process;
use std::ptr;
use std::sync::OnceLock;

use arbitrary::Unstructured;
use cuda_sys::{CUpointer_attribute, DriverLibrary};

use crate::calls::{IMAGES, STRINGS};

/// The bytes of host memory that always exist. Sizes are limited so that no access reaches its end.
const SCRATCH: usize = 8 << 20;
/// The largest offset into the memory.
const OFFSET: usize = 4096;
/// More than the bytes from the first to the last of a three-dimensional copy, plus those before
/// them.
const LONGEST_COPY: usize = 128 << 10;
/// The number of words behind a pointer to a structure or a list: a list of 8 of the largest
/// structures fits.
const SLOT: usize = 512;
/// The length of the longest text that is read from a slot, including its NUL.
pub(crate) const LONGEST_TEXT: usize = 8 * SLOT;
/// The number of objects of a kind that are remembered.
const KEPT: usize = 32;

/// Makes arguments from random bytes, and remembers the results of calls.
pub(crate) struct Maker<'a> {
    source: Unstructured<'a>,
    driver: &'a DriverLibrary,
    function: &'static str,
    /// Whether arguments are never made invalid on purpose.
    plain: bool,
    /// The memory behind the pointers of this run. It is neither moved nor freed before the run
    /// ends.
    slots: Vec<Box<Slot>>,
    /// The names and places of the results of the current call that are to be remembered.
    results: Vec<(&'static str, *const u64)>,
    handles: HashMap<&'static str, Vec<u64>>,
    /// A descriptor of a file in the current call, which the driver owns if the call succeeds.
    descriptor: Option<File>,
    /// Device addresses, and whether they fault permanently once they are freed; other freed
    /// addresses belong to the host again.
    addresses: Vec<(u64, bool)>,
}

#[repr(C, align(128))]
pub(crate) struct Slot(pub(crate) [u64; SLOT]);

/// The memory behind host pointers; its last byte is always a NUL.
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
            descriptor: None,
            addresses: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.source.is_empty()
    }

    /// Sets whether arguments are valid as far as that is known.
    pub(crate) fn plainly(&mut self, plain: bool) {
        self.plain = plain;
    }

    /// Returns a random number below `end`, which is not 0; returns 0 once the random bytes are
    /// used up.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.source.int_in_range(0..=end - 1).unwrap_or(0)
    }

    fn one_in(&mut self, chances: usize) -> bool {
        !self.plain && self.below(chances) == chances - 1
    }

    /// Begins a call of `function`.
    pub(crate) fn begin(&mut self, function: &'static str) {
        self.function = function;
        self.descriptor = None;
        self.results.clear();
    }

    /// Remembers the results of the call.
    pub(crate) fn end(&mut self, succeeded: bool) {
        if let Some(descriptor) = self.descriptor.take()
            && succeeded
        {
            let _ = descriptor.into_raw_fd();
        }
        for (kind, place) in std::mem::take(&mut self.results) {
            if !succeeded {
                continue;
            }
            // SAFETY: the place is the first word of a slot, and all slots live as long as `self`.
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

    /// Makes a handle of this kind, or a value that is not a handle.
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
            // The NULL stream, the legacy stream, and the per-thread stream.
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

    /// Makes a device address: of memory, of freed memory, near an allocation, or of the host
    /// memory that always exists.
    pub(crate) fn address(&mut self) -> u64 {
        let count = self.addresses.len();
        if count == 0 || self.one_in(32) {
            return 0;
        }
        let index = self.below(count);
        let (addr, for_good) = self.addresses[index];
        if !for_good {
            let mut sort = 0_u32;
            // SAFETY: the attribute is a number of 32 bits, and the destination a local.
            let status = unsafe {
                self.driver.cuPointerGetAttribute(
                    (&raw mut sort).cast(),
                    CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                    addr,
                )
            };
            // The memory no longer belongs to the driver, which would mistake the address for a
            // host address.
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

    /// Makes a device address for one side of a copy. An address after memory that the host can
    /// reach, or after address 0, would be mistaken for a host address.
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

    /// Whether the most that a call copies at once fits into the allocation at `addr`.
    fn has_room(&self, addr: u64) -> bool {
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

    /// Makes a descriptor of a file of 64 KiB, or an invalid one. The driver closes what it
    /// imports, so a descriptor that other code owns would be an error of this program.
    pub(crate) fn descriptor(&mut self) -> u64 {
        static MEMORY: OnceLock<File> = OnceLock::new();
        if self.one_in(4) {
            return [u64::from(u32::MAX), i32::MAX as u64][self.below(2)];
        }
        let memory = MEMORY.get_or_init(|| {
            let path = env::temp_dir().join(format!("api_calls.{}", process::id()));
            let open = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(&path);
            let file = open.expect("a file can be created in the folder for temporary files");
            fs::remove_file(path).expect("the file can be removed");
            file.set_len(65_536).expect("there is room for 64 KiB");
            file
        });
        let copy = memory.try_clone().expect("a descriptor is free");
        let number = copy.as_raw_fd();
        self.descriptor = Some(copy);
        number as u64
    }

    /// Makes a number for a parameter of this type and name.
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
        // The input of a link is a whole text, most often without options.
        if self.function.starts_with("cuLinkAdd") && self.below(4) != 0 {
            match param {
                "size" => return LONGEST_TEXT as u64,
                "numOptions" => return 0,
                _ => {}
            }
        }
        // The number of elements in a list.
        let is_count = is("num") || is("nbresources") || is("count") && !is("byte");
        if is_count && self.function != "cuMemcpy" {
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

    /// Makes a value of an enum, or of a structure that is passed by value.
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

    /// Makes a pointer to host memory.
    pub(crate) fn host(&mut self) -> *mut c_void {
        let pinned = self.addresses.iter().rposition(|&(_, for_good)| !for_good);
        if let Some(index) = pinned
            && self.one_in(4)
        {
            let (addr, _) = self.addresses[index];
            let mut host = ptr::null_mut::<c_void>();
            // SAFETY: the attribute is an address, and the destination a local.
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

    /// Makes a pointer to a `pointee`, or to a pointer to one.
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
                // The name of a device is written, the name of a function is read.
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

    /// Makes a list of pointers to host memory; for a kernel's parameters, to plausible values.
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
