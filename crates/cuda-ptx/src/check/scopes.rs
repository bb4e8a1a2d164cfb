//! Checks that the names in a function body are declared, each once in its block.

use std::collections::{HashMap, HashSet};

use super::{Symbol, error, operands, variables};
use crate::ast::{Function, Instruction, Operand, Register, Statement, names};
use crate::canonical::is_special;
use crate::error::Error;
use crate::flow::register_number;

/// The names that one block declares.
#[derive(Debug, Default)]
struct Scope<'m> {
    /// Registers without a number, and variables, and whether each is an array.
    names: HashMap<&'m str, bool>,
    /// The prefixes of numbered registers, with their numbers.
    numbered: HashMap<&'m str, u32>,
    /// Labels and tables. They are visible in the whole block.
    labels: HashSet<&'m str>,
}

impl<'m> Scope<'m> {
    fn has(&self, name: &str) -> bool {
        let is_in = |(prefix, number): (&str, u32)| {
            self.numbered
                .get(prefix)
                .is_some_and(|count| number < *count)
        };
        self.names.contains_key(name) || register_number(name).is_some_and(is_in)
    }
}

struct Body<'m, 's> {
    scopes: Vec<Scope<'m>>,
    symbols: &'s HashMap<&'m str, Symbol<'m>>,
    /// The line of the last statement that has one.
    line: u32,
}

/// Checks the body of a function.
pub(super) fn body<'m>(
    function: &'m Function<'m>,
    symbols: &HashMap<&'m str, Symbol<'m>>,
) -> Result<(), Error> {
    let Some(statements) = &function.body else {
        return Ok(());
    };
    let mut body = Body {
        scopes: Vec::new(),
        symbols,
        line: function.line,
    };
    let mut blocks = labels(statements)?.into_iter();
    body.scopes.extend(blocks.next());
    for parameter in function.returns.iter().chain(&function.params) {
        body.declare(parameter.name, parameter.array)?;
    }
    body.duplicates()?;
    for statement in statements {
        match statement {
            Statement::Open => {
                body.scopes.extend(blocks.next());
                continue;
            }
            Statement::Close => {
                body.scopes.pop();
                continue;
            }
            _ => body.statement(statement)?,
        }
    }
    Ok(())
}

/// The labels of each block, in the order in which the blocks begin.
fn labels<'m>(statements: &'m [Statement<'m>]) -> Result<Vec<Scope<'m>>, Error> {
    let mut blocks = vec![Scope::default()];
    let mut open = vec![0];
    let mut line = 0;
    for statement in statements {
        match statement {
            Statement::Open => {
                open.push(blocks.len());
                blocks.push(Scope::default());
            }
            Statement::Close => {
                open.pop();
            }
            Statement::Instruction(instruction) => line = instruction.line,
            Statement::Label(name, _)
            | Statement::BranchTargets(name, _)
            | Statement::CallTargets(name, _)
            | Statement::Prototype(name, _) => {
                if let Statement::Label(_, own) = statement {
                    line = *own;
                }
                let block = open.last().and_then(|block| blocks.get_mut(*block));
                if block.is_some_and(|block| !block.labels.insert(name)) {
                    let message = format!("Duplicate definition of label '{name}'");
                    return Err(error(line, message));
                }
            }
            _ => {}
        }
    }
    Ok(blocks)
}

impl<'m> Body<'m, '_> {
    fn error<T>(&self, message: String) -> Result<T, Error> {
        Err(error(self.line, message))
    }

    fn duplicate<T>(&self, name: &str) -> Result<T, Error> {
        self.error(format!("Duplicate definition of variable '{name}'"))
    }

    /// Declares a register without a number, or a variable.
    fn declare(&mut self, name: &'m str, is_array: bool) -> Result<(), Error> {
        if self.scopes.last().is_some_and(|scope| scope.has(name)) {
            return self.duplicate(name);
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name, is_array);
        }
        self.duplicates()
    }

    /// Checks that no name of the innermost block is also a label there.
    fn duplicates(&self) -> Result<(), Error> {
        let Some(scope) = self.scopes.last() else {
            return Ok(());
        };
        match scope
            .labels
            .iter()
            .find(|name| scope.names.contains_key(*name))
        {
            Some(name) => self.error(format!("Duplicate definition of label '{name}'")),
            None => Ok(()),
        }
    }

    fn registers(&mut self, register: &'m Register<'m>) -> Result<(), Error> {
        let (name, ty) = (register.name, register.ty);
        let Some(size) = variables::size_of(ty) else {
            return self.error(format!("Parsing error near '.{ty}': syntax error"));
        };
        if matches!(ty, "texref" | "samplerref" | "surfref") {
            let message = "Texture/surface variable must be at module or entry parameter scope";
            return self.error(String::from(message));
        }
        if ty == "pred" && register.vector > 1 {
            let message = "Predicate type can only be used to define scalar register variables";
            return self.error(String::from(message));
        }
        if size * register.vector > 16 {
            return self.error(String::from("Vector type too large, exceeds 128 bit limit"));
        }
        let Some(count) = register.count else {
            return self.declare(name, false);
        };
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        if scope.numbered.insert(name, count).is_some() {
            return self.duplicate(&format!("{name}<"));
        }
        // A register with leading zeros that was declared before is not one of these.
        let is_in = |it: &&&'m str| {
            register_number(it).is_some_and(|(prefix, number)| {
                let is_plain = it.len() == prefix.len() + number.to_string().len();
                prefix == name && number < count && is_plain
            })
        };
        let before = scope.names.keys().find(is_in).copied();
        match before {
            Some(before) => self.duplicate(before),
            None => Ok(()),
        }
    }

    fn is_declared(&self, name: &str) -> bool {
        let is_here = |scope: &Scope<'m>| scope.has(name);
        self.scopes.iter().any(is_here) || self.symbols.contains_key(name) || is_special(name)
    }

    fn is_array(&self, name: &str) -> bool {
        for scope in self.scopes.iter().rev() {
            if scope.has(name) {
                return scope.names.get(name).copied().unwrap_or(false);
            }
        }
        matches!(self.symbols.get(name), Some(Symbol::Variable(variable)) if variable.array)
    }

    /// Checks that a name is declared. `has_labels` is whether it can be a label.
    fn expect(&self, name: &str, has_labels: bool) -> Result<(), Error> {
        let mut scopes = self.scopes.iter();
        let is_label = has_labels && scopes.any(|scope| scope.labels.contains(name));
        match is_label || self.is_declared(name) {
            true => Ok(()),
            false => self.error(format!("Unknown symbol '{name}'")),
        }
    }

    fn expect_label(&self, name: &str) -> Result<(), Error> {
        for scope in self.scopes.iter().rev() {
            if scope.has(name) {
                return self.error(format!("Label expected, and '{name}' is none"));
            }
            if scope.labels.contains(name) {
                return Ok(());
            }
        }
        self.error(format!("Unknown symbol '{name}'"))
    }

    fn statement(&mut self, statement: &'m Statement<'m>) -> Result<(), Error> {
        match statement {
            Statement::Instruction(instruction) => {
                self.line = instruction.line;
                self.instruction(instruction)
            }
            Statement::Register(register) => self.registers(register),
            Statement::Variable(variable) => {
                self.line = variable.line;
                self.declare(variable.name, variable.array)?;
                let find = |name: &str| match self.scopes.iter().any(|scope| scope.has(name)) {
                    true => Some(Symbol::Variable(variable)),
                    false => self.symbols.get(name).copied(),
                };
                variables::variable(variable, &find)
            }
            Statement::Label(_, line) => {
                self.line = *line;
                Ok(())
            }
            Statement::BranchTargets(_, targets) => {
                targets.iter().try_for_each(|name| self.expect_label(name))
            }
            Statement::CallTargets(_, targets) => {
                targets
                    .iter()
                    .try_for_each(|name| match self.symbols.get(name) {
                        Some(Symbol::Function(function)) if !function.entry => Ok(()),
                        _ => self.error(format!("Unknown symbol '{name}'")),
                    })
            }
            Statement::Loc { .. }
            | Statement::Pragma(_)
            | Statement::Prototype(..)
            | Statement::Open
            | Statement::Close => Ok(()),
        }
    }

    fn instruction(&self, instruction: &Instruction<'m>) -> Result<(), Error> {
        if let Some(predicate) = instruction.predicate {
            self.expect(predicate.name, false)?;
        }
        if let Some(message) = operands::instruction(instruction) {
            return self.error(message);
        }
        if instruction.opcode == "bra"
            && let [Operand::Name(label)] = instruction.operands[..]
        {
            return self.expect_label(label);
        }
        let has_labels = matches!(instruction.opcode, "brx" | "call");
        let mut result = Ok(());
        for operand in &instruction.operands {
            if let Operand::Element(name, _) = operand
                && !self.is_array(name)
            {
                return self.error(format!("Array indexing on non-array '{name}'"));
            }
            names(operand, &mut |name| {
                if result.is_ok() {
                    result = self.expect(name, has_labels);
                }
            });
        }
        result
    }
}
