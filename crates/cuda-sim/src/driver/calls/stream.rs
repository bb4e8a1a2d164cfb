//! Streams, which are queues of the engine.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::Arc;

use cuda_sys::{
    CUcontext, CUdevice, CUhostFn, CUlaunchAttributeID, CUlaunchAttributeValue, CUresult, CUstream,
    CUstream_st, CUstreamCallback,
};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::callback::callback;
use crate::driver::objects::context::Context;
use crate::driver::objects::graph::payload::Payload;
use crate::driver::objects::stream::{
    GREATEST_PRIORITY, HostCall, LEAST_PRIORITY, LEGACY, NON_BLOCKING, PER_THREAD, Stream, UserData,
};
use crate::driver::status::{INVALID_HANDLE, INVALID_VALUE, NOT_READY, STREAM_DETACHED, Status};
use crate::engine::{Kind, Work};
use crate::lock::lock;

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
    pub(in crate::driver) fn stream(&self, handle: u64) -> Status<Arc<Stream>> {
        let handle = match handle {
            0 if self.per_thread() => PER_THREAD,
            0 => LEGACY,
            handle => handle,
        };
        if handle != LEGACY && handle != PER_THREAD {
            let stream = self.streams.get(handle);
            let stream = stream.ok_or_else(|| self.unknown_handle(handle))?;
            stream.context.device.alive()?;
            if !stream.context.is_alive() {
                return Err(STREAM_DETACHED);
            }
            return Ok(stream);
        }
        let context = self.current()?;
        let queue = if handle == LEGACY {
            context.legacy
        } else if context.green.is_some() {
            return Err(INVALID_HANDLE);
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
        self.create_stream(self.current()?, stream, flags, priority)
    }

    /// Creates a stream in `context`.
    pub(in crate::driver) fn create_stream(
        &self,
        context: Arc<Context>,
        stream: Out<CUstream>,
        flags: c_uint,
        priority: c_int,
    ) -> Status {
        if flags & !NON_BLOCKING != 0 {
            return Err(INVALID_VALUE);
        }
        let kind = if flags & NON_BLOCKING != 0 {
            Kind::NonBlocking
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
        let handle = stream.handle();
        let stream = self.streams.remove(handle);
        let stream = stream.ok_or_else(|| self.unknown_handle(handle))?;
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
        let stream = self.stream(stream.handle())?;
        // Seen on driver 580 (H100): the call invalidates the capture.
        self.uncapturable(&stream)?;
        flags.set(stream.flags)
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
            let mut result = CUlaunchAttributeValue { pad: [0; 64] };
            result.priority = stream.priority;
            return value.set(result);
        }
        value.set(lock(&stream.attributes).get(attribute)?)
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
        lock(&stream.attributes).set(self.config.version, attribute, &value)
    }

    fn stream_copy_attributes(&self, dst: Out<CUstream_st>, src: Out<CUstream_st>) -> Status {
        let (dst, src) = (self.stream(dst.handle())?, self.stream(src.handle())?);
        if dst.context.handle != src.context.handle {
            return Err(INVALID_VALUE);
        }
        let from = lock(&src.attributes).clone();
        *lock(&dst.attributes) = from;
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
