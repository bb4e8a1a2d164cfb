//! Contexts that are borrowed from other code, and withdrawn. The owner obeys the contract of
//! `Context::borrow_raw`: it declares a context dead once the work that was queued in it is done,
//! and destroys it afterwards.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cuda_driver::context::ContextFlags;
use cuda_driver::error::{Error, Status};
use cuda_driver::graph::GraphHostBuffer;
use cuda_driver::memory::{CachingPool, ManagedBuffer, PinnedCachingPool};
use cuda_driver::prelude::*;
use cuda_sys::CUctx_st;

use crate::set_up::{COPY, load, stream as new_stream};
use crate::support::{Attack, Case};

/// Foreign code that owns a context.
struct Owner {
    driver: Driver,
    raw: *mut CUctx_st,
    token: Arc<AtomicBool>,
}

impl Owner {
    fn new(case: &Case) -> Self {
        let driver = case.context.driver().clone();
        let (mut raw, mut popped) = (ptr::null_mut(), ptr::null_mut());
        let device = case.context.device().as_raw();
        let library = driver.library();
        // SAFETY: the pointer is to a local.
        let made = unsafe { library.cuCtxCreate_v2(&raw mut raw, 0, device) };
        // SAFETY: the pointer is to a local.
        let left = unsafe { library.cuCtxPopCurrent_v2(&raw mut popped) };
        assert_eq!((made, left), (Status::CUDA_SUCCESS, Status::CUDA_SUCCESS));
        Self {
            driver,
            raw,
            token: Arc::new(AtomicBool::new(true)),
        }
    }

    fn borrow(&self) -> Context {
        // SAFETY: the context must be alive while the token says so, and the work queued in it must
        // be done when it no longer does ← `withdraw` waits for that.
        unsafe { Context::borrow_raw(&self.driver, self.raw, Arc::clone(&self.token) as _) }
            .unwrap()
    }

    /// Waits for the context, declares it dead and destroys it.
    fn withdraw(self, context: &Context) {
        context.synchronize().unwrap();
        self.token.store(false, Ordering::SeqCst);
        // SAFETY: nothing may use the context any more ← the token says that it is dead.
        let gone = unsafe { self.driver.library().cuCtxDestroy_v2(self.raw) };
        assert_eq!(gone, Status::CUDA_SUCCESS);
    }
}

/// Claim: once a context is declared dead, no call reaches the driver, not even from a drop, and
/// page-locked memory belongs to the program. Objects of all kinds outlive their context, are used,
/// and are dropped in a random order. (The driver's graphs are left over: destroying a context does
/// not destroy them, and no later call does.)
#[test]
fn everything_outlives_a_withdrawn_context() {
    Attack::new().leaks().run(|case| {
        let owner = Owner::new(case);
        let context = owner.borrow();
        let stream = new_stream(&context);
        let words = vec![4_u32; case.n];
        let mut buffer = DeviceBuffer::from_host(&stream, &words).unwrap();
        let pool = CachingPool::new(&context);
        let block = DeviceBuffer::from_host_in(&pool, &stream, &words).unwrap();
        let pinned_pool = PinnedCachingPool::new(&context, PinnedFlags::default());
        let mut pinned = PinnedBuffer::from_host_in(&pinned_pool, &words).unwrap();
        let managed = ManagedBuffer::from_host(&stream, &words).unwrap();
        let module = load(&context, COPY);
        let function = module.function("copy").unwrap();
        let mut graph = Graph::new(&context).unwrap();
        let host = GraphHostBuffer::new(PinnedBuffer::from_host_in(&pinned_pool, &words).unwrap())
            .unwrap();
        graph.add_copy(&[], &mut buffer, &host).unwrap();
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        let event = Event::new(&context, EventFlags::DISABLE_TIMING).unwrap();
        event.record(&stream).unwrap();
        let own = PinnedBuffer::from_host(&context, &words, PinnedFlags::default()).unwrap();
        let transfer = buffer.copy_to_pinned_async(own, &stream).unwrap();
        let completion = stream.completion();
        let call = stream.launch_host(|| {}).unwrap();
        owner.withdraw(&context);
        let gone = |result: Result<(), Error>| {
            let is_gone = matches!(result, Err(Error::ContextGone { .. }));
            assert!(is_gone, "{}: {result:?}", case.title);
        };
        gone(stream.synchronize());
        gone(buffer.set_zero());
        gone(exec.launch(&stream));
        gone(event.record(&stream));
        gone(DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 8).map(drop));
        gone(module.function("copy").map(drop));
        gone(block.to_vec().map(drop));
        // The memory belongs to the program.
        pinned.fill(9);
        case.expect_words(&pinned, 9);
        let mut owners: Vec<Box<dyn std::any::Any + Send>> = vec![
            Box::new((stream, event)),
            Box::new((buffer, block)),
            Box::new((pool, pinned_pool)),
            Box::new((pinned, host)),
            Box::new(managed),
            Box::new((module, function)),
            Box::new((graph, exec)),
            Box::new((transfer, completion, call)),
            Box::new(context),
        ];
        while !owners.is_empty() {
            let owner = owners.swap_remove(case.pick(owners.len()));
            if case.pick(2) == 0 {
                drop(owner);
            } else {
                thread::spawn(move || drop(owner)).join().unwrap();
            }
        }
        let stream = case.stream();
        let fine = case.filled(&stream, 3);
        case.expect(&fine, 3);
    });
}

/// Claim: all handles of one context share its identity, whether it is primary, created here or
/// borrowed. Hazard tracking relies on this.
#[test]
fn handles_of_one_context_order_each_others_streams() {
    Attack::new().run(|case| {
        let owner = Owner::new(case);
        let contexts = [owner.borrow(), owner.borrow(), owner.borrow()];
        let kernels = contexts.each_ref().map(|context| {
            let module = load(context, COPY);
            module.function("copy").unwrap()
        });
        let streams = contexts.each_ref().map(new_stream);
        let mut a = DeviceBuffer::from_host(&streams[0], &vec![0_u32; case.n]).unwrap();
        let mut b = DeviceBuffer::from_host(&streams[1], &vec![0_u32; case.n]).unwrap();
        for round in 1..6_usize {
            let words = vec![round as u32; case.n];
            let source = DeviceBuffer::from_host(&streams[round % 3], &words).unwrap();
            case.hold_up(&streams[(round + 1) % 3]);
            let at = (round + 1) % 3;
            let args = (&source, &mut a, case.n as u32);
            // SAFETY: the kernel copies n words ← both buffers have n.
            unsafe { streams[at].launch(&kernels[at], case.config(), args) }.unwrap();
            drop(source);
            let args = (&a, &mut b, case.n as u32);
            // SAFETY: the kernel copies n words ← both buffers have n.
            unsafe { streams[round % 3].launch(&kernels[(round + 2) % 3], case.config(), args) }
                .unwrap();
            case.expect(&b, round as u32);
        }
        drop((a, b, streams, kernels));
        let [context, ..] = contexts;
        owner.withdraw(&context);
    });
}

/// Claim: a context is kept alive by the objects in it and by threads on which it is current.
/// Contexts are dropped while they are current here and on threads that end.
#[test]
fn contexts_are_dropped_while_current() {
    Attack::new().run(|case| {
        let mut kept = Vec::new();
        for round in 0..4_u32 {
            let own = Context::new(case.context.device(), ContextFlags::empty()).unwrap();
            let stream = new_stream(&own);
            let buffer = DeviceBuffer::from_host(&stream, &vec![round; case.n]).unwrap();
            case.hold_up(&stream);
            let guard = own.make_current().unwrap();
            let second = case.context.make_current().unwrap();
            thread::spawn(move || {
                let current = own.make_current().unwrap();
                drop((own, stream));
                drop(current);
            })
            .join()
            .unwrap();
            // Not in the order of creation.
            drop(guard);
            let here = case.stream();
            let also = case.filled(&here, round);
            drop(second);
            kept.push((buffer, also, round));
        }
        for (buffer, also, round) in &kept {
            case.expect(buffer, *round);
            case.expect(also, *round);
        }
    });
}

/// Claim: a primary context is retained once per handle. Threads drop and retain it while work is
/// queued, and the memory of earlier handles stays valid.
#[test]
fn primary_contexts_are_retained_again() {
    Attack::new().run(|case| {
        let device = case.context.device();
        let owning = case.stream();
        let first = case.filled(&owning, 3);
        thread::scope(|scope| {
            for _ in 0..case.threads {
                scope.spawn(|| {
                    for round in 0..6_u32 {
                        let again = device.primary_context().unwrap();
                        assert_eq!(again, case.context, "{}", case.title);
                        let stream = again.default_stream().unwrap();
                        let words = vec![round; case.n];
                        let buffer = DeviceBuffer::from_host(&stream, &words).unwrap();
                        drop((again, stream));
                        case.expect(&buffer, round);
                    }
                });
            }
        });
        case.expect(&first, 3);
    });
}
