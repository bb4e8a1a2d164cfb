//! What NVRTC does with what this crate gives it. The tests that need one say so when there is
//! none.

mod at_hand;
mod cache;
mod compile;
mod cuda_headers;
mod diagnostics;
mod hostile;
mod library;
mod limits;
mod names;
mod nesting;
mod options;
mod pch;
#[cfg(target_os = "linux")]
mod planted;
mod ui;
