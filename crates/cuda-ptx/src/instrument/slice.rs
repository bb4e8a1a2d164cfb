//! The loads whose results decide about checked accesses: through their addresses, their
//! predicates, or branches.
//!
//! The slice is one of names, without regard to the flow of control: it has more loads than
//! necessary, and never fewer.

use std::collections::{HashMap, HashSet};

use crate::analysis::Refusal;
use crate::ast::names;
use crate::ast::{Instruction, Statement};
use crate::flow::{Kernel, ObjectUse};

use super::{Check, refuse};

/// Instructions whose first operand is not a destination.
pub(super) const NO_TARGET: &[&str] = &[
    "st",
    "red",
    "bra",
    "brx",
    "prefetch",
    "prefetchu",
    "cp",
    "sust",
    "sured",
];

/// What the checked accesses of a copy depend on.
#[derive(Debug, Default)]
pub(super) struct Slice {
    /// The statements whose loads must be volatile.
    pub(super) volatile: HashSet<usize>,
    /// Whether one of the loads may read local memory that nothing has written.
    pub(super) reads_unset: bool,
}

/// Returns the loads that a checked address, the predicate of a checked access or a branch depends
/// on.
pub(super) fn loads(
    kernel: &Kernel,
    body: &[Statement<'_>],
    checks: &[Check],
) -> Result<Slice, Refusal> {
    if checks.is_empty() {
        return Ok(Slice::default());
    }
    let instruction = |index: usize| match body.get(index) {
        Some(Statement::Instruction(instruction)) => Some(instruction),
        _ => None,
    };
    let mut open: Vec<&str> = Vec::new();
    for check in checks {
        let Some(access) = kernel.accesses.get(check.access) else {
            continue;
        };
        let Some(instruction) = instruction(access.statement as usize) else {
            continue;
        };
        if let Some(operand) = instruction.operands.get(access.operand as usize) {
            names(operand, &mut |name| open.push(name));
        }
        // The check of a region allows any address if the predicate is false.
        open.extend(instruction.predicate.map(|predicate| predicate.name));
    }
    // The statements that set each name.
    let mut setters: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, statement) in body.iter().enumerate() {
        let Statement::Instruction(instruction) = statement else {
            continue;
        };
        // A compiler may turn a branch into a selection, and repeat that.
        if matches!(instruction.opcode, "bra" | "brx" | "ret" | "exit") {
            open.extend(instruction.predicate.map(|predicate| predicate.name));
        }
        if instruction.opcode == "brx"
            && let Some(index) = instruction.operands.first()
        {
            names(index, &mut |name| open.push(name));
        }
        let is_tile_store = instruction.opcode == "wmma" && instruction.has("store");
        if let (Some(target), false) = (
            instruction.operands.first(),
            is_tile_store || NO_TARGET.contains(&instruction.opcode),
        ) {
            names(target, &mut |name| {
                setters.entry(name).or_default().push(index);
            });
        }
    }
    // Each name and each statement is followed once.
    let mut seen: HashSet<&str> = HashSet::new();
    open.reverse();
    open.retain(|name| seen.insert(name));
    open.reverse();
    let unset: HashSet<u32> = kernel.unset.iter().copied().collect();
    let mut followed: HashSet<usize> = HashSet::new();
    let mut found = Slice::default();
    while let Some(name) = open.pop() {
        for &index in setters.get(name).map_or(&[][..], Vec::as_slice) {
            let Some(instruction) = instruction(index).filter(|_| followed.insert(index)) else {
                continue;
            };
            if is_volatile_load(kernel, instruction)? {
                found.volatile.insert(index);
            }
            found.reads_unset |= unset.contains(&(index as u32));
            let mut add = |name| {
                if seen.insert(name) {
                    open.push(name);
                }
            };
            if let Some(predicate) = instruction.predicate {
                add(predicate.name);
            }
            for operand in &instruction.operands {
                names(operand, &mut add);
            }
        }
    }
    Ok(found)
}

/// Whether an instruction that sets a register of the slice has to become a volatile load.
fn is_volatile_load(kernel: &Kernel, instruction: &Instruction<'_>) -> Result<bool, Refusal> {
    let is_private = ["param", "param::entry", "const", "local"]
        .iter()
        .any(|space| instruction.has(space));
    let is_strong = ["volatile", "relaxed", "acquire", "mmio"]
        .iter()
        .any(|order| instruction.has(order));
    match instruction.opcode {
        "ld" | "ldu" if is_private || is_strong => Ok(false),
        "ld" | "ldu" if instruction.has("v8") || instruction.has("b128") => refuse(
            &kernel.name,
            instruction.line,
            "a checked address depends on a load that cannot be volatile",
        ),
        "ld" | "ldu" => Ok(true),
        "ldmatrix" | "wmma" => refuse(
            &kernel.name,
            instruction.line,
            "a checked address depends on a matrix",
        ),
        // The elements of linear memory, which integer coordinates read, can change during the
        // launch: `cuStreamWriteValue32` on another stream needs no exclusive access.
        "tex" if instruction.modifiers.last() == Some(&"s32") => refuse(
            &kernel.name,
            instruction.line,
            "a checked address or a branch depends on a texture of linear memory, whose elements \
             can change",
        ),
        // Nothing writes to another texture, or to a surface that the kernel only reads, during the
        // launch, so a repeated load returns the same value.
        "suld" if writes_surfaces(kernel) => refuse(
            &kernel.name,
            instruction.line,
            "a checked address or a branch depends on a surface, and the kernel writes to surfaces",
        ),
        _ => Ok(false),
    }
}

fn writes_surfaces(kernel: &Kernel) -> bool {
    let mut uses = kernel.accesses.iter().filter_map(|access| access.object);
    uses.any(|object| matches!(object, ObjectUse::Surface { is_write: true, .. }))
}
