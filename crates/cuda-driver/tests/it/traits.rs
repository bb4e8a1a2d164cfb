//! Checks at compile time which types are `Send` and `Sync`.

use cuda_driver::error::{DriverError, Error};
use cuda_driver::graph::{
    CaptureScope, GraphAllocation, GraphHostBuffer, HostRead, HostWrite, Node, node_kind,
};
use cuda_driver::jit::{Global, Image};
use cuda_driver::memory::{
    CachingPool, InPlace, ManagedBuffer, MemoryPool, PinnedCachingPool, PitchedBuffer,
    PitchedSlice, PitchedSliceMut, RegisterError, SharedSlice,
};
use cuda_driver::prelude::*;
use cuda_driver::stream::{Completion, HostCall, StreamPool};

const fn is_send_and_sync<T: Send + Sync>() {}
const fn is_error<T: std::error::Error + Send + Sync + 'static>() {}

/// Implemented once for every type, and a second time for types that are `Sync`.
trait SyncTwice<A> {
    const IS_NOT: () = ();
}

impl<T> SyncTwice<()> for T {}
impl<T: Sync> SyncTwice<u8> for T {}

/// Implemented once for every type, and a second time for types that are `Send`.
trait SendTwice<A> {
    const IS_NOT: () = ();
}

impl<T> SendTwice<()> for T {}
impl<T: Send> SendTwice<u8> for T {}

const fn is_send<T: Send>() {}

// These compile, because there is one implementation. Two threads may not share a branch of a
// capture, and all copies of an argument in place stay on one thread.
const _: () = <CaptureScope<'static> as SyncTwice<_>>::IS_NOT;
const _: () = <InPlace<'static, f32> as SyncTwice<_>>::IS_NOT;
const _: () = <InPlace<'static, f32> as SendTwice<_>>::IS_NOT;

const _: () = {
    is_send::<CaptureScope<'static>>();
    is_send_and_sync::<Driver>();
    is_send_and_sync::<Device>();
    is_send_and_sync::<Context>();
    is_send_and_sync::<Stream>();
    is_send_and_sync::<Event>();
    is_send_and_sync::<Completion>();
    is_send_and_sync::<HostCall>();
    is_send_and_sync::<Graph>();
    is_send_and_sync::<GraphExec>();
    is_send_and_sync::<GraphHostBuffer<f32>>();
    is_send_and_sync::<HostRead<'static, f32>>();
    is_send_and_sync::<HostWrite<'static, f32>>();
    is_send_and_sync::<GraphAllocation<f32>>();
    is_send_and_sync::<Node<node_kind::Kernel>>();
    is_send_and_sync::<StreamPool>();
    is_send_and_sync::<Transfer<PinnedBuffer<f32>>>();
    is_send_and_sync::<DeviceBuffer<f32>>();
    is_send_and_sync::<DeviceSlice<'static, f32>>();
    is_send_and_sync::<DeviceSliceMut<'static, f32>>();
    is_send_and_sync::<PinnedBuffer<f32>>();
    is_send_and_sync::<PitchedBuffer<f32>>();
    is_send_and_sync::<PitchedSlice<'static, f32>>();
    is_send_and_sync::<PitchedSliceMut<'static, f32>>();
    is_send_and_sync::<RegisteredBuffer<f32>>();
    is_send_and_sync::<CachingPool>();
    is_send_and_sync::<MemoryPool>();
    is_send_and_sync::<PinnedCachingPool>();
    is_send_and_sync::<Global<f32>>();
    is_send_and_sync::<ManagedBuffer<f32>>();
    is_send_and_sync::<SharedSlice<f32>>();
    is_send_and_sync::<Module>();
    is_send_and_sync::<Function>();
    is_send_and_sync::<Image<'static>>();
    is_error::<Error>();
    is_error::<RegisterError<f32>>();
    is_error::<DriverError>();
};
