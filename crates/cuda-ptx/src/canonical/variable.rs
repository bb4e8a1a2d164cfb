//! Variables: their declarations, and which of them are in the text.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use crate::ast::{Init, Linkage, Module, Space, Variable};
use crate::flow::bits_of;

use super::out::Out;

/// The variables of a module.
#[derive(Clone, Debug)]
pub(super) struct Variables {
    /// The declaration of each variable, or the reason for which it is not in the text.
    declarations: Vec<Result<Out, String>>,
}

impl Variables {
    pub(super) fn new(module: &Module<'_>) -> Self {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let functions = module.functions.iter().filter(|it| it.body.is_some());
        let functions = functions.map(|it| it.name);
        let all = module.variables.iter().map(|it| it.name).chain(functions);
        for name in all {
            *counts.entry(name).or_default() += 1;
        }
        let mut declarations: Vec<Result<Out, String>> = Vec::new();
        for (index, variable) in module.variables.iter().enumerate() {
            let name = variable.name;
            numbers.insert(name, index);
            let declaration = if !is_plain(name) {
                Err(format!("the name {name} is not supported"))
            } else if counts.get(name).is_some_and(|count| *count > 1) {
                Err(format!("{name} is declared more than once"))
            } else {
                declaration(variable, name)
            };
            declarations.push(declaration.map(|text| {
                let mut out = Out::default();
                out.line(text, variable.line);
                out
            }));
        }
        // An initial value can be the address of a variable, which must then be in the text.
        let mut users: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, variable) in module.variables.iter().enumerate() {
            let names = variable.init.iter().filter_map(symbol);
            for number in names.filter_map(|name| numbers.get(name)) {
                users.entry(*number).or_default().push(index);
            }
        }
        let missing = |index: usize, declarations: &[Result<Out, String>]| {
            let is_printed = |name: &str| {
                let number = numbers.get(name);
                number.is_some_and(|it| declarations[*it].is_ok())
            };
            let mut names = module.variables[index].init.iter().filter_map(symbol);
            names.find(|name| !is_printed(name))
        };
        let all = 0..declarations.len();
        let mut open: BTreeSet<usize> = all
            .filter(|&index| declarations[index].is_ok() && missing(index, &declarations).is_some())
            .collect();
        while let Some(index) = open.pop_first() {
            let Some(missing) = missing(index, &declarations) else {
                continue;
            };
            declarations[index] = Err(format!(
                "the initial value of {} is the address of {missing}",
                module.variables[index].name
            ));
            let users = users.get(&index).into_iter().flatten().copied();
            open.extend(users.filter(|&user| declarations[user].is_ok()));
        }
        Self { declarations }
    }

    /// The variables that are in the text, in the order in which they are declared: their numbers
    /// and their declarations.
    pub(super) fn printed(&self) -> impl Iterator<Item = (usize, &Out)> {
        let all = self.declarations.iter().enumerate();
        all.filter_map(|(index, it)| Some((index, it.as_ref().ok()?)))
    }

    /// The reason for which a variable is not in the text.
    pub(super) fn refusal(&self, index: usize) -> Option<&str> {
        self.declarations
            .get(index)?
            .as_ref()
            .err()
            .map(String::as_str)
    }
}

/// The variable of which an initial value is the address.
fn symbol<'a>(init: &Init<'a>) -> Option<&'a str> {
    match init {
        Init::Symbol { name, .. } => Some(name),
        Init::Literal(_) => None,
    }
}

/// Whether a name means the same to every reader: it begins with a letter, `_` or `$`, and has only
/// letters, digits, `_` and `$`.
pub(super) fn is_plain(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$');
    let mut bytes = name.bytes();
    let is_first = bytes.next().is_some_and(is_letter);
    let is_rest = bytes.all(|byte| is_letter(byte) || byte.is_ascii_digit());
    // `_` is the operand that discards a result, and `WARP_SZ` a number.
    is_first && is_rest && !matches!(name, "_" | "WARP_SZ")
}

/// The declaration of a variable with a new name, or the reason for which it is not supported.
pub(super) fn declaration(variable: &Variable<'_>, name: &str) -> Result<String, String> {
    let original = variable.name;
    let space = match variable.space {
        Space::Global => "global",
        Space::Const => "const",
        Space::Shared => "shared",
        Space::Local => "local",
        Space::Reg | Space::Param => {
            return Err(format!("{original} is not a variable in memory"));
        }
    };
    let linkage = match variable.linkage {
        Linkage::Internal => "",
        Linkage::Visible => ".visible ",
        Linkage::Weak => ".weak ",
        Linkage::Extern => ".extern ",
        Linkage::Common => ".common ",
    };
    let mut text = format!("{linkage}.{space} ");
    for attribute in &variable.attributes {
        if attribute.name != "managed" {
            return Err(format!("{original} has the attribute .{}", attribute.name));
        }
    }
    if variable.is_managed() {
        text.push_str(".attribute(.managed) ");
    }
    typed(&mut text, variable)?;
    let _ = write!(text, " {name}");
    match variable.count {
        None => text.push_str("[]"),
        Some(count) if variable.array => {
            let _ = write!(text, "[{count}]");
        }
        Some(_) => {}
    }
    if !variable.init.is_empty() {
        text.push_str(" = ");
        initial_value(&mut text, variable)?;
    }
    text.push(';');
    Ok(text)
}

/// Writes the alignment and the type of a variable or a parameter.
pub(super) fn typed(text: &mut String, variable: &Variable<'_>) -> Result<(), String> {
    let (name, ty) = (variable.name, variable.ty);
    if bits_of(ty) < 8 {
        return Err(format!("{name} has the type .{ty}, which is not supported"));
    }
    if let Some(align) = variable.align {
        let _ = write!(text, ".align {align} ");
    }
    if variable.vector > 1 {
        let _ = write!(text, ".v{} ", variable.vector);
    }
    let _ = write!(text, ".{ty}");
    Ok(())
}

fn initial_value(text: &mut String, variable: &Variable<'_>) -> Result<(), String> {
    let is_list = variable.array || variable.vector > 1;
    let lanes = variable.vector.max(1) as usize;
    if !is_list && variable.init.len() != 1 {
        return Err(format!(
            "{} has {} initial values",
            variable.name,
            variable.init.len()
        ));
    }
    if is_list {
        text.push('{');
    }
    for (index, init) in variable.init.iter().enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        // A vector in an array is a list of its own.
        if lanes > 1 && variable.array && index % lanes == 0 {
            text.push('{');
        }
        match init {
            Init::Literal(literal) => {
                let _ = write!(text, "{literal}");
            }
            Init::Symbol {
                name,
                offset,
                generic,
                byte,
            } => {
                let mut value = match *generic {
                    true => format!("generic({name})"),
                    false => (*name).to_owned(),
                };
                if *offset != 0 {
                    let _ = write!(value, "{offset:+}");
                }
                if let Some(byte) = byte {
                    value = format!("{:#x}({value})", 0xffu64 << (8 * byte));
                }
                text.push_str(&value);
            }
        }
        let is_last = index + 1 == variable.init.len();
        if lanes > 1 && variable.array && (index % lanes == lanes - 1 || is_last) {
            text.push('}');
        }
    }
    if is_list {
        text.push('}');
    }
    Ok(())
}
