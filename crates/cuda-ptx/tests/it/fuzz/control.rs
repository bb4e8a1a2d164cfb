//! The control flow of random kernels: branches, loops and jumps.

use super::generate::Generator;

impl Generator {
    pub(super) fn branch(&mut self, depth: u32) {
        let (other, end) = (self.label(), self.label());
        let p = self.p();
        self.compare(&p);
        let not = self.of(&["", "!"]);
        self.plain(format!("@{not}{p} bra {other};"));
        self.body(depth + 1);
        if self.rng.bool() {
            self.plain(format!("bra {end};\n{other}:"));
            self.body(depth + 1);
        } else {
            self.plain(format!("{other}:"));
        }
        self.plain(format!("{end}:"));
    }

    pub(super) fn repeat(&mut self, depth: u32) {
        let (head, end) = (self.label(), self.label());
        let bits = self.of(&["32", "32", "64"]).parse().unwrap_or(32);
        let i = self.reg(bits);
        let ty = format!("{}{bits}", self.of(&["s", "u"]));
        let step = match self.rng.u32(..5) {
            0 => self.reg(bits),
            1 if bits == 32 => "%r13".to_owned(),
            2 => (-self.small()).to_string(),
            _ => self.small().to_string(),
        };
        let stop = match self.rng.u32(..4) {
            0 => self.source(bits),
            _ => self.reg(bits),
        };
        if self.rng.bool() {
            let start = self.small();
            self.line(format!("mov.b{bits} {i}, {start};"));
        }
        let outer = self.counters.len();
        if bits == 32 {
            self.counters.push(i.clone());
        }
        if self.rng.bool() {
            // The test is at the top.
            let relation = self.of(&["ge", "ge", "gt", "eq", "le", "lt"]);
            self.plain(format!(
                "{head}:\nsetp.{relation}.{ty} %p4, {i}, {stop};\n@%p4 bra {end};"
            ));
            self.body(depth + 1);
            self.leave_or_continue(&head, &end);
            self.line(format!("add.{ty} {i}, {i}, {step};"));
            self.plain(format!("bra {head};"));
        } else {
            if self.rng.bool() {
                self.plain(format!("setp.ge.{ty} %p4, {i}, {stop};\n@%p4 bra {end};"));
            }
            self.plain(format!("{head}:"));
            self.body(depth + 1);
            self.leave_or_continue(&head, &end);
            let is_truncated = bits == 64 && self.rng.bool();
            if is_truncated {
                self.line(format!("and.b64 {i}, {i}, 4294967295;"));
            }
            // Steps that differ from iteration to iteration, towards 0 or away from it.
            let is_halved = self.rng.u32(..3) == 0;
            match self.rng.u32(..8) {
                0 => {
                    let (not, p) = (self.of(&["", "!"]), self.p());
                    self.plain(format!("@{not}{p} add.{ty} {i}, {i}, {step};"));
                }
                1 => self.line(format!("shl.b{bits} {i}, {i}, 1;")),
                2 if is_halved => self.line(format!("div.{ty} {i}, {i}, 3;")),
                _ if is_halved => {
                    let amount = self.of(&["1", "1", "2", "5"]);
                    self.line(format!("shr.{ty} {i}, {i}, {amount};"));
                }
                _ => self.line(format!("add.{ty} {i}, {i}, {step};")),
            }
            let relation = match is_halved {
                true => self.of(&["gt", "ne", "ge"]),
                false => self.of(&["lt", "lt", "ne", "le", "gt", "ge"]),
            };
            let stop = match is_halved && self.rng.bool() {
                true => "0".to_owned(),
                false => stop,
            };
            if is_truncated {
                let (ty, stop) = (self.of(&["u32", "u32", "s32"]), self.reg(32));
                self.plain(format!(
                    "cvt.u32.u64 %r8, {i};\nsetp.{relation}.{ty} %p4, %r8, {stop};"
                ));
            } else {
                self.plain(format!("setp.{relation}.{ty} %p4, {i}, {stop};"));
            }
            self.plain(format!("@%p4 bra {head};"));
        }
        self.plain(format!("{end}:"));
        self.counters.truncate(outer);
    }

    /// Sometimes ends a loop, or begins its next iteration.
    fn leave_or_continue(&mut self, head: &str, end: &str) {
        if self.rng.u32(..6) == 0 {
            let (p, label) = (self.p(), self.of(&[head, end]));
            self.compare(&p);
            self.plain(format!("@{p} bra {label};"));
            if self.rng.bool() {
                self.arithmetic();
            }
        }
    }

    /// A loop with several values that each iteration changes: a counter, an index and an address.
    pub(super) fn stride(&mut self, depth: u32) {
        let (head, end) = (self.label(), self.label());
        let base = self.of(&["%d5", "%d6"]);
        let (i, j, start) = (self.reg(32), self.reg(32), self.source(32));
        let sign = self.of(&["s", "u"]);
        let size = [1, 2, 4, 8, 16][self.rng.usize(..5)];
        if self.rng.bool() {
            let first = self.small();
            self.plain(format!("mov.b32 {i}, {first};"));
        }
        self.plain(format!("mov.b32 {j}, {start};"));
        match self.rng.u32(..3) {
            0 => self.plain(format!("mov.b64 %d10, {base};")),
            1 => self.plain(format!(
                "mul.wide.{sign}32 %d10, {i}, {size};\nadd.s64 %d10, %d10, {base};"
            )),
            _ => self.plain(format!("mad.wide.{sign}32 %d10, {j}, {size}, {base};")),
        }
        let stop = match self.rng.u32(..3) {
            0 => self.source(32),
            1 => self.reg(32),
            _ => {
                self.plain("ld.param.u32 %r11, [n];");
                "%r11".to_owned()
            }
        };
        let ends_at_top = self.rng.bool();
        if ends_at_top || self.rng.bool() {
            self.plain(format!(
                "setp.ge.{sign}32 %p4, {i}, {stop};\n@%p4 bra {end};"
            ));
        }
        self.plain(format!("{head}:"));
        if ends_at_top {
            let relation = self.of(&["ge", "ge", "eq", "gt"]);
            self.plain(format!(
                "setp.{relation}.{sign}32 %p4, {i}, {stop};\n@%p4 bra {end};"
            ));
        }
        let outer = self.counters.len();
        self.counters.extend([i.clone(), j.clone()]);
        match self.rng.u32(..4) {
            0 => self.body(depth + 1),
            1 => self.access(),
            _ => {}
        }
        self.counters.truncate(outer);
        self.through_pointer("%d10");
        self.leave_or_continue(&head, &end);
        let (step, other) = match self.rng.u32(..4) {
            0 => ("%r13".to_owned(), self.small().to_string()),
            1 => (self.small().to_string(), "-1".to_owned()),
            _ => ("1".to_owned(), self.small().to_string()),
        };
        let by = match step.parse::<i64>() {
            Ok(step) if self.rng.u32(..6) > 0 => (step * size).to_string(),
            Ok(_) => (size * self.small()).to_string(),
            // The address moves by as many elements as the counter.
            Err(_) => {
                self.plain(format!("mul.wide.u32 %d8, {step}, {size};"));
                "%d8".to_owned()
            }
        };
        self.line(format!("add.s64 %d10, %d10, {by};"));
        self.line(format!("add.s32 {j}, {j}, {other};"));
        self.line(format!("add.s32 {i}, {i}, {step};"));
        match ends_at_top {
            true => self.plain(format!("bra {head};")),
            false => {
                let relation = self.of(&["lt", "lt", "ne", "le"]);
                self.plain(format!(
                    "setp.{relation}.{sign}32 %p4, {i}, {stop};\n@%p4 bra {head};"
                ));
            }
        }
        self.plain(format!("{end}:"));
        // The values after the last iteration.
        if self.rng.u32(..3) == 0 {
            self.through_pointer("%d10");
        }
    }

    /// A jump to any label so far or to the next one, or the end of the thread.
    pub(super) fn jump(&mut self) {
        let p = self.p();
        match self.rng.u32(..3) {
            0 => {
                let kind = self.of(&["ret", "exit"]);
                self.compare(&p);
                self.plain(format!("@{p} {kind};"));
            }
            1 if self.labels > 1 => self.switch(),
            _ => {
                let (head, middle) = (self.label(), self.label());
                self.plain(format!("@{p} bra {middle};\n{head}:"));
                self.arithmetic();
                self.plain(format!("{middle}:"));
                if self.rng.bool() {
                    // A loop that is entered in two places.
                    let q = self.p();
                    self.arithmetic();
                    self.plain(format!("@{q} bra {head};"));
                }
            }
        }
    }

    /// A jump to one of up to four labels. Few indices may be outside of the table.
    fn switch(&mut self) {
        let (table, end) = (self.label(), self.label());
        let targets: Vec<String> = (0..self.rng.usize(2..5)).map(|_| self.label()).collect();
        let count = targets.len();
        let mut index = self.index();
        if self.rng.bool() {
            index = self.narrowed(&index);
        }
        match self.rng.u32(..12) {
            0 => {}
            1..=3 => {
                self.plain(format!("and.b32 %r8, {index}, 1;"));
                index = "%r8".to_owned();
            }
            4 | 5 => {
                self.plain(format!("rem.u32 %r8, {index}, {count};"));
                index = "%r8".to_owned();
            }
            kind => {
                if kind == 6 {
                    let first = self.small();
                    self.plain(format!("sub.s32 %r8, {index}, {first};"));
                    index = "%r8".to_owned();
                }
                self.plain(format!(
                    "setp.ge.u32 %p4, {index}, {count};\n@%p4 bra {end};"
                ));
            }
        }
        self.plain(format!("{table}: .branchtargets {};", targets.join(", ")));
        self.plain(format!("brx.idx {index}, {table};"));
        for target in targets {
            self.plain(format!("{target}:"));
            self.arithmetic();
            if self.rng.bool() {
                self.plain(format!("bra {end};"));
            }
        }
        self.plain(format!("{end}:"));
    }
}
