//! A driver whose calls succeed at once and do nothing.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUdriverProcAddressQueryResult,
    CUfunction, CUfunction_attribute, CUresult, CUstream, DriverLibrary, GetProcAddress, LoadError,
    cuuint64_t,
};

/// The number of parameters of a kernel of the null driver.
fn parameters_of(function: CUfunction) -> usize {
    function.addr() - 1
}

/// Makes a driver with one device, whose kernels are named by the number of their 8-byte parameters
/// (`k0`, `k12`).
///
/// # Errors
///
/// Never fails in practice: the null driver has every function that a driver must have.
pub fn null_driver() -> Result<DriverLibrary, LoadError> {
    let root: GetProcAddress = get_proc_address;
    // SAFETY: `root` must return for each name a function of its signature ← functions with results
    // are listed there with the signatures of cuda.h; the rest only take arguments, which the C
    // calling conventions of the supported systems let a function ignore.
    unsafe { DriverLibrary::from_proc_address(root, "null driver", ()) }
}

pub(crate) unsafe extern "C" fn get_proc_address(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    _version: c_int,
    _flags: cuuint64_t,
    status: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    // SAFETY: the name must end with NUL ← the loader's contract.
    let name = unsafe { CStr::from_ptr(symbol) };
    let function: *const () = match name.to_bytes() {
        b"cuDriverGetVersion" => version as _,
        b"cuDeviceGet" => device as _,
        b"cuDeviceGetCount" => device_count as _,
        b"cuDeviceGetAttribute" => device_attribute as _,
        b"cuDevicePrimaryCtxRetain" => retain as _,
        b"cuCtxGetCurrent" => get_current as _,
        b"cuGetProcAddress" => get_proc_address as _,
        b"cuStreamCreate" | b"cuStreamCreateWithPriority" => stream as _,
        b"cuStreamGetCtx" => stream_context as _,
        b"cuStreamGetFlags" => stream_flags as _,
        b"cuEventCreate" | b"cuModuleLoadData" | b"cuModuleLoadDataEx" => handle as _,
        b"cuGraphCreate" | b"cuGraphAddKernelNode" => handle as _,
        b"cuGraphInstantiateWithParams" => handle as _,
        b"cuMemAlloc" | b"cuMemAllocAsync" => allocate as _,
        b"cuFuncGetAttribute" => function_attribute as _,
        b"cuFuncGetParamInfo" => parameter_info as _,
        b"cuModuleGetFunction" => module_function as _,
        _ => succeed as _,
    };
    // SAFETY: both pointers must be writable ← the loader's contract.
    unsafe { pfn.write(function.cast_mut().cast()) };
    // SAFETY: `status` must be writable ← the loader's contract.
    unsafe { status.write(CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS) };
    CUresult::CUDA_SUCCESS
}

/// Writes a result, as every function below does.
///
/// # Safety
///
/// `to` must be writable.
unsafe fn store<T>(to: *mut T, value: T) -> CUresult {
    // SAFETY: `to` must be writable ← the caller's contract.
    unsafe { to.write(value) };
    CUresult::CUDA_SUCCESS
}

extern "C" fn succeed() -> CUresult {
    CUresult::CUDA_SUCCESS
}

pub(crate) unsafe extern "C" fn version(version: *mut c_int) -> CUresult {
    // SAFETY: the pointer must be writable ← cuda.h's contract, as in all functions below.
    unsafe { store(version, 13050) }
}

pub(crate) unsafe extern "C" fn device_count(count: *mut c_int) -> CUresult {
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(count, 1) }
}

pub(crate) unsafe extern "C" fn device_attribute(
    value: *mut c_int,
    _attribute: CUdevice_attribute,
    _device: CUdevice,
) -> CUresult {
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(value, 1024) }
}

pub(crate) unsafe extern "C" fn retain(context: *mut CUcontext, _device: CUdevice) -> CUresult {
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(context, ptr::without_provenance_mut(1)) }
}

pub(crate) unsafe extern "C" fn get_current(context: *mut CUcontext) -> CUresult {
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(context, ptr::without_provenance_mut(1)) }
}

pub(crate) unsafe extern "C" fn device(device: *mut CUdevice, _ordinal: c_int) -> CUresult {
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(device, 0) }
}

/// Creates a stream, which has its own handle.
pub(crate) unsafe extern "C" fn stream(stream: *mut *mut c_void) -> CUresult {
    static NEXT: AtomicUsize = AtomicUsize::new(16);
    let next = NEXT.fetch_add(16, Ordering::Relaxed);
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(stream, ptr::without_provenance_mut(next)) }
}

pub(crate) unsafe extern "C" fn stream_context(
    _stream: CUstream,
    context: *mut CUcontext,
) -> CUresult {
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(context, ptr::without_provenance_mut(1)) }
}

/// Every stream is `NON_BLOCKING`.
pub(crate) unsafe extern "C" fn stream_flags(_stream: CUstream, flags: *mut c_uint) -> CUresult {
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(flags, 1) }
}

/// Creates an event, a module, a graph, a node or an executable.
pub(crate) unsafe extern "C" fn handle(handle: *mut *mut c_void) -> CUresult {
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(handle, ptr::without_provenance_mut(16)) }
}

pub(crate) unsafe extern "C" fn allocate(address: *mut CUdeviceptr, _bytes: usize) -> CUresult {
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(address, 0x7000_0000_0000) }
}

pub(crate) unsafe extern "C" fn function_attribute(
    value: *mut c_int,
    _attribute: CUfunction_attribute,
    _function: CUfunction,
) -> CUresult {
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(value, 1024) }
}

pub(crate) unsafe extern "C" fn parameter_info(
    function: CUfunction,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> CUresult {
    if index >= parameters_of(function) {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(offset, 8 * index) };
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(size, 8) }
}

pub(crate) unsafe extern "C" fn module_function(
    function: *mut CUfunction,
    _module: *mut c_void,
    name: *const c_char,
) -> CUresult {
    // SAFETY: the name must end with NUL ← cuda.h's contract.
    let name = unsafe { CStr::from_ptr(name) };
    let count = name
        .to_str()
        .ok()
        .and_then(|name| name.strip_prefix('k')?.parse::<usize>().ok());
    let Some(count) = count else {
        return CUresult::CUDA_ERROR_NOT_FOUND;
    };
    // SAFETY: the pointer must be writable ← cuda.h's contract.
    unsafe { store(function, ptr::without_provenance_mut(count + 1)) }
}
