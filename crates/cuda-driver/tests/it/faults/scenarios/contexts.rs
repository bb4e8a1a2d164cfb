//! Scenarios of contexts of all kinds.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use cuda_driver::Version;
use cuda_driver::context::{CacheConfig, ContextFlags, Limit};
use cuda_driver::device::{SmGroup, SmSplitFlags};
use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sys::{CUcontext, DriverLibrary};

use super::{Fixture, Result, Scenario, one, two};

pub(super) const ALL: &[Scenario] = &[
    one("owned context", owned),
    one("context settings", settings),
    one("current", current),
    one("bound thread", bound),
    one("borrowed context", borrowed),
    one("known context", known),
    two("reset", reset),
    one("green", green),
    one("work queues", work_queues),
];

fn owned(fixture: &Fixture) -> Result<()> {
    let context = Context::new(fixture.context.device(), ContextFlags::SCHED_YIELD)?;
    let stream = context.default_stream()?;
    let buffer = DeviceBuffer::from_host(&stream, &[5_u32; 8])?;
    // The context lives until the buffer is dropped.
    drop((context, stream));
    assert_eq!(buffer.to_vec()?, [5; 8]);
    buffer.close()?;
    let context = Context::new(fixture.context.device(), ContextFlags::empty())?;
    context.synchronize()?;
    context.close()
}

fn green(fixture: &Fixture) -> Result<()> {
    if fixture.driver.version() < Version::new(12_040) {
        return Ok(());
    }
    let sms = fixture.context.device().sm_resource()?;
    assert_eq!(sms.max_groups(8, SmSplitFlags::empty())?, 2);
    let split = sms.split_by_count(2, 8, SmSplitFlags::empty())?;
    let [one, two] = &split.groups[..] else {
        panic!("{split:?}");
    };
    let (one, two) = (Context::green(one)?, Context::green(two)?);
    assert_eq!(one.sm_resource()?.sm_count(), 8);
    let stream = one.default_stream()?;
    assert_eq!(stream.green_context_as_raw()?, one.as_raw_green());
    let buffer = DeviceBuffer::from_host(&stream, &[5_u32; 8])?;
    let view = buffer.as_slice().for_peer(&two)?;
    assert_eq!(view.len(), 8);
    // The context lives until the buffer is dropped.
    drop((one, stream));
    assert_eq!(buffer.to_vec()?, [5; 8]);
    buffer.close()?;
    two.synchronize()?;
    two.close()
}

fn work_queues(fixture: &Fixture) -> Result<()> {
    if fixture.driver.version() < Version::new(13_010) {
        return Ok(());
    }
    let device = fixture.context.device();
    let queues = device.workqueue_config()?.with_concurrency_limit(2);
    let group = SmGroup {
        sm_count: 8,
        ..SmGroup::default()
    };
    let split = device.sm_resource()?.split(&[group])?;
    let context = Context::green_with(&[&split.groups[0]], Some(&queues))?;
    let stream = context.default_stream()?;
    assert_eq!(stream.sm_resource()?.sm_count(), 8);
    drop(stream);
    context.close()
}

fn settings(fixture: &Fixture) -> Result<()> {
    let context = Context::new(fixture.context.device(), ContextFlags::empty())?;
    context.set_flags(ContextFlags::SCHED_BLOCKING_SYNC)?;
    assert!(context.flags()?.contains(ContextFlags::SCHED_BLOCKING_SYNC));
    context.set_limit(Limit::STACK_SIZE, 4096)?;
    assert!(context.limit(Limit::STACK_SIZE)? >= 4096);
    context.set_cache_config(CacheConfig::L1)?;
    context.cache_config()?;
    context.reset_persisting_l2_cache()?;
    assert!(context.api_version()? > 0);
    assert_ne!(context.id()?, fixture.context.id()?);
    Ok(())
}

fn current(fixture: &Fixture) -> Result<()> {
    let own = Context::new(fixture.context.device(), ContextFlags::empty())?;
    let outer = own.make_current()?;
    let inner = fixture.context.make_current()?;
    assert_eq!(
        Context::current(&fixture.driver)?.as_ref(),
        Some(&fixture.context)
    );
    // The guards are not dropped in reverse order of creation.
    drop(outer);
    drop(inner);
    Ok(())
}

fn bound(fixture: &Fixture) -> Result<()> {
    let own = Context::new(fixture.context.device(), ContextFlags::empty())?;
    let bind = || {
        own.bind_thread()?;
        fixture.context.bind_thread()?;
        let stream = fixture.stream()?;
        assert_eq!(
            DeviceBuffer::from_host(&stream, &[5_u32; 8])?.to_vec()?,
            [5; 8]
        );
        fixture.context.unbind_thread()
    };
    // If a call fails, the thread stays bound until it ends.
    thread::scope(|threads| threads.spawn(bind).join().unwrap())
}

/// A context that other code creates and destroys.
struct Foreign(Arc<DriverLibrary>, CUcontext);

impl Foreign {
    fn new(fixture: &Fixture) -> Self {
        let (library, mut raw) = (Arc::clone(&fixture.library), ptr::null_mut());
        let device = fixture.context.device().as_raw();
        // SAFETY: the pointer is to a local.
        let status = unsafe { library.cuCtxCreate_v4(&raw mut raw, ptr::null_mut(), 0, device) };
        assert_eq!(status, Status::CUDA_SUCCESS);
        let mut popped = ptr::null_mut();
        // SAFETY: as above. (This is the first revision, which only this code calls.)
        let status = unsafe { library.cuCtxPopCurrent(&raw mut popped) };
        assert_eq!((status, popped), (Status::CUDA_SUCCESS, raw));
        Self(library, raw)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: the context is no longer in use. (This is the first revision, as above.)
        let status = unsafe { self.0.cuCtxDestroy(self.1) };
        assert_eq!(status, Status::CUDA_SUCCESS);
    }
}

fn borrowed(fixture: &Fixture) -> Result<()> {
    let foreign = Foreign::new(fixture);
    let token = Arc::new(AtomicBool::new(true));
    // SAFETY: the context is alive until the end of this function, and all its objects are dropped
    // by then.
    let context = unsafe { Context::borrow_raw(&fixture.driver, foreign.1, token) }?;
    let stream = context.default_stream()?;
    let mut buffer = DeviceBuffer::from_host(&stream, &[9_u32; 8])?;
    let pinned = PinnedBuffer::from_host(&context, &[3_u32; 8], PinnedFlags::empty())?;
    assert_eq!(buffer.to_vec()?, [9; 8]);
    buffer.copy_from_pinned(&pinned)?;
    drop(pinned);
    assert_eq!(buffer.to_vec()?, [3; 8]);
    drop((buffer, stream));
    context.close()
}

/// Raw handles of other code may belong to contexts that the crate knows, or to others.
fn known(fixture: &Fixture) -> Result<()> {
    let token = Arc::new(AtomicBool::new(true));
    let raw = fixture.context.as_raw();
    // SAFETY: the context is the primary one, which is kept.
    let same = unsafe { Context::borrow_raw(&fixture.driver, raw, token) }?;
    assert_eq!(same, fixture.context);
    let foreign = Foreign::new(fixture);
    // SAFETY: the context is alive. This makes it current in the role of other code.
    let status = unsafe { fixture.library.cuCtxPushCurrent(foreign.1) };
    assert_eq!(status, Status::CUDA_SUCCESS);
    let current = Context::current(&fixture.driver);
    let mut popped = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    let status = unsafe { fixture.library.cuCtxPopCurrent(&raw mut popped) };
    assert_eq!(status, Status::CUDA_SUCCESS);
    match current {
        Err(Error::ForeignContext { .. }) => Ok(()),
        current => current.map(|current| panic!("the context is not foreign: {current:?}")),
    }
}

/// Resets the primary context, which is invalid while other code uses it.
fn reset(fixture: &Fixture) -> Result<()> {
    let context = fixture.driver.device(1)?.primary_context()?;
    // SAFETY: nothing in the context is in use: the remaining handle only releases it.
    unsafe { context.device().reset_primary_context() }
}
