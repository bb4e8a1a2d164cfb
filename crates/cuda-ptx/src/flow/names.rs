//! Registers and variables in nested scopes.

use std::collections::HashMap;

use super::op::Value;

/// A register: its number and its width. The width is 1 for a predicate and 0 if a vector or an
/// unknown type makes it unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reg {
    pub(crate) number: Value,
    pub(crate) bits: u32,
    pub(crate) declared: Declared,
}

/// The declaration of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    /// What its type permits.
    pub(crate) class: Class,
    /// The bits of one element.
    pub(crate) bits: u32,
    /// The number of elements of a vector, or 1.
    pub(crate) elements: u32,
}

/// What the type of a register permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `.pred`
    Predicate,
    /// `.b8` to `.b128`: every use of its size.
    Bits,
    /// `.u8` to `.s64`
    Integer,
    /// `.f32` and `.f64`
    Float,
    /// `.f16` and `.f16x2`
    Half,
    /// A type that no register has.
    Unknown,
}

impl Class {
    /// The class of a type in a declaration.
    pub(crate) fn of(ty: &str) -> Self {
        match ty {
            "pred" => Self::Predicate,
            "b8" | "b16" | "b32" | "b64" | "b128" => Self::Bits,
            "u8" | "u16" | "u32" | "u64" | "s8" | "s16" | "s32" | "s64" => Self::Integer,
            "f32" | "f64" => Self::Float,
            "f16" | "f16x2" => Self::Half,
            _ => Self::Unknown,
        }
    }
}

impl Declared {
    /// `.reg .b32 x` or `.reg .v4 .b32 x`
    pub(crate) fn new(ty: &str, elements: u32) -> Self {
        let (class, bits) = (Class::of(ty), bits_of(ty));
        Self {
            class,
            bits,
            elements,
        }
    }

    /// The width as an operand of its own.
    pub(crate) fn width(self) -> u32 {
        match self.elements {
            1 => self.bits,
            _ => 0,
        }
    }
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
    /// Prefix, number of registers, and declaration.
    counted: HashMap<&'a str, (u32, Declared)>,
    /// The registers of `counted` that were used.
    used: HashMap<&'a str, Name>,
}

/// The names that are visible at one statement.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    scopes: Vec<Scope<'a>>,
    /// The widths of all registers so far.
    pub(crate) widths: Vec<u32>,
}

impl<'a> Names<'a> {
    pub(crate) fn new() -> Self {
        Self {
            scopes: vec![Scope::default()],
            // Number 0 is the undefined value.
            widths: vec![0],
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
        let declared = Declared {
            class: match bits {
                1 => Class::Predicate,
                _ => Class::Bits,
            },
            bits,
            elements: 1,
        };
        self.new_register(declared)
    }

    fn new_register(&mut self, declared: Declared) -> Reg {
        let (number, bits) = (self.widths.len() as Value, declared.width());
        self.widths.push(bits);
        Reg {
            number,
            bits,
            declared,
        }
    }

    pub(crate) fn declare_variable(&mut self, name: &'a str, variable: u32) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name, Name::Var(variable));
        }
    }

    pub(crate) fn declare_register(
        &mut self,
        name: &'a str,
        declared: Declared,
        count: Option<u32>,
    ) {
        let reg = self.new_register(declared);
        let Some(scope) = self.scopes.last_mut() else {
            return;
        };
        match count {
            Some(count) => {
                scope.counted.insert(name, (count, declared));
            }
            None => {
                scope.names.insert(name, Name::Reg(reg));
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
                let Some(&(count, declared)) = scope.counted.get(prefix) else {
                    continue;
                };
                if !has_zero && number.parse::<u32>().is_ok_and(|number| number < count) {
                    let (number, bits) = (self.widths.len() as Value, declared.width());
                    self.widths.push(bits);
                    let found = Name::Reg(Reg {
                        number,
                        bits,
                        declared,
                    });
                    scope.used.insert(name, found);
                    return Some(found);
                }
            }
        }
        None
    }
}
