//! Removes addresses that nothing uses: those of the messages of `assert`. If they stayed, the
//! kernel would use variables of its module.

use std::collections::HashSet;

use crate::ast::{Instruction, Operand, Statement, names};
use crate::edit::Edits;

use super::{Expanded, HEAD};

/// The register that an instruction sets to an address, and that it only sets.
fn target<'a>(instruction: &Instruction<'a>) -> Option<&'a str> {
    match (instruction.opcode, instruction.operands.first()) {
        ("mov" | "cvta", Some(Operand::Name(name))) => Some(name),
        _ => None,
    }
}

/// The body without instructions whose results nothing reads, or `None` if there is none.
pub(super) fn removed(expanded: &Expanded) -> Option<String> {
    let text = expanded.text();
    let statements = expanded.statements(&text).ok()?;
    let instructions = statements.iter().filter_map(|statement| match statement {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    });
    let mut kept: Vec<&Instruction<'_>> = instructions.collect();
    let mut edits = Edits::new(&text);
    let mut is_changed = false;
    loop {
        let mut read = HashSet::new();
        for instruction in &kept {
            let skipped = usize::from(target(instruction).is_some());
            read.extend(instruction.predicate.map(|predicate| predicate.name));
            for operand in instruction.operands.iter().skip(skipped) {
                names(operand, &mut |name| {
                    read.insert(name);
                });
            }
        }
        let is_read = |it: &&Instruction<'_>| target(it).is_none_or(|name| read.contains(name));
        let (rest, dead): (Vec<&Instruction<'_>>, Vec<_>) = kept.iter().partition(|it| is_read(it));
        if dead.is_empty() {
            break;
        }
        for instruction in dead {
            edits.replace(instruction.span, "");
        }
        (kept, is_changed) = (rest, true);
    }
    let text = edits.apply().filter(|_| is_changed)?;
    Some(text.get(HEAD.len()..)?.to_owned())
}
