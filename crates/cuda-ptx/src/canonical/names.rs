//! What the names of a module are to all of its kernels, so that the time for a kernel does not
//! depend on the number of the others.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::ast::{Function, Module, Statement, Variable, names};

use super::variable::{Variables, is_plain};

pub(super) struct ModuleNames<'a> {
    module: &'a Module<'a>,
    pub(super) variables: &'a Variables,
    /// The names of variables and functions, which stay in the new text.
    taken: HashSet<&'a str>,
    /// The numbers of the variables with a name.
    numbers: HashMap<&'a str, Vec<usize>>,
    /// How often the module defines a function.
    definitions: HashMap<&'a str, usize>,
}

impl<'a> ModuleNames<'a> {
    pub(super) fn new(module: &'a Module<'a>, variables: &'a Variables) -> Self {
        let mut numbers: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, variable) in module.variables.iter().enumerate() {
            numbers.entry(variable.name).or_default().push(number);
        }
        let mut definitions = HashMap::new();
        for function in module.functions.iter().filter(|it| it.body.is_some()) {
            *definitions.entry(function.name).or_default() += 1;
        }
        let functions = module.functions.iter().map(|it| it.name);
        Self {
            module,
            variables,
            taken: functions.chain(numbers.keys().copied()).collect(),
            numbers,
            definitions,
        }
    }

    /// Whether the module defines a kernel more than once.
    pub(super) fn is_ambiguous(&self, kernel: &str) -> bool {
        self.definitions.get(kernel).is_some_and(|it| *it > 1)
    }

    /// The variables that the body of a kernel may refer to, with their numbers.
    pub(super) fn mentioned(&self, function: &Function<'_>) -> Vec<(usize, &'a Variable<'a>)> {
        let mut found = BTreeSet::new();
        let mut add = |name: &str| found.extend(self.numbers.get(name).into_iter().flatten());
        for statement in function.body.iter().flatten() {
            if let Statement::Instruction(instruction) = statement {
                if let Some(predicate) = instruction.predicate {
                    add(predicate.name);
                }
                for operand in &instruction.operands {
                    names(operand, &mut add);
                }
            }
        }
        let variable = |number: usize| Some((number, self.module.variables.get(number)?));
        found.into_iter().filter_map(variable).collect()
    }
}

/// Finds names that are not taken.
pub(super) struct Taken<'m> {
    module: &'m HashSet<&'m str>,
    /// The names that the kernel declares.
    own: HashSet<String>,
    /// The last number that was added to a name.
    last: HashMap<String, u64>,
    /// The last number of a label that was not its first one.
    last_label: usize,
}

impl<'m> Taken<'m> {
    pub(super) fn new(names: &'m ModuleNames<'_>) -> Self {
        Self {
            module: &names.taken,
            own: HashSet::new(),
            last: HashMap::new(),
            last_label: 0,
        }
    }

    fn insert(&mut self, name: &str) -> bool {
        !self.module.contains(name) && self.own.insert(name.to_owned())
    }

    /// The name of a variable or parameter of the kernel in the new text: its own name if that is
    /// plain and not taken.
    pub(super) fn variable(&mut self, name: &str) -> String {
        let base = if is_plain(name) { name } else { "variable" };
        if self.insert(base) {
            return base.to_owned();
        }
        // All smaller numbers are taken.
        let mut number = self.last.get(base).copied().unwrap_or_default();
        loop {
            number += 1;
            let name = format!("{base}_{number}");
            if self.insert(&name) {
                self.last.insert(base.to_owned(), number);
                return name;
            }
        }
    }

    /// The name of the label after `count` others.
    pub(super) fn label(&mut self, count: usize) -> String {
        // `$` begins no name that this module declares, but the program may use it.
        let name = format!("$L{count}");
        if self.insert(&name) {
            return name;
        }
        // All numbers between that of the label and the last one are taken.
        let mut number = count.max(self.last_label);
        loop {
            number += 1;
            let name = format!("$L{number}_");
            if self.insert(&name) {
                self.last_label = number;
                return name;
            }
        }
    }
}
