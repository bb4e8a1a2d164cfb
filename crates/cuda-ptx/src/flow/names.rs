//! Registers and variables in nested scopes.
//!
//! The rules for names are those of `ptxas`, found by experiments with versions 12.0 and 13.5:
//!
//! | text | meaning |
//! |---|---|
//! | `a`, `$a`, `_a`, `%a`, `%1`, `$$`, `%_$` | names; `_`, `$` and `%` alone are not |
//! | `WARP_SZ`, `inlined_at`, `function_name` | reserved words; `add`, `reg`, `u32` and `sm_75` are names |
//! | `%R5` | another name than `%r5`; a name may have any length, here up to 65,536 bytes |
//! | `%r02`, `%r002` with `.reg .b32 %r<9>` | `%r2` |
//! | `%r4294967298` with `.reg .b32 %r<9>` | `%r2`: the number wraps at 32 bits |
//! | `%r9` with `.reg .b32 %r<9>` | not declared |
//! | `%r15` with `.reg .b32 %r1<9>` | not declared: all digits at the end are the number |
//! | `.reg .b32 %r<9>; .reg .b32 %r5;` | refused, in either order; `%r9` and `%r` are not |
//! | `.reg .b32 %r<9>; .reg .b32 %r05;` | refused; in the other order, `%r05` is a register of its own |
//! | `.reg .b32 %r<9>; %r5:` | accepted, but `bra %r5` is refused: it is the register |
//! | a register, a variable or a label of one name in one block | refused |
//! | the same name in an inner block | hides the outer one, from its declaration on |
//! | a label | visible in its block and inner ones, before it too |
//! | a variable, parameter or register with the name of a function or module variable | hides it |
//! | `.reg .b32 %laneid`, `.reg .v4 .b32 %tid`, `.shared .b32 %laneid` | hides the special register |
//! | a name that is used before its declaration | refused, if it is not a label |

use std::collections::{HashMap, HashSet};

use crate::ast::Register;

use super::op::Value;

/// A register: its number and its width. The width is 1 for a predicate and 0 if a vector or an
/// unknown type makes it unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reg {
    pub(crate) number: Value,
    pub(crate) bits: u32,
}

/// The width of a scalar type, or 0.
pub(crate) fn bits_of(ty: &str) -> u32 {
    match ty {
        "pred" => 1,
        "b8" | "u8" | "s8" => 8,
        "b16" | "u16" | "s16" | "f16" | "bf16" => 16,
        "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" => 32,
        "b64" | "u64" | "s64" | "f64" => 64,
        "b128" => 128,
        _ => 0,
    }
}

/// The width of a register with a type and a number of elements. A vector is unusable.
fn width((ty, elements): (&str, u32)) -> u32 {
    match elements {
        1 => bits_of(ty),
        _ => 0,
    }
}

/// The object that a name refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Name {
    Reg(Reg),
    /// The number of a variable.
    Var(u32),
}

#[derive(Debug, Default)]
struct Scope<'a> {
    names: HashMap<&'a str, Name>,
    /// Prefix, number of registers, and their type with its number of elements.
    counted: HashMap<&'a str, (u32, (&'a str, u32))>,
    /// The registers of `counted` that were used, by prefix and number.
    used: HashMap<(&'a str, u32), Name>,
}

/// The names that are visible at one statement.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    scopes: Vec<Scope<'a>>,
    /// The widths of all registers so far.
    pub(crate) widths: Vec<u32>,
    /// The types of all registers so far, without the dot, and their numbers of elements. A
    /// register without a name has no type.
    types: Vec<(&'a str, u32)>,
}

impl<'a> Names<'a> {
    pub(crate) fn new() -> Self {
        Self {
            scopes: vec![Scope::default()],
            // Number 0 is the undefined value.
            widths: vec![0],
            types: vec![("", 1)],
        }
    }

    pub(crate) fn open(&mut self) {
        self.scopes.push(Scope::default());
    }

    pub(crate) fn close(&mut self) {
        if self.scopes.len() > 1 {
            self.scopes.pop();
        }
    }

    /// A register without a name.
    pub(crate) fn fresh(&mut self, bits: u32) -> Reg {
        self.add(bits, ("", 1))
    }

    fn add(&mut self, bits: u32, ty: (&'a str, u32)) -> Reg {
        let number = self.widths.len() as Value;
        self.widths.push(bits);
        self.types.push(ty);
        Reg { number, bits }
    }

    /// The declared type of a register, and its number of elements.
    pub(crate) fn declaration(&self, reg: Reg) -> (&'a str, u32) {
        let found = self.types.get(reg.number as usize).copied();
        found.unwrap_or(("", 1))
    }

    /// The declared type of a register that is not a vector.
    pub(crate) fn type_of(&self, reg: Reg) -> &'a str {
        match self.declaration(reg) {
            (ty, 1) => ty,
            _ => "",
        }
    }

    pub(crate) fn declare_variable(&mut self, name: &'a str, variable: u32) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name, Name::Var(variable));
        }
    }

    pub(crate) fn declare_register(&mut self, register: &Register<'a>) {
        let ty = (register.ty, register.vector);
        let name = register.name;
        match register.count {
            Some(count) => {
                if let Some(scope) = self.scopes.last_mut() {
                    scope.counted.insert(name, (count, ty));
                }
            }
            None => {
                let reg = self.add(width(ty), ty);
                if let Some(scope) = self.scopes.last_mut() {
                    scope.names.insert(name, Name::Reg(reg));
                }
            }
        }
    }

    /// The names and widths of those among these registers that can be set to a number, and that
    /// the blocks that are open declare. Sorted.
    pub(crate) fn known(&self, registers: &[Value], widths: &[u32]) -> Vec<(String, u32)> {
        let mut found = Vec::new();
        let registers: HashSet<Value> = registers.iter().copied().collect();
        let mut add = |name: String, it: &Name| {
            if let Name::Reg(reg) = it
                && registers.contains(&reg.number)
                && let Some(bits @ (16 | 32 | 64)) = widths.get(reg.number as usize).copied()
            {
                found.push((name, bits));
            }
        };
        for scope in &self.scopes {
            for (name, register) in &scope.names {
                add((*name).to_owned(), register);
            }
            for ((prefix, number), register) in &scope.used {
                add(format!("{prefix}{number}"), register);
            }
        }
        found.sort_unstable();
        found
    }

    /// The register with a name that was used before.
    pub(crate) fn used(&self, name: &str) -> Option<Reg> {
        let numbered = register_number(name);
        let mut scopes = self.scopes.iter().rev();
        let found = scopes.find_map(|scope| {
            let plain = scope.names.get(name);
            plain.or_else(|| scope.used.get(&numbered?))
        });
        match found {
            Some(Name::Reg(reg)) => Some(*reg),
            _ => None,
        }
    }

    pub(crate) fn find(&mut self, name: &'a str) -> Option<Name> {
        let numbered = register_number(name);
        for scope in self.scopes.iter_mut().rev() {
            if let Some(found) = scope.names.get(name) {
                return Some(*found);
            }
            let Some((prefix, number)) = numbered else {
                continue;
            };
            if let Some(found) = scope.used.get(&(prefix, number)) {
                return Some(*found);
            }
            if let Some(&(count, ty)) = scope.counted.get(prefix)
                && number < count
            {
                let (value, bits) = (self.widths.len() as Value, width(ty));
                self.widths.push(bits);
                self.types.push(ty);
                let found = Name::Reg(Reg {
                    number: value,
                    bits,
                });
                scope.used.insert((prefix, number), found);
                return Some(found);
            }
        }
        None
    }
}

/// Splits the name of a numbered register into the name of its declaration and its number: `%r` and
/// 2 for `%r2`, which `.reg .b32 %r<9>` declares. `None` if the name does not end with a digit.
///
/// The number is all digits at the end of the name, as `ptxas` reads it: leading zeros count
/// nothing, so `%r02` is `%r2`, and a number of more than 32 bits wraps, so `%r4294967298` is too.
/// No name refers to a register of `.reg .b32 %r1<9>`.
pub fn register_number(name: &str) -> Option<(&str, u32)> {
    let prefix = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let digits = name
        .get(prefix.len()..)
        .filter(|digits| !digits.is_empty())?;
    let number = digits.bytes().fold(0u32, |number, digit| {
        number
            .wrapping_mul(10)
            .wrapping_add(u32::from(digit - b'0'))
    });
    Some((prefix, number))
}
