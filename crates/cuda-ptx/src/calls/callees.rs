//! What the functions of a module are to all of its kernels that call them.

use std::collections::HashMap;

use crate::ast::{Function, Instruction, Module, Operand, Statement, Variable};
use crate::flow::register_number;
use crate::prefix;

use super::expand::MAX_DEPTH;
use super::frame::Declared;

/// The bytes of a statement that count as one statement where it is inserted. A longer one counts
/// as several, so that the limits are also limits of memory.
const STATEMENT_BYTES: usize = 64;

/// The parts of a call.
pub(super) struct Call<'a, 'i> {
    pub(super) returns: &'i [Operand<'a>],
    pub(super) name: &'a str,
    pub(super) arguments: &'i [Operand<'a>],
    /// Operands after the arguments.
    pub(super) more: &'i [Operand<'a>],
}

impl<'a, 'i> Call<'a, 'i> {
    pub(super) fn of(instruction: &'i Instruction<'a>) -> Option<Self> {
        let (returns, name, arguments, more) = match instruction.operands.as_slice() {
            [
                Operand::List(returns),
                Operand::Name(name),
                Operand::List(arguments),
                more @ ..,
            ] => (returns.as_slice(), name, arguments.as_slice(), more),
            [Operand::Name(name), Operand::List(arguments), more @ ..] => {
                (&[][..], name, arguments.as_slice(), more)
            }
            [Operand::List(returns), Operand::Name(name), more @ ..] => {
                (returns.as_slice(), name, &[][..], more)
            }
            [Operand::Name(name), more @ ..] => (&[][..], name, &[][..], more),
            _ => return None,
        };
        Some(Self {
            returns,
            name,
            arguments,
            more,
        })
    }
}

/// The number of statements that one counts as.
pub(super) fn cost(statement: &Statement<'_>) -> u64 {
    let bytes = match statement {
        Statement::Instruction(instruction) => {
            let span = instruction.span;
            span.end.saturating_sub(span.start)
        }
        Statement::BranchTargets(name, targets) => {
            name.len() + targets.iter().map(|name| name.len() + 1).sum::<usize>()
        }
        Statement::Label(name, _)
        | Statement::CallTargets(name, _)
        | Statement::Prototype(name, _)
        | Statement::Pragma(name) => name.len(),
        Statement::Register(register) => register.name.len(),
        Statement::Variable(variable) => variable.name.len(),
        Statement::Loc { .. } | Statement::Open | Statement::Close => 0,
    };
    1 + (bytes / STATEMENT_BYTES) as u64
}

/// The same for the parameters and results of a function.
pub(super) fn cost_of_signature(function: &Function<'_>) -> u64 {
    let all = function.params.iter().chain(&function.returns);
    let cost = |it: &Variable<'_>| 1 + (it.name.len() / STATEMENT_BYTES) as u64;
    1 + all.map(cost).sum::<u64>()
}

/// A function that kernels can call.
pub(super) struct Callee<'a> {
    pub(super) function: &'a Function<'a>,
    /// A name that both the function and the module declare.
    pub(super) conflict: Option<&'a str>,
    /// The number of statements that a call inserts. `None` if the function is recursive, or if its
    /// calls are nested too deep.
    size: Option<u64>,
}

/// The functions of a module.
pub(super) struct Callees<'a> {
    functions: HashMap<&'a str, Callee<'a>>,
    /// The beginning of all new names. No name of the text contains it.
    pub(super) prefix: String,
    names: ModuleNames<'a>,
}

/// The names that a module declares outside of functions.
struct ModuleNames<'a> {
    /// The names in their order.
    all: Vec<&'a str>,
    /// The first place of each name.
    exact: HashMap<&'a str, usize>,
    /// The first place of a name with this part before the digits at its end.
    numbered: HashMap<&'a str, usize>,
}

impl<'a> ModuleNames<'a> {
    fn new(module: &'a Module<'a>) -> Self {
        let variables = module.variables.iter().map(|it| it.name);
        let all: Vec<&str> = variables
            .chain(module.functions.iter().map(|it| it.name))
            .collect();
        let (mut exact, mut numbered) = (HashMap::new(), HashMap::new());
        for (place, &name) in all.iter().enumerate() {
            exact.entry(name).or_insert(place);
            if let Some((before, _)) = register_number(name) {
                numbered.entry(before).or_insert(place);
            }
        }
        Self {
            all,
            exact,
            numbered,
        }
    }

    /// The first name that a function declares, too.
    fn conflict(&self, declared: &Declared<'a>) -> Option<&'a str> {
        let exact = declared.exact.iter();
        let exact = exact.filter_map(|name| self.exact.get(name));
        let counted = declared.counted.iter();
        let counted = counted.filter_map(|name| self.numbered.get(name));
        let first = exact.chain(counted).min()?;
        self.all.get(*first).copied()
    }
}

impl<'a> Callees<'a> {
    pub(super) fn new(module: &'a Module<'a>) -> Self {
        let all: Vec<Declared<'a>> = module.functions.iter().map(Declared::of).collect();
        let names = ModuleNames::new(module);
        let declared = all.iter().flat_map(Declared::names);
        let prefix = prefix::unused("inl", declared.chain(names.all.iter().copied()));
        let mut functions: HashMap<&str, Callee<'_>> = HashMap::new();
        for (function, declared) in module.functions.iter().zip(&all) {
            if function.body.is_some() || !functions.contains_key(function.name) {
                let callee = Callee {
                    function,
                    conflict: names.conflict(declared),
                    size: None,
                };
                functions.insert(function.name, callee);
            }
        }
        let mut callees = Self {
            functions,
            prefix,
            names,
        };
        callees.find_sizes();
        callees
    }

    pub(super) fn get(&self, name: &str) -> Option<&Callee<'a>> {
        self.functions.get(name)
    }

    /// A name that both a kernel and its module declare.
    pub(super) fn conflict(&self, function: &Function<'a>) -> Option<&'a str> {
        self.names.conflict(&Declared::of(function))
    }

    /// The number of statements that the calls of a kernel insert, if it is known.
    pub(super) fn inserted(&self, body: &[Statement<'a>]) -> Option<u64> {
        let mut sum = 0u64;
        for name in called(body) {
            if let Some(callee) = self.functions.get(name) {
                sum = sum.saturating_add(callee.size?);
            }
        }
        Some(sum)
    }

    /// Finds the sizes of all functions: those of calls that are nested once, then twice, and so
    /// on. The sizes of functions without recursion do not change any more at the end.
    fn find_sizes(&mut self) {
        let names: Vec<&str> = self.functions.keys().copied().collect();
        let numbers: HashMap<&str, usize> =
            names.iter().enumerate().map(|(at, it)| (*it, at)).collect();
        let (mut own, mut calls) = (Vec::new(), Vec::new());
        for name in &names {
            let function = self.functions.get(name).map(|it| it.function);
            let body = function.and_then(|it| it.body.as_deref());
            let statements: u64 = body.unwrap_or_default().iter().map(cost).sum();
            let has_body = function.filter(|_| body.is_some());
            own.push(statements + has_body.map_or(0, cost_of_signature));
            let called = called(body.unwrap_or_default());
            let called: Vec<usize> = called.filter_map(|it| numbers.get(it).copied()).collect();
            calls.push(called);
        }
        let mut sizes = own.clone();
        let mut is_open = vec![true; sizes.len()];
        for _ in 0..=MAX_DEPTH {
            let sum = |(own, calls): (&u64, &Vec<usize>)| {
                let all = calls.iter().filter_map(|&it| sizes.get(it));
                all.fold(*own, |sum, size| sum.saturating_add(*size))
            };
            let next: Vec<u64> = own.iter().zip(&calls).map(sum).collect();
            // A sum that is too large for the type stays the same.
            is_open = next
                .iter()
                .zip(&sizes)
                .map(|(next, size)| next != size || *next == u64::MAX)
                .collect();
            sizes = next;
            if !is_open.contains(&true) {
                break;
            }
        }
        for ((name, size), is_open) in names.iter().zip(sizes).zip(is_open) {
            if let Some(callee) = self.functions.get_mut(name) {
                callee.size = Some(size).filter(|_| !is_open);
            }
        }
    }
}

/// The names of the functions that a body calls.
fn called<'b, 'a>(body: &'b [Statement<'a>]) -> impl Iterator<Item = &'a str> + use<'b, 'a> {
    body.iter().filter_map(|statement| match statement {
        Statement::Instruction(instruction) if instruction.opcode == "call" => {
            Call::of(instruction).map(|call| call.name)
        }
        _ => None,
    })
}
