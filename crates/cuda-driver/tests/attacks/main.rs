//! Programs that try to break the promise of docs/safety.md through safe calls. The only `unsafe`
//! calls are launches of the kernels in `support`, with valid arguments, and aliases that these
//! kernels permit.
//!
//! Each program names the claim that it attacks. It runs in its own process, on up to 24
//! adversarial schedules of the software device with its checks on, and on the GPU if there is one.
//! A broken claim shows as wrong words, as a report of the software device's checks, as leaked
//! objects, as a hang, or as a crash of the process.
//!
//! `CUDA_FULL=1` runs all schedules, `CUDA_SCHEDULE=7` runs one of them.

mod contexts;
mod devices;
mod eager;
#[cfg(target_os = "linux")]
mod external;
mod foreign;
mod forgotten;
mod forgotten_guards;
mod futures;
mod graph_changes;
mod graph_memory;
mod graphs;
mod green;
mod growable;
mod host_drops;
mod legacy;
mod loss;
mod lying;
mod lying_values;
mod managed;
mod modules;
mod panics;
mod pools;
#[cfg(target_os = "linux")]
mod processes;
mod safe;
mod safe_memory;
mod safe_textures;
mod set_up;
mod shared;
mod storage;
mod streams;
mod support;
#[cfg(feature = "dlpack")]
mod tensors;
mod textures;
mod thread_buffers;
mod transfers;
mod values;
