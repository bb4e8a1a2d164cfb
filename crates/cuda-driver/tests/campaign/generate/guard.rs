//! What stands between an index and its use: guards that are just right or just wrong, loops that
//! end only by luck, register pressure, and writes to the word that the index was loaded from.

use super::Hang;
use super::index::{Index, Word};
use super::writer::{BASES, M, N, TID, Writer, put};

/// An index after its guard. With a predicate, the access is executed only if it is true.
#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) register: String,
    pub(super) predicate: Option<(bool, String)>,
}

impl Guarded {
    fn plain(register: String) -> Self {
        Self {
            register,
            predicate: None,
        }
    }

    /// The predicate of an instruction.
    pub(super) fn prefix(&self) -> String {
        match &self.predicate {
            Some((true, p)) => format!("@{p} "),
            Some((false, p)) => format!("@!{p} "),
            None => String::new(),
        }
    }
}

impl Writer<'_> {
    /// The bound of a guard: `count` elements, or a number that is slightly wrong, or a parameter
    /// that a launch may set to the right number.
    fn bound(&mut self, count: u32) -> String {
        match self.rng.u32(..16) {
            0 => count.saturating_add(1).to_string(),
            1 => count.saturating_sub(1).max(1).to_string(),
            2 => (count / 2).max(1).to_string(),
            3 => N.to_owned(),
            4 => {
                let register = self.r();
                put!(self, "min.u32 {register}, {N}, {count};");
                register
            }
            5 => M.to_owned(),
            _ => count.to_string(),
        }
    }

    /// A guard of an index for `count` elements. Threads outside go to the label `skip`, leave the
    /// kernel, or get another index.
    pub(super) fn guarded(&mut self, index: &Index, count: u32, skip: &str) -> Guarded {
        let i = index.register.clone();
        let bound = self.bound(count);
        let p = self.p();
        match self.rng.u32(..40) {
            0..=7 => {
                put!(self, "setp.ge.u32 {p}, {i}, {bound};");
                match self.rng.u32(..6) {
                    0 => put!(self, "@{p} ret;"),
                    1 => put!(self, "@{p} exit;"),
                    2 => put!(self, "@{p} trap;"),
                    3 => put!(self, "@{p} bra.uni {skip};"),
                    _ => put!(self, "@{p} bra {skip};"),
                }
                Guarded::plain(i)
            }
            8..=12 => {
                put!(self, "setp.lt.u32 {p}, {i}, {bound};");
                Guarded {
                    register: i,
                    predicate: Some((true, p)),
                }
            }
            13 | 14 => {
                put!(self, "setp.hs.u32 {p}, {i}, {bound};");
                Guarded {
                    register: i,
                    predicate: Some((false, p)),
                }
            }
            15 => {
                let mask = (count / 2 + 1).next_power_of_two() - 1;
                let register = self.r();
                put!(self, "and.b32 {register}, {i}, {mask};");
                Guarded::plain(register)
            }
            16 => {
                let (register, last) = (self.r(), count.saturating_sub(1));
                put!(self, "min.u32 {register}, {i}, {last};");
                Guarded::plain(register)
            }
            17 => {
                let register = self.r();
                put!(self, "rem.u32 {register}, {i}, {};", count.max(1));
                Guarded::plain(register)
            }
            18 | 19 => {
                // A signed comparison needs both ends.
                put!(self, "setp.lt.s32 {p}, {i}, {bound};");
                if self.one_in(3) {
                    put!(self, "setp.ge.and.s32 {p}, {i}, 0, {p};");
                }
                Guarded {
                    register: i,
                    predicate: Some((true, p)),
                }
            }
            20..=27 if index.is_chosen || self.one_in(6) => self.by_luck(index, &bound),
            28 => {
                let (q, other) = (self.p(), self.guard());
                let op = self.of(&["and", "or", "xor"]);
                put!(self, "setp.lt.{op}.u32 {p}|{q}, {i}, {bound}, {other};");
                put!(self, "@!{p} bra {skip};");
                Guarded::plain(i)
            }
            29 => {
                let register = self.r();
                put!(self, "setp.lt.u32 {p}, {i}, {bound};");
                put!(self, "selp.u32 {register}, {i}, 0, {p};");
                Guarded::plain(register)
            }
            30 => {
                // One lane decides for all.
                let q = self.p();
                let kind = self.of(&["any", "all", "uni"]);
                put!(self, "setp.lt.u32 {p}, {i}, {bound};");
                put!(self, "vote.sync.{kind}.pred {q}, {p}, -1;");
                put!(self, "@!{q} bra.uni {skip};");
                Guarded::plain(i)
            }
            31 => {
                let q = self.p();
                let kind = self.of(&["and", "or"]);
                put!(self, "setp.lt.u32 {p}, {i}, {bound};");
                put!(self, "bar.red.{kind}.pred {q}, 0, {p};");
                put!(self, "@!{q} bra {skip};");
                Guarded::plain(i)
            }
            32 => self.switched(&i, skip),
            33 => self.by_function(&i, &bound),
            34 => {
                // The guard has a value of its own, from the same word.
                let again = match &index.source {
                    Some((word, _)) => self.loaded_again(word),
                    None => i.clone(),
                };
                put!(self, "setp.ge.u32 {p}, {again}, {bound};");
                put!(self, "@{p} bra {skip};");
                Guarded::plain(i)
            }
            35 => {
                let (q, register) = (self.p(), self.r());
                put!(self, "setp.gt.u32 {p}, {i}, {bound};");
                put!(self, "setp.eq.u32 {q}, {i}, {bound};");
                put!(self, "or.pred {p}, {p}, {q};");
                put!(self, "mov.u32 {register}, {i};");
                put!(self, "@{p} mov.u32 {register}, 1;");
                Guarded::plain(register)
            }
            36 => {
                let (wide, q) = (self.d(), self.p());
                put!(self, "cvt.s64.s32 {wide}, {i};");
                put!(self, "setp.ge.u64 {q}, {wide}, {count};");
                put!(self, "@{q} bra {skip};");
                Guarded::plain(i)
            }
            37 => {
                let less = self.r();
                put!(self, "sub.s32 {less}, {i}, 3;");
                put!(self, "setp.ge.u32 {p}, {less}, {bound};");
                put!(self, "@{p} bra {skip};");
                Guarded::plain(if self.one_in(2) { less } else { i })
            }
            _ => Guarded::plain(i),
        }
    }

    fn loaded_again(&mut self, word: &Word) -> String {
        let register = self.r();
        put!(self, "ld{}.u32 {register}, {};", word.space, word.address);
        register
    }

    /// A loop after which the index is in bounds, if the loop ends.
    fn by_luck(&mut self, index: &Index, bound: &str) -> Guarded {
        let (p, head, i) = (self.p(), self.label(), index.register.clone());
        let kind = self.rng.u32(..10);
        // The launch chooses when the loop ends.
        let is_chosen = index.is_chosen && !self.has_stored && kind != 7;
        let hang = [Hang::Likely, Hang::IfHostile][usize::from(is_chosen)];
        if hang > self.hang {
            self.hang = hang;
        }
        match (&index.source, kind) {
            (Some((word, form)), 0..=3) => {
                // Waits for a word.
                let form = if self.one_in(2) { *form } else { "ld.u32" };
                let form = match form {
                    "ld.u32" => format!("ld{}.u32", word.space),
                    form => form.to_owned(),
                };
                put!(self, "{head}:");
                put!(self, "{form} {i}, {};", word.address);
                put!(self, "setp.ge.u32 {p}, {i}, {bound};");
                put!(self, "@{p} bra {head};");
                Guarded::plain(i)
            }
            (_, 0..=5) => {
                // Nothing in the loop changes its condition.
                put!(self, "{head}:");
                if self.one_in(3) {
                    let unused = self.r();
                    put!(self, "add.u32 {unused}, {i}, {TID};");
                }
                put!(self, "setp.ge.u32 {p}, {i}, {bound};");
                let kind = self.of(&["bra", "bra", "bra.uni"]);
                put!(self, "@{p} {kind} {head};");
                Guarded::plain(i)
            }
            (_, 6) => {
                // The condition is a parameter, behind which the index is a parameter too.
                let register = self.r();
                let from = self.of(&["[n]", "[m]", "[w]"]);
                put!(self, "{head}:");
                put!(self, "ld.param.u32 {register}, {from};");
                put!(self, "setp.ge.u32 {p}, {register}, {bound};");
                put!(self, "@{p} bra {head};");
                Guarded::plain(register)
            }
            (_, 7) => {
                // A counter that has to meet a number exactly.
                let (counter, end) = (self.d(), self.label());
                let step = self.of(&["1", "1", "2", "3", "-1"]);
                put!(self, "cvt.u64.u32 {counter}, {i};");
                put!(self, "{head}:");
                put!(self, "setp.eq.u64 {p}, {counter}, 2;");
                put!(self, "@{p} bra {end};");
                put!(self, "add.s64 {counter}, {counter}, {step};");
                put!(self, "bra {head};");
                put!(self, "{end}:");
                // Behind the loop the counter is 2, or the index was at most 2.
                let register = self.r();
                match self.one_in(2) {
                    true => {
                        put!(self, "cvt.u32.u64 {register}, {counter};");
                        Guarded::plain(register)
                    }
                    false => Guarded::plain(i),
                }
            }
            (_, 8) => {
                // Two loops in each other; the inner one decides whether the outer one ends.
                let inner = self.label();
                let (q, value) = (self.p(), self.r());
                put!(self, "mov.u32 {value}, {i};");
                put!(self, "{head}:");
                put!(self, "{inner}:");
                put!(self, "shr.u32 {value}, {value}, 1;");
                put!(self, "setp.ne.u32 {q}, {value}, 0;");
                put!(self, "@{q} bra {inner};");
                put!(self, "setp.ge.u32 {p}, {i}, {bound};");
                put!(self, "@{p} bra {head};");
                Guarded::plain(i)
            }
            _ => {
                // The store behind the loop has an address of its own, and its guard is the loop.
                let word = self.word();
                let value = self.r();
                put!(self, "{head}:");
                put!(self, "ld{}.u32 {value}, {};", word.space, word.address);
                put!(self, "setp.ge.u32 {p}, {i}, {bound};");
                put!(self, "setp.ne.and.u32 {p}, {value}, 0, {p};");
                put!(self, "@{p} bra {head};");
                let end = self.p();
                put!(self, "setp.eq.u32 {end}, {value}, 0;");
                Guarded {
                    register: i,
                    predicate: Some((false, end)),
                }
            }
        }
    }

    /// The index selects a label, behind which it is one number.
    fn switched(&mut self, i: &str, skip: &str) -> Guarded {
        let (table, register, p) = (self.label(), self.r(), self.p());
        let targets: Vec<String> = (0..4).map(|_| self.label()).collect();
        let end = self.label();
        if !self.one_in(8) {
            put!(self, "setp.ge.u32 {p}, {i}, 4;");
            put!(self, "@{p} bra {skip};");
        }
        put!(self, "{table}: .branchtargets {};", targets.join(", "));
        let kind = self.of(&["brx.idx", "brx.idx", "brx.idx.uni"]);
        put!(self, "{kind} {i}, {table};");
        for (number, target) in targets.iter().enumerate() {
            put!(self, "{target}:");
            put!(self, "mov.u32 {register}, {number};");
            put!(self, "bra {end};");
        }
        put!(self, "{end}:");
        Guarded::plain(if self.one_in(2) {
            register
        } else {
            i.to_owned()
        })
    }

    /// A function compares the index and returns whether, or which, it may be used.
    fn by_function(&mut self, i: &str, bound: &str) -> Guarded {
        let name = self.unique("in");
        let (register, p) = (self.r(), self.p());
        self.outside += &format!(
            ".func (.param .b32 r) {name}(.param .b32 a, .param .b32 b) {{ .reg .b32 %v<4>; .reg \
             .pred %q; ld.param.b32 %v0, [a]; ld.param.b32 %v1, [b]; setp.lt.u32 %q, %v0, %v1; \
             selp.u32 %v2, %v0, 0, %q; st.param.b32 [r], %v2; ret; }}\n"
        );
        put!(
            self,
            "{{ .param .b32 a0; .param .b32 a1; .param .b32 r0; st.param.b32 [a0], {i}; \
             st.param.b32 [a1], {bound}; call (r0), {name}, (a0, a1); ld.param.b32 {register}, \
             [r0]; }}"
        );
        put!(self, "setp.eq.u32 {p}, {register}, {i};");
        match self.one_in(2) {
            true => Guarded::plain(register),
            false => Guarded {
                register: i.to_owned(),
                predicate: Some((true, p)),
            },
        }
    }

    /// Writes instructions between the guard and the use.
    pub(super) fn between(&mut self, index: &Index) {
        match self.rng.u32(..12) {
            0..=3 => self.pressure(index),
            4 | 5 => self.change(index),
            6 => {
                let barrier = self.of(&[
                    "bar.sync 0;",
                    "barrier.sync 0;",
                    "barrier.sync.aligned 1;",
                    "bar.warp.sync -1;",
                    "membar.gl;",
                    "fence.acq_rel.gpu;",
                    "fence.sc.cta;",
                    "bar.sync 2, 32;",
                    "membar.cta;",
                ]);
                self.line(barrier);
            }
            _ => {}
        }
    }

    /// Stores a large number, or one that the launch chooses, to the word of the index.
    fn change(&mut self, index: &Index) {
        let Some((word, _)) = &index.source else {
            return;
        };
        let value = self.r();
        let number = self.of(&["1000", "0x4000", "0x00ffffff", N, TID]);
        put!(self, "mov.u32 {value}, {number};");
        if word.space == ".const" {
            return;
        }
        let (space, address) = (word.space, &word.address);
        // Buffer `y` is read-only: a store to it must never be executed.
        if address.contains(BASES[1]) {
            return;
        }
        match self.rng.u32(..6) {
            0 if space == ".global" => put!(self, "red.global.add.u32 {address}, {value};"),
            1 if space == ".global" => {
                let old = self.r();
                put!(self, "atom.global.exch.b32 {old}, {address}, {value};");
            }
            2 => put!(self, "st{space}.b32 {address}, {value};"),
            3 if space == ".global" => put!(self, "st.global.wt.u32 {address}, {value};"),
            _ if space != ".local" => put!(self, "st.volatile{space}.u32 {address}, {value};"),
            _ => put!(self, "st{space}.u32 {address}, {value};"),
        }
        let fence = self.of(&["", "membar.gl;", "fence.acq_rel.gpu;", "membar.sys;"]);
        self.line(fence);
    }

    /// Loads many values that stay alive, changes the word of the index, and stores the values in
    /// another order.
    fn pressure(&mut self, index: &Index) {
        let words = self.words(0);
        let count = self.rng.u32(40..71);
        if self.directives.is_empty() && self.one_in(2) {
            let limit = self.of(&[" .maxnreg 24", " .maxnreg 32", " .maxnreg 32"]);
            self.directives += limit;
        }
        let form = self.of(&[
            "ld.volatile.global.u32",
            "ld.relaxed.gpu.global.u32",
            "ld.global.u32",
        ]);
        let mut values = Vec::new();
        for number in 0..count {
            let value = self.r();
            // Different words, so that the loads are not merged.
            let base = BASES[(number / words) as usize % 3];
            let word = number % words.min(32);
            put!(self, "{form} {value}, [{base}+{}];", 4 * word);
            values.push(value);
        }
        self.change(index);
        for number in 0..count {
            let value = &values[(number * 7 % count) as usize];
            put!(
                self,
                "st.volatile.global.u32 [%d1+{}], {value};",
                4 * (number % words)
            );
        }
    }
}
