//! Symbol resolution: the definitions that the names of each module refer to after linking.

use std::collections::{HashMap, HashSet};

use super::form::Ty;
use super::function::FunctionDecoder;
use super::module::{Output, Uses, invalid_at, layout};
use super::operand::Sym;
use crate::vm::builtin;
use crate::vm::code::FunctionCode;
use crate::vm::fault::LoadError;
use crate::vm::program::{Global, GlobalSpace, Relocation, Symbol};
use cuda_ptx::{Definition, Exports, Init, Linkage, Space, Variable};

/// The names of one module.
#[derive(Default)]
pub(super) struct Names<'a> {
    pub(super) symbols: HashMap<&'a str, Sym>,
    /// The declarations of the module's variables, by name.
    pub(super) declared: HashMap<&'a str, &'a Variable<'a>>,
    /// Names that are declared and used but not defined: functions of the device runtime that this
    /// device does not provide.
    pub(super) undefined: HashSet<&'a str>,
    /// The variables of the module that were kept, as (index in the module, index in the program).
    pub(super) globals: Vec<(usize, usize)>,
    /// The functions of the module that were kept, as (index in the module, index in the program).
    pub(super) bodies: Vec<(usize, usize)>,
}

/// Collects the symbols of all modules. Definitions that another definition overrides are left out.
pub(super) fn symbols<'a>(
    modules: &'a [cuda_ptx::Module<'a>],
    out: &mut Output,
) -> Result<Vec<Names<'a>>, LoadError> {
    let exports = Exports::new(modules);
    let commons = commons(modules);
    let mut exported: HashMap<&'a str, Sym> = HashMap::new();
    let mut all = Vec::new();
    for (number, module) in modules.iter().enumerate() {
        if let Some(alias) = module.aliases.first() {
            let message = "Directive '.alias' is not supported";
            return Err(invalid_at(alias.line, message));
        }
        let mut names = Names::default();
        let mut known = HashSet::new();
        let mut add = |names: &mut Names<'a>, name, linkage, definition, sym| {
            names.symbols.insert(name, sym);
            if linkage != Linkage::Internal && exports.get(name) == Some(definition) {
                exported.insert(name, sym);
            }
        };
        let gives_way = |name, linkage, definition| {
            let counts = exports.get(name);
            linkage != Linkage::Internal && counts.is_some_and(|counts| counts != definition)
        };
        for (index, variable) in module.variables.iter().enumerate() {
            let is_shared = variable.space == Space::Shared;
            names.declared.insert(variable.name, variable);
            if variable.linkage == Linkage::Extern && !is_shared {
                continue;
            }
            if !known.insert(variable.name) {
                let message = format!("Duplicate definition of variable '{}'", variable.name);
                return Err(invalid_at(variable.line, &message));
            }
            let (name, linkage) = (variable.name, variable.linkage);
            let definition = Definition::Variable(number, index);
            if is_shared && variable.count.is_none() {
                let sym = Sym::DynamicShared(layout(variable).1);
                add(&mut names, name, linkage, definition, sym);
                continue;
            }
            if gives_way(name, linkage, definition) {
                continue;
            }
            let sym = if is_shared {
                out.shared.push(layout(variable));
                Sym::Common(out.shared.len() - 1)
            } else {
                let mut global = global(variable);
                if linkage == Linkage::Common
                    && let Some(&(size, align)) = commons.get(name)
                {
                    (global.size, global.align) = (size, align);
                }
                names.globals.push((index, out.program.globals.len()));
                out.program.globals.push(global);
                Sym::Global(out.program.globals.len() - 1)
            };
            add(&mut names, name, linkage, definition, sym);
        }
        for (index, function) in module.functions.iter().enumerate() {
            if function.body.is_none() {
                continue;
            }
            if !known.insert(function.name) {
                let message = format!("Duplicate definition of function '{}'", function.name);
                return Err(invalid_at(function.line, &message));
            }
            let (name, linkage) = (function.name, function.linkage);
            let definition = Definition::Function(number, index);
            if gives_way(name, linkage, definition) {
                continue;
            }
            let at = out.program.functions.len();
            out.program.functions.push(FunctionCode {
                name: name.to_owned(),
                ..FunctionCode::default()
            });
            out.uses.push(Uses::default());
            names.bodies.push((index, at));
            add(&mut names, name, linkage, definition, Sym::Function(at));
        }
        all.push(names);
    }
    for (module, names) in modules.iter().zip(&mut all) {
        resolve(module, names, &exported);
    }
    Ok(all)
}

/// Finds the definition in another module of a name that this module declares.
fn resolve<'a>(
    module: &'a cuda_ptx::Module<'a>,
    names: &mut Names<'a>,
    exported: &HashMap<&'a str, Sym>,
) {
    let functions = module.functions.iter();
    let functions = functions.map(|function| (function.name, function.body.is_none()));
    let variables = module.variables.iter();
    let variables = variables.map(|variable| (variable.name, variable.linkage == Linkage::Extern));
    for (name, is_declared_only) in functions.chain(variables) {
        let is_builtin = is_declared_only && builtin::by_name(name).is_some();
        if is_builtin || names.symbols.contains_key(name) {
            continue;
        }
        match exported.get(name) {
            Some(&sym) => {
                names.symbols.insert(name, sym);
            }
            None => {
                names.undefined.insert(name);
            }
        }
    }
}

/// The largest size and alignment of each `.common` variable.
fn commons<'a>(modules: &'a [cuda_ptx::Module<'a>]) -> HashMap<&'a str, (u64, u64)> {
    let mut all: HashMap<&str, (u64, u64)> = HashMap::new();
    for variable in modules.iter().flat_map(|module| &module.variables) {
        if variable.linkage == Linkage::Common {
            let (size, align) = layout(variable);
            let most = all.entry(variable.name).or_default();
            *most = (most.0.max(size), most.1.max(align));
        }
    }
    all
}

/// The variable without its initial value.
pub(super) fn global(variable: &Variable<'_>) -> Global {
    let (size, align) = layout(variable);
    Global {
        name: variable.name.to_owned(),
        size,
        align,
        space: match variable.space {
            Space::Const => GlobalSpace::Const,
            _ => GlobalSpace::Global,
        },
        visible: variable.linkage != Linkage::Internal,
        managed: variable.is_managed(),
        init: Vec::new(),
        relocations: Vec::new(),
    }
}

/// Sets the initial values of a module's variables.
pub(super) fn initial_values(
    module: &cuda_ptx::Module<'_>,
    names: &Names<'_>,
    out: &mut Output,
) -> Result<(), LoadError> {
    for &(number, index) in &names.globals {
        let variable = &module.variables[number];
        let resolve = |name: &str| names.symbols.get(name).copied();
        let (init, relocations) = initial_value(variable, &resolve)?;
        let global = &mut out.program.globals[index];
        (global.init, global.relocations) = (init, relocations);
    }
    Ok(())
}

/// The initial bytes of a variable, and the addresses in them. `resolve` finds the symbols that it
/// names.
pub(super) fn initial_value(
    variable: &Variable<'_>,
    resolve: &dyn Fn(&str) -> Option<Sym>,
) -> Result<(Vec<u8>, Vec<Relocation>), LoadError> {
    let mut bytes = Vec::new();
    let mut relocations = Vec::new();
    let Some(ty) = Ty::parse(variable.ty) else {
        return Ok((bytes, relocations));
    };
    let element = (ty.width().max(8) / 8) as usize;
    for &init in &variable.init {
        let at = bytes.len() as u64;
        match init {
            Init::Literal(literal) => {
                let value = u128::from(FunctionDecoder::literal(literal, ty));
                bytes.extend_from_slice(&value.to_le_bytes()[..element]);
            }
            Init::Symbol {
                name, offset, byte, ..
            } => {
                let target = match resolve(name) {
                    Some(Sym::Global(index)) => Symbol::Global(index),
                    Some(Sym::Function(index)) => Symbol::Function(index),
                    _ => return Err(LoadError::Unresolved(name.to_owned())),
                };
                if element < 8 && byte.is_none() {
                    let message = "Initial value is too narrow for an address";
                    return Err(invalid_at(variable.line, message));
                }
                relocations.push(Relocation {
                    at,
                    target,
                    offset,
                    byte,
                });
                bytes.resize(bytes.len() + element, 0);
            }
        }
    }
    if bytes.len() as u64 > layout(variable).0 {
        return Err(invalid_at(variable.line, "Too many initial values"));
    }
    Ok((bytes, relocations))
}
