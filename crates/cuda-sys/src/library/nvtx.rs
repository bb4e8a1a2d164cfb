//! NVTX: names for parts of a program, which NVIDIA's tools show. C has it as headers only; the
//! functions of a tool are found at run time.
//!
//! A tool such as Nsight Systems names its library in the environment variable
//! `NVTX_INJECTION64_PATH`. The library exports `InitializeInjectionNvtx2`. It gets a function that
//! returns tables, and writes the addresses of its own functions to the slots of these tables.
//! Without a tool, nothing is loaded.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;

/// The variable that names the library of a tool.
const VARIABLE: &str = if cfg!(target_pointer_width = "32") {
    "NVTX_INJECTION32_PATH"
} else {
    "NVTX_INJECTION64_PATH"
};

/// The tables of NVTX: core, CUDA, OpenCL, CUDA runtime, domains and synchronization. The names in
/// C begin with `NVTX_CB_MODULE_`, and the first has the number 1. The numbers here are the lengths
/// of the tables; each length counts the entry 0, which is not used.
const LENGTHS: [usize; 6] = [16, 9, 15, 7, 16, 7];
/// `NVTX_CBID_CORE_RangePushA`
const PUSH: usize = 9;
/// `NVTX_CBID_CORE_RangePop`
const POP: usize = 11;
/// `NVTX_ETID_CALLBACKS`
const CALLBACKS: u32 = 1;
/// `NVTX_ETID_VERSIONINFO`
const VERSION_INFO: u32 = 3;
/// The version of NVTX whose tables these are.
const VERSION: u32 = 3;

/// The addresses of functions of the tool.
static SLOTS: [[AtomicPtr<c_void>; 16]; 6] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; 16] }; 6];

/// Tables of pointers to slots, as C has them. They end with a null pointer.
struct Tables([[*const AtomicPtr<c_void>; 17]; 6]);

// SAFETY: the pointers must be usable on any thread ← they are to atomics in a static.
unsafe impl Sync for Tables {}

static TABLES: Tables = {
    let mut tables = [[ptr::null(); 17]; 6];
    let mut module = 0;
    while module < 6 {
        let mut index = 1;
        while index < LENGTHS[module] {
            tables[module][index] = &raw const SLOTS[module][index];
            index += 1;
        }
        module += 1;
    }
    Tables(tables)
};

/// `NvtxExportTableCallbacks`
#[repr(C)]
struct Callbacks {
    size: usize,
    table: unsafe extern "C" fn(c_uint, *mut *const c_void, *mut c_uint) -> c_int,
}

/// `NvtxExportTableVersionInfo`
#[repr(C)]
struct VersionInfo {
    size: usize,
    version: u32,
    reserved: u32,
    set_version: unsafe extern "C" fn(u32),
}

static EXPORTED_CALLBACKS: Callbacks = Callbacks {
    size: size_of::<Callbacks>(),
    table,
};

static EXPORTED_VERSION: VersionInfo = VersionInfo {
    size: size_of::<VersionInfo>(),
    version: VERSION,
    reserved: 0,
    set_version,
};

/// Returns the table of a module, and the number of its entries.
unsafe extern "C" fn table(module: c_uint, to: *mut *const c_void, length: *mut c_uint) -> c_int {
    let index = (module as usize).wrapping_sub(1);
    let (Some(table), Some(entries)) = (TABLES.0.get(index), LENGTHS.get(index)) else {
        return 0;
    };
    if !length.is_null() {
        // SAFETY: the pointer must be writable ← the tool passes null or a pointer to its variable.
        unsafe { length.write(*entries as c_uint) };
    }
    if !to.is_null() {
        // SAFETY: see above.
        unsafe { to.write(table.as_ptr().cast()) };
    }
    1
}

unsafe extern "C" fn set_version(_: u32) {}

/// Returns what this program exports to the tool.
unsafe extern "C" fn export(id: u32) -> *const c_void {
    match id {
        CALLBACKS => (&raw const EXPORTED_CALLBACKS).cast(),
        VERSION_INFO => (&raw const EXPORTED_VERSION).cast(),
        _ => ptr::null(),
    }
}

/// A tool that observes this process through NVTX.
#[derive(Debug)]
pub struct NvtxTool(());

impl NvtxTool {
    /// Returns the tool, or `None` if none observes this process. The first call loads the library
    /// that `NVTX_INJECTION64_PATH` names. The variable is ignored in a program that runs with more
    /// rights than the user who started it.
    #[must_use]
    pub fn attached() -> Option<&'static Self> {
        static TOOL: OnceLock<Option<NvtxTool>> = OnceLock::new();
        TOOL.get_or_init(Self::load).as_ref()
    }

    fn load() -> Option<Self> {
        let path = cuda_places::path_variable(VARIABLE)?;
        // SAFETY: running the initializers of the library must be sound ← the user of this process
        // named the file.
        let library = unsafe { Library::new(path) }.ok()?;
        type Initialize = unsafe extern "C" fn(unsafe extern "C" fn(u32) -> *const c_void) -> c_int;
        // SAFETY: the symbol must be of this type ← NVTX's headers declare it so.
        let initialize = unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2") };
        let initialize = *initialize.ok()?;
        // The library is never closed, because the slots have the addresses of its functions.
        mem::forget(library);
        // SAFETY: the tables must stay, and have the layout of NVTX ← they are static.
        let is_ready = unsafe { initialize(export) } != 0;
        is_ready.then_some(Self(()))
    }

    fn slot(index: usize) -> *mut c_void {
        SLOTS[0][index].load(Ordering::Acquire)
    }

    /// `nvtxRangePushA(name)`—Begins a range on this thread, within the range that is open.
    #[doc(alias = "nvtxRangePushA")]
    pub fn push(&self, name: &CStr) {
        let slot = Self::slot(PUSH);
        if slot.is_null() {
            return;
        }
        // SAFETY: the pointer must be a function of this type ← the tool wrote its implementation
        // of `nvtxRangePushA` to the slot.
        let push = unsafe {
            mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(slot)
        };
        // SAFETY: the name must be a C string ← its type says so. The tool copies it.
        unsafe { push(name.as_ptr()) };
    }

    /// `nvtxRangePop()`—Ends the innermost range of this thread.
    #[doc(alias = "nvtxRangePop")]
    pub fn pop(&self) {
        let slot = Self::slot(POP);
        if slot.is_null() {
            return;
        }
        // SAFETY: the pointer must be a function of this type ← the tool wrote its implementation
        // of `nvtxRangePop` to the slot.
        let pop = unsafe { mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(slot) };
        // SAFETY: no arguments.
        unsafe { pop() };
    }
}
