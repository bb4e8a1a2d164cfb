//! A CUDA driver written in software: device memory in host memory and an interpreter for PTX, so that
//! code which talks to the driver can be tested on a machine without a GPU.
//!
//! It is for testing and learning. It holds no NVIDIA code, implements public specifications only (`cuda.h` and
//! the PTX ISA), and is not a way to run CUDA applications off NVIDIA hardware. It supports neither the CUDA runtime
//! library nor machine code (cubins).
//!
//! A [`Simulator`] is one driver; a process can hold several, which know nothing of each other. Its
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
//! # Adversity
//!
//! What is rare on hardware can be had on demand: calls that fail ([`Rule`]), memory that runs out
//! ([`Simulator::limit_memory`]), old drivers ([`Builder::version`]), a device that is lost
//! ([`Simulator::lose_device`]), and queued work that runs as late as it may in an order that nobody expects
//! ([`Schedule::Late`]). [`Simulator::live`] says what was leaked.
//!
//! # A function that is not implemented
//!
//! It resolves, answers `CUDA_ERROR_NOT_SUPPORTED`, and is listed by [`Simulator::unimplemented_calls`]; with
//! `CUDA_SIM_LOG` set its name goes to stderr, as do the words of the PTX compiler. `CUDA_SIM_LOG=calls` writes each call
//! and its answer there.

mod builder;
mod choice;
mod driver;
mod engine;
mod journal;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod ptx;
mod random;
mod settings;
mod simulator;
#[doc(hidden)]
pub mod vm;

pub use builder::{BuildError, Builder};
pub use choice::{Choice, ChoiceError, gpu_or_software};
pub use cuda_sys::{CUdevice_attribute, CUresult};
pub use engine::Schedule;
pub use journal::{Rule, TraceEntry};
pub use simulator::{Live, Simulator};
