//! A CUDA driver written in software: device memory in host memory and an interpreter for PTX, so
//! that code which talks to the driver can be tested on a machine without a GPU.
//!
//! It is for testing and learning. It holds no NVIDIA code, implements public specifications only
//! (`cuda.h` and the PTX ISA), and is not a way to run CUDA applications on hardware of other
//! vendors. It supports neither the CUDA runtime library nor machine code (cubins).
//!
//! A [`Simulator`] is one driver. A process can hold several, which share no state. Its
//! [`library`](Simulator::library) is a table of functions like that of the real driver:
//!
//! ```
//! use cuda_sim::Builder;
//!
//! let simulator = Builder::new().devices(2).build()?;
//! let driver = simulator.library()?;
//! let mut count = 0;
//! // SAFETY: the arguments are what cuda.h asks for.
//! unsafe {
//!     assert!(driver.cuInit(0).is_success());
//!     assert!(driver.cuDeviceGetCount(&raw mut count).is_success());
//! }
//! assert_eq!(count, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Fault injection
//!
//! Conditions that are rare on hardware can be produced on demand: calls that fail ([`Rule`]),
//! memory that runs out ([`Simulator::limit_memory`]), old drivers ([`Builder::version`]), a lost
//! device ([`Simulator::lose_device`]), and queued work that runs as late as possible and in an
//! unusual order ([`Schedule::Late`]). [`Simulator::live`] counts the objects that exist, so at the
//! end those that leaked.
//!
//! # Testing a kernel
//!
//! Each test has its own device. Accesses outside of allocated memory are faults, as on a GPU.
//! [`Builder::check_all`] also reports errors that a GPU does not detect: reads of uninitialized
//! bytes, races in shared memory, barriers that some threads miss, and accesses to freed memory. A
//! [`Report`] names the kernel, the block, the thread, the line of the PTX and, with NVRTC's
//! `-lineinfo`, the line of the source.
//!
//! ```
//! use std::{ffi::c_void, ptr};
//!
//! use cuda_sim::{Builder, CUresult};
//!
//! let ptx = c".version 8.0 .target sm_75 .address_size 64
//!     .visible .entry twice(.param .u64 data) {
//!         .reg .b64 %a, %o; .reg .b32 %t, %x;
//!         ld.param.u64 %a, [data]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o;
//!         ld.global.u32 %x, [%a]; add.u32 %x, %x, %x; st.global.u32 [%a], %x; ret; }";
//! let simulator = Builder::new().check_all(true).build()?;
//! let driver = simulator.library()?;
//! let ok = |status: CUresult| assert!(status.is_success(), "{status}: {:?}", simulator.fault(0));
//! let (mut context, mut module, mut function) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
//! let (mut data, mut values) = (0_u64, [1_u32, 2, 3, 4]);
//! // SAFETY: the arguments are what cuda.h asks for.
//! unsafe {
//!     ok(driver.cuInit(0));
//!     ok(driver.cuDevicePrimaryCtxRetain(&raw mut context, 0));
//!     ok(driver.cuCtxSetCurrent(context));
//!     ok(driver.cuModuleLoadData(&raw mut module, ptx.as_ptr().cast()));
//!     ok(driver.cuModuleGetFunction(&raw mut function, module, c"twice".as_ptr()));
//!     ok(driver.cuMemAlloc_v2(&raw mut data, 16));
//!     ok(driver.cuMemcpyHtoD_v2(data, values.as_ptr().cast(), 16));
//!     let mut params = [(&raw mut data).cast::<c_void>()];
//!     let (stream, params, extra) = (ptr::null_mut(), params.as_mut_ptr(), ptr::null_mut());
//!     ok(driver.cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, stream, params, extra));
//!     ok(driver.cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), data, 16));
//! }
//! assert_eq!(values, [2, 4, 6, 8]);
//! assert_eq!(simulator.take_reports(), []);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A race that gives the expected result here and on most GPUs is reported as well:
//!
//! ```
//! # use std::{ffi::c_void, ptr};
//! use cuda_sim::{Builder, CUresult, Hazard, ReportKind};
//!
//! let ptx = c".version 8.0 .target sm_75 .address_size 64
//!     .visible .entry neighbours() {
//!         .reg .b32 %t, %s, %x; .shared .align 4 .b8 shared[256];
//!         mov.u32 %t, %tid.x; shl.b32 %x, %t, 2; mov.u32 %s, shared; add.u32 %s, %s, %x;
//!         st.shared.u32 [%s], %t;
//!         // Here `bar.sync 0;` is missing.
//!         xor.b32 %s, %s, 4; ld.shared.u32 %x, [%s]; ret; }";
//! let simulator = Builder::new().check_races(true).build()?;
//! # let driver = simulator.library()?;
//! # let ok = |status: CUresult| assert!(status.is_success(), "{status}");
//! # let (mut context, mut module, mut function) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
//! // ... load it and launch 64 threads, as above ...
//! # let none = ptr::null_mut::<*mut c_void>();
//! # unsafe {
//! #     ok(driver.cuInit(0));
//! #     ok(driver.cuDevicePrimaryCtxRetain(&raw mut context, 0));
//! #     ok(driver.cuCtxSetCurrent(context));
//! #     ok(driver.cuModuleLoadData(&raw mut module, ptx.as_ptr().cast()));
//! #     ok(driver.cuModuleGetFunction(&raw mut function, module, c"neighbours".as_ptr()));
//! #     ok(driver.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, ptr::null_mut(), none, none));
//! #     ok(driver.cuCtxSynchronize());
//! # }
//! let reports = simulator.take_reports();
//! assert_eq!(reports[0].kind, ReportKind::Race(Hazard::ReadAfterWrite));
//! let other = reports[0].other.as_ref().map(|place| place.thread);
//! assert_eq!((reports[0].at.thread, other), ([0, 0, 0], Some([1, 0, 0])));
//! println!("{}", reports[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A test of how a program handles an allocation failure:
//!
//! ```
//! use cuda_sim::{Builder, CUresult, Rule};
//! # use std::ptr;
//! # use cuda_sys::DriverLibrary;
//!
//! /// The program under test: two buffers or none.
//! fn buffers(driver: &DriverLibrary) -> Result<[u64; 2], CUresult> {
//!     let (mut first, mut second) = (0, 0);
//!     // SAFETY: the pointers are to locals; what is freed was allocated.
//!     unsafe {
//!         let status = driver.cuMemAlloc_v2(&raw mut first, 1024);
//!         if !status.is_success() {
//!             return Err(status);
//!         }
//!         let status = driver.cuMemAlloc_v2(&raw mut second, 1024);
//!         if !status.is_success() {
//!             driver.cuMemFree_v2(first);
//!             return Err(status);
//!         }
//!     }
//!     Ok([first, second])
//! }
//!
//! for nth in [1, 2] {
//!     let simulator = Builder::new()
//!         .rule(Rule::new(CUresult::CUDA_ERROR_OUT_OF_MEMORY).function("cuMemAlloc").nth(nth))
//!         .build()?;
//!     let driver = simulator.library()?;
//! #   let mut context = ptr::null_mut();
//! #   unsafe {
//! #       assert!(driver.cuInit(0).is_success());
//! #       assert!(driver.cuDevicePrimaryCtxRetain(&raw mut context, 0).is_success());
//! #       assert!(driver.cuCtxSetCurrent(context).is_success());
//! #   }
//!     assert_eq!(buffers(&driver), Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
//!     assert_eq!(simulator.live().allocations, 0, "the first buffer was leaked");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Unimplemented functions
//!
//! An unimplemented function can be looked up, returns `CUDA_ERROR_NOT_SUPPORTED`, and is listed by
//! [`Simulator::unimplemented_calls`]. If `CUDA_SIM_LOG` is set, its name is written to stderr, as
//! are the messages of the PTX compiler. `CUDA_SIM_LOG=calls` also writes every call and its result
//! there.

// The code in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod build_error;
mod builder;
mod choice;
mod config;
mod driver;
mod engine;
mod journal;
mod live;
mod lock;
mod log;
mod machine;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
mod numbers;
mod random;
mod report;
mod settings;
mod simulator;
#[doc(hidden)]
pub mod vm;

pub use build_error::BuildError;
pub use builder::Builder;
pub use choice::{Choice, ChoiceError, gpu_or_software, gpus_or_software};
pub use cuda_sys::{CUdevice_attribute, CUresult};
pub use engine::Schedule;
pub use journal::{Rule, TraceEntry};
pub use live::Live;
pub use machine::{Machine, MachineDevice, MachineLink, ManagedAccess};
pub use report::{Access, CodeLocation, Hazard, MemorySpace, Report, ReportKind, SourceLine};
pub use simulator::Simulator;
