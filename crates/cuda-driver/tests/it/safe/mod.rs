//! Safe launches: which kernel is launched, what a violation says, and when it is reported.

mod attributes;
#[cfg(feature = "nvrtc")]
mod cost;
#[cfg(feature = "nvrtc")]
mod functions;
mod graphs;
mod launches;
mod loading;
mod memory;
mod mutants;
mod mutants_gpu;
mod random;
mod replays;
mod reports;
mod rows;
#[cfg(feature = "nvrtc")]
mod source;
mod surfaces;
mod tables;
mod textures;
mod tiles;
mod unread;
mod waits;

use cuda_driver::safe::{SafeKernel, SafeModule, Violation};
use cuda_driver::{Error, Ptx, Result};

use crate::support::Fixture;

/// The beginning of a PTX text.
pub(crate) const HEAD: &str = ".version 7.0\n.target sm_75\n.address_size 64\n";

/// `x[at] = value`, for one 32-bit word and an offset in bytes.
pub(crate) const STORE: &str =
    ".visible .entry store(.param .u64 x, .param .u64 at, .param .u32 value) {
    .reg .b32 %r<2>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [at];
    ld.param.u32 %r1, [value];
    add.s64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r1;
    ret;
}
";

/// `out[i] = in[index[i]]` for 32-bit words and 64-bit indices.
pub(crate) const GATHER: &str = ".visible .entry gather(
    .param .u64 out, .param .u64 in, .param .u64 index, .param .u32 n) {
    .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [in];
    ld.param.u64 %d3, [index];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra end;
    mul.wide.u32 %d4, %r2, 8;
    add.s64 %d4, %d3, %d4;
    ld.global.u64 %d5, [%d4];
    shl.b64 %d5, %d5, 2;
    add.s64 %d5, %d2, %d5;
    ld.global.nc.u32 %r5, [%d5];
    mul.wide.u32 %d6, %r2, 4;
    add.s64 %d6, %d1, %d6;
    st.global.u32 [%d6], %r5;
end:
    ret;
}
";

/// Loads a kernel.
pub(crate) fn kernel(fixture: &Fixture, text: &str, name: &str) -> SafeKernel {
    try_kernel(fixture, text, name).unwrap()
}

pub(crate) fn try_kernel(fixture: &Fixture, text: &str, name: &str) -> Result<SafeKernel> {
    let ptx = Ptx::new(format!("{HEAD}{text}")).unwrap();
    SafeModule::load(&fixture.context, &ptx)?.kernel(name)
}

/// The only violation that a call failed with.
#[track_caller]
pub(crate) fn violation<T: std::fmt::Debug>(result: Result<T>) -> Violation {
    let mut all = violations(result);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// The violations that a call failed with.
#[track_caller]
pub(crate) fn violations<T: std::fmt::Debug>(result: Result<T>) -> Vec<Violation> {
    match result {
        Err(Error::Violation(violations)) => violations.into_iter().collect(),
        other => panic!("expected a violation: {other:?}"),
    }
}
