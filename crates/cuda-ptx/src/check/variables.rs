//! Checks the types, sizes and initial values of variables.

use super::{Symbol, error};
use crate::ast::{Init, Linkage, Literal, Space, Variable};
use crate::error::Error;

/// The types of a variable in memory or of a register, with their sizes in bytes.
pub(crate) fn size_of(ty: &str) -> Option<u32> {
    Some(match ty {
        "pred" | "b8" | "u8" | "s8" => 1,
        "b16" | "u16" | "s16" | "f16" | "bf16" => 2,
        "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" => 4,
        "b64" | "u64" | "s64" | "f64" => 8,
        "b128" => 16,
        "texref" | "samplerref" | "surfref" => 8,
        _ => return None,
    })
}

/// Checks that a type exists, and that a vector of it has at most 128 bits.
pub(super) fn known_type(variable: &Variable<'_>) -> Result<(), Error> {
    let Some(size) = size_of(variable.ty) else {
        let message = format!("Parsing error near '.{}': syntax error", variable.ty);
        return Err(error(variable.line, message));
    };
    if size * variable.vector > 16 {
        let message = "Vector type too large, exceeds 128 bit limit";
        return Err(error(variable.line, message));
    }
    Ok(())
}

/// Checks the declaration of a variable that is not a parameter. `find` gives the symbols that its
/// initial value may name.
pub(super) fn variable<'m>(
    variable: &Variable<'m>,
    find: &dyn Fn(&str) -> Option<Symbol<'m>>,
) -> Result<(), Error> {
    known_type(variable)?;
    let (name, line) = (variable.name, variable.line);
    let is_extern = variable.linkage == Linkage::Extern;
    if variable.ty == "pred" {
        let message = format!("Predicate variable '{name}' must be in register state space");
        return Err(error(line, message));
    }
    if variable.array && variable.count.unwrap_or(0) == 0 && !is_extern {
        let message = format!("Non-external variable '{name}' has incomplete type");
        return Err(error(line, message));
    }
    if variable.linkage == Linkage::Common && variable.space != Space::Global {
        let message = ".common variables must be declared in .global space";
        return Err(error(line, message));
    }
    if variable.is_managed() && variable.space != Space::Global {
        let message = format!("Illegal attribute '.managed' for symbol '{name}'");
        return Err(error(line, message));
    }
    if variable.init.is_empty() {
        return Ok(());
    }
    if is_extern {
        let message = format!("No initial value is allowed for external symbol '{name}'");
        return Err(error(line, message));
    }
    if !matches!(variable.space, Space::Global | Space::Const) {
        let message = format!("No initial value is allowed for '{name}' in this state space");
        return Err(error(line, message));
    }
    if matches!(variable.ty, "f16" | "bf16") {
        let message = format!("No initial value is allowed for .{} type", variable.ty);
        return Err(error(line, message));
    }
    for init in &variable.init {
        value(variable, *init, find)?;
    }
    Ok(())
}

/// Checks that a value has the type of its variable.
fn value<'m>(
    variable: &Variable<'m>,
    init: Init<'_>,
    find: &dyn Fn(&str) -> Option<Symbol<'m>>,
) -> Result<(), Error> {
    let ty = variable.ty;
    let is_float = matches!(ty, "f32" | "f64");
    let is_bits = matches!(ty, "b8" | "b16" | "b32" | "b64" | "b128");
    let is_packed = matches!(ty, "f16x2" | "bf16x2");
    let fits = match init {
        Init::Literal(Literal::Int(_)) => !is_float && !is_packed,
        Init::Literal(Literal::F32(_) | Literal::F64(_)) => is_float || is_bits,
        Init::Symbol {
            name,
            byte,
            generic,
            ..
        } => {
            let found = match find(name) {
                Some(Symbol::Variable(found)) => {
                    if !matches!(found.space, Space::Global | Space::Const) {
                        let message =
                            "Variable used as initial value not in .global or .const state space";
                        return Err(error(variable.line, message));
                    }
                    true
                }
                Some(Symbol::Function(_)) if generic => {
                    return Err(error(variable.line, "Invalid initial value expression"));
                }
                Some(Symbol::Function(_)) => true,
                None => false,
            };
            if !found {
                let message = format!("Invalid initial value symbol '{name}'");
                return Err(error(variable.line, message));
            }
            match byte {
                Some(_) => !ty.starts_with('s'),
                None => matches!(ty, "u64" | "u32"),
            }
        }
    };
    match fits {
        true => Ok(()),
        false => Err(error(variable.line, "Initial value type mismatch")),
    }
}
