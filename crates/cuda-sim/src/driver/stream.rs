//! Streams, which are queues of the engine.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cuda_sys::{
    CUcontext, CUdevice, CUhostFn, CUlaunchAttributeID, CUlaunchAttributeValue, CUresult, CUstream,
    CUstream_st, CUstreamCallback,
};

use super::arg::{In, Out};
use super::context::Context;
use super::device::Device;
use super::export::{Call, callback, exports};
use super::graph::{Attributes, Payload};
use super::handle::{fresh, pointer};
use super::instance::Instance;
use super::status::{INVALID_HANDLE, INVALID_VALUE, NOT_READY, Status};
use crate::engine::{Kind, OpId, QueueId, Work};

exports! {
    cuStreamCreate => stream_create;
    cuStreamCreateWithPriority => stream_create_with_priority;
    cuStreamDestroy | cuStreamDestroy_v2 => stream_destroy;
    cuStreamSynchronize | cuStreamSynchronize_ptsz => stream_synchronize;
    cuStreamQuery | cuStreamQuery_ptsz => stream_query;
    cuStreamGetFlags | cuStreamGetFlags_ptsz => stream_get_flags;
    cuStreamGetPriority | cuStreamGetPriority_ptsz => stream_get_priority;
    cuStreamGetId | cuStreamGetId_ptsz => stream_get_id;
    cuStreamGetCtx | cuStreamGetCtx_ptsz => stream_get_ctx;
    cuStreamGetDevice | cuStreamGetDevice_ptsz => stream_get_device;
    cuStreamGetAttribute | cuStreamGetAttribute_ptsz => stream_get_attribute;
    cuStreamSetAttribute | cuStreamSetAttribute_ptsz => stream_set_attribute;
    cuStreamCopyAttributes | cuStreamCopyAttributes_ptsz => stream_copy_attributes;
    cuLaunchHostFunc | cuLaunchHostFunc_ptsz => launch_host_func;
    cuStreamAddCallback | cuStreamAddCallback_ptsz => stream_add_callback;
}

pub(super) const LEAST_PRIORITY: c_int = 0;
pub(super) const GREATEST_PRIORITY: c_int = -5;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;
/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u32 = 1;

/// A stream, or one of the default streams of a context.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) handle: u64,
    pub(super) context: Arc<Context>,
    pub(super) queue: QueueId,
    flags: u32,
    pub(super) priority: c_int,
    /// The attributes of launches in the stream. The attributes of the default streams cannot be
    /// set.
    pub(super) attributes: Arc<Mutex<Attributes>>,
}

impl Stream {
    /// Returns whether it is the legacy default stream.
    pub(super) fn is_legacy(&self) -> bool {
        self.queue == self.context.legacy
    }

    /// Returns whether it is one of the default streams.
    pub(super) fn is_default(&self) -> bool {
        matches!(self.handle, LEGACY | PER_THREAD)
    }

    /// Returns whether the legacy default stream waits for it.
    pub(super) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }
}

/// The status and the message of a fault that loses a device.
pub(super) type Lost = (CUresult, String);

/// A pointer of the program that is passed to a callback.
#[derive(Clone, Copy, Debug)]
struct UserData(*mut c_void);

// SAFETY: the pointer is only passed on; the program that registered the callback is responsible
// for its use there.
unsafe impl Send for UserData {}
// SAFETY: as for `Send`; shared access only copies the pointer.
unsafe impl Sync for UserData {}

/// A host function with its argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostCall {
    function: unsafe extern "C" fn(*mut c_void),
    data: UserData,
}

impl HostCall {
    pub(super) fn new(function: unsafe extern "C" fn(*mut c_void), data: Out<c_void>) -> Self {
        let data = UserData(data.raw());
        Self { function, data }
    }

    pub(super) fn raw(&self) -> (CUhostFn, *mut c_void) {
        (Some(self.function), self.data.0)
    }

    /// Converts the call to queued work. The function is not called once the device is lost.
    pub(super) fn work(self, device: &Arc<Device>) -> Work {
        let work = unless_lost(device, move || {
            let Self { function, data } = { self };
            // SAFETY: the function must be callable with `data` until it has run ← the contract of
            // cuLaunchHostFunc and of host nodes, which the program accepted by calling them.
            unsafe { function(data.0) };
            Ok(())
        });
        Work::Host(Box::new(callback(work)))
    }
}

impl Instance {
    /// Queues `work`, which does not run if the device is lost by then.
    pub(super) fn enqueue(
        &self,
        stream: &Stream,
        after: &[OpId],
        work: impl FnOnce() -> Result<(), Lost> + Send + 'static,
    ) -> OpId {
        let work = unless_lost(&stream.context.device, work);
        self.engine
            .submit(stream.queue, after, Work::Device(Box::new(work)))
    }

    /// Queues `work` and waits for it.
    pub(super) fn run(
        &self,
        stream: &Stream,
        work: impl FnOnce() -> Result<(), Lost> + Send + 'static,
    ) -> Status {
        self.engine.run(
            stream.queue,
            Box::new(unless_lost(&stream.context.device, work)),
        );
        stream.context.device.alive()
    }
}

/// The delay until the host learns of a fault; a real device has to interrupt the host first.
const FAULT_LATENCY: Duration = Duration::from_millis(5);

/// Wraps `work` so that it does nothing if the device is lost by then.
///
/// The host does not learn of a fault immediately, so that the calls after the failing launch can
/// succeed, as they can with a real device. A call that waits for the work fails.
pub(super) fn unless_lost(
    device: &Arc<Device>,
    work: impl FnOnce() -> Result<(), Lost> + Send + 'static,
) -> impl FnOnce() + Send + 'static {
    let device = Arc::clone(device);
    move || {
        if device.alive().is_ok()
            && let Err((code, message)) = work()
        {
            thread::sleep(FAULT_LATENCY);
            device.lose(code, message);
        }
    }
}

/// Returns whether streams have this attribute.
fn is_of_streams(attribute: CUlaunchAttributeID) -> bool {
    type A = CUlaunchAttributeID;
    matches!(
        attribute,
        A::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
            | A::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
            | A::CU_LAUNCH_ATTRIBUTE_PRIORITY
            | A::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
            | A::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
    )
}

impl Call {
    /// Returns the stream of a handle. Fails if its device is lost.
    pub(super) fn stream(&self, handle: u64) -> Status<Arc<Stream>> {
        let handle = match handle {
            0 if self.per_thread() => PER_THREAD,
            0 => LEGACY,
            handle => handle,
        };
        if handle != LEGACY && handle != PER_THREAD {
            let stream = self.streams.get(handle).ok_or(INVALID_HANDLE)?;
            stream.context.device.alive()?;
            return Ok(stream);
        }
        let context = self.current()?;
        let queue = if handle == LEGACY {
            context.legacy
        } else {
            self.per_thread_queue(&context)
        };
        Ok(Arc::new(Stream {
            handle,
            context,
            queue,
            flags: 0,
            priority: 0,
            attributes: Arc::default(),
        }))
    }

    fn stream_create(&self, stream: Out<CUstream>, flags: c_uint) -> Status {
        self.stream_create_with_priority(stream, flags, 0)
    }

    fn stream_create_with_priority(
        &self,
        stream: Out<CUstream>,
        flags: c_uint,
        priority: c_int,
    ) -> Status {
        stream.required()?;
        let context = self.current()?;
        if flags & !NON_BLOCKING != 0 {
            return Err(INVALID_VALUE);
        }
        let kind = if flags & NON_BLOCKING != 0 {
            Kind::Free
        } else {
            Kind::Blocking
        };
        let created = Stream {
            handle: fresh(),
            queue: self.engine.queue(context.group, kind),
            context,
            flags,
            priority: priority.clamp(GREATEST_PRIORITY, LEAST_PRIORITY),
            attributes: Arc::default(),
        };
        let handle = created.handle;
        self.streams.insert(handle, Arc::new(created));
        stream.set(pointer(handle))
    }

    /// `cuStreamDestroy()`—Queued work still runs.
    fn stream_destroy(&self, stream: Out<CUstream_st>) -> Status {
        let stream = self.streams.remove(stream.handle()).ok_or(INVALID_HANDLE)?;
        self.abandon_capture(&stream);
        self.engine.close_queue(stream.queue);
        stream.context.device.alive()
    }

    fn stream_synchronize(&self, stream: Out<CUstream_st>) -> Status {
        let stream = self.stream(stream.handle())?;
        self.uncapturable(&stream)?;
        self.engine.wait(&self.engine.tail(stream.queue));
        stream.context.device.alive()
    }

    fn stream_query(&self, stream: Out<CUstream_st>) -> Status {
        let stream = self.stream(stream.handle())?;
        self.uncapturable(&stream)?;
        let done = self.engine.query(&self.engine.tail(stream.queue));
        stream.context.device.alive()?;
        if done { Ok(()) } else { Err(NOT_READY) }
    }

    fn stream_get_flags(&self, stream: Out<CUstream_st>, flags: Out<c_uint>) -> Status {
        flags.set(self.stream(stream.handle())?.flags)
    }

    fn stream_get_priority(&self, stream: Out<CUstream_st>, priority: Out<c_int>) -> Status {
        priority.set(self.stream(stream.handle())?.priority)
    }

    fn stream_get_id(&self, stream: Out<CUstream_st>, id: Out<c_ulonglong>) -> Status {
        id.set(self.stream(stream.handle())?.queue)
    }

    fn stream_get_ctx(&self, stream: Out<CUstream_st>, ctx: Out<CUcontext>) -> Status {
        ctx.set(pointer(self.stream(stream.handle())?.context.handle))
    }

    fn stream_get_device(&self, stream: Out<CUstream_st>, device: Out<CUdevice>) -> Status {
        device.set(self.stream(stream.handle())?.context.device.ordinal as CUdevice)
    }

    fn stream_get_attribute(
        &self,
        stream: Out<CUstream_st>,
        attribute: CUlaunchAttributeID,
        value: Out<CUlaunchAttributeValue>,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        value.required()?;
        if !is_of_streams(attribute) {
            return Err(INVALID_VALUE);
        }
        if attribute == CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY {
            let mut answer = CUlaunchAttributeValue { pad: [0; 64] };
            answer.priority = stream.priority;
            return value.set(answer);
        }
        let attributes = stream.attributes.lock();
        let attributes = attributes.unwrap_or_else(PoisonError::into_inner);
        value.set(attributes.get(attribute)?)
    }

    /// `cuStreamSetAttribute()`—Cannot change the priority, which is fixed when the stream is
    /// created.
    fn stream_set_attribute(
        &self,
        stream: Out<CUstream_st>,
        attribute: CUlaunchAttributeID,
        value: In<CUlaunchAttributeValue>,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        let value = value.get()?;
        let is_priority = attribute == CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY;
        if is_priority || !is_of_streams(attribute) {
            return Err(INVALID_VALUE);
        }
        let attributes = stream.attributes.lock();
        let mut attributes = attributes.unwrap_or_else(PoisonError::into_inner);
        attributes.set(self.config.version, attribute, &value)
    }

    fn stream_copy_attributes(&self, dst: Out<CUstream_st>, src: Out<CUstream_st>) -> Status {
        let (dst, src) = (self.stream(dst.handle())?, self.stream(src.handle())?);
        if dst.context.handle != src.context.handle {
            return Err(INVALID_VALUE);
        }
        let from = src.attributes.lock();
        let from = from.unwrap_or_else(PoisonError::into_inner).clone();
        let to = dst.attributes.lock();
        *to.unwrap_or_else(PoisonError::into_inner) = from;
        Ok(())
    }

    /// `cuLaunchHostFunc()`—The function is not called once the device is lost.
    fn launch_host_func(
        &self,
        stream: Out<CUstream_st>,
        function: CUhostFn,
        data: Out<c_void>,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        let function = function.ok_or(INVALID_VALUE)?;
        let host = HostCall::new(function, data);
        if self.captured(&stream, || Ok(Payload::Host(host)))? {
            return Ok(());
        }
        let work = host.work(&stream.context.device);
        self.engine.submit(stream.queue, &[], work);
        Ok(())
    }

    /// `cuStreamAddCallback()`—Callbacks, unlike host functions, are called after a fault and
    /// receive its status.
    fn stream_add_callback(
        &self,
        stream: Out<CUstream_st>,
        function: CUstreamCallback,
        data: Out<c_void>,
        flags: c_uint,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        let function = function.ok_or(INVALID_VALUE)?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        self.uncapturable(&stream)?;
        let data = UserData(data.raw());
        let device = Arc::clone(&stream.context.device);
        let handle = stream.handle;
        let work = move || {
            let UserData(data) = { data };
            let status = device.alive().err().unwrap_or(CUresult::CUDA_SUCCESS);
            // SAFETY: the callback must be callable with these arguments until it has run ← the
            // contract of cuStreamAddCallback, which the program accepted by calling it.
            unsafe { function(pointer(handle), status, data) };
        };
        self.engine
            .submit(stream.queue, &[], Work::Host(Box::new(callback(work))));
        Ok(())
    }
}
