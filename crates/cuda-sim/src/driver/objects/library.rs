//! Libraries: programs that do not belong to a context.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

use crate::driver::objects::jit::Code;

/// A library.
#[derive(Debug)]
pub(in crate::driver) struct Library {
    pub(in crate::driver) handle: u64,
    pub(in crate::driver) code: Arc<Code>,
    /// The handle and the name of each kernel, by kernel number.
    pub(in crate::driver) kernels: Vec<(u64, CString)>,
    /// The handle of the library's module in each context, by context handle.
    pub(in crate::driver) modules: Mutex<BTreeMap<u64, u64>>,
}
