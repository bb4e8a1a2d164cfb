//! Compares the operands of an instruction with those of a form.

use crate::ast::{Base, Literal, Operand, Space};

use super::super::names::{Name, Names};
use super::super::op::Var;
use super::check::{Choices, Need, Needs};
use super::form::{Count, Form, Kind, TypeName};
use super::special;
use super::types::{Class, Declared, Type};

/// The comparison of operands with one form.
pub(super) struct Checker<'a, 'c> {
    pub(super) form: &'c Form,
    pub(super) choices: Choices,
    pub(super) names: &'c mut Names<'a>,
    pub(super) vars: &'c [Var],
    pub(super) needs: Needs,
}

impl<'a> Checker<'a, '_> {
    /// The position of the first operand that does not fit, and the reason.
    pub(super) fn operands(&mut self, operands: &[Operand<'a>]) -> Result<(), (usize, String)> {
        let form = self.form;
        let Some(slots) = form.slots(&self.choices, operands.len()) else {
            let count = operands.len();
            return Err((0, format!("{count} operands are not a permitted number")));
        };
        for (index, (slot, operand)) in slots.iter().zip(operands).enumerate() {
            let result = self.operand(slot.kind, operand, index);
            result.map_err(|reason| {
                let number = index + 1;
                let text = format!("operand {number} must be `{}`: {reason}", slot.text);
                (number, text)
            })?;
        }
        Ok(())
    }

    fn type_of(&self, name: TypeName) -> Result<Type, String> {
        let ty = self.form.type_of(&self.choices, name);
        ty.ok_or_else(|| String::from("its type is not known"))
    }

    /// The space that a conversion of an address names.
    fn own_space(&self) -> Option<Space> {
        let part = self
            .form
            .parts
            .iter()
            .position(|part| part.name == Some('S'))?;
        match self.form.chosen(&self.choices, part) {
            "shared::cluster" => Some(Space::Shared),
            name => space_of(name),
        }
    }

    fn operand(&mut self, kind: Kind, operand: &Operand<'a>, index: usize) -> Result<(), String> {
        match kind {
            Kind::Result {
                count,
                ty,
                is_wide,
                can_discard,
            } => {
                let ty = self.type_of(ty)?;
                self.elements(
                    operand,
                    count,
                    |checker, element, is_vector| match element {
                        Operand::Sink if can_discard || is_vector => Ok(()),
                        _ => checker.register(element, ty, is_wide),
                    },
                )
            }
            Kind::Results {
                count,
                first,
                second,
                is_second_needed,
                can_discard,
            } => {
                let (first, second) = (self.type_of(first)?, self.type_of(second)?);
                let (operand, other) = match operand {
                    Operand::Pair(pair) => (&pair.0, Some(&pair.1)),
                    _ if is_second_needed => {
                        return Err(String::from("a second result is missing"));
                    }
                    _ => (operand, None),
                };
                let can_discard = can_discard && other.is_some();
                if let Some(other) = other.filter(|it| **it != Operand::Sink || !can_discard) {
                    self.register(other, second, false)?;
                }
                self.elements(
                    operand,
                    count,
                    |checker, element, is_vector| match element {
                        Operand::Sink if can_discard || is_vector => Ok(()),
                        _ => checker.register(element, first, false),
                    },
                )
            }
            Kind::Source {
                count,
                ty,
                is_wide,
                is_register,
                is_special,
                is_address,
            } => {
                let ty = self.type_of(ty)?;
                self.elements(operand, count, |checker, element, is_vector| {
                    if checker.is_declared(element) {
                        let variable = match element {
                            Operand::Name(name)
                            | Operand::Offset(name, _)
                            | Operand::Element(name, _) => match checker.names.find(name) {
                                Some(Name::Var(number)) => checker.vars.get(number as usize),
                                _ => None,
                            },
                            _ => None,
                        };
                        let Some(variable) = variable else {
                            return checker.register(element, ty, is_wide);
                        };
                        let is_space = checker.own_space().is_none_or(|it| it == variable.space);
                        return match is_address && is_space && !is_vector && ty.bits >= 32 {
                            true => Ok(()),
                            false => Err(String::from("the address of a variable")),
                        };
                    }
                    match element {
                        _ if is_register => checker.register(element, ty, is_wide),
                        Operand::Not(name) if ty.is_predicate() => {
                            checker.register(&Operand::Name(name), ty, false)
                        }
                        Operand::Literal(literal) if ty.permits_number(*literal) => Ok(()),
                        Operand::Literal(_) => Err(String::from("a number of another type")),
                        Operand::Name("WARP_SZ") if ty.is_integer() || ty.is_bits() => Ok(()),
                        _ if is_special => special_register(element, ty),
                        _ => checker.register(element, ty, is_wide),
                    }
                })
            }
            Kind::Limited(ty, most) => match operand {
                Operand::Literal(Literal::Int(number)) => {
                    match i64::try_from(*number).is_ok_and(|number| number <= most) {
                        true => Ok(()),
                        false => Err(format!("the number is not from 0 to {most}")),
                    }
                }
                _ => {
                    let ty = self.type_of(ty)?;
                    self.register(operand, ty, false)
                }
            },
            Kind::Number(low, high) => match operand {
                Operand::Literal(Literal::Int(number)) => {
                    let number = *number as i64;
                    match (low..=high).contains(&number) {
                        true => Ok(()),
                        false => Err(format!("{number} is not from {low} to {high}")),
                    }
                }
                _ => Err(String::from("not a number")),
            },
            Kind::OneOf(list) => match operand {
                Operand::Literal(Literal::Int(number)) => {
                    match list.split('|').any(|it| it.parse() == Ok(*number)) {
                        true => Ok(()),
                        false => Err(format!("{number}")),
                    }
                }
                _ => Err(String::from("not a number")),
            },
            Kind::Address { part, space, .. } => {
                let space = match part {
                    Some(part) => self.form.chosen(&self.choices, part),
                    None => space,
                };
                self.address(operand, space)
            }
            Kind::Handle { count, ty } => self.handle(operand, count, ty),
            Kind::Policy => {
                let ty = Type::parse("b64").ok_or_else(String::new)?;
                self.needs.push((Need::Policy, index));
                self.register(operand, ty, false)
            }
            Kind::Barrier | Kind::Threads => {
                let need = match kind {
                    Kind::Barrier => Need::Barrier,
                    _ => Need::Threads,
                };
                self.needs.push((need, index));
                match operand {
                    Operand::Literal(Literal::Int(_)) => Ok(()),
                    _ => {
                        let ty = Type::parse("u32").ok_or_else(String::new)?;
                        self.register(operand, ty, false)
                    }
                }
            }
            Kind::Fraction => {
                let value = match operand {
                    Operand::Literal(Literal::F32(bits)) => f64::from(f32::from_bits(*bits)),
                    Operand::Literal(Literal::F64(bits)) => f64::from_bits(*bits),
                    _ => return Err(String::from("not a constant")),
                };
                match value > 0.0 && value <= 1.0 {
                    true => Ok(()),
                    false => Err(format!("{value} is not above 0 and at most 1")),
                }
            }
            // The graph resolves them.
            Kind::Label | Kind::Table => match operand {
                Operand::Name(_) => Ok(()),
                _ => Err(String::from("not a name")),
            },
        }
    }

    /// Whether the operand is a name that the text declares.
    fn is_declared(&mut self, operand: &Operand<'a>) -> bool {
        match operand {
            Operand::Name(name)
            | Operand::Member(name, _)
            | Operand::Offset(name, _)
            | Operand::Element(name, _) => self.names.find(name).is_some(),
            _ => false,
        }
    }

    /// Calls `check` for each element of a vector with `count` elements, or for the operand.
    fn elements(
        &mut self,
        operand: &Operand<'a>,
        count: Count,
        check: impl Fn(&mut Self, &Operand<'a>, bool) -> Result<(), String>,
    ) -> Result<(), String> {
        let is_part = matches!(count, Count::Part(_));
        let Some(count) = self.form.count(&self.choices, count) else {
            return match operand {
                // One element may be in braces where more can be.
                Operand::Vector(list) if is_part && list.len() == 1 => list
                    .iter()
                    .try_for_each(|element| check(self, element, true)),
                _ => check(self, operand, false),
            };
        };
        match operand {
            Operand::Vector(list) if list.len() == count as usize => {
                for element in list {
                    check(self, element, true)?;
                }
                Ok(())
            }
            Operand::Vector(list) => Err(format!("{} elements in place of {count}", list.len())),
            Operand::Name(name) => match self.names.find(name) {
                Some(Name::Reg(reg)) if self.names.declaration(reg).1 == count && count > 1 => {
                    check(self, &Operand::Member(name, "x"), true)
                }
                Some(_) => Err(format!("{name} is not a vector of {count} elements")),
                None => special_vector(name, count),
            },
            _ => Err(format!("not a vector of {count} elements")),
        }
    }

    /// A register, or a member of a vector register.
    fn register(&mut self, operand: &Operand<'a>, ty: Type, is_wide: bool) -> Result<(), String> {
        let (name, member) = match operand {
            Operand::Name(name) => (name, None),
            Operand::Member(name, member) => (name, Some(*member)),
            Operand::Offset(name, offset) => {
                return Err(format!("{name}+{offset} is not the address of a variable"));
            }
            _ => return Err(String::from("not a register")),
        };
        let (ty_of, elements) = match self.names.find(name) {
            Some(Name::Reg(reg)) => self.names.declaration(reg),
            Some(Name::Var(_)) => return Err(format!("{name} is a variable")),
            None => return Err(format!("{name} is not declared")),
        };
        let index = match member {
            None => None,
            Some("x" | "r") => Some(0),
            Some("y" | "g") => Some(1),
            Some("z" | "b") => Some(2),
            Some("w" | "a") => Some(3),
            Some(member) => return Err(format!("{name} has no member {member}")),
        };
        let is_element = match index {
            None => elements == 1,
            Some(index) => elements > index && elements > 1,
        };
        match is_element && ty.permits(Declared::new(ty_of), is_wide) {
            true => Ok(()),
            false => Err(format!("{name} is declared with another type")),
        }
    }

    /// An address in `space`, or a generic one.
    fn address(&mut self, operand: &Operand<'a>, space: &str) -> Result<(), String> {
        let space = space_of(space);
        let Operand::Address(base, _) = operand else {
            return Err(String::from("not an address"));
        };
        let Base::Name(name) = base else {
            return match space {
                Some(Space::Local) => Ok(()),
                _ => Err(String::from("a number as an address")),
            };
        };
        match self.names.find(name) {
            Some(Name::Reg(reg)) => {
                let is_window = space.is_some_and(super::super::is_window);
                let is_width = reg.bits == 64 || (reg.bits == 32 && is_window);
                let class = Declared::new(self.names.type_of(reg)).class;
                let is_class = matches!(class, Class::Bits | Class::Integer);
                match is_width && is_class {
                    true => Ok(()),
                    false => Err(format!("{name} cannot hold an address")),
                }
            }
            Some(Name::Var(number)) => {
                let of_variable = self.vars.get(number as usize).map(|var| var.space);
                let is_same = match space {
                    Some(_) => of_variable == space,
                    None => of_variable.is_some_and(|space| space != Space::Param),
                };
                match is_same {
                    true => Ok(()),
                    false => Err(format!("{name} is in another space")),
                }
            }
            None if special::is_special(name) => Err(format!("{name} is not an address")),
            None => Err(format!("{name} is not declared")),
        }
    }

    /// `[handle]` or `[handle, coordinates]`
    fn handle(
        &mut self,
        operand: &Operand<'a>,
        count: Count,
        ty: Option<TypeName>,
    ) -> Result<(), String> {
        let of_handle = Type::parse("b64").ok_or_else(String::new)?;
        let Some(ty) = ty else {
            return match operand {
                Operand::Address(Base::Name(name), 0) => {
                    self.register(&Operand::Name(name), of_handle, false)
                }
                _ => Err(String::from("not a handle")),
            };
        };
        let Operand::Bracket(list) = operand else {
            return Err(String::from("not a handle with coordinates"));
        };
        let [handle, coordinates] = list.as_slice() else {
            return Err(String::from("a separate sampler"));
        };
        self.register(handle, of_handle, false)?;
        let ty = self.type_of(ty)?;
        // One coordinate may be written without braces.
        let is_single = count == Count::Fixed(1) && !matches!(coordinates, Operand::Vector(_));
        let count = if is_single { Count::One } else { count };
        self.elements(coordinates, count, |checker, element, _| match element {
            Operand::Literal(literal) if ty.permits_number(*literal) => Ok(()),
            _ => checker.register(element, ty, false),
        })
    }
}

/// The space that a modifier names.
fn space_of(modifier: &str) -> Option<Space> {
    Some(match modifier {
        "global" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "local" => Space::Local,
        "const" => Space::Const,
        "param" | "param::entry" => Space::Param,
        _ => return None,
    })
}

/// A special register as a source of `mov` or `cvt`.
fn special_register(operand: &Operand<'_>, ty: Type) -> Result<(), String> {
    let (name, member) = match operand {
        Operand::Name(name) => (name, None),
        Operand::Member(name, member) => (name, Some(*member)),
        _ => return Err(String::from("not a register")),
    };
    let bits = special::bits(name, member);
    // The low half of an identifier with 32 bits.
    let is_half = bits == Some(32) && ty.bits == 16;
    match bits {
        Some(bits) if (bits == ty.bits || is_half) && !ty.is_float() => Ok(()),
        Some(bits) => Err(format!("{name} has {bits} bits")),
        None => Err(match member {
            Some(member) => format!(
                "{name} is not declared, and not a special register with the member {member}"
            ),
            None => format!("{name} is not declared, and not a special register"),
        }),
    }
}

/// `%tid` as a vector.
fn special_vector(name: &str, count: u32) -> Result<(), String> {
    match special::bits(name, Some("x")) {
        Some(32) if count == 4 => Ok(()),
        _ => Err(format!("{name} is not declared")),
    }
}
