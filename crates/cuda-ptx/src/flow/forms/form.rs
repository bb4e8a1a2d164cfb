//! One form of an instruction: its modifiers and operands, parsed from a row of the table.

use super::types::Type;

/// A form of an instruction.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(super) opcode: &'static str,
    pub(super) parts: Vec<Part>,
    pub(super) slots: Vec<Slot>,
}

/// A place for a modifier.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The letter that operands use for the chosen modifier.
    pub(super) name: Option<char>,
    pub(super) alternatives: Vec<&'static str>,
    pub(super) is_optional: bool,
}

/// A type in an operand: fixed, or the modifier that a part chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypeName {
    Fixed(Type),
    Part(usize),
}

/// The number of elements of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// A vector with this number of elements.
    Fixed(u32),
    /// A vector as the chosen `.v2`, `.v4` or `.v8`; one register without it.
    Part(usize),
    /// No vector.
    One,
}

/// What an instruction does with the memory at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
    Atomic,
}

/// The bytes that are accessed at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Of(Count, TypeName),
    Bytes(u32),
    /// The whole matrix of `wmma`, or the number in another operand.
    Other,
}

/// What an operand must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `>T`: a register that the instruction sets.
    Result {
        count: Count,
        ty: TypeName,
        /// `+`: it may be wider.
        is_wide: bool,
        /// `_`: the result may be discarded.
        can_discard: bool,
    },
    /// `>A|B` or `>A&B`: two results. The second may be left out after `|`.
    Results {
        count: Count,
        first: TypeName,
        second: TypeName,
        is_second_needed: bool,
        can_discard: bool,
    },
    /// `T`: a register or a number.
    Source {
        count: Count,
        ty: TypeName,
        is_wide: bool,
        /// `!`: no number.
        is_register: bool,
        /// `%`: special registers, too.
        is_special: bool,
        /// `&`: addresses of variables, too.
        is_address: bool,
    },
    /// `T..a`: a register, or a number from 0 to a.
    Limited(TypeName, i64),
    /// `#a..b`
    Number(i64, i64),
    /// `#(a|b)`
    OneOf(&'static str),
    /// `[r T]`, `[w V*T]`, `[x T]`
    Address {
        used: Use,
        size: Size,
        /// The part that names the space.
        part: Option<usize>,
        /// The space that is written behind the size.
        space: &'static str,
    },
    /// `<N*T>`: the handle of a texture or a surface, and coordinates.
    Handle { count: Count, ty: Option<TypeName> },
    /// A value that `createpolicy` made.
    Policy,
    /// A number of a barrier, below 16.
    Barrier,
    /// A number of threads.
    Threads,
    /// A fraction above 0 and at most 1.
    Fraction,
    /// A label.
    Label,
    /// A list of labels.
    Table,
}

/// A place for an operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) kind: Kind,
    pub(super) is_optional: bool,
    /// The text in the row.
    pub(super) text: &'static str,
}

impl Form {
    /// Parses a row such as `ld?.volatile.S=@space?.V=@vector.T=@memory >V*T+, [r V*T]`.
    pub(crate) fn parse(row: &'static str) -> Option<Self> {
        let (head, operands) = row.split_once(' ').unwrap_or((row, ""));
        let end = head.find(['.', '?']).unwrap_or(head.len());
        let (opcode, mut rest) = head.split_at(end);
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (part, after) = Part::parse(rest)?;
            parts.push(part);
            rest = after;
        }
        let operands = operands.split(", ").filter(|text| !text.is_empty());
        let slots = operands.map(|text| Slot::parse(text, &parts));
        Some(Self {
            opcode,
            slots: slots.collect::<Option<_>>()?,
            parts,
        })
    }
}

impl Part {
    /// Parses `.modifier`, `?.(a|b)` or `.T=@set` at the beginning of `text`.
    fn parse(text: &'static str) -> Option<(Self, &'static str)> {
        let (is_optional, text) = match text.strip_prefix('?') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let text = text.strip_prefix('.')?;
        let mut chars = text.chars();
        let (name, text) = match (chars.next()?, chars.next()) {
            (name @ 'A'..='Z', Some('=')) => (Some(name), chars.as_str()),
            _ => (None, text),
        };
        let (list, rest) = match text.strip_prefix('(') {
            Some(list) => list.split_once(')')?,
            None => {
                let end = text.find(['.', '?']).unwrap_or(text.len());
                let (one, rest) = text.split_at(end);
                match one.strip_prefix('@') {
                    Some(set) => (super::table::set(set)?, rest),
                    None => (one, rest),
                }
            }
        };
        let part = Self {
            name,
            alternatives: list.split('|').collect(),
            is_optional,
        };
        Some((part, rest))
    }
}

/// A type, or the letter of a part.
fn type_name(text: &str, parts: &[Part]) -> Option<TypeName> {
    let mut chars = text.chars();
    match (chars.next()?, chars.next()) {
        (name @ 'A'..='Z', None) => {
            let index = parts.iter().position(|part| part.name == Some(name))?;
            Some(TypeName::Part(index))
        }
        _ => Type::parse(text).map(TypeName::Fixed),
    }
}

/// `4*T`, `V*T` or `T`
fn counted(text: &str, parts: &[Part]) -> Option<(Count, TypeName)> {
    let Some((count, ty)) = text.split_once('*') else {
        return Some((Count::One, type_name(text, parts)?));
    };
    let count = match count.parse() {
        Ok(number) => Count::Fixed(number),
        Err(_) => match type_name(count, parts)? {
            TypeName::Part(index) => Count::Part(index),
            TypeName::Fixed(_) => return None,
        },
    };
    Some((count, type_name(ty, parts)?))
}

/// Removes `flag` from the end of `text`.
fn flag(text: &mut &str, flag: char) -> bool {
    match text.strip_suffix(flag) {
        Some(rest) => {
            *text = rest;
            true
        }
        None => false,
    }
}

impl Slot {
    fn parse(text: &'static str, parts: &[Part]) -> Option<Self> {
        let (is_optional, text) = match text.strip_prefix('?') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Some(Self {
            kind: Kind::parse(text, parts)?,
            is_optional,
            text,
        })
    }
}

impl Kind {
    fn parse(text: &'static str, parts: &[Part]) -> Option<Self> {
        if let Some(text) = text.strip_prefix('>') {
            return Self::result(text, parts);
        }
        if let Some(text) = text.strip_prefix("#(") {
            return Some(Self::OneOf(text.strip_suffix(')')?));
        }
        if let Some(text) = text.strip_prefix('#') {
            let (low, high) = text.split_once("..")?;
            return Some(Self::Number(low.parse().ok()?, high.parse().ok()?));
        }
        if let Some((ty, most)) = text.split_once("..") {
            return Some(Self::Limited(type_name(ty, parts)?, most.parse().ok()?));
        }
        if let Some(text) = text.strip_prefix('[') {
            return Self::address(text.strip_suffix(']')?, parts);
        }
        if let Some(text) = text.strip_prefix('<') {
            let text = text.strip_suffix('>')?;
            if text == "handle" {
                let count = Count::One;
                return Some(Self::Handle { count, ty: None });
            }
            let (count, ty) = counted(text, parts)?;
            let ty = Some(ty);
            return Some(Self::Handle { count, ty });
        }
        Some(match text {
            "policy" => Self::Policy,
            "barrier" => Self::Barrier,
            "threads" => Self::Threads,
            "fraction" => Self::Fraction,
            "label" => Self::Label,
            "table" => Self::Table,
            _ => return Self::source(text, parts),
        })
    }

    fn result(mut text: &str, parts: &[Part]) -> Option<Self> {
        let can_discard = flag(&mut text, '_');
        for (between, is_second_needed) in [('|', false), ('&', true)] {
            if let Some((first, second)) = text.split_once(between) {
                let (count, first) = counted(first, parts)?;
                return Some(Self::Results {
                    count,
                    first,
                    second: type_name(second, parts)?,
                    is_second_needed,
                    can_discard,
                });
            }
        }
        let is_wide = flag(&mut text, '+');
        let (count, ty) = counted(text, parts)?;
        Some(Self::Result {
            count,
            ty,
            is_wide,
            can_discard,
        })
    }

    fn source(mut text: &str, parts: &[Part]) -> Option<Self> {
        let is_address = flag(&mut text, '&');
        let is_special = flag(&mut text, '%');
        let is_register = flag(&mut text, '!');
        let is_wide = flag(&mut text, '+');
        let (count, ty) = counted(text, parts)?;
        Some(Self::Source {
            count,
            ty,
            is_wide,
            is_register,
            is_special,
            is_address,
        })
    }

    fn address(text: &'static str, parts: &[Part]) -> Option<Self> {
        let mut words = text.split(' ');
        let used = match words.next()? {
            "r" => Use::Read,
            "w" => Use::Write,
            "x" => Use::Atomic,
            _ => return None,
        };
        let size = words.next()?;
        let size = match (size.parse(), size) {
            (Ok(bytes), _) => Size::Bytes(bytes),
            (_, "size") => Size::Other,
            _ => {
                let (count, ty) = counted(size, parts)?;
                Size::Of(count, ty)
            }
        };
        let space = words.next().unwrap_or("");
        let part = match space {
            "" => parts.iter().position(|part| part.name == Some('S')),
            _ => None,
        };
        Some(Self::Address {
            used,
            size,
            part,
            space,
        })
    }
}
