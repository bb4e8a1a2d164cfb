//! Random kernels.
//!
//! A kernel uses registers `%h` (16 bits), `%r` (32), `%d` (64) and `%p` (predicates), the buffers
//! `x` and `y`, the scalars `n`, `m` and `w`, and the shared variable `tile`.

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

pub(super) struct Generator {
    pub(super) rng: Rng,
    text: String,
    pub(super) labels: u32,
    /// The instructions that may still be written.
    pub(super) budget: i32,
    /// The number of functions that can be called: `f0` and so on.
    pub(super) functions: u32,
}

pub(super) fn kernel(rng: Rng) -> String {
    let (text, labels, budget, functions) = (String::new(), 0, 0, 0);
    let mut generator = Generator {
        rng,
        text,
        labels,
        budget,
        functions,
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

    fn bits(&mut self) -> u32 {
        [32, 32, 32, 32, 64, 64, 16][self.rng.usize(..7)]
    }

    fn kernel(&mut self) {
        self.plain(".version 8.0\n.target sm_80\n.address_size 64");
        self.plain(".shared .align 16 .b8 tile[512];");
        self.functions();
        self.plain(".visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n, .param .s32 m,");
        self.plain("  .param .u64 w)\n{");
        self.registers();
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
        self.plain(".reg .pred %p<5>;\n.reg .b16 %h<3>;\n.reg .b32 %r<12>;\n.reg .b64 %d<9>;");
        self.plain("ld.param.u64 %d5, [x];\nld.param.u64 %d6, [y];");
        if self.rng.bool() {
            self.plain("cvta.to.global.u64 %d5, %d5;");
        }
        for register in 0..8 {
            let source = self.of(&[
                "mov.u32 %r$, %tid.x;",
                "mov.u32 %r$, %tid.y;",
                "mov.u32 %r$, %ctaid.x;",
                "mov.u32 %r8, %ntid.x;\nmov.u32 %r$, %nctaid.x;\nmul.lo.u32 %r$, %r$, %r8;",
                "mov.u32 %r$, %laneid;",
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

    pub(super) fn body(&mut self, depth: u32) {
        for _ in 0..self.rng.u32(2..9) {
            if self.budget < 0 {
                return;
            }
            match self.rng.u32(..40) {
                0..=12 => self.arithmetic(),
                13..=16 => {
                    let p = self.p();
                    self.compare(&p);
                }
                17..=27 => self.access(),
                28..=33 if depth < 3 => self.branch(depth),
                34..=37 if depth < 3 => self.repeat(depth),
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
        match self.rng.u32(..8) {
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
                let mask = self.of(&["-4", "-16", "-32", "-16"]);
                let multiple = self.of(&["0", "16", "32", "80", "1000", "-16"]);
                let relation = self.of(&["eq", "ne"]);
                self.plain(format!("and.b32 %r8, {a}, {mask};"));
                self.line(format!("setp.{relation}.s32 {target}, %r8, {multiple};"));
            }
            _ => self.line(format!("setp.{relation}.{ty} {target}, {a}, {b};")),
        }
    }

    pub(super) fn arithmetic(&mut self) {
        let bits = self.bits();
        let (d, a, b, c) = (
            self.reg(bits),
            self.reg(bits),
            self.source(bits),
            self.source(bits),
        );
        let sign = self.of(&["s", "u"]);
        let ty = format!("{sign}{bits}");
        let text = match self.rng.u32(..24) {
            0..=3 => format!("add.{ty} {d}, {a}, {b};"),
            4 => format!("sub.{ty} {d}, {a}, {b};"),
            5 => format!("mul.lo.{ty} {d}, {a}, {};", self.small()),
            6 => format!("mad.lo.{ty} {d}, {a}, {b}, {c};"),
            7 => format!("mul.hi.{ty} {d}, {a}, {b};"),
            8 => format!("{}.b{bits} {d}, {a}, {b};", self.of(&["and", "or", "xor"])),
            9 => format!(
                "and.b{bits} {d}, {a}, {};",
                self.of(&["3", "15", "-4", "31", "48", "-1"])
            ),
            10 => format!("not.b{bits} {d}, {a};"),
            11 => {
                let amount = self.of(&["0", "1", "2", "4", "5", "15", "31", "40", "70"]);
                format!("shl.b{bits} {d}, {a}, {amount};")
            }
            12 | 13 => {
                let amount = self.of(&["0", "1", "2", "4", "5", "15", "31", "40", "70"]);
                format!("shr.{ty} {d}, {a}, {amount};")
            }
            14 => {
                let extreme = self.of(&["min", "max"]);
                match sign {
                    "s" => format!("{extreme}.{ty} {d}, {a}, {b};"),
                    // The result may also be the second operand because of the predicate.
                    _ => format!("@{} {extreme}.{ty} {d}, {a}, {d};", self.p()),
                }
            }
            15 => format!(
                "{}.{ty} {d}, {a}, {};",
                self.of(&["div", "rem"]),
                self.small().max(1)
            ),
            16 => format!("selp.b{bits} {d}, {a}, {b}, {};", self.p()),
            17 if bits < 64 => {
                let (wide, e) = (self.reg(bits * 2), self.reg(bits * 2));
                match self.rng.bool() {
                    true => format!("mul.wide.{ty} {wide}, {a}, {b};"),
                    false => format!("mad.wide.{ty} {wide}, {a}, {b}, {e};"),
                }
            }
            18 if bits > 16 => {
                let (at, length) = (self.small(), self.small());
                format!("bfe.u{bits} {d}, {a}, {at}, {length};")
            }
            19 => format!("neg.s{bits} {d}, {a};"),
            20 => format!("mov.b{bits} {d}, {b};"),
            21 if bits > 16 => {
                let ends = ["0", "2", "3", "4", "8", "28", "29", "32", "62", "64", "255"];
                let (at, length) = (self.of(&ends), self.of(&ends));
                format!("bfi.b{bits} {d}, {a}, {b}, {at}, {length};")
            }
            _ => {
                let from = self.bits();
                let (source, from_sign) = (self.reg(from), self.of(&["s", "u"]));
                // A conversion may use only the low byte.
                let (to, from) = match self.rng.u32(..8) {
                    0 => (bits, 8),
                    1 => (8, from),
                    _ => (bits, from),
                };
                format!("cvt.{sign}{to}.{from_sign}{from} {d}, {source};")
            }
        };
        self.line(text);
    }

    /// An index in a register of 32 or 64 bits, usually behind a guard.
    fn access(&mut self) {
        let (ty, size) = [
            ("u32", 4),
            ("u8", 1),
            ("u64", 8),
            ("v2.u32", 8),
            ("v4.u32", 16),
            ("u16", 2),
        ][self.rng.usize(..6)];
        let index = self.reg(32);
        let skip = self.label();
        let is_guarded = self.rng.u32(..3) > 0;
        if is_guarded {
            let end = match self.rng.u32(..4) {
                0 => self.small().to_string(),
                1 => self.reg(32),
                _ => {
                    self.plain("ld.param.u32 %r10, [n];");
                    "%r10".to_owned()
                }
            };
            let ty = self.of(&["u32", "s32", "u32"]);
            let relation = if self.rng.u32(..8) > 0 { "ge" } else { "gt" };
            self.plain(format!("setp.{relation}.{ty} %p4, {index}, {end};"));
            if ty == "s32" && self.rng.u32(..4) > 0 {
                self.plain(format!("@%p4 bra {skip};\nsetp.lt.s32 %p4, {index}, 0;"));
            }
            self.plain(format!("@%p4 bra {skip};"));
        }
        let imm = match self.rng.u32(..4) {
            0 => format!("+{}", self.small() * size),
            1 => format!("+-{}", self.rng.i64(0..3) * size),
            _ => String::new(),
        };
        let targets = match ty {
            "v2.u32" => "{%r0, %r3}".to_owned(),
            "v4.u32" => "{%r1, %r2, _, %r11}".to_owned(),
            "u64" => self.reg(64),
            "u16" => self.reg(16),
            _ => self.reg(32),
        };
        let values = targets.replace('_', "%r9");
        let is_store = self.rng.u32(..3) == 0;
        if self.rng.u32(..5) == 0 {
            // Shared memory, with an address of 32 bits.
            match self.rng.u32(..3) {
                0 => self.plain(format!(
                    "and.b32 %r8, {index}, 31;\nmov.u32 %r9, tile;\n\
                     mad.lo.u32 %r8, %r8, {size}, %r9;"
                )),
                _ => self.plain(format!(
                    "shl.b32 %r8, {index}, {};\nmov.u32 %r9, tile;\nadd.s32 %r8, %r8, %r9;",
                    size.trailing_zeros()
                )),
            }
            let (space, address) = match self.rng.u32(..3) {
                0 => {
                    self.plain("cvt.u64.u32 %d8, %r8;\ncvta.shared.u64 %d8, %d8;");
                    ("", "%d8")
                }
                _ => (".shared", "%r8"),
            };
            self.line(match is_store {
                true => format!("st{space}.{ty} [{address}{imm}], {values};"),
                false => format!("ld{space}.{ty} {targets}, [{address}{imm}];"),
            });
        } else {
            let base = self.of(&["%d5", "%d6", "%d5", "%d6", "%d7"]);
            let sign = self.of(&["s", "u", "u"]);
            if base == "%d7" {
                let p = self.p();
                self.plain(format!("selp.b64 %d7, %d5, %d6, {p};"));
            }
            match self.rng.u32(..6) {
                0 => self.plain(format!("mad.wide.{sign}32 %d8, {index}, {size}, {base};")),
                1 => {
                    let wide = self.reg(64);
                    self.plain(format!("mad.lo.u64 %d8, {wide}, {size}, {base};"));
                }
                2 => self.plain(format!(
                    "cvt.{sign}64.{sign}32 %d8, {index};\nshl.b64 %d8, %d8, {};\n\
                     add.s64 %d8, {base}, %d8;",
                    size.trailing_zeros()
                )),
                _ => self.plain(format!(
                    "mul.wide.{sign}32 %d8, {index}, {size};\nadd.s64 %d8, {base}, %d8;"
                )),
            }
            if self.rng.u32(..8) == 0 {
                // Atomic operations on bytes use the word that contains the byte.
                let mask = self.of(&["-2", "-4", "-4", "-8", "-16", "-256"]);
                self.plain(format!("and.b64 %d8, %d8, {mask};"));
            }
            let space = self.of(&[".global", ".global", ""]);
            let kind = self.rng.u32(..4);
            self.line(match (is_store, kind) {
                (true, 0) if size == 4 => format!("red{space}.add.{ty} [%d8{imm}], {values};"),
                (true, _) => format!("st{space}.{ty} [%d8{imm}], {values};"),
                (false, 0) if size == 4 => {
                    format!("atom{space}.add.{ty} {targets}, [%d8{imm}], 1;")
                }
                (false, _) => format!("ld{space}.{ty} {targets}, [%d8{imm}];"),
            });
        }
        self.plain(format!("{skip}:"));
    }

    pub(super) fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L{}", self.labels)
    }
}
