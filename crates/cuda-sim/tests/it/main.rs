//! The software driver through the C API, as cuda-sys resolves it.

mod adversity;
mod context;
mod copy;
mod device;
mod event;
mod fault;
mod launch;
mod memory;
mod module;
mod schedule;
mod stream;
mod support;
mod version;
