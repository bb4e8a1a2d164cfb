//! Addresses that are computed from values that were loaded from memory.

use std::collections::HashSet;

use cuda_ptx::analysis::AccessReport;
use cuda_ptx::{Base, Function, Instruction, Module, Operand, Statement};

fn instructions<'m, 'a>(
    function: &'m Function<'a>,
) -> impl Iterator<Item = &'m Instruction<'a>> + Clone {
    let body = function.body.iter().flatten();
    body.filter_map(|statement| match statement {
        Statement::Instruction(one) => Some(one),
        _ => None,
    })
}

/// Calls `f` with each name in an operand.
fn names<'a>(operand: &Operand<'a>, f: &mut impl FnMut(&'a str)) {
    match operand {
        Operand::Name(name) | Operand::Member(name, _) | Operand::Offset(name, _) => f(name),
        Operand::Element(name, _) => f(name),
        Operand::Not(name) | Operand::Address(Base::Name(name), _) => f(name),
        Operand::Literal(_) | Operand::Sink | Operand::Address(Base::Absolute, _) => {}
        Operand::Pair(pair) => {
            names(&pair.0, f);
            names(&pair.1, f);
        }
        Operand::Vector(list) | Operand::Bracket(list) | Operand::List(list) => {
            list.iter().for_each(|operand| names(operand, f));
        }
    }
}

/// Whether the address of an access is computed from a value that was loaded from memory. It
/// follows the registers by their names, and the predicates of instructions, but no branches.
pub(crate) fn is_loaded(module: &Module<'_>, kernel: &Function<'_>, access: &AccessReport) -> bool {
    let is_access =
        |one: &&Instruction<'_>| one.line == access.line && one.mnemonic() == access.mnemonic;
    // The body of a function that is called has its own lines.
    let functions = std::iter::once(kernel).chain(&module.functions);
    let mut found = functions.filter_map(|function| {
        let instruction = instructions(function).find(is_access)?;
        Some((function, instruction))
    });
    let Some((function, instruction)) = found.next() else {
        return false;
    };
    let addresses = instruction.operands.iter();
    let mut addresses = addresses.filter(|operand| matches!(operand, Operand::Address(..)));
    // The source of an asynchronous copy is the global address.
    let address = match instruction.opcode {
        "cp" => addresses.nth(1),
        _ => addresses.next(),
    };
    let mut open = Vec::new();
    if let Some(address) = address {
        names(address, &mut |name| open.push(name));
    }
    let mut seen: HashSet<&str> = open.iter().copied().collect();
    while let Some(name) = open.pop() {
        for setter in instructions(function) {
            let Some((target, sources)) = setter.operands.split_first() else {
                continue;
            };
            let mut is_setter = false;
            if !matches!(setter.opcode, "st" | "red" | "sust" | "sured" | "bra") {
                names(target, &mut |other| is_setter |= other == name);
            }
            if !is_setter {
                continue;
            }
            let is_load = matches!(
                setter.opcode,
                "ld" | "ldu" | "atom" | "tex" | "tld4" | "suld" | "ldmatrix" | "wmma"
            );
            if is_load && !setter.has("param") {
                return true;
            }
            let mut add = |name| {
                if seen.insert(name) {
                    open.push(name);
                }
            };
            sources.iter().for_each(|source| names(source, &mut add));
            setter.predicate.iter().for_each(|it| add(it.name));
        }
    }
    false
}
