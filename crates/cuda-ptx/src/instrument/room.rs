//! The room for the parameters of a checked copy.

use crate::analysis::Refusal;
use crate::ast::{Function, Module};
use crate::flow::{bits_of, size_of_variable};

use super::refuse;

/// Fails if the parameters of a kernel have no room for `count` more of 8 bytes.
pub(super) fn expect_room(
    module: &Module<'_>,
    function: &Function<'_>,
    count: u64,
) -> Result<(), Refusal> {
    let mut own = 0_u64;
    for param in &function.params {
        let element = u64::from(bits_of(param.ty) / 8) * u64::from(param.vector);
        let align = param.align.unwrap_or(element).max(1);
        let size = size_of_variable(param).unwrap_or(8);
        own = own.next_multiple_of(align).saturating_add(size);
    }
    let needed = own.next_multiple_of(8).saturating_add(8 * count);
    let is_new = module.version >= (8, 1) && module.target.sm >= 70;
    let limit = if is_new { 32_764 } else { 4_352 };
    if needed <= limit {
        return Ok(());
    }
    let next = if is_new {
        "pass a pointer to a buffer instead of a large struct"
    } else {
        "compile it as PTX 8.1 or newer for sm_70 or newer, where the limit is 32764 bytes, or pass \
         a pointer to a buffer instead of a large struct"
    };
    refuse(
        function.name,
        function.line,
        format!(
            "the checked copy of the kernel needs {needed} bytes of parameters: {own} of its own, \
             and {} for the limits of its arguments; the limit is {limit} bytes in PTX {}.{} for \
             sm_{}; {next}",
            8 * count,
            module.version.0,
            module.version.1,
            module.target.sm,
        ),
    )
}
