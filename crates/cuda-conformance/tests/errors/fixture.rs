//! The fixture on which the calls are made: a context with one object of every kind.

use std::ffi::{CStr, c_void};
use std::ptr;

use cuda_sys::{
    CUcontext, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUmemoryPool,
    CUmodule, CUresult, CUstream, CUstreamCaptureMode, DriverLibrary, DriverTable,
};

/// An invalid call and its name.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) call: fn(&Fixture) -> CUresult,
}

/// Makes a list of cases from lines `name => call`, where `$g` is the [`Fixture`].
macro_rules! cases {
    ($g:ident: $($name:literal => $call:expr;)*) => {
        pub(crate) const CASES: &[$crate::fixture::Case] = &[
            $($crate::fixture::Case { name: $name, call: |$g| unsafe { $call } },)*
        ];
    };
}

pub(crate) use cases;

/// PTX of two kernels: `plain(u64, u32)`, and `large`, which has 40,000 bytes of shared memory and
/// at most 128 threads.
pub(crate) const PTX: &CStr = c"
.version 8.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter;
.visible .entry plain(.param .u64 out, .param .u32 n) { ret; }
.visible .entry large(.param .u64 out) .maxntid 128, 1, 1 {
    .shared .align 4 .b8 cells[40000];
    .reg .b32 %r; mov.u32 %r, cells; st.shared.u32 [%r], %r; ret;
}
";

/// The size of each allocation in bytes.
pub(crate) const SIZE: usize = 4096;

pub(crate) struct Fixture<'a> {
    pub(crate) d: &'a DriverTable,
    pub(crate) context: CUcontext,
    pub(crate) stream: CUstream,
    /// An event that is recorded, with timing.
    pub(crate) event: CUevent,
    /// An event that is not recorded.
    pub(crate) fresh: CUevent,
    /// An event that is recorded, without timing.
    pub(crate) untimed: CUevent,
    pub(crate) memory: CUdeviceptr,
    pub(crate) managed: CUdeviceptr,
    pub(crate) pinned: *mut c_void,
    /// Pageable memory that calls read and write.
    pub(crate) host: *mut c_void,
    pub(crate) module: CUmodule,
    pub(crate) plain: CUfunction,
    pub(crate) large: CUfunction,
    /// A graph of two empty nodes; the second depends on the first.
    pub(crate) graph: CUgraph,
    pub(crate) nodes: [CUgraphNode; 2],
    pub(crate) exec: CUgraphExec,
    /// Another graph, with one node.
    pub(crate) other: CUgraph,
    pub(crate) other_node: CUgraphNode,
    pub(crate) pool: CUmemoryPool,
}

#[track_caller]
fn ok(status: CUresult) {
    assert_eq!(status, CUresult::CUDA_SUCCESS, "{status}");
}

impl<'a> Fixture<'a> {
    /// Creates the fixture on device 0 and makes its primary context current.
    pub(crate) fn new(library: &'a DriverLibrary) -> Self {
        let d = library.table();
        // Never freed: the driver may have kept the address.
        let host = Box::leak(Box::new([0_u64; 2 * SIZE])).as_mut_ptr().cast();
        let mut g = Self {
            d,
            context: ptr::null_mut(),
            stream: ptr::null_mut(),
            event: ptr::null_mut(),
            fresh: ptr::null_mut(),
            untimed: ptr::null_mut(),
            memory: 0,
            managed: 0,
            pinned: ptr::null_mut(),
            host,
            module: ptr::null_mut(),
            plain: ptr::null_mut(),
            large: ptr::null_mut(),
            graph: ptr::null_mut(),
            nodes: [ptr::null_mut(); 2],
            exec: ptr::null_mut(),
            other: ptr::null_mut(),
            other_node: ptr::null_mut(),
            pool: ptr::null_mut(),
        };
        unsafe {
            ok(d.cuInit(0));
            ok(d.cuDevicePrimaryCtxRetain(&raw mut g.context, 0));
            ok(d.cuCtxSetCurrent(g.context));
            ok(d.cuStreamCreate(&raw mut g.stream, 1));
            ok(d.cuEventCreate(&raw mut g.event, 0));
            ok(d.cuEventCreate(&raw mut g.fresh, 0));
            ok(d.cuEventCreate(&raw mut g.untimed, 2));
            ok(d.cuEventRecord(g.event, g.stream));
            ok(d.cuEventRecord(g.untimed, g.stream));
            ok(d.cuMemAlloc_v2(&raw mut g.memory, SIZE));
            ok(d.cuMemAllocManaged(&raw mut g.managed, SIZE, 1));
            ok(d.cuMemHostAlloc(&raw mut g.pinned, SIZE, 0));
            ok(d.cuModuleLoadData(&raw mut g.module, PTX.as_ptr().cast()));
            ok(d.cuModuleGetFunction(&raw mut g.plain, g.module, c"plain".as_ptr()));
            ok(d.cuModuleGetFunction(&raw mut g.large, g.module, c"large".as_ptr()));
            ok(d.cuGraphCreate(&raw mut g.graph, 0));
            let [first, second] = &mut g.nodes;
            ok(d.cuGraphAddEmptyNode(first, g.graph, ptr::null(), 0));
            ok(d.cuGraphAddEmptyNode(second, g.graph, first, 1));
            ok(d.cuGraphInstantiateWithFlags(&raw mut g.exec, g.graph, 0));
            ok(d.cuGraphCreate(&raw mut g.other, 0));
            ok(d.cuGraphAddEmptyNode(&raw mut g.other_node, g.other, ptr::null(), 0));
            ok(d.cuDeviceGetDefaultMemPool(&raw mut g.pool, 0));
            ok(d.cuCtxSynchronize());
        }
        g
    }

    /// An output location for a `T`.
    pub(crate) fn out<T>(&self) -> *mut T {
        self.host.cast()
    }

    /// A second output location for a `T`.
    pub(crate) fn also<T>(&self) -> *mut T {
        self.host.wrapping_byte_add(SIZE).cast()
    }

    /// Makes a call while a new stream is captured, then ends the capture. Returns the status of
    /// the call.
    pub(crate) fn captured(
        &self,
        mode: CUstreamCaptureMode,
        call: impl FnOnce(CUstream) -> CUresult,
    ) -> CUresult {
        let (mut stream, mut graph) = (ptr::null_mut(), ptr::null_mut());
        unsafe {
            ok(self.d.cuStreamCreate(&raw mut stream, 1));
            ok(self.d.cuStreamBeginCapture_v2(stream, mode));
            let status = call(stream);
            let _ = self.d.cuStreamEndCapture(stream, &raw mut graph);
            if !graph.is_null() {
                ok(self.d.cuGraphDestroy(graph));
            }
            ok(self.d.cuStreamDestroy_v2(stream));
            status
        }
    }

    /// Makes a call during a capture, and returns the status of ending the capture.
    pub(crate) fn end_of_capture(&self, call: impl FnOnce(CUstream)) -> CUresult {
        let (mut stream, mut graph) = (ptr::null_mut(), ptr::null_mut());
        unsafe {
            ok(self.d.cuStreamCreate(&raw mut stream, 1));
            let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
            ok(self.d.cuStreamBeginCapture_v2(stream, mode));
            call(stream);
            let status = self.d.cuStreamEndCapture(stream, &raw mut graph);
            if !graph.is_null() {
                ok(self.d.cuGraphDestroy(graph));
            }
            ok(self.d.cuStreamDestroy_v2(stream));
            status
        }
    }

    /// Makes a call without a current context.
    pub(crate) fn without_context(&self, call: impl FnOnce() -> CUresult) -> CUresult {
        unsafe {
            ok(self.d.cuCtxSetCurrent(ptr::null_mut()));
            let status = call();
            ok(self.d.cuCtxSetCurrent(self.context));
            status
        }
    }
}

/// Encodes the result of a successful call as a status that no error has.
pub(crate) fn with_number(status: CUresult, number: i32) -> CUresult {
    if status.is_success() {
        CUresult((1_000_000 + number) as _)
    } else {
        status
    }
}

/// A struct of the C API whose fields are zero except those that `set` changes.
pub(crate) fn made<T>(set: impl FnOnce(&mut T)) -> T {
    // SAFETY: used only for structs of cuda.h that consist of numbers, addresses and unions of
    // these.
    let mut value: T = unsafe { std::mem::zeroed() };
    set(&mut value);
    value
}
