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
        let step = match self.rng.u32(..4) {
            0 => self.reg(bits),
            1 => (-self.small()).to_string(),
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
        if self.rng.bool() {
            // The test is at the top.
            let relation = self.of(&["ge", "ge", "gt", "eq", "le", "lt"]);
            self.plain(format!(
                "{head}:\nsetp.{relation}.{ty} %p4, {i}, {stop};\n@%p4 bra {end};"
            ));
            self.body(depth + 1);
            self.line(format!("add.{ty} {i}, {i}, {step};"));
            self.plain(format!("bra {head};"));
        } else {
            if self.rng.bool() {
                self.plain(format!("setp.ge.{ty} %p4, {i}, {stop};\n@%p4 bra {end};"));
            }
            self.plain(format!("{head}:"));
            self.body(depth + 1);
            let is_truncated = bits == 64 && self.rng.bool();
            if is_truncated {
                self.line(format!("and.b64 {i}, {i}, 4294967295;"));
            }
            match self.rng.u32(..6) {
                0 => self.line(format!("shr.{ty} {i}, {i}, 1;")),
                _ => self.line(format!("add.{ty} {i}, {i}, {step};")),
            }
            let relation = self.of(&["lt", "lt", "ne", "le", "gt", "ge"]);
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
            1 if self.labels > 1 => {
                let next = self.label();
                let table = self.label();
                self.plain(format!(
                    "{next}:\n{table}: .branchtargets {next}x, {next}y;"
                ));
                self.plain(format!(
                    "and.b32 %r8, %r0, 1;\nbrx.idx %r8, {table};\n{next}x:"
                ));
                self.arithmetic();
                self.plain(format!("{next}y:"));
            }
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
}
