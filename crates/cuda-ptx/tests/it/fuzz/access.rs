//! The accesses of random kernels, with their guards and addresses.

use super::generate::Generator;

/// A type with its size and registers for a load.
struct Value {
    ty: &'static str,
    size: i64,
    targets: String,
}

impl Generator {
    fn value_of(&mut self) -> Value {
        let (ty, size) = [
            ("u32", 4),
            ("u8", 1),
            ("u64", 8),
            ("v2.u32", 8),
            ("v4.u32", 16),
            ("u16", 2),
            ("u32", 4),
            ("s8", 1),
            ("s16", 2),
            ("v2.u16", 4),
        ][self.rng.usize(..10)];
        let targets = match ty {
            "v2.u32" => "{%r0, %r3}".to_owned(),
            "v4.u32" => "{%r1, %r2, _, %r11}".to_owned(),
            "v2.u16" => "{%h0, %h1}".to_owned(),
            "u64" => self.reg(64),
            // A signed number also fills a wider register.
            "u16" => self.reg(16),
            _ => self.reg(32),
        };
        Value { ty, size, targets }
    }

    /// An access, usually behind a guard.
    pub(super) fn access(&mut self) {
        let mut index = self.index();
        if self.rng.bool() {
            index = self.narrowed(&index);
        }
        let skip = self.label();
        let guards = if index == "%r12" { 3 } else { 5 };
        let guard = match self.rng.u32(..6) < guards {
            true => self.guard(&index, &skip),
            false => String::new(),
        };
        let value = self.value_of();
        match self.rng.u32(..12) {
            0 | 1 => self.in_window("tile", ".shared", &guard, &index, &value),
            2 => self.in_window("stack", ".local", &guard, &index, &value),
            3..=5 if self.has_bank => self.in_window("bank", ".const", &guard, &index, &value),
            _ => self.in_buffer(&guard, &index, &value),
        }
        self.plain(format!("{skip}:"));
    }

    /// Compares an index with its end. Returns the predicate of the access, if it gets one;
    /// otherwise a branch skips it.
    fn guard(&mut self, index: &str, skip: &str) -> String {
        let end = match self.rng.u32(..4) {
            0 => self.small().to_string(),
            1 => self.reg(32),
            _ => {
                self.plain("ld.param.u32 %r10, [n];");
                "%r10".to_owned()
            }
        };
        let ty = self.of(&["u32", "s32", "u32"]);
        let (inside, outside) = match self.rng.u32(..8) {
            0 => ("le", "gt"),
            _ => ("lt", "ge"),
        };
        match self.rng.u32(..8) {
            // Both ends in one predicate, which is true inside or outside.
            0 => {
                let other = match self.rng.bool() {
                    true => "%p5".to_owned(),
                    false => self.p(),
                };
                self.plain(format!("setp.{inside}.s32 %p5, {index}, {end};"));
                self.plain(format!("setp.ge.and.s32 %p4, {index}, 0, {other};"));
            }
            1 => {
                self.plain(format!("setp.{outside}.s32 %p5, {index}, {end};"));
                self.plain(format!("setp.lt.or.s32 %p5, {index}, 0, %p5;"));
                self.plain("not.pred %p4, %p5;");
            }
            2 => {
                let (op, p) = (self.of(&["and", "and", "or", "xor"]), self.p());
                self.plain(format!("setp.{inside}.{ty} %p5, {index}, {end};"));
                self.plain(format!("{op}.pred %p4, %p5, {p};"));
            }
            3 => self.plain(format!("setp.{inside}.{ty} %p4, {index}, {end};")),
            // The sum may wrap.
            4 => {
                let more = self.small();
                self.plain(format!("add.s32 %r9, {index}, {more};"));
                self.plain(format!("setp.{inside}.{ty} %p4, %r9, {end};"));
            }
            _ => {
                self.plain(format!("setp.{outside}.{ty} %p4, {index}, {end};"));
                if ty == "s32" && self.rng.u32(..4) > 0 {
                    self.plain(format!("@%p4 bra {skip};\nsetp.lt.s32 %p4, {index}, 0;"));
                }
                self.plain(format!("@%p4 bra {skip};"));
                return String::new();
            }
        }
        match self.rng.bool() {
            true => "@%p4 ".to_owned(),
            false => {
                self.plain(format!("@!%p4 bra {skip};"));
                String::new()
            }
        }
    }

    fn offset(&mut self, size: i64) -> String {
        match self.rng.u32(..5) {
            0 | 1 => format!("+{}", self.small() * size),
            2 => format!("+-{}", self.rng.i64(0..3) * size),
            _ => String::new(),
        }
    }

    /// Subtracts the constant offset from the address, so that only the sum is in range.
    fn without_offset(&mut self, address: &str, offset: &str) {
        if self.rng.u32(..4) == 0 && !offset.is_empty() {
            let bits = if address.starts_with("%r") { 32 } else { 64 };
            let offset = offset.trim_start_matches('+');
            self.plain(format!("sub.s{bits} {address}, {address}, {offset};"));
        }
    }

    fn load_or_store(&mut self, guard: &str, space: &str, address: &str, value: &Value) {
        let Value { ty, targets, .. } = value;
        let values = targets.replace('_', "%r9");
        let is_store = self.rng.u32(..3) == 0 && space != ".const";
        let is_word = *ty == "u32" && !matches!(space, ".const" | ".local");
        let volatile = match self.rng.u32(..8) {
            0 if space != ".const" && space != ".local" => ".volatile",
            _ => "",
        };
        let kind = self.rng.u32(..4);
        let text = match (is_store, kind) {
            (true, 0) if is_word => format!("red{space}.add.{ty} {address}, {values};"),
            (true, _) => format!("st{volatile}{space}.{ty} {address}, {values};"),
            (false, 0) if is_word => {
                let (op, more) = [
                    ("add.u32", "1"),
                    ("exch.b32", "%r9"),
                    ("cas.b32", "0, 1"),
                    ("min.s32", "%r9"),
                    ("inc.u32", "7"),
                ][self.rng.usize(..5)];
                format!("atom{space}.{op} {targets}, {address}, {more};")
            }
            (false, _) => format!("ld{volatile}{space}.{ty} {targets}, {address};"),
        };
        self.line(format!("{guard}{text}"));
    }

    /// An access to a variable, with an address of 32 or 64 bits, its name, or a generic address.
    fn in_window(&mut self, name: &str, space: &str, guard: &str, index: &str, value: &Value) {
        let (size, imm) = (value.size, self.offset(value.size));
        let bytes = match name {
            "tile" => 512,
            "stack" => 96,
            _ => 200,
        };
        // The last index in the variable, or one near it.
        let last = bytes / size - 1 + [-1, 0, 0, 1][self.rng.usize(..4)];
        let index = match self.rng.u32(..4) {
            0 => {
                let sign = self.of(&["s", "u", "u"]);
                self.plain(format!("min.{sign}32 %r12, {index}, {last};"));
                "%r12"
            }
            1 => {
                self.plain(format!("rem.u32 %r12, {index}, {};", last + 1));
                "%r12"
            }
            _ => index,
        };
        let shift = size.trailing_zeros();
        let mut space = space;
        let address = match self.rng.u32(..8) {
            0 if self.rng.bool() => format!("[{name}+{}]", last * size),
            0 => format!("[{name}{imm}]"),
            1 | 2 => {
                let mask = self.of(&["31", "15", "7"]);
                self.plain(format!(
                    "and.b32 %r8, {index}, {mask};\nmov.u32 %r9, {name};\n\
                     mad.lo.u32 %r8, %r8, {size}, %r9;"
                ));
                format!("[%r8{imm}]")
            }
            3 => {
                let sign = self.of(&["s", "u"]);
                self.plain(format!(
                    "mov.u64 %d8, {name};\nmad.wide.{sign}32 %d8, {index}, {size}, %d8;"
                ));
                format!("[%d8{imm}]")
            }
            4 => {
                self.plain(format!(
                    "shl.b32 %r8, {index}, {shift};\nmov.u32 %r9, {name};\n\
                     add.s32 %r8, %r8, %r9;\ncvt.u64.u32 %d8, %r8;\ncvta{space}.u64 %d8, %d8;"
                ));
                if self.rng.u32(..4) == 0 {
                    self.plain(format!("cvta.to{space}.u64 %d8, %d8;"));
                } else {
                    space = "";
                }
                format!("[%d8{imm}]")
            }
            _ => {
                self.plain(format!(
                    "shl.b32 %r8, {index}, {shift};\nmov.u32 %r9, {name};\n\
                     add.s32 %r8, %r8, %r9;"
                ));
                self.without_offset("%r8", &imm);
                format!("[%r8{imm}]")
            }
        };
        // A constant is not stored to, and a generic address is like one of a buffer.
        match name {
            "bank" => {
                let Value { ty, targets, .. } = value;
                self.line(format!("{guard}ld{space}.{ty} {targets}, {address};"));
            }
            "stack" if space.is_empty() => {
                let Value { ty, targets, .. } = value;
                self.line(format!("{guard}ld.{ty} {targets}, {address};"));
            }
            _ => self.load_or_store(guard, space, &address, value),
        }
    }

    /// An access to a buffer.
    fn in_buffer(&mut self, guard: &str, index: &str, value: &Value) {
        let size = value.size;
        let shift = size.trailing_zeros();
        let base = self.of(&["%d5", "%d6", "%d5", "%d6", "%d7"]);
        let sign = self.of(&["s", "u", "u"]);
        if base == "%d7" {
            let p = self.p();
            self.plain(format!("selp.b64 %d7, %d5, %d6, {p};"));
        }
        match self.rng.u32(..7) {
            0 => self.plain(format!("mad.wide.{sign}32 %d8, {index}, {size}, {base};")),
            1 => {
                let wide = self.reg(64);
                self.plain(format!("mad.lo.u64 %d8, {wide}, {size}, {base};"));
            }
            2 => self.plain(format!(
                "cvt.{sign}64.{sign}32 %d8, {index};\nshl.b64 %d8, %d8, {shift};\n\
                 add.s64 %d8, {base}, %d8;"
            )),
            3 => {
                // The product may wrap in 32 bits, but not in 64.
                let bits = self.of(&["32", "64"]);
                match bits {
                    "32" => self.plain(format!(
                        "mul.lo.{sign}32 %r8, {index}, {size};\ncvt.{sign}64.{sign}32 %d8, %r8;"
                    )),
                    _ => self.plain(format!(
                        "cvt.{sign}64.{sign}32 %d8, {index};\nmul.lo.{sign}64 %d8, %d8, {size};"
                    )),
                }
                self.plain(format!("add.s64 %d8, {base}, %d8;"));
            }
            _ => self.plain(format!(
                "mul.wide.{sign}32 %d8, {index}, {size};\nadd.s64 %d8, {base}, %d8;"
            )),
        }
        if self.rng.u32(..8) == 0 {
            // Atomic operations on bytes use the word that contains the byte.
            let mask = self.of(&["-2", "-4", "-4", "-8", "-16", "-256"]);
            self.plain(format!("and.b64 %d8, %d8, {mask};"));
        }
        self.at(guard, "%d8", value);
    }

    /// An access at the address in a register.
    fn at(&mut self, guard: &str, address: &str, value: &Value) {
        let imm = self.offset(value.size);
        if address == "%d8" {
            self.without_offset(address, &imm);
        }
        let space = self.of(&[".global", ".global", ""]);
        self.load_or_store(guard, space, &format!("[{address}{imm}]"), value);
    }

    /// An access at an address that a loop changes.
    pub(super) fn through_pointer(&mut self, pointer: &str) {
        let value = self.value_of();
        self.at("", pointer, &value);
    }
}
