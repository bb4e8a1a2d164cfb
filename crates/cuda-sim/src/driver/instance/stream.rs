//! Queueing work in streams.

use crate::driver::instance::Instance;
use crate::driver::objects::stream::{DeviceFault, Stream, unless_lost};
use crate::driver::status::Status;
use crate::engine::{OpId, Work};

impl Instance {
    /// Queues `work`, which does nothing if the device is lost before it runs.
    pub(in crate::driver) fn enqueue(
        &self,
        stream: &Stream,
        after: &[OpId],
        work: impl FnOnce() -> Result<(), DeviceFault> + Send + 'static,
    ) -> OpId {
        let work = unless_lost(&stream.context.device, work);
        self.engine
            .submit(stream.queue, after, Work::Device(Box::new(work)))
    }

    /// Queues `work` and waits for it.
    pub(in crate::driver) fn run(
        &self,
        stream: &Stream,
        work: impl FnOnce() -> Result<(), DeviceFault> + Send + 'static,
    ) -> Status {
        self.engine.run(
            stream.queue,
            Box::new(unless_lost(&stream.context.device, work)),
        );
        stream.context.device.alive()
    }
}
