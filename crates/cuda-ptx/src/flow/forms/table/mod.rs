//! The rows of the list, by families. They follow the chapters of the PTX manual.
//!
//! ```text
//!    add?.(rn|rz)?.ftz.f32 >f32, f32, f32     ?.  optional   (a|b)  one of   @name  one of a set
//!    ld.T=@memory >T+, [r T]                  T=  a letter for the chosen modifier
//! ```
//!
//! An operand is `>T` for a result, `T` for a register or a number, `T!` for a register only, `T%`
//! for special registers, too, `T&` for addresses of variables, too, `T+` for a register that may
//! be wider, `>T_` for a result that may be discarded with `_`, `>T|pred` for an optional and
//! `>T&pred` for a needed second result, `4*T` or `V*T` for a vector, `#0..255` or `#(4|8)` for a
//! number, and `[r T]`, `[w T]` or `[x T]` for an address at which a value of the type is read,
//! written, or read and written. The space follows the type, or is the modifier with the letter
//! `S`. `?` before an operand makes it optional. `policy` is needed with `.L2::cache_hint` only.

mod compare;
mod convert;
mod float;
mod integer;
mod matrix;
mod memory;
mod object;
mod synchronize;

use std::collections::HashMap;
use std::sync::OnceLock;

use super::form::Form;

/// A family of instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chapter {
    pub(super) title: &'static str,
    /// What holds for all rows.
    pub(super) note: &'static str,
    pub(super) rows: &'static [Row],
}

/// One row of the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) form: &'static str,
    /// The PTX version and the target that introduced the form. Those before 7.0 and `sm_75` are
    /// not told apart.
    pub(super) version: &'static str,
    pub(super) target: &'static str,
    /// A requirement or a reason.
    pub(super) note: &'static str,
}

/// A row for PTX 7.0 and `sm_75`.
const fn row(form: &'static str) -> Row {
    Row {
        form,
        version: "7.0",
        target: "sm_75",
        note: "",
    }
}

impl Row {
    const fn since(self, version: &'static str, target: &'static str) -> Self {
        Self {
            version,
            target,
            ..self
        }
    }

    const fn note(self, note: &'static str) -> Self {
        Self { note, ..self }
    }
}

/// The families in the order of the page.
pub(super) const CHAPTERS: &[Chapter] = &[
    integer::ARITHMETIC,
    integer::BITS,
    float::SINGLE,
    float::HALF,
    compare::COMPARE,
    convert::MOVE,
    convert::CONVERT,
    convert::NARROW,
    memory::LOADS,
    memory::STORES,
    memory::ATOMICS,
    memory::COPIES,
    memory::CACHES,
    object::OBJECTS,
    matrix::MATRICES,
    synchronize::WARPS,
    synchronize::BARRIERS,
    synchronize::CONTROL,
];

/// Sets of modifiers with a name: `@name` in a row.
pub(super) const SETS: &[(&str, &str)] = &[
    ("int", "u16|u32|u64|s16|s32|s64"),
    ("int8", "u8|u16|u32|u64|s8|s16|s32|s64"),
    ("wide", "u32|u64|s32|s64"),
    ("bits", "b16|b32|b64"),
    ("round", "rn|rz|rm|rp"),
    ("toint", "rni|rzi|rmi|rpi"),
    ("logic", "and|or|xor"),
    ("unsigned", "eq|ne|lt|le|gt|ge|lo|ls|hi|hs"),
    ("signed", "eq|ne|lt|le|gt|ge"),
    (
        "ordered",
        "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan",
    ),
    (
        "memory",
        "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64",
    ),
    ("vector", "v2|v4"),
    ("space", "global|shared|shared::cta|local"),
    ("scope", "cta|cluster|gpu|sys"),
    (
        "l1",
        "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate",
    ),
    ("prefetch", "L2::64B|L2::128B|L2::256B"),
    ("atomic", "global|shared|shared::cta"),
    ("order", "relaxed|acquire|release|acq_rel"),
    ("relaxed", "relaxed|release"),
    ("texel", "u32|s32|f32"),
    ("pixel", "b8|b16|b32|b64"),
    ("mode", "trap|clamp|zero"),
    ("cache", "ca|cg|cs|cv"),
    ("back", "wb|cg|cs|wt"),
    ("layout", "row|col"),
    ("tile", "global|shared|shared::cta"),
    ("sparse", "sp|sp::ordered_metadata"),
    ("own", "shared|shared::cta"),
    ("shape", "m16n16k16|m8n32k16|m32n8k16"),
];

/// Modifiers that are newer than the rows that have them: the opcode, or all, the modifier, and the
/// PTX version and the target that introduced it.
pub(super) const SINCE: &[(&str, &str, &str, &str)] = &[
    ("", "shared::cta", "7.8", "sm_75"),
    ("bar", "cta", "7.8", "sm_75"),
    ("barrier", "cta", "7.8", "sm_75"),
    ("", "cluster", "7.8", "sm_90"),
    ("", "L2::cache_hint", "7.4", "sm_80"),
    ("sured", "u64", "8.1", "sm_75"),
];

/// The modifiers of a set.
pub(super) fn set(name: &str) -> Option<&'static str> {
    let found = SETS.iter().find(|(other, _)| *other == name);
    found.map(|(_, modifiers)| *modifiers)
}

/// Opcodes without a form that have a reason of their own. Sorted.
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("call", "call of a function"),
    ("istypep", "textures and surfaces"),
    (
        "mbarrier",
        "an mbarrier, which is a fault unless shared memory holds an initialized one with \
         outstanding arrivals",
    ),
    (
        "setmaxnreg",
        "a change of the number of registers, which is undefined unless all warps of a warpgroup \
         make it with a number that fits the launch",
    ),
];

/// The reason for which an opcode has no form.
pub(super) fn refusal(opcode: &str) -> &'static str {
    let found = REFUSED.iter().find(|(other, _)| *other == opcode);
    found.map_or("unknown instruction", |(_, reason)| reason)
}

/// The forms of an opcode.
pub(super) fn forms(opcode: &str) -> &'static [Form] {
    static FORMS: OnceLock<HashMap<&'static str, Vec<Form>>> = OnceLock::new();
    let forms = FORMS.get_or_init(|| {
        let mut forms: HashMap<_, Vec<Form>> = HashMap::new();
        let rows = CHAPTERS.iter().flat_map(|chapter| chapter.rows);
        for form in rows.filter_map(|row| Form::parse(row.form)) {
            forms.entry(form.opcode).or_default().push(form);
        }
        forms
    });
    forms.get(opcode).map_or(&[], Vec::as_slice)
}
