//! A software device on which a program is loaded and run.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_void};
use std::ptr;

use cuda_sim::{Builder, Simulator};
use cuda_sys::{
    CUcontext, CUfunction, CUmodule, CUresult, CUtensorMap, CUtensorMapDataType,
    CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle,
    DriverLibrary,
};

use crate::objects::Objects;

/// The number of instructions of a warp after which a kernel is stopped.
const INSTRUCTIONS: u64 = 1_000;
/// The number of kernels of a module that are launched.
const KERNELS: u32 = 4;
/// The size in bytes of each buffer that kernels get.
const BUFFER: usize = 16 << 10;

/// A software device with a context. It stays usable after errors, until a fault loses it.
pub struct Device {
    driver: DriverLibrary,
    simulator: Simulator,
    buffers: [u64; 4],
    objects: Objects,
    /// The values that the kernels loaded last get as their first arguments.
    first: RefCell<Vec<u64>>,
    /// The value of parameters of its size.
    map: Vec<u8>,
    /// Whether the text loaded last has a barrier of the grid.
    is_cooperative: Cell<bool>,
}

impl Device {
    /// Creates a device of this compute capability.
    pub fn new(capability: (u32, u32), strict: bool) -> Self {
        let simulator = Builder::new()
            .memory(32 << 20)
            .compute_capability(capability.0, capability.1)
            .strict_ptx(strict)
            .capture_output(true)
            .instruction_limit(INSTRUCTIONS)
            .build()
            .expect("no slot for a software driver is free");
        let driver = simulator.library().expect("a library");
        let mut device = Self {
            driver,
            simulator,
            buffers: [0; 4],
            objects: Objects::default(),
            first: RefCell::default(),
            map: Vec::new(),
            is_cooperative: Cell::default(),
        };
        device.start();
        device
    }

    fn start(&mut self) {
        let driver = &self.driver;
        // SAFETY: the call takes no pointers.
        must(unsafe { driver.cuInit(0) });
        let mut context: CUcontext = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        must(unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut context, 0) });
        // SAFETY: the context was just created.
        must(unsafe { driver.cuCtxSetCurrent(context) });
        for buffer in &mut self.buffers {
            // SAFETY: the pointer is to a local.
            must(unsafe { driver.cuMemAlloc_v2(buffer, BUFFER) });
            // SAFETY: `BUFFER` bytes were just allocated.
            must(unsafe { driver.cuMemsetD8_v2(*buffer, 1, BUFFER) });
        }
        self.objects = Objects::new(driver);
        self.map = map_of(driver, self.buffers[0]);
    }

    /// Loads a text, up to its first NUL. Returns `None` if the driver fails.
    pub fn load(&self, text: &[u8]) -> Option<CUmodule> {
        let end = text.iter().position(|&byte| byte == 0);
        let text = CString::new(&text[..end.unwrap_or(text.len())]).ok()?;
        *self.first.borrow_mut() = self.objects.of(&text.to_string_lossy());
        self.is_cooperative
            .set(text.to_string_lossy().contains("cudaCG"));
        let mut module: CUmodule = ptr::null_mut();
        // SAFETY: the text ends with a NUL, and the other pointer is to a local.
        let status = unsafe {
            self.driver
                .cuModuleLoadData(&raw mut module, text.as_ptr().cast())
        };
        status.is_success().then_some(module)
    }

    /// Unloads a module that [`load`](Self::load) returned.
    pub fn unload(&self, module: CUmodule) {
        // SAFETY: handles of the software driver are numbers, which may be invalid.
        unsafe { self.driver.cuModuleUnload(module) };
    }

    /// Launches the first kernels of a module with buffers and small numbers. Returns whether the
    /// device is still usable.
    pub fn launch(&self, module: CUmodule) -> bool {
        let mut functions: [CUfunction; KERNELS as usize] = [ptr::null_mut(); KERNELS as usize];
        // SAFETY: there is room for as many handles.
        unsafe {
            self.driver
                .cuModuleEnumerateFunctions(functions.as_mut_ptr(), KERNELS, module)
        };
        for function in functions.into_iter().filter(|function| !function.is_null()) {
            let mut values = self.arguments(function);
            let mut arguments: Vec<*mut c_void> = values
                .iter_mut()
                .map(|value| value.as_mut_ptr().cast())
                .collect();
            // A group of warps has 128 threads.
            for threads in [64, 32, 128] {
                let status = self.launch_one(function, threads, &mut arguments);
                if status.is_success() {
                    break;
                }
            }
            // SAFETY: the call takes no pointers.
            let status = unsafe { self.driver.cuCtxSynchronize() };
            let _ = self.simulator.take_output();
            if !status.is_success() {
                return false;
            }
        }
        true
    }

    fn launch_one(
        &self,
        function: CUfunction,
        threads: u32,
        arguments: &mut [*mut c_void],
    ) -> CUresult {
        let (stream, arguments) = (ptr::null_mut(), arguments.as_mut_ptr());
        if self.is_cooperative.get() {
            // One block: waiting for another one would take more than `INSTRUCTIONS`.
            //
            // SAFETY: each argument points to as many bytes as its parameter has; the software
            // device checks what the kernel does with them.
            return unsafe {
                self.driver.cuLaunchCooperativeKernel(
                    function, 1, 1, 1, threads, 1, 1, 256, stream, arguments,
                )
            };
        }
        let extra = ptr::null_mut();
        // SAFETY: as above, each argument points to as many bytes as its parameter has.
        unsafe {
            self.driver.cuLaunchKernel(
                function, 2, 1, 1, threads, 1, 1, 256, stream, arguments, extra,
            )
        }
    }

    /// Makes a value for each parameter.
    fn arguments(&self, function: CUfunction) -> Vec<Vec<u8>> {
        let mut values = Vec::new();
        loop {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the pointers are to locals.
            let status = unsafe {
                self.driver.cuFuncGetParamInfo(
                    function,
                    values.len(),
                    &raw mut offset,
                    &raw mut size,
                )
            };
            if !status.is_success() {
                return values;
            }
            let object = self.first.borrow().get(values.len()).copied();
            let mut value = if let (8, Some(object)) = (size, object) {
                object.to_le_bytes().to_vec()
            } else if size == 8 {
                self.buffers[values.len() % 4].to_le_bytes().to_vec()
            } else {
                vec![64, 0, 0, 0]
            };
            // Another structure begins with the address of a buffer.
            if size == self.map.len() {
                value.clone_from(&self.map);
            } else if size > 8 {
                value = self.buffers[values.len() % 4].to_le_bytes().to_vec();
            }
            value.resize(size, 0);
            values.push(value);
        }
    }
}

/// Returns the tensor map of 8 by 8 words at `address`.
fn map_of(driver: &DriverLibrary, address: u64) -> Vec<u8> {
    // SAFETY: zero is a valid value of each field.
    let mut map: CUtensorMap = unsafe { std::mem::zeroed() };
    let (extent, strides, tile, steps) = ([8_u64; 2], [32_u64], [4_u32; 2], [1_u32; 2]);
    // SAFETY: the map and the lists are locals, and the lists have as many elements as the rank
    // requires.
    must(unsafe {
        driver.cuTensorMapEncodeTiled(
            &raw mut map,
            CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT32,
            2,
            ptr::without_provenance_mut(address as usize),
            extent.as_ptr(),
            strides.as_ptr(),
            tile.as_ptr(),
            steps.as_ptr(),
            CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
            CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    });
    map.opaque
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect()
}

fn must(status: CUresult) {
    assert!(
        status.is_success(),
        "setting up the device failed: {status}"
    );
}
