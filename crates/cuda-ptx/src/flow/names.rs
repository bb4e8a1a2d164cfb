//! Registers and variables in nested scopes.

use std::collections::HashMap;

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
    /// The registers of `counted` that were used.
    used: HashMap<&'a str, Name>,
}

/// The names that are visible at one statement.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    scopes: Vec<Scope<'a>>,
    /// The widths of all registers so far.
    pub(crate) widths: Vec<u32>,
    /// The types of all registers so far, without the dot, and their numbers of elements. A register
    /// without a name has no type.
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

    pub(crate) fn find(&mut self, name: &'a str) -> Option<Name> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        for scope in self.scopes.iter_mut().rev() {
            if let Some(found) = scope.names.get(name).or_else(|| scope.used.get(name)) {
                return Some(*found);
            }
            // At most 7 digits: a function declares fewer than 2²⁰ numbered registers.
            for length in 1..=digits.min(7) {
                let (prefix, number) = name.split_at(name.len() - length);
                let has_zero = number.len() > 1 && number.starts_with('0');
                let Some(&(count, ty)) = scope.counted.get(prefix) else {
                    continue;
                };
                if !has_zero && number.parse::<u32>().is_ok_and(|number| number < count) {
                    let (number, bits) = (self.widths.len() as Value, width(ty));
                    self.widths.push(bits);
                    self.types.push(ty);
                    let found = Name::Reg(Reg { number, bits });
                    scope.used.insert(name, found);
                    return Some(found);
                }
            }
        }
        None
    }
}
