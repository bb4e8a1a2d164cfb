//! Symbol resolution: selects one definition of each name when several modules are linked.
//!
//! A `.visible` definition overrides `.common` ones, and these override `.weak` ones, as in other
//! linkers. Among `.common` definitions an initialized one wins, else the first; among `.weak` ones
//! the first wins.

use std::collections::HashMap;

use super::ast::{Linkage, Module};

/// A definition: the index of its module in the list, and its index among the variables or
/// functions of that module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// A variable.
    Variable(usize, usize),
    /// A function.
    Function(usize, usize),
}

impl Definition {
    /// The index of its module.
    pub fn module(self) -> usize {
        match self {
            Self::Variable(module, _) | Self::Function(module, _) => module,
        }
    }
}

/// The symbols that the modules of a list export to each other.
#[derive(Clone, Debug, Default)]
pub struct Exports<'a> {
    found: HashMap<&'a str, (u32, Definition)>,
    clashes: Vec<(&'a str, Definition, Definition)>,
}

impl<'a> Exports<'a> {
    /// Collects the exported symbols of `modules`.
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

    /// The definition that `name` refers to.
    pub fn get(&self, name: &str) -> Option<Definition> {
        self.found.get(name).map(|&(_, definition)| definition)
    }

    /// Names with two definitions that conflict. The first definition comes first.
    pub fn clashes(&self) -> &[(&'a str, Definition, Definition)] {
        &self.clashes
    }
}

/// The priority of a definition. 0 means that it is not exported.
fn rank(linkage: Linkage, initialized: bool) -> u32 {
    match (linkage, initialized) {
        (Linkage::Internal | Linkage::Extern, _) => 0,
        (Linkage::Weak, _) => 1,
        (Linkage::Common, false) => 2,
        (Linkage::Common, true) => 3,
        (Linkage::Visible, _) => 4,
    }
}

/// Whether two definitions of this rank conflict.
fn is_alone(rank: u32) -> bool {
    rank > 2
}

#[cfg(test)]
mod tests {
    use super::{Definition, Exports};
    use crate::parse;

    #[test]
    fn visible_definitions_clash_and_weak_ones_do_not() {
        let header = ".version 8.0\n.target sm_80\n.address_size 64\n";
        let visible = format!("{header}.visible .func f() {{ ret; }}\n.visible .global .u32 g;\n");
        let weak = format!("{header}.weak .func f() {{ ret; }}\n");
        let modules = [&weak, &visible, &visible].map(|text| parse(text).unwrap());
        let exports = Exports::new(&modules);
        let expected = [
            ("f", Definition::Function(1, 0), Definition::Function(2, 0)),
            ("g", Definition::Variable(1, 0), Definition::Variable(2, 0)),
        ];
        assert_eq!(exports.clashes().len(), expected.len());
        for clash in expected {
            assert!(
                exports.clashes().contains(&clash),
                "{:?}",
                exports.clashes()
            );
        }
        assert!(Exports::new(&modules[..2]).clashes().is_empty());
    }
}
