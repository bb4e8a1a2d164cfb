//! Where an index comes from: loads of every form, memory that was never written, other threads,
//! special registers, parameters, floats, and results that PTX leaves open.

use super::writer::{BASES, GLOBAL, M, N, TID, W, Writer, put};

/// A word of memory: the state space for its accesses, and its address in brackets.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) space: &'static str,
    pub(super) address: String,
}

/// An index of 32 bits.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) register: String,
    /// The word that it was loaded from, and the form of the load.
    pub(super) source: Option<(Word, &'static str)>,
    /// Whether the arguments and the words in the buffers determine the index.
    pub(super) is_chosen: bool,
}

impl Index {
    fn of(register: String) -> Self {
        Self {
            register,
            source: None,
            is_chosen: false,
        }
    }
}

/// Loads of a word in global memory. `SPACE` is `.global` or nothing.
const LOADS: [&str; 24] = [
    "ld.global.nc.u32",
    "ld.global.nc.u32",
    "ld.global.nc.b32",
    "ld.global.nc.L1::evict_last.u32",
    "ld.global.nc.L1::no_allocate.L2::128B.s32",
    "ld.global.ca.nc.u32",
    "ldu.global.u32",
    "ldu.u32",
    "ld.global.u32",
    "ld.global.u32",
    "ld.global.s32",
    "ld.weak.global.u32",
    "ld.u32",
    "ld.b32",
    "ld.global.ca.u32",
    "ld.global.cg.u32",
    "ld.global.cs.u32",
    "ld.global.lu.u32",
    "ld.global.cv.u32",
    "ld.global.L1::evict_first.L2::64B.u32",
    "ld.volatile.global.u32",
    "ld.relaxed.gpu.global.u32",
    "ld.acquire.cta.global.u32",
    "ld.volatile.u32",
];

/// Special registers of 32 bits.
const SPECIAL: [&str; 16] = [
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%clock",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_eq",
    "%tid.y",
    "%ntid.x",
    "%ctaid.x",
    "%nctaid.x",
    "%dynamic_smem_size",
    "%total_smem_size",
    "%globaltimer_lo",
];

impl Writer<'_> {
    /// The number of 32-bit words of a buffer.
    pub(super) fn words(&self, buffer: usize) -> u32 {
        self.layout.words[buffer]
    }

    /// Chooses a word of a buffer that is certainly in its bounds. Most words are near the
    /// beginning, where the values are hostile more often.
    pub(super) fn word(&mut self) -> Word {
        let buffer = [0, 0, 0, 1, 1, 2][self.rng.usize(..6)];
        self.word_of(buffer)
    }

    pub(super) fn word_of(&mut self, buffer: usize) -> Word {
        let (words, base) = (self.words(buffer), BASES[buffer]);
        let address = match self.rng.u32(..4) {
            0 => {
                let (at, wide) = (self.r(), self.d());
                put!(self, "min.u32 {at}, {TID}, {};", words - 1);
                put!(self, "mad.wide.u32 {wide}, {at}, 4, {base};");
                format!("[{wide}]")
            }
            1 => {
                let (at, wide) = (self.r(), self.d());
                put!(self, "rem.u32 {at}, {GLOBAL}, {words};");
                put!(self, "mul.wide.u32 {wide}, {at}, 4;");
                put!(self, "add.s64 {wide}, {base}, {wide};");
                format!("[{wide}+0]")
            }
            _ => format!("[{base}+{}]", 4 * self.rng.u32(..words.min(8))),
        };
        Word {
            space: ".global",
            address,
        }
    }

    /// Loads a word in a form that is chosen.
    pub(super) fn load_word(&mut self) -> Index {
        let word = self.word();
        let form = self.of(&LOADS);
        let register = self.r();
        put!(self, "{form} {register}, {};", word.address);
        Index {
            register,
            source: Some((word, form)),
            is_chosen: true,
        }
    }

    /// Loads a part of a vector, or a narrow integer.
    fn load_other(&mut self) -> Index {
        let buffer = self.rng.usize(..3);
        let base = BASES[buffer];
        let (a, b) = (self.r(), self.r());
        match self.rng.u32(..7) {
            0 => put!(self, "ld.global.v2.u32 {{{a}, {b}}}, [{base}+8];"),
            1 => put!(self, "ld.global.nc.v4.u32 {{_, {a}, _, {b}}}, [{base}+16];"),
            2 => put!(self, "ld.global.nc.u8 {a}, [{base}+3];"),
            3 => put!(self, "ld.global.s8 {a}, [{base}+1];"),
            4 => put!(self, "ld.global.nc.u16 {a}, [{base}+2];"),
            5 => put!(self, "ldu.global.v2.u32 {{{b}, {a}}}, [{base}];"),
            _ => {
                let policy = self.d();
                put!(
                    self,
                    "createpolicy.fractional.L2::evict_last.b64 {policy}, 1.0;"
                );
                put!(
                    self,
                    "ld.global.L2::cache_hint.u32 {a}, [{base}+4], {policy};"
                );
            }
        }
        Index::of(a)
    }

    /// Loads an element of an array that nothing, or only a part of the threads or of the code,
    /// has written.
    fn unwritten(&mut self) -> Index {
        let space = self.of(&[".local", ".local", ".shared"]);
        let name = self.unique("un");
        let words = [4_u32, 8, 16, 64][self.rng.usize(..4)];
        let declared = match self.rng.u32(..3) {
            0 => format!(" {space} .align 8 .b8 {name}[{}];\n", 4 * words),
            1 => format!(" {space} .align 16 .b32 {name}[{words}];\n"),
            _ => format!(" {space} .align 8 .u64 {name}[{}];\n", words / 2),
        };
        self.inside += &declared;
        let (base, register) = (self.d(), self.r());
        put!(self, "mov.u64 {base}, {name};");
        // Some elements are written, perhaps behind a branch.
        if self.one_in(2) {
            let guard = if self.one_in(2) {
                format!("@{} ", self.guard())
            } else {
                String::new()
            };
            let at = self.rng.u32(..words);
            put!(self, "{guard}st{space}.u32 [{base}+{}], {TID};", 4 * at);
        }
        let at = self.rng.u32(..words);
        match self.rng.u32(..4) {
            0 => {
                let (mask, wide) = (self.r(), self.d());
                put!(self, "and.b32 {mask}, {TID}, {};", words - 1);
                put!(self, "mad.wide.u32 {wide}, {mask}, 4, {base};");
                put!(self, "ld{space}.u32 {register}, [{wide}];");
            }
            1 => {
                let wide = self.d();
                put!(self, "cvta{space}.u64 {wide}, {base};");
                put!(self, "ld.u32 {register}, [{wide}+{}];", 4 * at);
            }
            2 => put!(self, "ld{space}.u32 {register}, [{name}+{}];", 4 * at),
            _ => put!(self, "ld{space}.u32 {register}, [{base}+{}];", 4 * at),
        }
        let address = format!("[{name}+{}]", 4 * at);
        Index {
            register,
            source: Some((Word { space, address }, "ld.u32")),
            is_chosen: false,
        }
    }

    /// A value that comes from other threads of the warp or the block.
    fn collective(&mut self) -> Index {
        let value = self.number();
        let (register, p) = (self.r(), self.p());
        let mask = self.of(&["-1", "-1", "-1", "1", "0xffff", N]);
        put!(self, "setp.lt.u32 {p}, {value}, 100;");
        match self.rng.u32(..12) {
            0 => {
                let mode = self.of(&["idx", "up", "down", "bfly"]);
                let lane = self.of(&["0", "1", "31", "33", N]);
                let clamp = self.of(&["31", "0", "0x1f1f"]);
                put!(
                    self,
                    "shfl.sync.{mode}.b32 {register}, {value}, {lane}, {clamp}, {mask};"
                );
            }
            1 => {
                let q = self.p();
                put!(
                    self,
                    "shfl.sync.up.b32 {register}|{q}, {value}, 1, 0, {mask};"
                );
                put!(self, "selp.u32 {register}, {register}, 0, {q};");
            }
            2 => put!(self, "vote.sync.ballot.b32 {register}, {p}, {mask};"),
            3 => put!(self, "match.any.sync.b32 {register}, {value}, {mask};"),
            4 => {
                let q = self.p();
                put!(self, "match.all.sync.b32 {register}|{q}, {value}, {mask};");
            }
            5 => {
                put!(self, "activemask.b32 {register};");
                if self.one_in(2) {
                    let again = self.r();
                    put!(self, "activemask.b32 {again};");
                    put!(self, "xor.b32 {register}, {register}, {again};");
                }
            }
            6 => {
                let op = self.of(&["add.u32", "max.u32", "min.s32", "and.b32", "or.b32"]);
                put!(self, "redux.sync.{op} {register}, {value}, {mask};");
            }
            7 if self.is_hopper => put!(self, "elect.sync {register}|{p}, {mask};"),
            8 => put!(self, "bar.red.popc.u32 {register}, 0, {p};"),
            9 => {
                let q = self.p();
                let kind = self.of(&["any", "all", "uni"]);
                put!(self, "vote.sync.{kind}.pred {q}, {p}, {mask};");
                put!(self, "selp.u32 {register}, {value}, 3, {q};");
            }
            _ => {
                let op = self.of(&["add.u32", "exch.b32", "min.u32", "inc.u32", "or.b32"]);
                let order = self.of(&["", "", ".relaxed.gpu", ".acq_rel.cta", ".acquire.sys"]);
                let word = self.word_of(0);
                put!(
                    self,
                    "atom{order}.global.{op} {register}, {}, {value};",
                    word.address
                );
            }
        }
        Index::of(register)
    }

    /// A number that is not a load: a parameter, a part of one, or an identifier.
    pub(super) fn number(&mut self) -> String {
        let register = self.r();
        match self.rng.u32(..9) {
            0 => return N.to_owned(),
            1 => return M.to_owned(),
            2 => return TID.to_owned(),
            3 => return GLOBAL.to_owned(),
            4 => put!(self, "cvt.u32.u64 {register}, {W};"),
            5 => put!(self, "ld.param.u32 {register}, [w+4];"),
            6 => put!(self, "ld.param.u16 {register}, [n+2];"),
            7 => put!(self, "ld.param.s8 {register}, [m];"),
            _ => {
                let special = self.of(&SPECIAL);
                put!(self, "mov.u32 {register}, {special};");
            }
        }
        register
    }

    /// Arithmetic whose result is easy to get wrong.
    fn computed(&mut self) -> Index {
        let (a, b) = (self.number(), self.number());
        let register = self.r();
        let text = match self.rng.u32(..20) {
            0 => format!("div.u32 {register}, {a}, {b};"),
            1 => format!("rem.s32 {register}, {a}, {b};"),
            2 => format!("shl.b32 {register}, {a}, {b};"),
            3 => format!("shr.s32 {register}, {a}, {b};"),
            4 => format!("bfe.u32 {register}, {a}, {b}, 5;"),
            5 => format!("bfi.b32 {register}, {a}, {b}, 3, {N};"),
            6 => format!("lop3.b32 {register}, {a}, {b}, {TID}, 0x1e;"),
            7 => format!("prmt.b32 {register}, {a}, {b}, 0x5140;"),
            8 => format!("shf.l.wrap.b32 {register}, {a}, {b}, {N};"),
            9 => format!("sad.u32 {register}, {a}, {b}, 1;"),
            10 => format!("mul24.lo.u32 {register}, {a}, {b};"),
            11 => format!("bfind.u32 {register}, {a};"),
            12 => format!("clz.b32 {register}, {a};"),
            13 => format!("brev.b32 {register}, {a};"),
            14 => format!("dp4a.u32.u32 {register}, {a}, {b}, {N};"),
            15 => format!("add.sat.s32 {register}, {a}, {b};"),
            16 => format!("mad.hi.u32 {register}, {a}, {b}, {TID};"),
            17 => {
                put!(self, "add.cc.u32 {register}, {a}, {b};");
                format!("addc.u32 {register}, {TID}, 0;")
            }
            18 => format!("fns.b32 {register}, {a}, 0, 1;"),
            _ => format!("abs.s32 {register}, {a};"),
        };
        self.op(&text);
        Index::of(register)
    }

    /// A float that is contracted or rounded, and becomes an index.
    fn float(&mut self) -> Index {
        let value = match self.one_in(2) {
            true => self.load_word().register,
            false => self.number(),
        };
        let (a, b, register) = (self.fresh('f'), self.fresh('f'), self.r());
        put!(self, "cvt.rn.f32.u32 {a}, {value};");
        let scale = self.of(&["0f3F000000", "0f3DCCCCCD", "0f3F7FFFFF", "0f4B000001"]);
        match self.rng.u32(..4) {
            0 => {
                put!(self, "mul.f32 {b}, {a}, {scale};");
                put!(self, "add.f32 {b}, {b}, 0f3F000000;");
            }
            1 => {
                put!(self, "mul.f32 {b}, {a}, {scale};");
                put!(self, "sub.f32 {b}, {b}, {a};");
            }
            2 => put!(self, "fma.rn.f32 {b}, {a}, {scale}, 0fBF000000;"),
            _ => put!(self, "div.approx.f32 {b}, {a}, {scale};"),
        }
        let mode = self.of(&["rzi.u32", "rni.u32", "rmi.s32", "rpi.u32", "rzi.ftz.u32"]);
        put!(self, "cvt.{mode}.f32 {register}, {b};");
        Index::of(register)
    }

    /// The index of the next access.
    pub(super) fn index(&mut self) -> Index {
        match self.rng.u32(..40) {
            0..=15 => self.load_word(),
            16..=18 => self.load_other(),
            19..=23 => self.unwritten(),
            24..=27 => self.collective(),
            28 | 29 => Index::of(self.number()),
            30 => {
                let register = self.r();
                let from = self.of(&["n", "m"]);
                put!(self, "ld.param.u32 {register}, [{from}];");
                Index {
                    is_chosen: true,
                    ..Index::of(register)
                }
            }
            31..=33 => self.computed(),
            34..=35 => self.float(),
            36 => Index::of(self.r()),
            37 => self.bank_word(),
            38 => self.function_result(),
            _ => self.asynchronous(),
        }
    }

    /// A word of the constant bank of the module, which the host changes.
    fn bank_word(&mut self) -> Index {
        self.uses_variables = true;
        let register = self.r();
        let at = 4 * self.rng.u32(..16);
        let address = match self.one_in(2) {
            true => format!("[bank+{at}]"),
            false => {
                let wide = self.d();
                put!(self, "mov.u64 {wide}, bank;");
                format!("[{wide}+{at}]")
            }
        };
        put!(self, "ld.const.u32 {register}, {address};");
        let word = Word {
            space: ".const",
            address,
        };
        Index {
            register,
            source: Some((word, "ld.const.u32")),
            is_chosen: false,
        }
    }

    /// The result of a function, which may stay unset.
    fn function_result(&mut self) -> Index {
        let name = self.unique("get");
        let body = self.of(&[
            "ld.global.nc.u32 %v, [%a]; st.param.b32 [r], %v;",
            "ld.global.u32 %v, [%a+4]; st.param.b32 [r], %v;",
            "ld.u32 %v, [%a]; setp.lt.u32 %q, %v, 8; @%q st.param.b32 [r], %v;",
            "setp.eq.u64 %q, %a, 0; @%q ret; mov.u32 %v, 5; st.param.b32 [r], %v;",
        ]);
        self.outside += &format!(
            ".func (.param .b32 r) {name}(.param .b64 p) {{ .reg .b32 %v; .reg .b64 %a; .reg \
             .pred %q; ld.param.b64 %a, [p]; {body} ret; }}\n"
        );
        let register = self.r();
        let base = BASES[self.rng.usize(..3)];
        let kind = self.of(&["call", "call.uni"]);
        put!(
            self,
            "{{ .param .b64 a0; .param .b32 r0; st.param.b64 [a0], {base}; {kind} (r0), {name}, \
             (a0); ld.param.b32 {register}, [r0]; }}"
        );
        Index::of(register)
    }

    /// A word of shared memory that an asynchronous copy may not have written yet.
    fn asynchronous(&mut self) -> Index {
        let name = self.unique("as");
        self.inside += &format!(" .shared .align 16 .b8 {name}[64];\n");
        let (register, at) = (self.r(), self.r());
        let base = BASES[self.rng.usize(..3)];
        put!(self, "mov.u32 {at}, {name};");
        put!(self, "cp.async.ca.shared.global [{at}], [{base}], 4;");
        if self.one_in(2) {
            put!(self, "cp.async.wait_all;");
        }
        put!(self, "ld.shared.u32 {register}, [{at}];");
        Index::of(register)
    }
}
