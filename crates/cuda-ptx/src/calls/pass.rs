//! Arguments and results of a call.

use crate::ast::{Instruction, Operand, Register, Space, Variable};
use crate::flow::{Refused, bits_of, size_of_variable};

use super::callees::Call;
use super::expand::Expander;
use super::frame::{Frame, Role};

/// The type of a `mov` between registers of `bits` bits.
fn type_of(bits: u32) -> String {
    match bits {
        1 => String::from("pred"),
        bits => format!("b{bits}"),
    }
}

impl<'a> Expander<'_, 'a> {
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
            let (passed, expected) = (call.arguments.len(), formals.len());
            let reason = format!(
                "the number of arguments in the call of {} is {passed}, but that of its \
                 parameters is {expected}",
                call.name
            );
            return Refused::new(line, reason);
        }
        let plain = Instruction {
            predicate: None,
            ..instruction.clone()
        };
        for (index, (formal, argument)) in formals.iter().zip(call.arguments).enumerate() {
            let what = format!("argument {} of the call of {}", index + 1, call.name);
            let passed = match argument {
                Operand::Name(name) => frame.parameter(name),
                _ => None,
            };
            match (passed, formal.space) {
                (Some((number, _)), Space::Param) => {
                    let (bytes, expected) =
                        (self.parameters[number].size, size_of_variable(formal));
                    if expected != Some(bytes) {
                        let expected = expected.map_or(String::from("no known size"), |expected| {
                            format!("{expected} bytes")
                        });
                        let reason =
                            format!("{what} has {bytes} bytes, but its parameter has {expected}");
                        return Refused::new(line, reason);
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
                        let reason =
                            format!("{what} is neither a register of {bits} bits nor a constant");
                        return Refused::new(line, reason);
                    }
                    let text = format!("mov.{ty} {to}, {};", frame.operand(argument));
                    self.write(text);
                }
                _ => {
                    let reason = format!("{what} and its parameter are in different state spaces");
                    return Refused::new(line, reason);
                }
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
            let reason = format!(
                "the parameter or result {} of {} is neither a predicate nor a scalar of 16, 32 or \
                 64 bits",
                formal.name, inner.function.name
            );
            return Refused::new(self.line, reason);
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
            let (taken, returned) = (call.returns.len(), formals.len());
            let reason = format!(
                "the number of results in the call of {} is {taken}, but the function returns \
                 {returned}",
                call.name
            );
            return Refused::new(line, reason);
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
        let (line, function) = (instruction.line, inner.function.name);
        let name = match result {
            Operand::Sink => return Ok(()),
            Operand::Name(name) => *name,
            _ => {
                let reason = format!("a result of {function} is not assigned to a name");
                return Refused::new(line, reason);
            }
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
                    let found = frame.bits(name);
                    let reason = format!(
                        "the result {} of {function} has {bits} bits, but {name} has {found}",
                        formal.name
                    );
                    return Refused::new(line, reason);
                }
                let ty = type_of(bits);
                let (to, from) = (frame.name(name), inner.name(formal.name));
                self.write(format!("mov.{ty} {to}, {from};"));
                Ok(())
            }
            _ => {
                let reason = format!(
                    "the result {} of {function} and {name} are in different state spaces",
                    formal.name
                );
                Refused::new(line, reason)
            }
        }
    }
}
