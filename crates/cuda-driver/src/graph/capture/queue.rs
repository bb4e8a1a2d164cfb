//! Captures as queues of work.

use super::CaptureScope;
use crate::context::Context;
use crate::error::Result;
use crate::function::Function;
use crate::launch::{KernelArgs, LaunchAttributes, Queue, queue_sealed as sealed};
use crate::memory::{DeviceRepr, DeviceSlice, DeviceSliceMut};
use crate::stream::Stream;
use crate::types::LaunchConfig;
use crate::types::node::{Node, node_kind};

impl sealed::Sealed for CaptureScope<'_> {}

impl Queue for CaptureScope<'_> {
    type Queued<K> = Node<K>;

    fn context(&self) -> &Context {
        self.context()
    }

    unsafe fn launch<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        // SAFETY: the contract of `launch` must hold ← the caller upholds it.
        unsafe { self.launch(function, config, args) }
    }

    unsafe fn launch_with<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        // SAFETY: the contract of `launch_with` must hold ← the caller upholds it.
        unsafe { self.launch_with(function, config, attributes, args) }
    }

    fn copy<'a, 'b, T: DeviceRepr>(
        &self,
        to: impl Into<DeviceSliceMut<'a, T>>,
        from: impl Into<DeviceSlice<'b, T>>,
    ) -> Result<Node<node_kind::Memcpy>> {
        let (to, from) = (to.into(), from.into());
        self.add_node(|graph, after| graph.add_copy(after, to, from))
    }

    fn fill<'a, T: DeviceRepr>(
        &self,
        to: impl Into<DeviceSliceMut<'a, T>>,
        value: T,
    ) -> Result<Node<node_kind::Memset>> {
        self.fill(to.into(), value)
    }

    fn host(&self, function: impl Fn() + Send + Sync + 'static) -> Result<Node<node_kind::Host>> {
        self.host(function)
    }

    unsafe fn launch_checked<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: A,
        _: sealed::Token,
    ) -> Result<Node<node_kind::Kernel>> {
        // SAFETY: the contract of `capture_launch` must hold ← the caller upholds it.
        unsafe { self.capture_launch(function, &config, attributes, &args) }
    }
    fn as_stream(&self, _: sealed::Token) -> Option<&Stream> {
        None
    }
}
