//! The items that most programs need: `use cuda_driver::prelude::*;`.

pub use crate::event::EventFlags;
pub use crate::jit::Cubin;
pub use crate::launch::{ArgList, KernelArg, LaunchAttributes, Queue, Reads, Writes};
// `crate::launch` is also a module, which must not come with the macro.
pub use crate::launch_macro::launch;
pub use crate::memory::{PinnedFlags, RegisterFlags, RegisteredBuffer, Transfer};
pub use crate::safe::{SafeKernel, SafeModule};
pub use crate::stream::StreamFlags;
pub use crate::{
    Context, Device, DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Dim3, Driver, Event,
    Function, Graph, GraphExec, Kernel, LaunchConfig, Module, PinnedBuffer, Ptx, Stream,
};
