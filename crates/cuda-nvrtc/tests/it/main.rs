//! Tests of NVRTC with the inputs of this crate. Tests that need NVRTC print that they are skipped
//! if there is none.

mod at_hand;
mod cache;
mod compile;
mod cuda_headers;
mod diagnostics;
mod hostile;
mod included;
mod library;
mod limits;
mod names;
mod nesting;
mod options;
mod pch;
#[cfg(target_os = "linux")]
mod planted;
mod process;
mod ui;
