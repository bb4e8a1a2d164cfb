//! Random kernels.
//!
//! A kernel uses registers `%h` (16 bits), `%r` (32), `%d` (64) and `%p` (predicates), the buffers
//! `x` and `y`, the scalars `n`, `m` and `w`, and the variables `tile` (shared), `stack` (local)
//! and, in some kernels, `bank` (constant). `%r13` is the number of threads in one row of the grid.

use std::fmt::Write;

use fastrand::Rng;

/// Numbers near which mistakes are likely.
const EDGES: [i64; 26] = [
    0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 33, 63, 64, 96, 127, 128, 255, 256, 1000, 65535, 65536,
    2147483647, 2147483648, 4294967295,
];

/// The index of the thread in the grid.
const GLOBAL: &str = "mov.u32 %r$, %ctaid.x;\nmov.u32 %r8, %ntid.x;\nmov.u32 %r9, %tid.x;\n\
                      mad.lo.s32 %r$, %r$, %r8, %r9;";

/// Other special registers.
const OTHERS: [&str; 6] = [
    "mov.u32 %r$, %tid.z;",
    "mov.u32 %r$, %ctaid.y;",
    "mov.u32 %r$, %ctaid.z;",
    "mov.u32 %r$, %ntid.y;",
    "mov.u32 %r$, WARP_SZ;",
    "mov.u32 %r$, %warpid;",
];

/// Loads of parts of parameters, or into wider registers.
const PARTS: [&str; 10] = [
    "ld.param.u32 %r$, [w+4];",
    "ld.param.u32 %r$, [w];",
    "ld.param.u16 %r$, [n];",
    "ld.param.s16 %r$, [m+2];",
    "ld.param.s8 %r$, [m];",
    "ld.param.u8 %r$, [n+3];",
    "ld.param.v2.u32 {%r9, %r$}, [w];",
    "ld.param.u32 %r$, [x];",
    "ld.param.s32 %d$, [m];",
    "ld.param.u32 %d$, [n];",
];

pub(super) struct Generator {
    pub(super) rng: Rng,
    text: String,
    pub(super) labels: u32,
    /// The instructions that may still be written.
    pub(super) budget: i32,
    /// The number of functions that can be called: `f0` and so on.
    pub(super) functions: u32,
    /// The counters of 32 bits of the loops around the next instruction.
    pub(super) counters: Vec<String>,
    /// Whether the kernel uses the constant bank. A safe launch without the bank is then refused.
    pub(super) has_bank: bool,
}

pub(super) fn kernel(rng: Rng) -> String {
    let mut generator = Generator {
        rng,
        text: String::new(),
        labels: 0,
        budget: 0,
        functions: 0,
        counters: Vec::new(),
        has_bank: false,
    };
    generator.kernel();
    generator.text
}

impl Generator {
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.budget -= 1;
        // A predicate guards some instructions.
        if self.rng.u32(..14) == 0 && !text.as_ref().starts_with(['@', '$', 'b', '.']) {
            let (not, p) = (["", "!"][self.rng.usize(..2)], self.p());
            let _ = write!(self.text, "@{not}{p} ");
        }
        let _ = writeln!(self.text, "{}", text.as_ref());
    }

    pub(super) fn plain(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.text, "{}", text.as_ref());
    }

    pub(super) fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.rng.usize(..list.len())]
    }

    pub(super) fn p(&mut self) -> String {
        format!("%p{}", self.rng.u32(..4))
    }

    pub(super) fn reg(&mut self, bits: u32) -> String {
        match bits {
            16 => format!("%h{}", self.rng.u32(..2)),
            32 => format!("%r{}", self.rng.u32(..8)),
            _ => format!("%d{}", self.rng.u32(..5)),
        }
    }

    /// An index of 32 bits: often the counter of a loop, or the number of the thread.
    pub(super) fn index(&mut self) -> String {
        match self.rng.u32(..4) {
            0 | 1 if !self.counters.is_empty() => {
                let number = self.rng.usize(..self.counters.len());
                self.counters[number].clone()
            }
            0 => "%r7".to_owned(),
            _ => self.reg(32),
        }
    }

    fn number(&mut self) -> i64 {
        let edge = EDGES[self.rng.usize(..EDGES.len())];
        match self.rng.u32(..8) {
            0 => -edge,
            1 => edge + 1,
            2 => edge - 1,
            _ => edge,
        }
    }

    pub(super) fn small(&mut self) -> i64 {
        EDGES[self.rng.usize(..14)]
    }

    /// A register or a number.
    pub(super) fn source(&mut self, bits: u32) -> String {
        if self.rng.u32(..3) > 0 {
            return self.reg(bits);
        }
        let number = if self.rng.bool() {
            self.small()
        } else {
            self.number()
        };
        match bits {
            16 => (number as i16).to_string(),
            32 => (number as i32).to_string(),
            _ => number.to_string(),
        }
    }

    pub(super) fn bits(&mut self) -> u32 {
        [32, 32, 32, 32, 64, 64, 16][self.rng.usize(..7)]
    }

    fn kernel(&mut self) {
        self.plain(".version 8.0\n.target sm_80\n.address_size 64");
        self.plain(".shared .align 16 .b8 tile[512];");
        self.has_bank = self.rng.u32(..6) == 0;
        if self.has_bank {
            self.plain(".const .align 8 .b8 bank[200];");
        }
        self.functions();
        self.plain(".visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n, .param .s32 m,");
        self.plain("  .param .u64 w)\n{");
        self.registers();
        self.parts_of_parameters();
        if self.rng.u32(..4) == 0 {
            self.plain(".reg .b64 %q<2>;");
            for _ in 0..self.rng.u32(1..4) {
                self.parameter();
            }
        }
        self.budget = self.rng.i32(15..70);
        self.body(0);
        self.plain("ret;\n}");
    }

    /// Declares the registers of the kernel or of a function, and sets them.
    pub(super) fn registers(&mut self) {
        self.plain(".reg .pred %p<6>;\n.reg .b16 %h<3>;\n.reg .b32 %r<14>;\n.reg .b64 %d<11>;");
        self.plain(".local .align 8 .b8 stack[96];");
        self.plain("ld.param.u64 %d5, [x];\nld.param.u64 %d6, [y];");
        if self.rng.bool() {
            self.plain("cvta.to.global.u64 %d5, %d5;");
        }
        for register in 0..8 {
            let other = self.of(&OTHERS);
            let source = self.of(&[
                "mov.u32 %r$, %tid.x;",
                "mov.u32 %r$, %tid.y;",
                "mov.u32 %r$, %ctaid.x;",
                "mov.u32 %r8, %ntid.x;\nmov.u32 %r$, %nctaid.x;\nmul.lo.u32 %r$, %r$, %r8;",
                "mov.u32 %r$, %laneid;",
                other,
                "ld.param.u32 %r$, [n];",
                "ld.param.s32 %r$, [m];",
                GLOBAL,
                GLOBAL,
                GLOBAL,
            ]);
            // A register that is not set may have any value.
            if self.rng.u32(..40) > 0 {
                let source = if register == 7 { GLOBAL } else { source };
                self.plain(source.replace('$', &register.to_string()));
            }
        }
        for register in 0..5 {
            let source = self.of(&[
                "ld.param.u64 %d$, [w];",
                "cvt.u64.u32 %d$, %r0;",
                "cvt.s64.s32 %d$, %r1;",
                "mov.u64 %d$, 7;",
            ]);
            self.plain(source.replace('$', &register.to_string()));
        }
        self.plain("cvt.u16.u32 %h0, %r2;\ncvt.u16.u32 %h1, %r3;");
        self.plain("mov.u32 %r8, %ntid.x;\nmov.u32 %r13, %nctaid.x;\nmul.lo.u32 %r13, %r13, %r8;");
        for p in 0..4 {
            self.compare(&format!("%p{p}"));
        }
    }

    /// Loads a parameter, or one of two, whose address is in a register.
    fn parameter(&mut self) {
        let text = self.of(&[
            "mov.b64 %q0, n;\nld.param.u32 %r$, [%q0];",
            "mov.u64 %q0, w;\nld.param.u64 %d$, [%q0];",
            "mov.b64 %q0, w;\nld.param.v2.u32 {%r$, %r8}, [%q0];",
            "mov.b64 %q0, w;\nld.param.u16 %r$, [%q0+2];",
            "mov.b64 %q0, w;\nadd.s64 %q1, %q0, 8;\nld.param.s32 %d$, [%q1+-4];",
            "mov.b64 %q0, w+8;\nadd.s64 %q0, %q0, -8;\nld.param.u32 %r$, [%q0+4];",
            "mov.b64 %q0, n;\n@%p0 mov.b64 %q0, m;\nld.param.u32 %r$, [%q0];",
            "mov.b64 %q0, m;\n@%p1 ld.param.s32 %r$, [%q0];",
            "mov.b64 %q0, x;\nld.param.u64 %d5, [%q0];",
        ]);
        let register = self.rng.u32(..5).to_string();
        self.plain(text.replace('$', &register));
    }

    /// Sets a few registers to parts of the parameters of the kernel.
    fn parts_of_parameters(&mut self) {
        for _ in 0..self.rng.u32(..3) {
            let part = self.of(&PARTS);
            let register = self.rng.u32(..5).to_string();
            self.line(part.replace('$', &register));
        }
    }

    pub(super) fn body(&mut self, depth: u32) {
        for _ in 0..self.rng.u32(2..9) {
            if self.budget < 0 {
                return;
            }
            match self.rng.u32(..42) {
                0..=12 => self.arithmetic(),
                13..=16 => {
                    let p = self.p();
                    self.compare(&p);
                }
                17..=27 => self.access(),
                28..=33 if depth < 3 => self.branch(depth),
                34..=37 if depth < 3 => self.repeat(depth),
                40..=41 if depth < 3 => self.stride(depth),
                38 if self.functions > 0 => self.call(),
                39 => self.jump(),
                _ => self.arithmetic(),
            }
        }
    }

    pub(super) fn compare(&mut self, target: &str) {
        let bits = self.bits();
        let ty = format!("{}{bits}", self.of(&["s", "u"]));
        let relation = self.of(&["eq", "ne", "lt", "le", "gt", "ge", "lt", "ge"]);
        let (a, b) = (self.reg(bits), self.source(bits));
        // A predicate of many threads has both values.
        let a = if bits == 32 && self.rng.bool() {
            "%r7".to_owned()
        } else {
            a
        };
        match self.rng.u32(..12) {
            0 => {
                let (op, c) = (self.of(&["and", "or", "xor"]), self.p());
                let not = self.of(&["", "!"]);
                self.line(format!(
                    "setp.{relation}.{op}.{ty} {target}|%p3, {a}, {b}, {not}{c};"
                ));
            }
            1 => {
                let (op, c, d) = (self.of(&["and", "or", "xor"]), self.p(), self.p());
                self.line(format!("{op}.pred {target}, {c}, {d};"));
            }
            2 => {
                let c = self.p();
                self.line(format!("not.pred {target}, {c};"));
            }
            3 if ty.starts_with('u') => {
                let relation = self.of(&["lo", "ls", "hi", "hs"]);
                self.line(format!("setp.{relation}.{ty} {target}, {a}, {b};"));
            }
            4 if bits == 32 => {
                // A range of numbers with the same high bits.
                if self.rng.u32(..3) == 0 {
                    let (amount, high) = (self.amount(), self.small());
                    self.plain(format!("shr.{ty} %r8, {a}, {amount};"));
                    return self.line(format!("setp.{relation}.{ty} {target}, %r8, {high};"));
                }
                let mask = self.of(&["-4", "-16", "-32", "-16"]);
                let multiple = self.of(&["0", "16", "32", "80", "1000", "-16"]);
                let relation = self.of(&["eq", "ne"]);
                self.plain(format!("and.b32 %r8, {a}, {mask};"));
                self.line(format!("setp.{relation}.s32 {target}, %r8, {multiple};"));
            }
            // The analysis does not know the result.
            5 => self.unknown(target),
            6 => {
                let c = self.p();
                self.line(format!("mov.pred {target}, {c};"));
            }
            // A sum that may wrap.
            7 if bits == 32 => {
                let (more, number) = (self.source(32), self.small());
                self.plain(format!("add.s32 %r8, {a}, {more};"));
                self.line(format!("setp.{relation}.{ty} {target}, %r8, {number};"));
            }
            _ => self.line(format!("setp.{relation}.{ty} {target}, {a}, {b};")),
        }
    }

    /// Sets a predicate of which the analysis knows nothing.
    pub(super) fn unknown(&mut self, target: &str) {
        let relation = self.of(&["lt", "geu", "eq", "neu"]);
        let (a, b) = (self.reg(32), self.reg(32));
        self.line(format!("setp.{relation}.f32 {target}, {a}, {b};"));
    }

    pub(super) fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L{}", self.labels)
    }
}
