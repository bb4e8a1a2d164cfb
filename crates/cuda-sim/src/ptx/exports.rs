//! Names that several modules may define: which definition counts when they are linked.
//!
//! One that is `.visible` counts before those that are `.common`, and these before those that are `.weak`, as with
//! linkers elsewhere. Of common ones that which is initialised counts, else the first; of weak ones the first.

use std::collections::HashMap;

use super::ast::{Linkage, Module};

/// A definition in a list of modules: the number of the module, and that of the variable or function in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// A variable.
    Variable(usize, usize),
    /// A function.
    Function(usize, usize),
}

impl Definition {
    /// The number of its module.
    pub fn module(self) -> usize {
        match self {
            Self::Variable(module, _) | Self::Function(module, _) => module,
        }
    }
}

/// What the modules of a list define for each other.
#[derive(Clone, Debug, Default)]
pub struct Exports<'a> {
    found: HashMap<&'a str, (u32, Definition)>,
    clashes: Vec<(&'a str, Definition, Definition)>,
}

impl<'a> Exports<'a> {
    /// Looks through modules.
    pub fn new(modules: impl IntoIterator<Item = &'a Module<'a>>) -> Self {
        let mut exports = Self::default();
        for (number, module) in modules.into_iter().enumerate() {
            for (index, function) in module.functions.iter().enumerate() {
                if function.body.is_some() {
                    let definition = Definition::Function(number, index);
                    exports.add(function.name, rank(function.linkage, false), definition);
                }
            }
            for (index, variable) in module.variables.iter().enumerate() {
                let rank = rank(variable.linkage, !variable.init.is_empty());
                let definition = Definition::Variable(number, index);
                exports.add(variable.name, rank, definition);
            }
        }
        exports
    }

    fn add(&mut self, name: &'a str, rank: u32, definition: Definition) {
        if rank == 0 {
            return;
        }
        let first = *self.found.entry(name).or_insert((rank, definition));
        if first.1 == definition {
            return;
        }
        if first.0 < rank {
            self.found.insert(name, (rank, definition));
        } else if first.0 == rank && is_alone(rank) {
            self.clashes.push((name, first.1, definition));
        }
    }

    /// The definition of a name that counts.
    pub fn get(&self, name: &str) -> Option<Definition> {
        self.found.get(name).map(|&(_, definition)| definition)
    }

    /// Names with two definitions of which neither gives way, the first of them first.
    pub fn clashes(&self) -> &[(&'a str, Definition, Definition)] {
        &self.clashes
    }
}

/// Which definition goes before which; 0 is for none.
fn rank(linkage: Linkage, initialised: bool) -> u32 {
    match (linkage, initialised) {
        (Linkage::Internal | Linkage::Extern, _) => 0,
        (Linkage::Weak, _) => 1,
        (Linkage::Common, false) => 2,
        (Linkage::Common, true) => 3,
        (Linkage::Visible, _) => 4,
    }
}

/// Whether there may be only one definition of a rank.
fn is_alone(rank: u32) -> bool {
    rank > 2
}
