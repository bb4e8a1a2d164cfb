//! Finds what the operands of a kernel refer to, and gives them new names.

use std::collections::HashMap;

use crate::ast::{Base, Instruction, Literal, Operand, Space};
use crate::flow::{Name, Refused, Reg};

use super::kernel::Printer;
use super::special;

impl<'a> Printer<'a> {
    /// Finds what the names of an operand refer to.
    pub(super) fn operand(
        &mut self,
        operand: &Operand<'a>,
        renamed: &mut HashMap<&'a str, String>,
    ) -> Result<(), Refused> {
        match operand {
            Operand::Literal(_) | Operand::Sink | Operand::Address(Base::Absolute, _) => {}
            Operand::Name(name) => {
                let new = self.name(name)?;
                renamed.insert(name, new);
            }
            Operand::Address(Base::Name(name), _) => {
                if special::is_scalar(name) && self.names.find(name).is_none() {
                    return self.refuse(format!("{name} is not an address"));
                }
                let new = self.name(name)?;
                renamed.insert(name, new);
            }
            Operand::Not(name) => {
                let new = self.register(name)?;
                renamed.insert(name, new);
            }
            Operand::Member(name, member) => {
                let is_declared = self.names.find(name).is_some();
                if is_declared || !special::has_member(name, member) {
                    return self.refuse(format!("{name}.{member} is not a special register"));
                }
            }
            Operand::Offset(name, _) | Operand::Element(name, _) => match self.names.find(name) {
                Some(Name::Var(number)) => {
                    let new = self.use_variable(name, number)?;
                    renamed.insert(name, new);
                }
                _ => return self.refuse(format!("{operand} is not the address of a variable")),
            },
            Operand::Pair(pair) => {
                self.operand(&pair.0, renamed)?;
                self.operand(&pair.1, renamed)?;
            }
            Operand::Vector(list) | Operand::Bracket(list) => {
                for operand in list {
                    self.operand(operand, renamed)?;
                }
            }
            Operand::List(_) => return self.refuse(format!("the operand {operand}")),
        }
        Ok(())
    }

    /// The new name for the name of a register, a variable or a special register.
    pub(super) fn name(&mut self, name: &'a str) -> Result<String, Refused> {
        match self.names.find(name) {
            Some(Name::Reg(reg)) => self.new_register(name, reg),
            Some(Name::Var(number)) => self.use_variable(name, number),
            None if special::is_scalar(name) => Ok(name.to_owned()),
            None => self.refuse(format!("{name} is not declared")),
        }
    }

    pub(super) fn register(&mut self, name: &'a str) -> Result<String, Refused> {
        match self.names.find(name) {
            Some(Name::Reg(reg)) => self.new_register(name, reg),
            _ => self.refuse(format!("{name} is not a register")),
        }
    }

    pub(super) fn new_register(&mut self, name: &str, reg: Reg) -> Result<String, Refused> {
        if let Some(known) = self.registers.get(&reg.number) {
            return Ok(known.clone());
        }
        let ty = self.names.type_of(reg);
        if reg.bits == 0 {
            return self.refuse(format!("{name} is a vector, or has an unknown type"));
        }
        let count = self.counts.entry(ty).or_default();
        let new = format!("%{ty}_{count}");
        *count += 1;
        self.registers.insert(reg.number, new.clone());
        Ok(new)
    }

    pub(super) fn use_variable(&mut self, name: &str, number: u32) -> Result<String, Refused> {
        let Some(known) = self.known.get(number as usize) else {
            return self.refuse(format!("{name} is not declared"));
        };
        if let Some(module) = known.module {
            if let Some(reason) = self.variables.refusal(module) {
                return self.refuse(reason);
            }
            self.uses.insert(module);
        }
        Ok(known.name.clone())
    }

    /// Replaces the address of an element by an offset in bytes.
    pub(super) fn offset_of_element(
        &mut self,
        operand: &mut Operand<'a>,
        instruction: &Instruction<'_>,
    ) -> Result<(), Refused> {
        let Operand::Element(name, index) = *operand else {
            return Ok(());
        };
        // As an operand of an access, it is the element itself.
        if instruction.opcode != "mov" {
            let mnemonic = instruction.mnemonic();
            return self.refuse(format!("{name}[{index}] is an operand of {mnemonic}"));
        }
        let variable = match self.names.find(name) {
            Some(Name::Var(number)) => self.known.get(number as usize).map(|it| it.variable),
            _ => None,
        };
        let Some(offset) = variable.and_then(|variable| variable.element_offset(index)) else {
            return self.refuse(format!("{name}[{index}] has no known offset"));
        };
        *operand = match offset {
            0 => Operand::Name(name),
            offset => Operand::Offset(name, offset),
        };
        Ok(())
    }

    /// Adds the lane of the thread to the mask of an instruction of a warp, unless the mask has all
    /// lanes. A thread that is not in its own mask can be a fault: an H200 ends with
    /// `CUDA_ERROR_ILLEGAL_INSTRUCTION`.
    pub(super) fn add_own_lane(
        &mut self,
        instruction: &mut Instruction<'a>,
        renamed: &mut HashMap<&'a str, String>,
    ) {
        /// No register of a text has this name.
        const MASK: &str = "mask of the warp";
        let is_of_warp = match instruction.opcode {
            "shfl" | "vote" | "match" | "redux" | "elect" => true,
            "bar" | "barrier" => instruction.has("warp"),
            _ => false,
        };
        let Some(mask) = instruction.operands.last_mut().filter(|_| is_of_warp) else {
            return;
        };
        let given = match &*mask {
            Operand::Literal(Literal::Int(value)) if *value as u32 == u32::MAX => return,
            Operand::Name(name) => renamed.get(name).cloned().unwrap_or_default(),
            other => other.to_string(),
        };
        *mask = Operand::Name(MASK);
        let count = self.counts.entry("b32").or_default();
        let register = format!("%b32_{count}");
        *count += 1;
        let own = format!("mov.u32 {register}, %lanemask_eq;");
        self.out.line(own, self.line);
        let all = format!("or.b32 {register}, {register}, {given};");
        self.out.line(all, self.line);
        renamed.insert(MASK, register);
    }

    /// Refuses an access to a variable that does not name the state space of the variable.
    pub(super) fn expect_space(
        &mut self,
        name: &'a str,
        instruction: &Instruction<'_>,
    ) -> Result<(), Refused> {
        let Some(Name::Var(number)) = self.names.find(name) else {
            return Ok(());
        };
        let space = match self.known.get(number as usize).map(|it| it.variable.space) {
            Some(Space::Global) => "global",
            Some(Space::Const) => "const",
            Some(Space::Shared) => "shared",
            Some(Space::Local) => "local",
            Some(Space::Param) => "param",
            _ => return Ok(()),
        };
        let mut spaces = instruction.modifiers.iter();
        // `shared::cta` names the space `shared`. A copy names two spaces.
        if spaces.any(|given| given.split("::").next() == Some(space)) {
            return Ok(());
        }
        self.refuse(format!(
            "{} accesses {name}, but does not name its state space .{space}",
            instruction.mnemonic()
        ))
    }
}
