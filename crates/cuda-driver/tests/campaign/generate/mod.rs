//! Random kernels that have a good chance of being launched safely, and a good chance of being
//! dangerous: each guard is just right or just wrong, and each value comes from a place where an
//! assembler may see something else than a reader.

mod access;
mod guard;
mod index;
mod older;
mod special;
mod writer;

use fastrand::Rng;

use writer::{Writer, put};

/// The number of words of the variable `table`, and of the words before and behind it that no
/// kernel may change.
pub(crate) const TABLE_WORDS: u32 = 1024;
pub(crate) const FENCE_WORDS: u32 = 16384;
/// The number of words of the constant bank.
pub(crate) const BANK_WORDS: u32 = 64;

/// The sizes of the arguments, on which the texts of kernels depend.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The number of 32-bit words of the buffers `x`, `y` and `z`. A kernel may write `x` and `z`.
    pub(crate) words: [u32; 3],
}

/// Whether a kernel may run for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum Hang {
    Never,
    /// Only if the numbers among its arguments, or the words in its buffers, are large, or if
    /// several threads change them.
    IfHostile,
    Likely,
}

/// A kernel of a module.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) seed: u64,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) hang: Hang,
    /// Whether it uses the variables of its module.
    pub(crate) uses_variables: bool,
    /// The number of blocks of a cluster, or 0.
    pub(crate) cluster: u32,
}

/// The first lines of a module.
pub(crate) fn head(version: &str, target: &str) -> String {
    format!(
        ".version {version}\n.target {target}\n.address_size 64\n\
         .visible .global .align 16 .b32 fence_low[{FENCE_WORDS}];\n\
         .visible .global .align 16 .b32 table[{TABLE_WORDS}];\n\
         .visible .global .align 16 .b32 fence_high[{FENCE_WORDS}];\n\
         .visible .const .align 16 .b32 bank[{BANK_WORDS}];\n"
    )
}

/// Writes the kernel of a seed.
pub(crate) fn kernel(seed: u64, layout: &Layout, is_hopper: bool) -> Kernel {
    let name = format!("k{seed}");
    let mut rng = Rng::with_seed(seed);
    if rng.u32(..8) == 0 {
        return older::kernel(seed, rng);
    }
    let mut writer = Writer::new(rng, layout, name.clone(), is_hopper);
    writer.has_zeros = writer.one_in(60);
    writer.has_predicates = writer.one_in(4);
    writer.kernel();
    Kernel {
        seed,
        name,
        hang: writer.hang,
        uses_variables: writer.uses_variables,
        cluster: writer.cluster,
        text: writer.finish(),
    }
}

impl Writer<'_> {
    fn kernel(&mut self) {
        self.line("ld.param.u64 %d1, [x];");
        self.line("ld.param.u64 %d2, [y];");
        self.line("ld.param.u64 %d3, [z];");
        self.line("ld.param.u64 %d4, [w];");
        self.line("ld.param.u32 %r1, [n];");
        self.line("ld.param.u32 %r2, [m];");
        self.line("mov.u32 %r3, %tid.x;");
        let (small, block, threads) = (self.r(), self.r(), self.r());
        put!(self, "mov.u32 {block}, %ctaid.x;");
        put!(self, "mov.u32 {threads}, %ntid.x;");
        put!(self, "mad.lo.u32 %r4, {block}, {threads}, %r3;");
        put!(self, "and.b32 {small}, %r3, 7;");
        self.line("cvt.u16.u32 %h0, %r3;");
        self.line("setp.eq.u32 %p1, %r3, 0;");
        self.line("setp.lt.u32 %p2, %r1, 64;");
        self.line("setp.ne.u32 %p3, %r2, 5;");
        for _ in 0..[1, 1, 1, 2, 3][self.rng.usize(..5)] {
            if self.one_in(5) {
                self.special();
            } else {
                self.danger();
            }
        }
        self.line("ret;");
    }

    /// An index, its guard, something in between, and its use, perhaps in a loop.
    fn danger(&mut self) {
        let target = self.target();
        let size = self.size();
        let count = self.count(&target, size);
        let skip = self.label();
        let looped = self.one_in(6).then(|| (self.r(), self.label(), self.p()));
        if let Some((counter, head, _)) = &looped {
            put!(self, "mov.u32 {counter}, 0;");
            put!(self, "{head}:");
        }
        if looped.is_some() {
            self.has_stored = true;
        }
        let index = self.index();
        let guarded = self.guarded(&index, count, &skip);
        self.between(&index);
        self.access(&target, size, &guarded);
        self.has_stored = true;
        if self.one_in(8) {
            let again = self.target();
            if self.count(&again, size) >= count {
                self.access(&again, size, &guarded);
            }
        }
        put!(self, "{skip}:");
        if let Some((counter, head, p)) = looped {
            put!(self, "add.u32 {counter}, {counter}, 1;");
            let end = self.rng.u32(2..5);
            put!(self, "setp.lt.u32 {p}, {counter}, {end};");
            put!(self, "@{p} bra {head};");
        }
    }
}
