//! The texts that only one of the two accepts, by kind, with the reason.

/// Decides by the message of this crate.
type Kind = fn(&str) -> bool;

/// Texts that the assembler accepts, and this crate does not.
const REFUSED_HERE: &[(Kind, &str)] = &[
    (
        |message| message.contains("near '%") || message.contains("near 'r"),
        "an element index in a register, `g[%r1]`: the analysis has no use for it",
    ),
    (
        |message| message.contains("near '<'"),
        "numbered variables, `.global .u32 g<3>`, which no compiler writes",
    ),
    (
        |message| message.contains("near ';'"),
        "a declaration without a name, `.reg .b32;`, which declares nothing",
    ),
    (
        |message| message.contains("near '.b") || message.contains("near '.f"),
        "a type alone, `.b64;`, which declares nothing",
    ),
    (
        |message| message.contains("near '.align'"),
        "two alignments of one variable, of which only one can be meant",
    ),
    (
        |message| message.contains("too large") || message.contains("too many"),
        "arrays of 2⁴⁰ elements or more, and more than 2²⁰ registers: limits of this crate",
    ),
];

/// Whether the message of this crate is of a listed kind.
pub(super) fn is_refused_here(message: &str) -> bool {
    REFUSED_HERE
        .iter()
        .any(|(is_of_kind, _)| is_of_kind(message))
}

/// Messages of the assembler about what no grammar and no declaration says. This crate does not
/// know instructions, so the users of the tree refuse such texts.
const BEYOND: &[&str] = &[
    // The types, modifiers and operands of an instruction, and whether it exists.
    "instruction",
    "Instruction",
    "modifier",
    "Modifier",
    "must be register",
    "special register",
    "Label expected",
    "Address expected",
    "Operand negation",
    "Illegal argument to unary",
    "Illegal call target",
    "call prototype",
    "Illegal vector",
    "vector",
    "Vector",
    "video selector",
    "Video selector",
    "Predicate output",
    "predicate",
    "out of range",
    "tate space",
    "Array indexing",
    // The linker, the version and the target.
    "Unresolved extern",
    "requires",
    "Deprecated feature",
    "32-bit address",
    "32-Bit compilation",
    "32-Bit ABI",
    "Pragma",
    "used in inlined_at",
    // Kernels and functions may use at most so much memory.
    "too much",
    "exceeds",
];

/// Whether each error of the assembler is of a listed kind.
pub(super) fn is_beyond_the_grammar(messages: &str) -> bool {
    let mut errors = messages
        .lines()
        .filter(|line| line.contains("error   :") || line.contains("fatal   :"))
        .filter(|line| !line.contains("Ptx assembly aborted"))
        // An operand of the wrong kind has this message as well, also if the name is known.
        .filter(|line| !line.contains("Unknown symbol"))
        .peekable();
    errors.peek().is_some() && errors.all(|line| BEYOND.iter().any(|kind| line.contains(kind)))
}
