//! The profiler: how long kernels, copies, fills, graphs and host functions take, and when they
//! run. C has no counterpart; it uses events (`cuEvent*`).
//!
//! A [`Profiler`] observes the streams of a context, or one stream. It records an event before and
//! after each piece of work, and reads them later, in large batches, on a thread of its own. So
//! nothing waits, and no work is reordered. With [`Cupti`], NVIDIA's library for profilers, no
//! events are recorded and the times are exact. A [`Profile`] holds the results, as a table for
//! terminals, as JSON and CSV, as a timeline for Perfetto and Chrome, and as an HTML page.
//!
//! Without a profiler, streams cost the same as without this module.
//!
//! ```
//! use cuda_driver::prelude::*;
//! use cuda_driver::profile::Profiler;
//!
//! # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
//! # let context = driver.device(0)?.primary_context()?;
//! let profiler = Profiler::start(&context)?;
//! let stream = context.default_stream()?;
//! let words = profiler.range("setup", || DeviceBuffer::from_host(&stream, &[1_u32; 1000]))?;
//! println!("{}", words.to_vec()?.len());
//!
//! let profile = profiler.finish()?;
//! println!("{}", profile.table());
//! std::fs::write(std::env::temp_dir().join("profile.html"), profile.html())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the times mean
//!
//! With the activity records of CUPTI ([`Profiler::start_best`] uses them if the library is
//! installed), times are those at which the device began and ended the work. The profile also has
//! the nodes of graphs and the work of other code in the context. CUPTI can be used by one profiler
//! of a process at a time, and not together with tools such as Nsight Systems or cuda-gdb. Host
//! functions are timed with events. Host nodes of graphs are not timed.
//!
//! With events ([`Profiler::start`]):
//!
//! - The time of a piece of work is the time between two events around it. Events have a resolution
//!   of about half a microsecond, and cost the stream a few microseconds: short kernels appear
//!   longer than they are, and the gaps between them appear larger.
//! - If several threads queue on one stream at the same time, the time of the work of one thread
//!   may be attributed to the work of another.
//! - A kernel that was launched with programmatic serialization does not overlap with the kernel
//!   before it while a profiler is on.
//! - The device and the host have different clocks. They are compared once, when the profiler
//!   starts, with an error of some microseconds.
//! - Work that is captured into a graph is not observed. The launch of the graph is.

mod result;

mod cupti;
mod export;
mod html;
mod names;
#[cfg(feature = "nvtx")]
mod nvtx;
mod profiler;
mod reading;
mod recorder;
mod statistics;
mod table;
mod trace;
mod wake;

pub use cupti::{Backend, Cupti};
#[cfg(feature = "nvtx")]
pub use nvtx::nvtx_range;
pub use profiler::Profiler;
pub use result::{MemoryChange, Operation, Origin, Profile, UserRange};
pub use statistics::Summary;

#[cfg(test)]
mod tests;
