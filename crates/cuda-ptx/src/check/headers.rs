//! Checks the parameters and directives of functions.

use std::collections::HashSet;

use super::error;
use crate::ast::{Function, Linkage, Space, Variable};
use crate::error::Error;

/// Checks the parameters and directives of a function.
pub(super) fn header(function: &Function<'_>) -> Result<(), Error> {
    let line = function.line;
    let mut names = HashSet::new();
    for parameter in function.params.iter().chain(&function.returns) {
        parameter_of(function, parameter)?;
        if !names.insert(parameter.name) {
            let message = format!("Duplicate definition of variable '{}'", parameter.name);
            return Err(error(parameter.line, message));
        }
    }
    let is_many = function.returns.len() > 1;
    if is_many && function.returns.iter().any(|it| it.space != Space::Reg) {
        let message = "Multiple return parameters require .register state space";
        return Err(error(line, message));
    }
    if function.linkage == Linkage::Extern && function.body.is_some() {
        let name = function.name;
        let message = format!(
            "Function definition conflicts with '.extern' declaration for function '{name}'"
        );
        return Err(error(line, message));
    }
    let has = |name| function.directives.iter().any(|it| it.0 == name);
    if has("maxntid") && has("reqntid") {
        let message = "Conflicting directives: .maxntid and .reqntid cannot both be specified";
        return Err(error(line, message));
    }
    for (name, values) in &function.directives {
        if matches!(*name, "maxntid" | "reqntid") && values.contains(&0) {
            let message = format!("Positive non-zero value expected for {name}");
            return Err(error(line, message));
        }
    }
    if !function.entry && !function.pragmas.is_empty() {
        let message = "A function that is not a kernel cannot have a pragma before its body";
        return Err(error(line, message));
    }
    Ok(())
}

fn parameter_of(function: &Function<'_>, parameter: &Variable<'_>) -> Result<(), Error> {
    let (name, line) = (parameter.name, parameter.line);
    let message = if name == "_" {
        String::from("Illegal parameter name '_'")
    } else if function.entry && parameter.space != Space::Param {
        format!("Entry parameter '{name}' must have .param state space")
    } else if function.entry && parameter.array && parameter.count.is_none() {
        String::from("Parameter to entry function cannot be an incomplete array.")
    } else if parameter.ty == "pred" && parameter.space != Space::Reg {
        format!("Predicate variable '{name}' must be in register state space")
    } else if parameter.vector > 1 && parameter.space == Space::Param && function.entry {
        format!("Variable '{name}' cannot be allocated in .param state space")
    } else if parameter.array && parameter.space == Space::Reg {
        format!("Variable '{name}' cannot be allocated into a register")
    } else if parameter.pointer.is_some() && !function.entry {
        String::from("Illegal placement of kernel parameter attribute")
    } else if parameter.array && parameter.count == Some(0) {
        String::from("Array of incomplete type")
    } else {
        return super::variables::known_type(parameter);
    };
    Err(error(line, message))
}

/// Checks that two declarations of one function agree.
pub(super) fn same(first: &Function<'_>, second: &Function<'_>) -> Result<(), Error> {
    let (name, line) = (second.name, second.line);
    if first.entry != second.entry {
        let message = format!("Inconsistent redefinition of '{name}' as entry and function");
        return Err(error(line, message));
    }
    for (first, second) in [
        (&first.params, &second.params),
        (&first.returns, &second.returns),
    ] {
        if first.len() != second.len() {
            let message =
                format!("Inconsistent prototypes of '{name}', number of parameters differ");
            return Err(error(line, message));
        }
        let shape = |it: &Variable<'_>| (it.ty.to_owned(), it.vector, it.array, it.count);
        if first.iter().map(shape).ne(second.iter().map(shape)) {
            let message = format!("Inconsistent prototypes of '{name}', parameter types differ");
            return Err(error(line, message));
        }
    }
    let is_definition = second.body.is_some();
    let is_mixed = (first.linkage == Linkage::Extern) != (second.linkage == Linkage::Extern)
        || (first.linkage == Linkage::Weak) != (second.linkage == Linkage::Weak);
    if is_definition && is_mixed {
        let message = format!("Inconsistent redefinition of variable '{name}'");
        return Err(error(line, message));
    }
    Ok(())
}
