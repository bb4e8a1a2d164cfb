//! The text of one kernel while it is written: registers, labels, variables and lines.

use std::fmt::Write as _;

use fastrand::Rng;

use super::{Hang, Layout};

/// The registers that every kernel sets before its fragments.
pub(super) const BASES: [&str; 3] = ["%d1", "%d2", "%d3"];
/// The arguments `n` and `m`, the thread in its block, the thread in the grid, and the lane.
pub(super) const N: &str = "%r1";
pub(super) const M: &str = "%r2";
pub(super) const TID: &str = "%r3";
pub(super) const GLOBAL: &str = "%r4";
/// The argument `w`.
pub(super) const W: &str = "%d4";
/// Predicates that are always set. They differ between threads or between launches.
const GUARDS: [&str; 3] = ["%p1", "%p2", "%p3"];

/// A fresh register, by the letter of its name: `p` (predicate), `h` (16 bits), `r` (32 bits),
/// `d` (64 bits) or `f` (float).
const LETTERS: [(char, &str); 5] = [
    ('p', "pred"),
    ('h', "b16"),
    ('r', "b32"),
    ('d', "b64"),
    ('f', "f32"),
];

pub(super) struct Writer<'a> {
    pub(super) rng: Rng,
    pub(super) layout: &'a Layout,
    pub(super) name: String,
    body: String,
    /// Functions and variables before the kernel.
    pub(super) outside: String,
    /// Variables in the kernel.
    pub(super) inside: String,
    /// Directives such as `.maxnreg 32`.
    pub(super) directives: String,
    registers: [u32; 5],
    labels: u32,
    /// Whether names of registers may get a leading zero.
    pub(super) has_zeros: bool,
    /// Whether ordinary instructions may get a predicate.
    pub(super) has_predicates: bool,
    /// Whether the kernel may run for ever.
    pub(super) hang: Hang,
    /// Whether an earlier instruction may have stored to a buffer.
    pub(super) has_stored: bool,
    /// Whether the kernel uses variables of its module.
    pub(super) uses_variables: bool,
    /// The number of blocks of a cluster, or 0.
    pub(super) cluster: u32,
    /// The target has clusters, `elect`, and what else `sm_90` adds.
    pub(super) is_hopper: bool,
}

/// Writes one line of PTX.
macro_rules! put {
    ($writer:expr, $($part:tt)*) => { $writer.line(&format!($($part)*)) };
}
pub(super) use put;

impl<'a> Writer<'a> {
    pub(super) fn new(rng: Rng, layout: &'a Layout, name: String, is_hopper: bool) -> Self {
        Self {
            rng,
            layout,
            name,
            body: String::new(),
            outside: String::new(),
            inside: String::new(),
            directives: String::new(),
            registers: [4, 1, 5, 5, 1],
            labels: 0,
            has_zeros: false,
            has_predicates: false,
            hang: Hang::Never,
            has_stored: false,
            uses_variables: false,
            cluster: 0,
            is_hopper,
        }
    }

    /// Returns whether an event with the probability 1/`n` happens.
    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(..n) == 0
    }

    pub(super) fn of<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.rng.usize(..list.len())]
    }

    /// Returns a register that was not used before.
    pub(super) fn fresh(&mut self, letter: char) -> String {
        let kind = LETTERS.iter().position(|(it, _)| *it == letter);
        let count = &mut self.registers[kind.unwrap_or(2)];
        *count += 1;
        format!("%{letter}{}", *count - 1)
    }

    pub(super) fn r(&mut self) -> String {
        self.fresh('r')
    }

    pub(super) fn d(&mut self) -> String {
        self.fresh('d')
    }

    pub(super) fn p(&mut self) -> String {
        self.fresh('p')
    }

    pub(super) fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L{}", self.labels)
    }

    /// A name for a variable or function that no other kernel of the module has.
    pub(super) fn unique(&mut self, prefix: &str) -> String {
        self.labels += 1;
        format!("{prefix}_{}_{}", self.name, self.labels)
    }

    pub(super) fn line(&mut self, text: &str) {
        if self.has_zeros && self.one_in(5) {
            let text = with_zero(text);
            let _ = writeln!(self.body, " {text}");
        } else {
            let _ = writeln!(self.body, " {text}");
        }
    }

    /// Writes an ordinary instruction, which may get a predicate: then the register that it writes
    /// is not set in all threads.
    pub(super) fn op(&mut self, text: &str) {
        if self.has_predicates && self.one_in(12) {
            let (not, guard) = (self.of(&["", "!"]), self.of(&GUARDS));
            self.line(&format!("@{not}{guard} {text}"));
        } else {
            self.line(text);
        }
    }

    pub(super) fn guard(&mut self) -> &'static str {
        let number = self.rng.usize(..GUARDS.len());
        GUARDS[number]
    }

    /// The text of the kernel, after its functions and variables.
    pub(super) fn finish(self) -> String {
        let Self {
            name,
            body,
            outside,
            inside,
            directives,
            ..
        } = self;
        let mut declared = String::new();
        for ((letter, ty), count) in LETTERS.iter().zip(self.registers) {
            let _ = writeln!(declared, " .reg .{ty} %{letter}<{count}>;");
        }
        format!(
            "{outside}.visible .entry {name}(.param .u64 x, .param .u64 y, .param .u64 z, .param \
             .u32 n, .param .u32 m, .param .u64 w){directives}\n{{\n{declared}{inside}{body}}}\n"
        )
    }
}

/// Spells the number of the last register in the line with a zero in front: `%r7` becomes `%r07`,
/// which is the same register for the assembler.
fn with_zero(text: &str) -> String {
    let digits = |at: usize| {
        text[at..]
            .chars()
            .next()
            .is_some_and(|it| it.is_ascii_digit())
    };
    let found = text
        .match_indices('%')
        .filter(|(at, _)| {
            let letter = text[at + 1..].chars().next();
            letter.is_some_and(|it| "phrdf".contains(it)) && digits(at + 2)
        })
        .map(|(at, _)| at)
        .next_back();
    let Some(at) = found else {
        return text.to_owned();
    };
    format!("{}0{}", &text[..at + 2], &text[at + 2..])
}
