//! Instructions that an assembler executes as often as the text says.

use crate::ast::Instruction;

/// Whether an assembler must keep a loop in which each iteration executes the instruction.
///
/// The table has only what the tests `assembler_` find in the machine code. A weak or relaxed load,
/// a store to local memory, `vote`, `shfl` and the reading of a clock are not among them.
pub(super) fn is_kept(instruction: &Instruction<'_>) -> bool {
    if instruction.predicate.is_some() {
        return false;
    }
    let is_shared =
        instruction.has("global") || instruction.has("shared") || instruction.has("shared::cta");
    match instruction.opcode {
        "st" | "atom" | "red" => is_shared,
        "ld" => is_shared && instruction.has("volatile"),
        // Not `bar.warp.sync`, which an assembler may drop if the warp does not diverge.
        "bar" | "barrier" => instruction.has("sync") && !instruction.has("warp"),
        "membar" => true,
        "fence" => instruction.has("sc") || instruction.has("acq_rel"),
        _ => false,
    }
}
