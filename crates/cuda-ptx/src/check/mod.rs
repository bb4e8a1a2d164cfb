//! Checks a syntax tree as the assembler does: the texts that they refuse, `ptxas` refuses.
//!
//! The parser knows the grammar only. A text with a register that is not declared parses, and so
//! does one with two variables of one name, although no assembler accepts it. These checks need the
//! declarations. They do not know what an instruction computes: a text that passes can still be
//! refused, for example because an instruction does not exist or takes other operands.

mod headers;
mod operands;
mod scopes;
mod variables;

use std::collections::HashMap;

use super::ast::{Function, Linkage, Module, Space, Variable};
use super::error::Error;
use crate::canonical::is_special;

/// Checks that the names of a module are declared, each once in its scope, and that variables have
/// initial values of their own type and shape.
///
/// ```
/// let head = ".version 8.0 .target sm_80 .address_size 64 .entry k()";
/// let text = format!("{head} {{ mov.b32 %r1, 1; ret; }}");
/// let module = cuda_ptx::parse(&text)?;
/// let error = cuda_ptx::check(&module).unwrap_err();
/// assert_eq!(error.message, "Unknown symbol '%r1'");
/// # Ok::<(), cuda_ptx::Error>(())
/// ```
///
/// # Errors
///
/// Returns the first name or value that the assembler does not accept, with its line. The column is
/// 1, because the tree has no columns.
pub fn check(module: &Module<'_>) -> Result<(), Error> {
    let symbols = symbols(module)?;
    for variable in &module.variables {
        variables::variable(variable, &|name| symbols.get(name).copied())?;
        if variable.space == Space::Local {
            let message = "Module-scoped variables in .local state space are not allowed with ABI";
            return Err(error(variable.line, message));
        }
    }
    let mut files: Vec<u32> = module.files.iter().map(|(number, _)| *number).collect();
    files.sort_unstable();
    if let Some(pair) = files.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(error(1, format!("Duplicate file index #{}", pair[0])));
    }
    for alias in &module.aliases {
        if let Some(Symbol::Function(target)) = symbols.get(alias.target)
            && target.linkage == Linkage::Weak
        {
            let message = format!(
                "Function '{}' with .weak scope cannot be aliased",
                alias.target
            );
            return Err(error(alias.line, message));
        }
        for name in [alias.name, alias.target] {
            if !matches!(symbols.get(name), Some(Symbol::Function(_))) {
                return Err(error(alias.line, format!("Unknown symbol '{name}'")));
            }
        }
    }
    let variables = module.variables.iter().map(|it| (it.name, it.line));
    let functions = module.functions.iter().map(|it| (it.name, it.line));
    for (name, line) in variables.chain(functions) {
        // Which of them `ptxas` accepts depends on the type, and for a function it crashes.
        if is_special(name) {
            let message = format!("'{name}' is a special register, and cannot be declared here");
            return Err(error(line, message));
        }
    }
    for function in &module.functions {
        headers::header(function)?;
        scopes::body(function, &symbols)?;
    }
    Ok(())
}

/// What a name at module scope refers to.
#[derive(Clone, Copy, Debug)]
enum Symbol<'m> {
    Variable(&'m Variable<'m>),
    Function(&'m Function<'m>),
}

fn error(line: u32, message: impl Into<String>) -> Error {
    Error {
        line,
        column: 1,
        message: message.into(),
    }
}

/// The names at module scope. A variable may be declared again as `.extern`, and a function may be
/// declared before its definition.
fn symbols<'m>(module: &'m Module<'m>) -> Result<HashMap<&'m str, Symbol<'m>>, Error> {
    let mut symbols: HashMap<&str, Symbol<'m>> = HashMap::new();
    for variable in &module.variables {
        let before = symbols.insert(variable.name, Symbol::Variable(variable));
        if let Some(Symbol::Variable(before)) = before {
            let is_one_extern =
                before.linkage == Linkage::Extern || variable.linkage == Linkage::Extern;
            let is_same = (before.space, before.ty, before.vector, before.array)
                == (variable.space, variable.ty, variable.vector, variable.array);
            let message = match (is_one_extern, is_same) {
                (false, _) => format!("Duplicate definition of variable '{}'", variable.name),
                (true, false) => {
                    format!("Inconsistent redefinition of variable '{}'", variable.name)
                }
                (true, true) if variable.linkage == Linkage::Internal => format!(
                    "'.extern' variable '{}' cannot be resolved by a '.static'",
                    variable.name
                ),
                (true, true) => continue,
            };
            return Err(error(variable.line, message));
        }
    }
    for function in &module.functions {
        let (name, line) = (function.name, function.line);
        match symbols.get(name) {
            None => {}
            Some(Symbol::Variable(_)) => {
                let message = format!("Inconsistent redefinition of variable '{name}'");
                return Err(error(line, message));
            }
            Some(Symbol::Function(before)) => {
                headers::same(before, function)?;
                if before.body.is_some() {
                    return Err(error(
                        line,
                        format!("Duplicate definition of function '{name}'"),
                    ));
                }
            }
        }
        symbols.insert(name, Symbol::Function(function));
    }
    Ok(symbols)
}
