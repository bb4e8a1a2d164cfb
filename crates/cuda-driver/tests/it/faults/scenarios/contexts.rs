//! Scenarios of contexts of all kinds.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cuda_driver::context::{CacheConfig, ContextFlags, Limit};
use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sys::{CUcontext, DriverLibrary};

use super::{Ground, Result, Scenario, one};

pub(super) const ALL: &[Scenario] = &[
    one("owned context", owned),
    one("context settings", settings),
    one("current", current),
    one("borrowed context", borrowed),
    one("known context", known),
    one("reset", reset),
];

fn owned(ground: &Ground) -> Result<()> {
    let context = Context::new(ground.context.device(), ContextFlags::SCHED_YIELD)?;
    let stream = context.default_stream()?;
    let buffer = DeviceBuffer::from_host(&stream, &[5_u32; 8])?;
    // The context lives until the buffer is dropped.
    drop((context, stream));
    assert_eq!(buffer.to_vec()?, [5; 8]);
    buffer.close()?;
    let context = Context::new(ground.context.device(), ContextFlags::empty())?;
    context.synchronize()?;
    context.close()
}

fn settings(ground: &Ground) -> Result<()> {
    let context = Context::new(ground.context.device(), ContextFlags::empty())?;
    context.set_flags(ContextFlags::SCHED_BLOCKING_SYNC)?;
    assert!(context.flags()?.contains(ContextFlags::SCHED_BLOCKING_SYNC));
    context.set_limit(Limit::STACK_SIZE, 4096)?;
    assert!(context.limit(Limit::STACK_SIZE)? >= 4096);
    context.set_cache_config(CacheConfig::L1)?;
    context.cache_config()?;
    context.reset_persisting_l2_cache()?;
    assert!(context.api_version()? > 0);
    assert_ne!(context.id()?, ground.context.id()?);
    Ok(())
}

fn current(ground: &Ground) -> Result<()> {
    let own = Context::new(ground.context.device(), ContextFlags::empty())?;
    let outer = own.make_current()?;
    let inner = ground.context.make_current()?;
    assert_eq!(
        Context::current(&ground.driver)?.as_ref(),
        Some(&ground.context)
    );
    // The guards are not dropped in reverse order of creation.
    drop(outer);
    drop(inner);
    Ok(())
}

/// A context that other code creates and destroys.
struct Foreign(Arc<DriverLibrary>, CUcontext);

impl Foreign {
    fn new(ground: &Ground) -> Self {
        let (library, mut raw) = (Arc::clone(&ground.library), ptr::null_mut());
        let device = ground.context.device().as_raw();
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

fn borrowed(ground: &Ground) -> Result<()> {
    let foreign = Foreign::new(ground);
    let token = Arc::new(AtomicBool::new(true));
    // SAFETY: the context is alive until the end of this function, and all its objects are dropped
    // by then.
    let context = unsafe { Context::borrow_raw(&ground.driver, foreign.1, token) }?;
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
fn known(ground: &Ground) -> Result<()> {
    let token = Arc::new(AtomicBool::new(true));
    let raw = ground.context.as_raw();
    // SAFETY: the context is the primary one, which is kept.
    let same = unsafe { Context::borrow_raw(&ground.driver, raw, token) }?;
    assert_eq!(same, ground.context);
    let foreign = Foreign::new(ground);
    // SAFETY: the context is alive. This makes it current in the role of other code.
    let status = unsafe { ground.library.cuCtxPushCurrent(foreign.1) };
    assert_eq!(status, Status::CUDA_SUCCESS);
    let told = Context::current(&ground.driver);
    let mut popped = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    let status = unsafe { ground.library.cuCtxPopCurrent(&raw mut popped) };
    assert_eq!(status, Status::CUDA_SUCCESS);
    match told {
        Err(Error::ForeignContext) => Ok(()),
        told => told.map(|told| panic!("the context is not foreign: {told:?}")),
    }
}

/// Resets the primary context, which is invalid while other code uses it.
fn reset(ground: &Ground) -> Result<()> {
    // SAFETY: nothing in the context is in use: the remaining handles only release it.
    unsafe { ground.context.device().reset_primary_context() }
}
