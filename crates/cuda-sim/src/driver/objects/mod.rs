//! The objects of CUDA and the work that streams execute. They do not know the driver that they
//! belong to.

pub(in crate::driver) mod advice;
pub(in crate::driver) mod array;
pub(in crate::driver) mod callback;
pub(in crate::driver) mod context;
pub(in crate::driver) mod device;
pub(in crate::driver) mod edge;
pub(in crate::driver) mod event;
pub(in crate::driver) mod external;
pub(in crate::driver) mod function;
pub(in crate::driver) mod graph;
pub(in crate::driver) mod green;
pub(in crate::driver) mod heap;
pub(in crate::driver) mod imported;
pub(in crate::driver) mod jit;
pub(in crate::driver) mod kernel;
pub(in crate::driver) mod launch;
pub(in crate::driver) mod library;
pub(in crate::driver) mod link;
pub(in crate::driver) mod mapping;
pub(in crate::driver) mod memory;
pub(in crate::driver) mod memset;
pub(in crate::driver) mod mipmap;
pub(in crate::driver) mod module;
pub(in crate::driver) mod occupancy;
pub(in crate::driver) mod pool;
pub(in crate::driver) mod resource;
pub(in crate::driver) mod shared;
pub(in crate::driver) mod shared_event;
pub(in crate::driver) mod sm_set;
pub(in crate::driver) mod space;
pub(in crate::driver) mod stream;
pub(in crate::driver) mod surface;
pub(in crate::driver) mod texture;
pub(in crate::driver) mod transfer;
pub(in crate::driver) mod wait_value;
