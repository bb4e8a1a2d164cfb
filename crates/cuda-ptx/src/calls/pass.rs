//! Arguments and results of a call.

use crate::ast::{Instruction, Operand, Register, Space, Variable};
use crate::flow::{Refused, bits_of, size_of_variable};

use super::expand::{Call, Expander};
use super::frame::{Frame, Role};

/// The type of a `mov` between registers of `bits` bits.
fn type_of(bits: u32) -> String {
    match bits {
        1 => String::from("pred"),
        bits => format!("b{bits}"),
    }
}

impl<'a> Expander<'a> {
    /// Declares the parameters of a function, and gives them the values of the arguments.
    pub(super) fn pass(
        &mut self,
        frame: &mut Frame<'a>,
        inner: &mut Frame<'a>,
        instruction: &'a Instruction<'a>,
        call: &Call<'a, '_>,
    ) -> Result<(), Refused> {
        let line = instruction.line;
        let formals = &inner.function.params;
        if formals.len() != call.arguments.len() {
            return Refused::new(line, format!("call of {} with other arguments", call.name));
        }
        let plain = Instruction {
            predicate: None,
            ..instruction.clone()
        };
        for (formal, argument) in formals.iter().zip(call.arguments) {
            let passed = match argument {
                Operand::Name(name) => frame.parameter(name),
                _ => None,
            };
            match (passed, formal.space) {
                (Some((number, _)), Space::Param) => {
                    if size_of_variable(formal) != Some(self.parameters[number].size) {
                        return Refused::new(line, "an argument of another size");
                    }
                    inner.declare(formal.name, number, Role::Input);
                }
                (None, Space::Param) => {
                    let number = self.declare_parameter(formal)?;
                    let size = self.scalar(number, formal)?;
                    if self.parameters[number].is_read {
                        self.store(frame, &plain, (number, 0), size, argument)?;
                    }
                    inner.declare(formal.name, number, Role::Input);
                }
                (None, Space::Reg) => {
                    self.declare_formal(inner, formal)?;
                    let to = inner.name(formal.name).to_owned();
                    let bits = bits_of(formal.ty);
                    let ty = type_of(bits);
                    let is_register = match argument {
                        Operand::Name(name) => frame.bits(name) == bits,
                        Operand::Literal(_) => bits > 8,
                        _ => false,
                    };
                    if !is_register {
                        return Refused::new(line, "an argument of an unusual form");
                    }
                    let text = format!("mov.{ty} {to}, {};", frame.operand(argument));
                    self.write(text);
                }
                _ => return Refused::new(line, "an argument of an unusual form"),
            }
        }
        Ok(())
    }

    /// Declares a parameter or result in a register.
    fn declare_formal(
        &mut self,
        inner: &mut Frame<'a>,
        formal: &Variable<'a>,
    ) -> Result<(), Refused> {
        if formal.vector != 1 || !matches!(bits_of(formal.ty), 1 | 16 | 32 | 64) {
            return Refused::new(self.line, "an argument of an unusual type");
        }
        let register = Register {
            name: formal.name,
            ty: formal.ty,
            vector: 1,
            count: None,
        };
        inner.declare_register(&register);
        let text = format!(".reg .{} {};", formal.ty, inner.name(formal.name));
        self.write(text);
        Ok(())
    }

    /// Declares the results of a function. Returns the numbers of those in parameter space.
    pub(super) fn declare_results(
        &mut self,
        inner: &mut Frame<'a>,
        line: u32,
        call: &Call<'a, '_>,
    ) -> Result<Vec<Option<usize>>, Refused> {
        let formals = &inner.function.returns;
        if formals.len() != call.returns.len() {
            return Refused::new(line, format!("call of {} with other results", call.name));
        }
        let mut numbers = Vec::new();
        for formal in formals {
            if formal.space == Space::Reg {
                self.declare_formal(inner, formal)?;
                numbers.push(None);
                continue;
            }
            let number = self.declare_result(formal)?;
            inner.declare(formal.name, number, Role::Own);
            numbers.push(Some(number));
        }
        Ok(numbers)
    }

    /// Copies a result to the caller.
    pub(super) fn take(
        &mut self,
        frame: &mut Frame<'a>,
        inner: &Frame<'a>,
        instruction: &'a Instruction<'a>,
        result: &Operand<'a>,
        formal: &'a Variable<'a>,
        number: Option<usize>,
    ) -> Result<(), Refused> {
        let line = instruction.line;
        let name = match result {
            Operand::Sink => return Ok(()),
            Operand::Name(name) => *name,
            _ => return Refused::new(line, "a result of an unusual form"),
        };
        match (frame.parameter(name), number) {
            (Some((to, Role::Own)), Some(from)) => self.copy_parts(from, to),
            (None, Some(from)) => {
                self.scalar(from, formal)?;
                self.load(frame, instruction, (from, 0), formal.ty, result)
            }
            (None, None) => {
                let bits = bits_of(formal.ty);
                if frame.bits(name) != bits {
                    return Refused::new(line, "a result of an unusual type");
                }
                let ty = type_of(bits);
                let (to, from) = (frame.name(name), inner.name(formal.name));
                self.write(format!("mov.{ty} {to}, {from};"));
                Ok(())
            }
            _ => Refused::new(line, "a result of an unusual form"),
        }
    }
}
