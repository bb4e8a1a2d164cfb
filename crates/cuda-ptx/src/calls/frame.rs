//! The names of one function where its body is inserted.

use std::collections::{HashMap, HashSet};

use crate::ast::{Base, Function, Instruction, Location, Operand, Predicate, Statement, names};
use crate::flow::{Name, Names, register_number};

/// The names that a function declares, in any scope.
#[derive(Debug, Default)]
pub(super) struct Declared<'a> {
    pub(super) exact: HashSet<&'a str>,
    /// The prefixes of numbered registers.
    pub(super) counted: HashSet<&'a str>,
}

impl<'a> Declared<'a> {
    pub(super) fn of(function: &Function<'a>) -> Self {
        let mut declared = Self::default();
        let variables = function.params.iter().chain(&function.returns);
        declared.exact.extend(variables.map(|it| it.name));
        for statement in function.body.iter().flatten() {
            match statement {
                Statement::Label(name, _)
                | Statement::BranchTargets(name, _)
                | Statement::CallTargets(name, _)
                | Statement::Prototype(name, _) => {
                    declared.exact.insert(name);
                }
                Statement::Variable(variable) => {
                    declared.exact.insert(variable.name);
                }
                Statement::Register(register) => {
                    match register.count {
                        Some(_) => declared.counted.insert(register.name),
                        None => declared.exact.insert(register.name),
                    };
                }
                _ => {}
            }
        }
        declared
    }

    /// Whether `name` is one of the names.
    fn has(&self, name: &str) -> bool {
        let is_counted = |(before, _): (&str, u32)| self.counted.contains(before);
        self.exact.contains(name) || register_number(name).is_some_and(is_counted)
    }

    /// All names, those of numbered registers without numbers.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.exact.iter().chain(&self.counted).copied()
    }
}

/// `name` with `prefix` before it, but after a `%` or `$` at its beginning.
fn prefixed(name: &str, prefix: &str) -> String {
    match name.strip_prefix(['%', '$']) {
        Some(rest) => format!("{}{prefix}{rest}", &name[..1]),
        None => format!("{prefix}{name}"),
    }
}

/// How a function may use a variable in parameter space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It declares the variable, or returns it.
    Own,
    /// The variable is an argument, which it may only read.
    Input,
}

/// One function at one place.
pub(super) struct Frame<'a> {
    pub(super) function: &'a Function<'a>,
    /// The beginning of names in the new text; `None` in the kernel, whose names stay.
    pub(super) prefix: Option<String>,
    renamed: HashMap<&'a str, String>,
    /// The registers that are visible.
    pub(super) registers: Names<'a>,
    /// The numbers of the variables in parameter space that are visible.
    scopes: Vec<HashMap<&'a str, (usize, Role)>>,
    /// The source position of the next instruction.
    pub(super) location: Option<Location>,
}

impl<'a> Frame<'a> {
    pub(super) fn new(function: &'a Function<'a>, prefix: Option<String>) -> Self {
        let mut renamed = HashMap::new();
        if let Some(prefix) = &prefix {
            let declared = Declared::of(function);
            let mut add = |name: &'a str| {
                if declared.has(name) || declared.counted.contains(name) {
                    renamed
                        .entry(name)
                        .or_insert_with(|| prefixed(name, prefix));
                }
            };
            let variables = function.params.iter().chain(&function.returns);
            variables.for_each(|it| add(it.name));
            for statement in function.body.iter().flatten() {
                match statement {
                    Statement::Label(name, _) => add(name),
                    Statement::BranchTargets(name, targets) => {
                        add(name);
                        targets.iter().for_each(|name| add(name));
                    }
                    Statement::Variable(variable) => add(variable.name),
                    Statement::Register(register) => add(register.name),
                    Statement::Instruction(instruction) => {
                        if let Some(predicate) = instruction.predicate {
                            add(predicate.name);
                        }
                        for operand in &instruction.operands {
                            names(operand, &mut add);
                        }
                    }
                    _ => {}
                }
            }
        }
        Self {
            function,
            prefix,
            renamed,
            registers: Names::new(),
            scopes: vec![HashMap::new()],
            location: None,
        }
    }

    pub(super) fn open(&mut self) {
        self.registers.open();
        self.scopes.push(HashMap::new());
    }

    pub(super) fn close(&mut self) {
        self.registers.close();
        if self.scopes.len() > 1 {
            self.scopes.pop();
        }
    }

    /// Makes a variable in parameter space visible.
    pub(super) fn declare(&mut self, name: &'a str, number: usize, role: Role) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, (number, role));
        }
    }

    /// The variable in parameter space with this name.
    pub(super) fn parameter(&self, name: &str) -> Option<(usize, Role)> {
        let mut scopes = self.scopes.iter().rev();
        scopes.find_map(|scope| scope.get(name).copied())
    }

    /// The width of a register, or 0.
    pub(super) fn bits(&mut self, name: &'a str) -> u32 {
        match self.registers.find(name) {
            Some(Name::Reg(reg)) => reg.bits,
            _ => 0,
        }
    }

    /// Follows a declaration of registers.
    pub(super) fn declare_register(&mut self, register: &crate::ast::Register<'a>) {
        self.registers.declare_register(register);
    }

    /// The name in the new text.
    pub(super) fn name<'s>(&'s self, name: &'s str) -> &'s str {
        self.renamed.get(name).map_or(name, String::as_str)
    }

    /// The operand with the names of the new text.
    pub(super) fn operand<'s>(&'s self, operand: &Operand<'s>) -> Operand<'s> {
        let list = |list: &[Operand<'s>]| list.iter().map(|it| self.operand(it)).collect();
        match operand {
            Operand::Name(name) => Operand::Name(self.name(name)),
            Operand::Member(name, member) => Operand::Member(self.name(name), member),
            Operand::Offset(name, by) => Operand::Offset(self.name(name), *by),
            Operand::Element(name, index) => Operand::Element(self.name(name), *index),
            Operand::Not(name) => Operand::Not(self.name(name)),
            Operand::Address(Base::Name(name), by) => {
                Operand::Address(Base::Name(self.name(name)), *by)
            }
            Operand::Literal(_) | Operand::Sink | Operand::Address(Base::Absolute, _) => {
                operand.clone()
            }
            Operand::Pair(pair) => {
                Operand::Pair(Box::new((self.operand(&pair.0), self.operand(&pair.1))))
            }
            Operand::Vector(operands) => Operand::Vector(list(operands)),
            Operand::Bracket(operands) => Operand::Bracket(list(operands)),
            Operand::List(operands) => Operand::List(list(operands)),
        }
    }

    /// The instruction with the names of the new text.
    pub(super) fn instruction<'s>(&'s self, instruction: &Instruction<'s>) -> Instruction<'s> {
        let operands = instruction.operands.iter();
        Instruction {
            predicate: self.predicate(instruction.predicate),
            operands: operands.map(|operand| self.operand(operand)).collect(),
            ..instruction.clone()
        }
    }

    pub(super) fn predicate<'s>(
        &'s self,
        predicate: Option<Predicate<'s>>,
    ) -> Option<Predicate<'s>> {
        predicate.map(|predicate| Predicate {
            name: self.name(predicate.name),
            ..predicate
        })
    }
}
