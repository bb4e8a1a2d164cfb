//! Modules: programs with their variables, loaded into a context.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};

use crate::driver::objects::context::Context;
use crate::driver::objects::jit::Code;
use crate::lock::read;
use crate::vm::Image;

/// A module in a context.
#[derive(Debug)]
pub(in crate::driver) struct Module {
    pub(in crate::driver) handle: u64,
    pub(in crate::driver) context: Arc<Context>,
    pub(in crate::driver) code: Arc<Code>,
    /// Running kernels hold a read lock on it.
    pub(in crate::driver) image: Arc<RwLock<Image>>,
    /// The handle of the library that it belongs to. A module of a library is unloaded only with
    /// its library.
    pub(in crate::driver) library: Option<u64>,
    /// The handles of functions, by kernel number.
    pub(in crate::driver) functions: Mutex<BTreeMap<usize, u64>>,
}

impl Module {
    pub(in crate::driver) fn global(&self, name: &str) -> Option<(u64, u64)> {
        read(&self.image).global(name)
    }
}
