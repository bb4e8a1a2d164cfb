//! Finding and creating contexts, and the stack of current contexts of each thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use crate::driver::handle::fresh;
use crate::driver::instance::{Instance, is_alive};
use crate::driver::objects::context::{Context, Green};
use crate::driver::objects::device::Device;
use crate::driver::status::{CONTEXT_IS_DESTROYED, INVALID_CONTEXT, Status};
use crate::engine::{Kind, OpId, QueueId};
use crate::lock::lock;

thread_local! {
    /// The context stack of this thread for each instance id; the last element is the current
    /// context.
    static STACKS: RefCell<HashMap<u64, Vec<Weak<Context>>>> = RefCell::default();
}

impl Instance {
    pub(in crate::driver) fn create_context(
        &self,
        device: &Arc<Device>,
        flags: u32,
        is_primary: bool,
    ) -> Arc<Context> {
        self.new_context(fresh(), device, flags, is_primary, None)
    }

    pub(in crate::driver) fn create_green_context(
        &self,
        device: &Arc<Device>,
        green: Green,
    ) -> Arc<Context> {
        self.new_context(fresh(), device, 0, false, Some(green))
    }

    fn new_context(
        &self,
        handle: u64,
        device: &Arc<Device>,
        flags: u32,
        is_primary: bool,
        green: Option<Green>,
    ) -> Arc<Context> {
        let (group, legacy) = self.engine.group();
        let context = Arc::new(Context {
            handle,
            device: Arc::clone(device),
            is_primary,
            green,
            group,
            legacy,
            per_thread: Mutex::default(),
            flags: AtomicU32::new(flags),
            limits: Mutex::default(),
            cache: AtomicI32::new(0),
            shared: AtomicI32::new(0),
            is_alive: AtomicBool::new(true),
            attached: AtomicU32::new(0),
            heap: Arc::default(),
            peers: Mutex::default(),
        });
        self.contexts.insert(context.handle, Arc::clone(&context));
        context
    }

    /// Retains the primary context of a device, which is created if necessary.
    pub(in crate::driver) fn retain_primary(&self, device: &Arc<Device>) -> Arc<Context> {
        let mut primary = device.primary();
        primary.count += 1;
        if let Some(context) = &primary.context {
            return Arc::clone(context);
        }
        // A reset keeps the handle.
        let reset = primary.reset.as_ref();
        let handle = reset.map_or_else(fresh, |context| context.handle);
        let context = self.new_context(handle, device, primary.flags, true, None);
        primary.context = Some(Arc::clone(&context));
        context
    }

    /// Releases the primary context of a device. Destroys it if the count becomes 0.
    pub(in crate::driver) fn release_primary(&self, device: &Device) -> Status {
        let gone = {
            let mut primary = device.primary();
            primary.count = primary.count.checked_sub(1).ok_or(INVALID_CONTEXT)?;
            if primary.count == 0 {
                primary.context.take()
            } else {
                None
            }
        };
        if let Some(context) = gone {
            self.destroy_context(&context);
        }
        Ok(())
    }

    /// Waits for the work of a green context, then destroys it. Its memory, its modules and its
    /// events belong to the primary context and stay, and so do its streams, which are detached.
    pub(in crate::driver) fn destroy_green_context(&self, context: &Arc<Context>) {
        self.engine.wait(&self.engine.group_tail(context.group));
        context.is_alive.store(false, Ordering::Release);
        self.abandon_captures_in(context);
        self.contexts.remove(context.handle);
    }

    /// Returns the contexts whose work a wait for `context` includes: the context and, if it is a
    /// primary context, the green contexts of its device.
    pub(in crate::driver) fn with_greens(&self, context: &Arc<Context>) -> Vec<Arc<Context>> {
        let greens = self.greens.all().into_iter();
        let greens = greens.filter(|green| green.is_green_of(context));
        std::iter::once(Arc::clone(context)).chain(greens).collect()
    }

    /// Waits for the work of a context, then destroys it and everything that belongs to it.
    pub(in crate::driver) fn destroy_context(&self, context: &Arc<Context>) {
        for green in self.greens.drain(|green| green.is_green_of(context)) {
            self.destroy_green_context(&green);
        }
        self.engine.wait(&self.engine.group_tail(context.group));
        context.is_alive.store(false, Ordering::Release);
        self.abandon_captures_in(context);
        self.contexts.remove(context.handle);
        for stream in self
            .streams
            .drain(|stream| stream.context.home_handle() == context.handle)
        {
            self.engine.close_queue(stream.queue);
        }
        self.events.drain(|event| event.context == context.handle);
        self.external_memory
            .drain(|memory| memory.context == context.handle);
        self.external_semaphores
            .drain(|semaphore| semaphore.context == context.handle);
        self.unload_modules(|module| module.context.handle == context.handle);
        self.free_allocations(|allocation| allocation.context == context.handle);
        self.textures
            .drain(|object| object.context == context.handle);
        self.surfaces
            .drain(|object| object.context == context.handle);
        self.mipmaps.drain(|array| array.context == context.handle);
        self.arrays.drain(|array| array.context == context.handle);
        context.heap.clear(&context.device);
        self.engine.close_group(context.group);
    }

    /// Returns the queue of this thread's default stream.
    pub(in crate::driver) fn per_thread_queue(&self, context: &Context) -> QueueId {
        let mut queues = lock(&context.per_thread);
        *queues
            .entry(thread::current().id())
            .or_insert_with(|| self.engine.queue(context.group, Kind::Blocking))
    }

    /// Returns the last operations of all contexts of a device.
    pub(in crate::driver) fn device_tail(&self, device: &Device) -> Vec<OpId> {
        let contexts = self.contexts.all().into_iter();
        contexts
            .filter(|context| context.device.ordinal == device.ordinal)
            .flat_map(|context| self.engine.group_tail(context.group))
            .chain(self.engine.orphans())
            .collect()
    }

    /// Calls `work` with the context stack of this thread. A thread whose thread-locals have been
    /// destroyed has no stack; changes to it are lost.
    pub(in crate::driver) fn with_stack<T>(
        &self,
        work: impl FnOnce(&mut Vec<Weak<Context>>) -> T,
    ) -> T {
        let mut stack = STACKS
            .try_with(|stacks| {
                let mut stacks = stacks.borrow_mut();
                if !stacks.contains_key(&self.id) {
                    stacks.retain(|&id, _| is_alive(id));
                }
                std::mem::take(stacks.entry(self.id).or_default())
            })
            .unwrap_or_default();
        let result = work(&mut stack);
        let _ = STACKS.try_with(|stacks| stacks.borrow_mut().insert(self.id, stack));
        result
    }

    /// Returns the current context, even if its device is lost. Fails with `INVALID_CONTEXT` if
    /// there is none.
    pub(in crate::driver) fn current_even_if_lost(&self) -> Status<Arc<Context>> {
        let top = self
            .with_stack(|stack| stack.last().cloned())
            .ok_or(INVALID_CONTEXT)?;
        let context = top.upgrade().ok_or(CONTEXT_IS_DESTROYED)?;
        if context.is_alive() {
            return Ok(context);
        }
        // A primary context that was reset and retained again has the same handle.
        let again = self.contexts.get(context.handle);
        again.ok_or(CONTEXT_IS_DESTROYED)
    }

    /// Returns the current context. Fails if there is none or if its device is lost.
    pub(in crate::driver) fn current(&self) -> Status<Arc<Context>> {
        let context = self.current_even_if_lost()?;
        context.device.alive()?;
        Ok(context)
    }

    /// Returns the owner of what the current context creates: see [`Context::home`].
    pub(in crate::driver) fn home(&self) -> Status<Arc<Context>> {
        Ok(Arc::clone(self.current()?.home()))
    }

    /// Returns the context of a handle; null is the current context.
    pub(in crate::driver) fn context(&self, handle: u64) -> Status<Arc<Context>> {
        if handle == 0 {
            return self.current();
        }
        let context = self.context_to_enter(handle)?;
        if !context.is_alive() {
            return Err(CONTEXT_IS_DESTROYED);
        }
        context.device.alive()?;
        Ok(context)
    }
}
