//! Rows of the table: a form of launch against the raw function pointer, in alternating runs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_uint, c_void};
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use benches::{COUNTS, Pairs};
use cuda_driver::prelude::*;

/// `cuLaunchKernel`
pub(crate) type Launch = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;

/// An allocator that counts allocations while counting is on.
struct Counting;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: it forwards to the system's allocator and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_COUNTING.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's contract is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is that of `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

pub(crate) struct Bench {
    /// The raw function pointer.
    pub(crate) launch: Launch,
    pub(crate) functions: [Function; 4],
    pub(crate) number: u32,
    pub(crate) situation: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// A row of the table.
pub(crate) struct Row {
    pub(crate) form: &'static str,
    pub(crate) count: usize,
    pub(crate) situation: &'static str,
    pub(crate) pairs: Pairs,
    /// The number of allocations per launch.
    pub(crate) allocations: f64,
}

impl Bench {
    /// The kernel with `count` parameters.
    pub(crate) fn kernel(&self, count: usize) -> *mut c_void {
        let index = COUNTS.iter().position(|known| *known == count);
        let function = &self.functions[index.expect("a kernel has this number of parameters")];
        function.as_raw().cast()
    }

    /// Measures `run`, which launches the kernel of `count` parameters on `stream`.
    pub(crate) fn row(
        &mut self,
        form: &'static str,
        count: usize,
        stream: *mut c_void,
        mut run: impl FnMut(),
        mut drain: impl FnMut(),
    ) {
        let (launch, kernel) = (self.launch, self.kernel(count));
        let mut values = vec![7_u64; count];
        let mut pointers: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| ptr::from_mut(value).cast())
            .collect();
        let mut raw = || {
            let arguments = black_box(pointers.as_mut_ptr());
            // SAFETY: `count` pointers to 8-byte values, which the kernel does not read.
            let status = unsafe {
                launch(
                    kernel,
                    1,
                    1,
                    1,
                    32,
                    1,
                    1,
                    0,
                    stream,
                    arguments,
                    ptr::null_mut(),
                )
            };
            assert_eq!(status, 0);
        };
        // Warm-up: allocations of the first runs do not count.
        for _ in 0..256 {
            raw();
            run();
        }
        drain();
        IS_COUNTING.store(true, Ordering::Relaxed);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for _ in 0..256 {
            run();
        }
        let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
        IS_COUNTING.store(false, Ordering::Relaxed);
        drain();
        let pairs = Pairs::measure(self.number, raw, run, drain);
        self.rows.push(Row {
            form,
            count,
            situation: self.situation,
            pairs,
            allocations: allocated as f64 / 256.0,
        });
    }
}
