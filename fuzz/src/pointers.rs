//! Pointers to host memory, to texts, and to lists.

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::process;
use std::ptr;
use std::sync::OnceLock;

use cuda_sys::CUpointer_attribute;

use crate::fitting::EXTREMES;
use crate::maker::{LONGEST_TEXT, Maker, OFFSET, Place, SLOT, STRUCTURES, scratch};
use crate::texts::{FILES, IMAGES, STRINGS, TROUBLE};

/// The number of parameters of a kernel that get a value.
const PARAMETERS: usize = 12;

impl Maker<'_> {
    /// Makes a pointer to host memory.
    pub(crate) fn host(&mut self) -> *mut c_void {
        let addresses = &self.known.addresses;
        let pinned = addresses.iter().rfind(|known| !known.is_for_good());
        if let Some(pinned) = pinned.copied()
            && self.below(4) == 0
        {
            let mut host = ptr::null_mut::<c_void>();
            // SAFETY: the attribute is an address, and the destination a local.
            let on_host = unsafe {
                self.driver.cuPointerGetAttribute(
                    (&raw mut host).cast(),
                    CUpointer_attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER,
                    pinned.value,
                )
            };
            if on_host.is_success() && !host.is_null() && self.has_room(pinned.value) {
                return host;
            }
        }
        let offset = if self.plain {
            8 * self.below(8)
        } else {
            self.below(OFFSET)
        };
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
            (1, "c_void") => return self.untyped(param),
            (1, "c_char") => return self.string(param),
            (2, "c_void") => {
                let place = self.pointers(param);
                // Memory of the host that the driver allocated.
                if param == "pp" {
                    self.result("c_void", place);
                }
                return place;
            }
            (1, "usize" | "c_int" | "c_uint" | "cuuint64_t" | "cuuint32_t" | "c_ulonglong") => {
                let words = self.numbers(param);
                return self.place(&words);
            }
            // A texture need not have a view, and a context seldom has parameters.
            (1, "CUDA_RESOURCE_VIEW_DESC" | "CUctxCreateParams" | "CUexecAffinityParam")
                if self.plain && self.function.contains("Create") && self.below(2) == 0 =>
            {
                return ptr::null_mut();
            }
            _ => {}
        }
        if let Some((name, _)) = STRUCTURES.iter().find(|(name, _)| *name == pointee) {
            let known = self.known.structures(name).to_vec();
            let words = match known.len() {
                0 => vec![0; 4],
                count => known[self.below(count)].clone(),
            };
            let place = self.place(&words);
            self.result(name, place);
            return place;
        }
        if let Some(fields) = self.structure(pointee) {
            let place = self.place(&fields);
            if pointee == "CUDA_MEM_ALLOC_NODE_PARAMS" {
                // The address is the last field.
                self.result("CUdeviceptr", place.wrapping_byte_add(14 * 8));
            }
            return place;
        }
        let words: [u64; 8] = std::array::from_fn(|_| match pointee {
            "CUdeviceptr" if self.function.starts_with("cuMemcpy") => self.side_address(),
            "CUdeviceptr" => self.address(),
            "CUgraphNode" if self.plain => self.fitting_node(param),
            kind if !self.known.handles(kind).is_empty() => self.known_handle(kind),
            _ => self.below(24) as u64,
        });
        let place = self.place(&words);
        self.result(pointee, place);
        place
    }

    /// Remembers that the call may store a result at `place`, which is in a slot.
    fn result(&mut self, kind: &'static str, place: *mut c_void) {
        let at = place.cast::<u64>().cast_const();
        // SAFETY: the place is in a slot, which lives as long as `self`.
        let before = unsafe { at.read() };
        self.results.push(Place { kind, at, before });
    }

    fn untyped(&mut self, param: &str) -> *mut c_void {
        let is = |part: &str| self.function.contains(part);
        match param {
            "image" | "code" | "data" | "fatCubin" => {
                let loads = is("Load") || is("Link");
                if !loads && self.plain {
                    return self.host();
                }
                if self.one_in(2) || self.below(16) == 15 {
                    let trouble = TROUBLE[self.below(TROUBLE.len())];
                    return self.text(trouble);
                }
                let index = self.below(IMAGES.len());
                self.image = Some(index);
                self.text(IMAGES[index].text)
            }
            "p" if is("cuMemHostRegister") => {
                let host = scratch().wrapping_byte_add(4096 * self.below(16));
                self.used.push(host.addr() as u64);
                host
            }
            "p" | "globalAddress" | "addr" if self.plain => {
                ptr::with_exposed_provenance_mut(self.address() as usize)
            }
            // A descriptor that the driver writes.
            "shareableHandle" | "handle_out" => self.exported(),
            "handle" if is("GetHandle") => self.exported(),
            // A descriptor that the driver reads; it stays with the program.
            "osHandle" | "handle" => match self.descriptors.len() {
                0 => ptr::without_provenance_mut(u32::MAX as usize),
                count => {
                    let index = self.below(count);
                    let number = self.descriptors[index].as_raw_fd();
                    ptr::without_provenance_mut(number as usize)
                }
            },
            "value" if self.plain => {
                let word = self.below(2) as u64;
                self.place(&[word])
            }
            _ => self.host(),
        }
    }

    fn exported(&mut self) -> *mut c_void {
        let place = self.place(&[]);
        self.exported = Some(place.cast::<u64>().cast_const());
        place
    }

    fn string(&mut self, param: &str) -> *mut c_void {
        let is = |part: &str| self.function.contains(part);
        // The name of a device is written, the name of a function is read.
        let reads = ["cuModuleGet", "cuLibraryGet", "cuDeviceGetBy", "cuLinkAdd"]
            .iter()
            .any(|part| is(part));
        let either = param.starts_with("log") || ["name", "pciBusId", "luid"].contains(&param);
        if either && !reads {
            return self.host();
        }
        let module = self.used.last().copied().unwrap_or(0);
        let image = self.known.image(module).map(|index| &IMAGES[index]);
        let names: &[&CStr] = match (param, image) {
            _ if !self.plain => STRINGS,
            ("fname" | "fileName" | "path", _) => {
                let index = self.below(FILES.len());
                self.image = Some(index);
                return self.text(FILES[index]);
            }
            ("symbol", Some(_)) => &[c"twice"],
            ("pciBusId", _) => return self.bus_id(),
            ("symbol", None) => &[c"cuInit", c"cuMemAlloc", c"cuLaunchKernel"],
            (_, Some(image)) if is("Function") || is("Kernel") => image.kernels,
            (_, Some(image)) if is("Managed") => &image.variables[..image.variables.len().min(1)],
            (_, Some(image)) => image.variables,
            _ => STRINGS,
        };
        match names.len() {
            0 => self.text(c"missing"),
            count => {
                let name = names[self.below(count)];
                self.text(name)
            }
        }
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

    /// Makes the identifier of a device.
    fn bus_id(&mut self) -> *mut c_void {
        let (place, size, device) = (self.place(&[]), 8 * SLOT, self.below(2));
        // SAFETY: the place has `size` bytes.
        unsafe {
            self.driver
                .cuDeviceGetPCIBusId(place.cast(), size as c_int, device as c_int)
        };
        place
    }

    fn text(&mut self, text: &CStr) -> *mut c_void {
        let mut words = [0_u64; SLOT];
        let bytes = text.to_bytes_with_nul();
        assert!(bytes.len() <= LONGEST_TEXT, "a text fits into a slot");
        for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
        self.place(&words)
    }

    /// Makes the first words of a list of numbers.
    fn numbers(&mut self, param: &str) -> Vec<u64> {
        /// Two numbers of 32 bits.
        fn two(number: u64) -> u64 {
            number | number << 32
        }
        let some: Vec<u64> = (0..4).map(|_| self.below(64) as u64).collect();
        match param {
            // More parts would not fit into a slot.
            "nbGroups" => vec![some[0] % 8 + u64::from(self.plain)],
            "globalDim" | "globalStrides" | "boxDim" | "elementStrides" if !self.plain => {
                (0..5).map(|_| self.choose(EXTREMES)).collect()
            }
            _ if !self.plain => some,
            "sizes" => vec![64 << (some[0] % 4); 4],
            "attrsIdxs" | "prefetchLocIdxs" => vec![0],
            "dataSizes" => vec![4; 4],
            "globalDim" => vec![16; 5],
            "globalStrides" => (0..5).map(|rank| 64 << (4 * rank)).collect(),
            "boxDim" => vec![two(4); 3],
            "elementStrides" => vec![two(1); 3],
            "pixelBoxLowerCorner" | "pixelBoxUpperCorner" => vec![0; 2],
            _ => some,
        }
    }

    /// Makes a list of pointers to host memory; for a kernel's parameters, to plausible values.
    pub(crate) fn pointers(&mut self, param: &str) -> *mut c_void {
        if param == "extra" {
            return ptr::null_mut();
        }
        let callee = self.callee;
        let words: [u64; PARAMETERS] = std::array::from_fn(|index| {
            let place = if param == "kernelParams" {
                let word = self.parameter(callee, index);
                self.place(&[word])
            } else {
                self.host()
            };
            place.expose_provenance() as u64
        });
        self.place(&words)
    }

    /// Makes the value of a parameter of a kernel.
    fn parameter(&mut self, callee: u64, index: usize) -> u64 {
        if !self.plain {
            return match self.below(3) {
                0 => self.below(64) as u64,
                _ => self.address(),
            };
        }
        match self.parameter_size(callee, index) {
            // The parameter does not exist.
            0 => 0,
            8 if index == 0 && self.sets_condition(callee) => {
                self.known_handle("CUgraphConditionalHandle")
            }
            8 => self.address(),
            _ => self.below(64) as u64,
        }
    }

    fn parameter_size(&self, callee: u64, index: usize) -> usize {
        let (mut offset, mut size) = (0, 0);
        let (at, to) = (&raw mut offset, &raw mut size);
        let function = ptr::without_provenance_mut(callee as usize);
        // SAFETY: the pointers are to locals.
        let status = unsafe { self.driver.cuFuncGetParamInfo(function, index, at, to) };
        if !status.is_success() {
            let kernel = ptr::without_provenance_mut(callee as usize);
            // SAFETY: as above, the pointers are to locals.
            unsafe { self.driver.cuKernelGetParamInfo(kernel, index, at, to) };
        }
        size
    }

    /// Whether the first parameter of a kernel is a condition.
    fn sets_condition(&self, callee: u64) -> bool {
        let mut name: *const c_char = ptr::null();
        let function = ptr::without_provenance_mut(callee as usize);
        // SAFETY: the pointer is to a local.
        let status = unsafe { self.driver.cuFuncGetName(&raw mut name, function) };
        if !status.is_success() {
            let kernel = ptr::without_provenance_mut(callee as usize);
            // SAFETY: as above, the pointer is to a local.
            unsafe { self.driver.cuKernelGetName(&raw mut name, kernel) };
        }
        if name.is_null() {
            return false;
        }
        // SAFETY: the driver returned a name, which lives as long as the module.
        let name = unsafe { CStr::from_ptr(name) };
        [c"count", c"choose"].contains(&name)
    }
}
