//! Closures that the driver may call any number of times, such as the host nodes of graphs.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use crate::deferred::{InsideHostFunction, message_of, quietly};
use crate::error::{Error, Result};
use crate::lock::{Mutex, MutexGuard, rank};

/// A closure with the id by which the driver refers to it. After this is dropped, a late call finds
/// nothing.
pub(crate) struct Closure {
    id: usize,
    shared: Arc<Shared>,
}

struct Shared {
    run: Box<dyn Fn() + Send + Sync>,
    /// The message of the first panic.
    panic: Mutex<Option<String>, { rank::CLOSURE_PANIC }>,
}

struct Table {
    closures: BTreeMap<usize, Arc<Shared>>,
    next: usize,
}

static TABLE: Mutex<Table, { rank::CLOSURES }> = Mutex::new(Table {
    closures: BTreeMap::new(),
    next: 1,
});

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock()
}

impl Closure {
    pub(crate) fn new(run: impl Fn() + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared {
            run: Box::new(run),
            panic: Mutex::default(),
        });
        let mut table = table();
        let id = table.next;
        table.next = table.next.wrapping_add(1);
        table.closures.insert(id, Arc::clone(&shared));
        Self { id, shared }
    }

    /// Returns the id as user data for the driver.
    pub(crate) fn as_data(&self) -> *mut c_void {
        ptr::without_provenance_mut(self.id)
    }

    /// Fails if the closure has panicked since the last check.
    pub(crate) fn check(&self) -> Result<()> {
        let panic = &self.shared.panic;
        match panic.lock().take() {
            Some(message) => Err(Error::HostFunctionPanicked { message }),
            None => Ok(()),
        }
    }
}

impl Drop for Closure {
    fn drop(&mut self) {
        let listed = table().closures.remove(&self.id);
        quietly(|| drop(listed));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let run = std::mem::replace(&mut self.run, Box::new(|| ()));
        quietly(|| drop(run));
    }
}

/// The function that the driver calls, with the id of a closure.
pub(crate) unsafe extern "C" fn called_again(data: *mut c_void) {
    let _inside = InsideHostFunction::enter();
    let found = table().closures.get(&data.addr()).cloned();
    let Some(shared) = found else {
        return;
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (shared.run)())) {
        let message = message_of(&*panic);
        quietly(|| drop(panic));
        let mut first = shared.panic.lock();
        first.get_or_insert(message);
    }
    drop(shared);
}
