//! Checks literals in operands against the types of the instruction.

use crate::ast::{Base, Instruction, Literal, Operand};

/// Instructions whose sources have the last type of the mnemonic.
const SOURCES: &[&str] = &[
    "abs", "add", "cvt", "div", "fma", "mad", "max", "min", "mov", "mul", "neg", "rem", "selp",
    "setp", "sub",
];

fn is_type(modifier: &str) -> bool {
    super::variables::size_of(modifier).is_some() && !modifier.ends_with("ref")
}

/// Whether a literal can be a source of type `ty`.
fn fits(ty: &str, literal: Literal, is_move: bool) -> bool {
    match (ty, literal) {
        ("f16" | "bf16" | "f16x2" | "bf16x2", _) => false,
        ("f32" | "f64", literal) => !matches!(literal, Literal::Int(_)),
        (_, Literal::Int(_)) => true,
        ("b32", Literal::F32(_)) | ("b64", Literal::F64(_)) => is_move,
        _ => false,
    }
}

/// Returns the message for an operand that no version of the instruction takes.
pub(super) fn instruction(instruction: &Instruction<'_>) -> Option<String> {
    let opcode = instruction.opcode;
    let mismatch = || Some(format!("Arguments mismatch for instruction '{opcode}'"));
    for operand in &instruction.operands {
        let is_absolute = matches!(operand, Operand::Address(Base::Absolute, _));
        if is_absolute && !instruction.has("local") {
            let message = "Immediate addresses allowed only for .local state space";
            return Some(String::from(message));
        }
        if matches!(operand, Operand::Element(..))
            && !matches!(opcode, "mov" | "cvta" | "ld" | "st")
        {
            return mismatch();
        }
    }
    if opcode == "bra" && !matches!(instruction.operands[..], [Operand::Name(_)]) {
        return Some(String::from(
            "Label expected for argument 0 of instruction 'bra'",
        ));
    }
    if SOURCES.binary_search(&opcode).is_err() {
        return None;
    }
    let mut types = instruction.modifiers.iter().rev();
    let ty = types.find(|modifier| is_type(modifier))?;
    let is_move = opcode == "mov";
    let misfit = instruction
        .operands
        .iter()
        .skip(1)
        .any(|operand| match operand {
            Operand::Literal(literal) => !fits(ty, *literal, is_move),
            _ => false,
        });
    if misfit { mismatch() } else { None }
}
