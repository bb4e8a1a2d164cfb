//! Variables in parameter space. If each part of a variable is always accessed in one size, it
//! becomes registers. Otherwise the variable becomes one in local memory.

use std::collections::BTreeMap;

use crate::ast::{Base, Instruction, Literal, Operand, Space, Variable};
use crate::flow::{Refused, bits_of, size_of_variable};

use super::expand::Expander;
use super::frame::{Frame, Role};

/// A variable in parameter space.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameter {
    pub(super) size: u64,
    /// The sizes of the parts, by their offsets.
    pub(super) parts: BTreeMap<u64, u32>,
    /// Whether it needs memory, because its parts overlap.
    pub(super) is_memory: bool,
    /// Whether something reads it. Otherwise it is left out.
    pub(super) is_read: bool,
}

impl Parameter {
    /// Adds a part.
    fn add(&mut self, offset: u64, size: u32) {
        let end = offset + u64::from(size);
        let is_same = self.parts.get(&offset) == Some(&size);
        // No part is larger than a register of 128 bits.
        let mut parts = self.parts.range(offset.saturating_sub(15)..end);
        let overlaps = parts.any(|(&at, &bytes)| offset < at + u64::from(bytes));
        self.is_memory |= overlaps && !is_same || !matches!(size, 1 | 2 | 4 | 8);
        self.parts.insert(offset, size);
    }
}

/// The bits of the register for a part of `size` bytes.
fn register_bits(size: u32) -> u32 {
    (8 * size).max(16)
}

impl<'a> Expander<'_, 'a> {
    /// The register for a part.
    fn part(&self, number: usize, offset: u64) -> String {
        format!("%{}p{number}_{offset}", self.prefix)
    }

    fn memory(&self, number: usize) -> String {
        format!("{}m{number}", self.prefix)
    }

    /// Declares the variable of a result, and returns its number.
    pub(super) fn declare_result(&mut self, variable: &Variable<'a>) -> Result<usize, Refused> {
        let number = self.next_parameter;
        if self.parameters.len() <= number {
            self.parameters.resize(number + 1, Parameter::default());
        }
        self.parameters[number].is_read = true;
        self.declare_parameter(variable)
    }

    /// Declares a variable, and returns its number.
    pub(super) fn declare_parameter(&mut self, variable: &Variable<'a>) -> Result<usize, Refused> {
        let number = self.next_parameter;
        self.next_parameter += 1;
        let Some(size) = size_of_variable(variable) else {
            let reason = format!("parameter {} has no known size", variable.name);
            return Refused::new(self.line, reason);
        };
        if self.parameters.len() <= number {
            self.parameters.resize(number + 1, Parameter::default());
        }
        let parameter = &mut self.parameters[number];
        parameter.size = size;
        let parameter = parameter.clone();
        match (parameter.is_read, parameter.is_memory) {
            (false, _) => {}
            (true, true) => {
                let name = self.memory(number);
                self.write(format!(".local .align 16 .b8 {name}[{size}];"));
            }
            (true, false) => {
                for (&offset, &size) in &parameter.parts {
                    let (bits, name) = (register_bits(size), self.part(number, offset));
                    self.write(format!(".reg .b{bits} {name};"));
                }
            }
        }
        Ok(number)
    }

    /// `ld.param` and `st.param` of a variable that is not a parameter of the kernel. Returns
    /// whether it was one.
    pub(super) fn access(
        &mut self,
        frame: &mut Frame<'a>,
        instruction: &'a Instruction<'a>,
    ) -> Result<bool, Refused> {
        let line = instruction.line;
        let is_load = instruction.opcode == "ld";
        let (address, value) = match (is_load, instruction.operands.as_slice()) {
            (true, [value, address, ..]) | (false, [address, value, ..]) => (address, value),
            _ => return Ok(false),
        };
        let found = match address {
            Operand::Address(Base::Name(name), offset) => {
                frame.parameter(name).map(|found| (found, *offset))
            }
            _ => None,
        };
        let Some(((number, role), offset)) = found else {
            return match frame.prefix {
                Some(_) => Refused::new(line, "a parameter of a function at a computed address"),
                None => Ok(false),
            };
        };
        if role == Role::Input && !is_load {
            return Refused::new(line, "a function that stores to its parameter");
        }
        let ty = instruction.modifiers.last().copied().unwrap_or("");
        let size = bits_of(ty) / 8;
        let values = match value {
            Operand::Vector(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        let Ok(offset) = u64::try_from(offset) else {
            return Refused::new(line, "an access before a parameter of a function");
        };
        let bytes = u64::from(size) * values.len() as u64;
        let parameter = &mut self.parameters[number];
        let end = offset.checked_add(bytes);
        if size == 0 || end.is_none_or(|end| end > parameter.size) {
            return Refused::new(line, "an access beyond a parameter of a function");
        }
        let offsets = (0..).map(|index| offset + index * u64::from(size));
        for (offset, _) in offsets.clone().zip(values) {
            parameter.add(offset, size);
        }
        parameter.is_read |= is_load;
        let (is_memory, is_read) = (parameter.is_memory, parameter.is_read);
        if !is_read {
            return Ok(true);
        }
        if is_memory {
            let memory = self.memory(number);
            let mut new = frame.instruction(instruction);
            let is_param = |it: &&str| matches!(*it, "param" | "param::func");
            if let Some(space) = new.modifiers.iter_mut().find(|it| is_param(it)) {
                *space = "local";
            }
            let offset = offset as i64;
            new.operands[usize::from(is_load)] = Operand::Address(Base::Name(&memory), offset);
            let text = new.to_string();
            self.write(text);
            return Ok(true);
        }
        for (offset, value) in offsets.zip(values) {
            match is_load {
                true => self.load(frame, instruction, (number, offset), ty, value)?,
                false => self.store(frame, instruction, (number, offset), size, value)?,
            }
        }
        Ok(true)
    }

    fn predicate_of(frame: &Frame<'a>, instruction: &Instruction<'a>) -> String {
        match frame.predicate(instruction.predicate) {
            Some(predicate) => {
                let not = if predicate.negated { "!" } else { "" };
                format!("@{not}{} ", predicate.name)
            }
            None => String::new(),
        }
    }

    /// Copies a value to a part.
    pub(super) fn store(
        &mut self,
        frame: &mut Frame<'a>,
        instruction: &Instruction<'a>,
        (number, offset): (usize, u64),
        size: u32,
        value: &Operand<'a>,
    ) -> Result<(), Refused> {
        let (to, bits) = (self.part(number, offset), register_bits(size));
        let guard = Self::predicate_of(frame, instruction);
        let text = match value {
            Operand::Literal(Literal::Int(value)) => {
                let ones = if bits == 64 {
                    u64::MAX
                } else {
                    (1 << bits) - 1
                };
                format!("{guard}mov.b{bits} {to}, {};", value & ones)
            }
            Operand::Literal(literal) => format!("{guard}mov.b{bits} {to}, {literal};"),
            Operand::Name(name) => {
                let from = frame.bits(name);
                let name = frame.name(name);
                match from {
                    _ if from == bits => format!("{guard}mov.b{bits} {to}, {name};"),
                    16 | 32 | 64 if from > bits => {
                        format!("{guard}cvt.u{bits}.u{from} {to}, {name};")
                    }
                    _ => {
                        let reason =
                            format!("{name} has {from} bits, but the parameter takes {bits}");
                        return Refused::new(instruction.line, reason);
                    }
                }
            }
            _ => {
                let reason = "the value of a parameter is neither a register nor a constant";
                return Refused::new(instruction.line, reason);
            }
        };
        self.write(text);
        Ok(())
    }

    /// Copies a part to a register. `ty` is the type that is loaded.
    pub(super) fn load(
        &mut self,
        frame: &mut Frame<'a>,
        instruction: &Instruction<'a>,
        (number, offset): (usize, u64),
        ty: &str,
        target: &Operand<'a>,
    ) -> Result<(), Refused> {
        let from = self.part(number, offset);
        let guard = Self::predicate_of(frame, instruction);
        let name = match target {
            Operand::Sink => return Ok(()),
            Operand::Name(name) => *name,
            _ => {
                let reason = "a parameter or a result is not loaded to a register";
                return Refused::new(instruction.line, reason);
            }
        };
        let (bits, to) = (bits_of(ty), frame.bits(name));
        let sign = if ty.starts_with('s') { 's' } else { 'u' };
        let name = frame.name(name);
        let text = match to {
            16 | 32 | 64 if to == bits => format!("{guard}mov.b{bits} {name}, {from};"),
            16 | 32 | 64 if to > bits => {
                format!("{guard}cvt.{sign}{to}.{sign}{bits} {name}, {from};")
            }
            _ => {
                let reason =
                    format!("{name} has {to} bits, but the parameter or result has {bits}");
                return Refused::new(instruction.line, reason);
            }
        };
        self.write(text);
        Ok(())
    }

    /// Copies the parts of what a function returns to the variable of its caller.
    pub(super) fn copy_parts(&mut self, from: usize, to: usize) -> Result<(), Refused> {
        let (source, line) = (self.parameters[from].clone(), self.line);
        let target = &mut self.parameters[to];
        if source.size != target.size {
            let (returned, taken) = (source.size, target.size);
            let reason = format!(
                "the result has {returned} bytes, but the variable of the caller has {taken}"
            );
            return Refused::new(line, reason);
        }
        for (&offset, &size) in &source.parts {
            target.add(offset, size);
        }
        if !target.is_read {
            return Ok(());
        }
        if source.is_memory || target.is_memory {
            return Refused::new(line, "the parts of a result overlap");
        }
        self.insert(source.parts.len() as u64)?;
        for (&offset, &size) in &source.parts {
            let (bits, from, to) = (
                register_bits(size),
                self.part(from, offset),
                self.part(to, offset),
            );
            self.write(format!("mov.b{bits} {to}, {from};"));
        }
        Ok(())
    }

    /// Adds the only part of a variable that a register is passed in, and returns its size.
    pub(super) fn scalar(
        &mut self,
        number: usize,
        variable: &Variable<'a>,
    ) -> Result<u32, Refused> {
        let bits = bits_of(variable.ty);
        let is_scalar = variable.space == Space::Param && variable.count == Some(1);
        let parameter = &mut self.parameters[number];
        if is_scalar && variable.vector == 1 && matches!(bits, 8 | 16 | 32 | 64) {
            parameter.add(0, bits / 8);
            if !parameter.is_memory {
                return Ok(bits / 8);
            }
        }
        let reason = format!(
            "the parameter or result {} is passed in a register, so it must be a scalar of 8, 16, \
             32 or 64 bits, and each access must use all of it",
            variable.name
        );
        Refused::new(self.line, reason)
    }
}
