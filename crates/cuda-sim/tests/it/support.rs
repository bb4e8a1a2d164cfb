//! A driver with a context; the calls must succeed.

use std::ffi::{CString, c_void};
use std::ops::Deref;
use std::ptr;

use cuda_sim::{Builder, Schedule, Simulator};
use cuda_sys::{
    CUcontext, CUdeviceptr, CUevent, CUfunction, CUlibrary, CUmodule, CUresult, CUstream,
    DriverLibrary,
};

/// A kernel that adds two arrays of floats: `a, b, out, n`.
pub(crate) const ADD: &str = include_str!("kernels/add.ptx");
/// Small kernels, each of which fails in its own way, and one that counts.
pub(crate) const FAULT_KERNELS: &str = include_str!("kernels/trouble.ptx");

pub(crate) const OK: CUresult = CUresult::CUDA_SUCCESS;

#[track_caller]
pub(crate) fn ok(status: CUresult) {
    assert_eq!(status, OK, "{status}");
}

/// A driver whose device 0 has its primary context current on this thread.
pub(crate) struct TestDevice {
    pub(crate) simulator: Simulator,
    pub(crate) driver: DriverLibrary,
    pub(crate) context: CUcontext,
}

impl Deref for TestDevice {
    type Target = DriverLibrary;

    fn deref(&self) -> &DriverLibrary {
        &self.driver
    }
}

/// A driver that is loaded but not initialized.
pub(crate) fn bare(builder: Builder) -> (Simulator, DriverLibrary) {
    let simulator = builder.build().unwrap();
    let driver = simulator.library().unwrap();
    (simulator, driver)
}

pub(crate) fn test_device(builder: Builder) -> TestDevice {
    let (simulator, driver) = bare(builder);
    let mut context = ptr::null_mut();
    unsafe {
        ok(driver.cuInit(0));
        ok(driver.cuDevicePrimaryCtxRetain(&raw mut context, 0));
        ok(driver.cuCtxSetCurrent(context));
    }
    TestDevice {
        simulator,
        driver,
        context,
    }
}

pub(crate) fn late(seed: u64) -> Builder {
    Builder::new().schedule(Schedule::Late { seed })
}

impl TestDevice {
    pub(crate) fn alloc(&self, size: usize) -> CUdeviceptr {
        let mut addr = 0;
        unsafe { ok(self.cuMemAlloc_v2(&raw mut addr, size)) };
        addr
    }

    pub(crate) fn pinned(&self, size: usize) -> *mut u8 {
        let mut start: *mut c_void = ptr::null_mut();
        unsafe { ok(self.cuMemHostAlloc(&raw mut start, size, 0)) };
        start.cast()
    }

    pub(crate) fn upload<T: Copy>(&self, values: &[T]) -> CUdeviceptr {
        let addr = self.alloc(size_of_val(values));
        let status =
            unsafe { self.cuMemcpyHtoD_v2(addr, values.as_ptr().cast(), size_of_val(values)) };
        ok(status);
        addr
    }

    pub(crate) fn download<T: Copy + Default>(&self, addr: CUdeviceptr, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        let size = size_of_val(&values[..]);
        unsafe { ok(self.cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), addr, size)) };
        values
    }

    pub(crate) fn stream(&self, flags: u32) -> CUstream {
        let mut stream = ptr::null_mut();
        unsafe { ok(self.cuStreamCreate(&raw mut stream, flags)) };
        stream
    }

    pub(crate) fn event(&self, flags: u32) -> CUevent {
        let mut event = ptr::null_mut();
        unsafe { ok(self.cuEventCreate(&raw mut event, flags)) };
        event
    }

    pub(crate) fn load(&self, ptx: &str) -> CUmodule {
        let text = CString::new(ptx).unwrap();
        let mut module = ptr::null_mut();
        unsafe { ok(self.cuModuleLoadData(&raw mut module, text.as_ptr().cast())) };
        module
    }

    /// Loads a library. `image` is a text that ends with NUL, or an image that the linker produced.
    pub(crate) fn load_library(&self, image: *const c_void) -> CUlibrary {
        let mut library = ptr::null_mut();
        let (keys, values) = (ptr::null_mut(), ptr::null_mut());
        let (library_keys, library_values) = (ptr::null_mut(), ptr::null_mut());
        unsafe {
            ok(self.cuLibraryLoadData(
                &raw mut library,
                image,
                keys,
                values,
                0,
                library_keys,
                library_values,
                0,
            ));
        }
        library
    }

    pub(crate) fn function(&self, module: CUmodule, name: &str) -> CUfunction {
        let name = CString::new(name).unwrap();
        let mut function = ptr::null_mut();
        unsafe { ok(self.cuModuleGetFunction(&raw mut function, module, name.as_ptr())) };
        function
    }

    /// Launches a kernel with parameters of 8 bytes each.
    pub(crate) fn launch(
        &self,
        function: CUfunction,
        [grid, block]: [u32; 2],
        stream: CUstream,
        params: &mut [u64],
    ) -> CUresult {
        let mut pointers: Vec<*mut c_void> = params
            .iter_mut()
            .map(|param| ptr::from_mut(param).cast())
            .collect();
        let params = pointers.as_mut_ptr();
        unsafe {
            self.cuLaunchKernel(
                function,
                grid,
                1,
                1,
                block,
                1,
                1,
                0,
                stream,
                params,
                ptr::null_mut(),
            )
        }
    }

    pub(crate) fn sync(&self) -> CUresult {
        unsafe { self.cuCtxSynchronize() }
    }
}
