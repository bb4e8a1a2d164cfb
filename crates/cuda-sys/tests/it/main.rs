//! Tests of the raw layer, one file for each part.

mod abi;
mod c_compiler;
mod cupti;
mod gpu;
#[cfg(target_os = "linux")]
mod loader;
#[cfg(all(target_os = "linux", feature = "nvrtc"))]
mod loader_nvrtc;
mod log;
#[cfg(all(target_os = "linux", feature = "nvrtc"))]
mod places;
mod table;
mod typedefs;
