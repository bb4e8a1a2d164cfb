//! Launches that are known to be bad, through the unsafe launch. They test the campaign itself.

use cuda_driver::Result;
use cuda_driver::prelude::*;

use crate::arena::Arena;

const PTX: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry store(.param .u64 at) {
 .reg .b64 %d; .reg .b32 %r;
 ld.param.u64 %d, [at];
 mov.u32 %r, 0xbadbad;
 st.global.u32 [%d], %r;
 ret;
}
.visible .entry spin(.param .u64 at) {
 .reg .b64 %d;
 ld.param.u64 %d, [at];
LOOP:
 st.volatile.global.u64 [%d], %d;
 bra LOOP;
}
";

/// The effect of a planted launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Writes the word behind the first buffer.
    Behind,
    /// Writes a word in the middle of the words before the window.
    FarBefore,
    /// Writes a word in the middle of the words behind the window.
    FarBehind,
    /// Writes to an address that is not mapped.
    Fault,
    /// Does not end.
    Endless,
    /// Ends the process, as a crash of a compiler does.
    Crash,
    /// Ends the process that loads the kernel.
    CrashLoading,
}

pub(crate) const DEFECTS: [(&str, Defect); 7] = [
    ("behind", Defect::Behind),
    ("far-before", Defect::FarBefore),
    ("far-behind", Defect::FarBehind),
    ("fault", Defect::Fault),
    ("endless", Defect::Endless),
    ("crash", Defect::Crash),
    ("crash-loading", Defect::CrashLoading),
];

/// A launch in place of another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planted {
    /// The number of the launch that it replaces.
    pub(crate) number: usize,
    pub(crate) defect: Defect,
}

impl Planted {
    pub(crate) fn launch(&self, arena: &Arena, ranges: [(usize, usize); 3]) -> Result<()> {
        let (from, words) = ranges[0];
        let middle = arena.side_words() as i64 / 2;
        let behind = (from + words) as i64;
        let address = match self.defect {
            Defect::Behind => arena.address(behind),
            Defect::FarBefore => arena.address(-middle),
            Defect::FarBehind => arena.address(behind + middle),
            Defect::Fault => 8,
            Defect::Endless => arena.address(from as i64 + from as i64 % 2),
            Defect::Crash | Defect::CrashLoading => std::process::abort(),
        };
        let module = Module::load(&arena.context, &Ptx::new(PTX)?)?;
        let name = if self.defect == Defect::Endless {
            "spin"
        } else {
            "store"
        };
        let function = module.function(name)?;
        // SAFETY: none: the kernel writes outside of its arguments, which the campaign must find.
        // The memory is either a word of the buffer of the campaign, or not mapped.
        unsafe {
            arena
                .stream
                .launch(&function, LaunchConfig::new(1, 1), (address,))
        }?;
        // The module must not be unloaded, which would wait for a kernel that does not end.
        std::mem::forget((module, function));
        Ok(())
    }
}
