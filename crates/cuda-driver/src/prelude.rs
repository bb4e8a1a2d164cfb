//! The items that most programs need: `use cuda_driver::prelude::*;`.

pub use crate::{
    Context, Cubin, Device, DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Dim3, Driver,
    Event, EventFlags, Function, LaunchConfig, Module, PinnedBuffer, PinnedFlags, Ptx,
    RegisterFlags, RegisteredBuffer, Stream, StreamFlags,
};
