//! The integer instructions of random kernels.

use super::generate::Generator;

/// The amounts of shifts.
const AMOUNTS: [&str; 11] = ["0", "1", "2", "3", "4", "5", "15", "24", "31", "40", "70"];
/// Masks: one field of ones, several, and edges.
const MASKS: [&str; 17] = [
    "3", "7", "15", "-4", "31", "48", "-1", "5", "85", "255", "-8", "-32", "1023", "65535", "240",
    "28", "1020",
];
/// Factors with which a compiler divides by 3, 5, 7 and 10.
const RECIPROCALS: [&str; 5] = [
    "1431655766",
    "-1431655765",
    "-858993459",
    "-1840700269",
    "1717986919",
];

impl Generator {
    pub(super) fn amount(&mut self) -> &'static str {
        self.of(&AMOUNTS)
    }

    pub(super) fn mask(&mut self) -> &'static str {
        self.of(&MASKS)
    }

    /// An instruction that the analysis models.
    pub(super) fn arithmetic(&mut self) {
        if self.rng.u32(..7) == 0 {
            return self.rare();
        }
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
            7 if bits == 32 && self.rng.bool() => {
                format!("mul.hi.{ty} {d}, {a}, {};", self.of(&RECIPROCALS))
            }
            7 => match self.rng.bool() {
                true => format!("mul.hi.{ty} {d}, {a}, {b};"),
                false => format!("mad.hi.{ty} {d}, {a}, {b}, {c};"),
            },
            8 => format!("{}.b{bits} {d}, {a}, {b};", self.of(&["and", "or", "xor"])),
            9 => format!("and.b{bits} {d}, {a}, {};", self.mask()),
            10 => format!("not.b{bits} {d}, {a};"),
            11 => format!("shl.b{bits} {d}, {a}, {};", self.amount()),
            12 | 13 => format!("shr.{ty} {d}, {a}, {};", self.amount()),
            14 => {
                let extreme = self.of(&["min", "max"]);
                match self.rng.bool() {
                    true => format!("{extreme}.{ty} {d}, {a}, {b};"),
                    // The result may also be the second operand because of the predicate.
                    false => format!("@{} {extreme}.{ty} {d}, {a}, {d};", self.p()),
                }
            }
            15 => {
                let divisor = match self.rng.u32(..8) {
                    // The number of threads is not 0.
                    0 if bits == 32 => "%ntid.x".to_owned(),
                    1 if sign == "s" => (-self.small().max(2)).to_string(),
                    _ => self.small().max(1).to_string(),
                };
                let (op, divisor) = match divisor.starts_with('%') {
                    true => {
                        self.plain(format!("mov.u32 %r8, {divisor};"));
                        (self.of(&["div", "rem"]), "%r8".to_owned())
                    }
                    false => (self.of(&["div", "rem"]), divisor),
                };
                format!("{op}.{ty} {d}, {a}, {divisor};")
            }
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

    /// An instruction whose result the analysis does not model, or of which it knows only a range.
    fn rare(&mut self) {
        let (d, a, b, c) = (self.reg(32), self.reg(32), self.source(32), self.source(32));
        let (wide, x, y) = (self.reg(64), self.reg(64), self.source(64));
        let sign = self.of(&["s", "u"]);
        let text = match self.rng.u32(..24) {
            0 => format!("popc.b32 {d}, {a};"),
            1 => format!("popc.b64 {d}, {x};"),
            2 => format!("clz.b32 {d}, {a};"),
            3 => format!("clz.b64 {d}, {x};"),
            4 => format!("bfe.s32 {d}, {a}, {}, {};", self.small(), self.small()),
            5 => format!(
                "lop3.b32 {d}, {a}, {b}, {c}, {};",
                self.of(&["0xc0", "0xfc", "0x3c", "0x80", "0xe8"])
            ),
            6 => format!(
                "prmt.b32 {d}, {a}, {b}, {};",
                self.of(&["0x7770", "0x4440", "0x3210", "0x0123", "0x7632", "0xba98"])
            ),
            7 => format!("mul24.lo.{sign}32 {d}, {a}, {b};"),
            8 => format!("mad24.lo.{sign}32 {d}, {a}, {b}, {c};"),
            9 => format!("sad.{sign}32 {d}, {a}, {b}, {c};"),
            10 => format!("abs.s32 {d}, {a};"),
            11 => format!("slct.{sign}32.s32 {d}, {a}, {b}, {};", self.reg(32)),
            12 => {
                let relation = self.of(&["lt", "ge", "eq", "ne"]);
                format!("set.{relation}.u32.{sign}32 {d}, {a}, {b};")
            }
            13 => format!("add.sat.s32 {d}, {a}, {b};"),
            14 => format!("sub.sat.s32 {d}, {a}, {b};"),
            15 => format!(
                "cvt.sat.{sign}{}.{}32 {d}, {a};",
                self.of(&["8", "16"]),
                self.of(&["s", "u"])
            ),
            16 => format!("brev.b32 {d}, {a};"),
            17 => format!("cnot.b32 {d}, {a};"),
            18 => format!("bfind.{sign}32 {d}, {a};"),
            19 => format!(
                "shf.{}.b32 {d}, {a}, {b}, {};",
                self.of(&["l.wrap", "r.wrap", "l.clamp", "r.clamp"]),
                self.amount()
            ),
            20 => format!("mov.b64 {wide}, {{{a}, {d}}};"),
            21 => format!("mov.b64 {{{d}, %r9}}, {x};"),
            // The amount is in a register.
            22 => match self.rng.bool() {
                true => format!("shl.b64 {wide}, {x}, {a};"),
                false => format!("shr.{sign}32 {d}, {a}, {};", self.reg(32)),
            },
            _ => format!("xor.b64 {wide}, {x}, {y};"),
        };
        self.line(text);
    }

    /// An index in `%r12`, to which an instruction has just given a range, or its old register.
    /// Often the range shows only if the analysis knows this instruction exactly.
    pub(super) fn narrowed(&mut self, index: &str) -> String {
        let (small, end) = (self.small(), self.small().max(1));
        let sign = self.of(&["s", "u"]);
        let old = match self.rng.u32(..3) {
            0 => self.of(&["100", "255", "1000", "10", "0"]).to_owned(),
            _ => self.source(32),
        };
        let not = self.of(&["", "!"]);
        let p = match self.rng.bool() {
            true => {
                self.unknown("%p5");
                "%p5".to_owned()
            }
            false => self.p(),
        };
        let guard = match self.rng.u32(..4) {
            0 => format!("@{not}{p} "),
            _ => String::new(),
        };
        if !guard.is_empty() {
            self.plain(format!("mov.b32 %r12, {old};"));
        }
        let text = match self.rng.u32(..29) {
            0 => format!("and.b32 %r12, {index}, {};", self.mask()),
            1 => format!("rem.{sign}32 %r12, {index}, {end};"),
            2 => format!("div.{sign}32 %r12, {index}, {end};"),
            3 => format!("shr.{sign}32 %r12, {index}, {};", self.amount()),
            4 | 5 => format!("min.{sign}32 %r12, {index}, {small};"),
            6 => format!("max.{sign}32 %r12, {index}, {small};"),
            7 => format!("{guard}max.s32 %r12, {index}, 0;\n{guard}min.s32 %r12, %r12, {small};"),
            8 => {
                self.plain("ld.param.u32 %r9, [n];");
                format!("sub.s32 %r9, %r9, 1;\nmin.{sign}32 %r12, {index}, %r9;")
            }
            9 => {
                let relation = self.of(&["lt", "ge"]);
                format!(
                    "setp.{relation}.{sign}32 %p5, {index}, {end};\n{guard}selp.b32 %r12, {index}, \
                     {old}, %p5;"
                )
            }
            10 => format!("selp.b32 %r12, {index}, {old}, {p};"),
            11 => format!("bfe.u32 %r12, {index}, {small}, {};", self.small()),
            12 => {
                let amount = self.of(&["8", "16", "24", "31", "3"]);
                format!("shl.b32 %r12, {index}, {amount};\nshr.{sign}32 %r12, %r12, {amount};")
            }
            13 => {
                let (to, from) = (
                    self.of(&["s32", "u32"]),
                    self.of(&["s8", "u8", "s16", "u16"]),
                );
                format!("cvt.{to}.{from} %r12, {index};")
            }
            14 => format!("mul.hi.{sign}32 %r12, {index}, {};", self.of(&RECIPROCALS)),
            15 => {
                let op = self.of(&["or", "xor", "add"]);
                let ty = if op == "add" { "s32" } else { "b32" };
                format!(
                    "and.b32 %r9, {index}, 7;\nshl.b32 %r12, {old}, 3;\n{op}.{ty} %r12, %r12, %r9;"
                )
            }
            16 => format!("popc.b32 %r12, {index};"),
            17 => format!("clz.b32 %r12, {index};"),
            // One of two values, as the merge of two branches.
            18 | 19 => {
                let (other, end) = (self.label(), self.label());
                self.compare("%p5");
                let value = self.source(32);
                format!(
                    "@{not}%p5 bra {other};\nadd.s32 %r12, {index}, {small};\nbra {end};\n\
                     {other}:\nmov.b32 %r12, {value};\n{end}:"
                )
            }
            20 => format!("sub.s32 %r12, {small}, {index};"),
            // The predicate decides whether the old value is the result or an operand.
            21..=26 => {
                let op = self.of(&["min", "max", "min", "max", "add", "sub", "mul.lo"]);
                format!("mov.b32 %r12, {old};\n@{not}{p} {op}.{sign}32 %r12, {index}, %r12;")
            }
            // One of two values, where two of three ways have the same one.
            27 => {
                let end = self.label();
                let value = self.source(32);
                self.plain(format!("mov.b32 %r12, {value};"));
                for _ in 0..2 {
                    self.compare("%p5");
                    self.plain(format!("@{not}%p5 bra {end};"));
                }
                format!("add.s32 %r12, {index}, {small};\n{end}:")
            }
            _ => {
                let c = self.reg(32);
                format!("mad.lo.s32 %r12, {index}, {small}, {c};")
            }
        };
        match guard.is_empty() || text.starts_with('@') || text.contains('\n') {
            true => self.plain(text),
            false => self.plain(format!("{guard}{text}")),
        }
        // A branch that depends on the index, and changes nothing.
        if self.rng.u32(..4) == 0 {
            let end = self.label();
            let op = self.of(&["lt", "gt", "ne"]);
            let value = self.source(32);
            self.plain(format!(
                "setp.{op}.{sign}32 %p5, %r12, {value};\n@%p5 bra {end};\n{end}:"
            ));
        }
        "%r12".to_owned()
    }
}
