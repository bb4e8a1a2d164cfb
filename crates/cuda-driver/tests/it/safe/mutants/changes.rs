//! Changes of one instruction of a kernel.

use cuda_ptx::{Edits, Instruction, Literal, Operand, Statement, parse};
use fastrand::Rng;

use super::Mutant;

/// Changes one instruction of the kernel, or of a function that it calls.
pub(super) fn change_text(mutant: &mut Mutant, rng: &mut Rng) {
    let text = mutant.kernel.text;
    let module = parse(text).unwrap();
    let functions = module.functions.iter();
    let functions = functions.filter(|it| it.name == mutant.kernel.name || !it.entry);
    let bodies = functions.flat_map(|it| it.body.iter().flatten());
    let instructions = bodies.filter_map(|it| match it {
        Statement::Instruction(one) => Some(one),
        _ => None,
    });
    let mut candidates: Vec<Instruction<'_>> = Vec::new();
    let mut spans = Vec::new();
    for one in instructions {
        for new in changes(one, rng) {
            candidates.push(new);
            spans.push((one.span, one.to_string()));
        }
    }
    let index = rng.usize(..candidates.len());
    let (span, old) = &spans[index];
    let new = candidates[index].to_string();
    let mut edits = Edits::new(text);
    edits.replace(*span, new.clone());
    mutant.text = edits.apply().unwrap();
    mutant.change = format!("line {}: {old} becomes {new}", candidates[index].line);
}

/// Variants of an instruction.
fn changes<'a>(one: &Instruction<'a>, rng: &mut Rng) -> Vec<Instruction<'a>> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Instruction<'a>)| {
        let mut new = one.clone();
        change(&mut new);
        if new != *one {
            all.push(new);
        }
    };
    let by = [1_i64, -1, 2, 4, 32, -4, 1 << 31][rng.usize(..7)];
    for index in 0..one.operands.len() {
        add(&|new| match &mut new.operands[index] {
            Operand::Literal(Literal::Int(value)) => *value = value.wrapping_add_signed(by),
            Operand::Address(_, offset) if new.opcode != "ld" || !one.has("param") => *offset += by,
            _ => {}
        });
    }
    match one.opcode {
        "bra" if one.predicate.is_some() => {
            // A missing guard, and an inverted one.
            add(&|new| {
                new.opcode = "mov";
                new.modifiers = vec!["u32"];
                new.operands = vec![Operand::Name("%r1"), Operand::Name("%r1")];
            });
            add(&|new| {
                if let Some(predicate) = &mut new.predicate {
                    predicate.negated = !predicate.negated;
                }
            });
        }
        "setp" => {
            for relation in ["lt", "le", "gt", "ge", "eq", "ne"] {
                add(&|new| new.modifiers[0] = relation);
            }
        }
        "add" | "sub" => {
            for opcode in ["add", "sub", "xor"] {
                add(&|new| {
                    new.opcode = opcode;
                    if opcode == "xor" {
                        new.modifiers = vec![if one.has("s64") { "b64" } else { "b32" }];
                    }
                });
            }
        }
        "mul" | "mad" | "shl" | "shr" | "and" | "rem" | "min" | "max" => {
            for index in 1..one.operands.len() {
                for other in 1..one.operands.len() {
                    add(&|new| new.operands[index] = one.operands[other].clone());
                }
            }
        }
        _ => {}
    }
    all.retain(|new| {
        !matches!(one.modifiers.last(), Some(&("f32" | "f64" | "pred")))
            || new.opcode == "ld"
            || new.opcode == "st"
    });
    all
}
