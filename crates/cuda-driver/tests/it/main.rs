//! Integration tests of the safe layer, on the software device and on a GPU if there is one.

mod allocation;
mod argument_types;
mod arguments;
mod array;
mod bad_input;
#[cfg(feature = "nvrtc")]
mod batch;
mod borrowed;
mod borrowed_capture;
#[cfg(feature = "profile")]
mod browser;
mod caching_pool;
mod calls;
mod capture;
mod capture_nodes;
mod closes;
mod context;
mod copy_batch;
mod copy_batch_arrays;
mod copy_batch_cost;
mod core_dump;
mod costs;
mod cublas;
mod current;
mod cycles;
mod device;
mod device_attributes;
#[cfg(feature = "dlpack")]
mod dlpack;
mod eager_capture;
mod eager_outputs;
mod eager_refusals;
mod elements;
mod elsewhere;
mod empty_capture;
mod error;
mod error_history;
mod event;
mod examples;
#[cfg(any(target_os = "linux", windows))]
mod external;
#[cfg(any(target_os = "linux", windows))]
mod external_array;
#[cfg(any(target_os = "linux", windows))]
mod external_random;
#[cfg(target_os = "linux")]
mod external_share;
mod fatal;
mod fatal_kinds;
mod fault;
mod faults;
mod foreign;
mod foreign_capture;
mod foreign_graphs;
#[cfg(unix)]
mod fork;
#[cfg(feature = "nvrtc")]
mod from_source;
mod future;
mod global;
mod graph;
mod graph_attributes;
mod graph_change;
mod graph_device_node;
mod graph_exec;
mod graph_flow;
mod graph_limits;
mod graph_memory;
mod graph_owners;
mod graph_remove;
mod graph_update;
mod green;
mod growable;
mod growable_random;
mod host_function;
mod host_pool;
mod kernel;
mod launch;
mod layers;
mod leaks;
mod legacy;
mod library;
mod linker;
mod lost;
#[cfg(feature = "nvrtc")]
mod lto;
#[cfg(feature = "nvrtc")]
mod machine_code;
mod machines;
mod managed;
mod managed_batch;
mod mapped;
mod memory;
mod module;
mod names;
#[cfg(feature = "nvrtc")]
mod nvrtc;
#[cfg(feature = "nvtx")]
mod nvtx;
#[cfg(feature = "serde")]
mod observe;
mod occupancy;
mod on_stream;
mod order;
#[cfg(any(target_os = "linux", windows))]
mod other_api;
mod other_device;
mod out_of_memory;
mod owned;
#[cfg(feature = "derive")]
mod padding;
mod peer;
mod peer_rate;
mod peer_rows;
mod peer_view;
mod pinned;
mod pitched;
mod pointees;
mod pointer;
mod pool;
mod pool_random;
mod prepared;
mod process;
#[cfg(any(target_os = "linux", windows))]
mod processes;
#[cfg(feature = "profile")]
mod profile;
#[cfg(feature = "profile")]
mod profile_cupti;
#[cfg(feature = "profile")]
mod profile_memory;
mod ptx_text;
mod queue;
mod random_eager;
mod random_graphs;
mod random_programs;
mod raw_calls;
mod read_only;
mod reset;
mod safe;
mod settings;
mod shared;
#[cfg(feature = "nvrtc")]
mod signatures;
mod signatures_of_texts;
mod staging;
mod storage;
mod stream;
mod support;
mod suspects;
mod task;
#[cfg(feature = "nvrtc")]
mod tensor_columns;
mod tensor_map;
mod tensor_map_raw;
mod texture;
mod texture_model;
mod texture_random;
mod texture_settings;
mod texture_values;
#[cfg(unix)]
mod thread_stream;
#[cfg(unix)]
mod topology;
#[cfg(feature = "profile")]
mod trace_check;
#[cfg(feature = "tracing")]
mod tracing_events;
mod traits;
mod transfer;
mod ui;
mod unfenced;
mod unsound;
mod waiting;
mod workers;
