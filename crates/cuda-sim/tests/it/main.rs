//! The software driver through the C API, as cuda-sys resolves it.

#![expect(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "each is a call of the C API: pointers are to locals of the type and length that cuda.h asks for, or wrong \
              in the way that the test is about and that the driver documents an error for"
)]

mod adversity;
mod array;
mod capture;
mod capture_illegal;
mod capture_mode;
mod check;
mod choice;
mod cluster;
mod context;
mod copy;
mod copy_batch;
mod deprecated;
mod device;
mod device_heap;
mod event;
mod external;
mod external_image;
mod fault;
mod found;
mod fuzz_seeds;
mod graph;
mod graph_child;
mod graph_conditional;
mod graph_device_node;
mod graph_exec;
mod graph_memory;
mod graph_random;
mod graph_support;
mod green;
mod grid_barrier;
mod host;
mod ipc;
mod launch;
mod layers;
mod legacy;
mod link;
mod machine;
mod memory;
mod module;
mod occupancy;
mod pool_place;
mod record;
mod registers;
mod schedule;
mod shared;
mod skip;
mod stream;
mod support;
mod tensor_map;
mod texture;
mod texture_kernels;
mod texture_support;
mod unload;
mod unsupported;
mod version;
mod virtual_memory;
