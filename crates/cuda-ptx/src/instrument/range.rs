//! Compares addresses with the ranges that they may be in.

use std::fmt::Write;

use crate::analysis::{Refusal, Root};
use crate::ast::Space;
use crate::flow::{Access, AccessKind, Var};

use super::site::Writer;
use super::{ExtraParameter, refuse};

/// The number of parameters after which no range gets its own: the parameters of a kernel have at
/// most 4 KiB.
const MAX_PARAMETERS: usize = 64;

/// A root that an access may use.
#[derive(Clone, Copy, Debug)]
enum AllowedRoot<'k> {
    /// The memory with this index.
    Memory(usize),
    /// A variable; its address is converted to a generic one if the flag is set.
    Variable(&'k Var, bool),
}

impl<'k> Writer<'_, 'k> {
    /// The roots that an access may use.
    fn roots(&self, access: &Access, root: Option<&Root>) -> Vec<AllowedRoot<'k>> {
        let is_generic = access.space.is_none();
        let mut roots = Vec::new();
        if matches!(access.space, None | Some(Space::Global)) {
            let memories = self.memories.iter().enumerate();
            let fits = memories.filter(|(_, memory)| root.is_none() || memory.as_ref() == root);
            roots.extend(fits.map(|(index, _)| AllowedRoot::Memory(index)));
        }
        let variables = self.kernel.vars.iter().filter(|var| {
            let is_root = match root {
                Some(Root::Variable(name)) => *name == var.name,
                Some(_) => false,
                None => true,
            };
            let fits = match access.space {
                Some(space) => var.space == space,
                None => var.is_table || matches!(var.space, Space::Shared | Space::Local),
            };
            is_root && fits && access.fits(var.space) && var.is_used && !var.is_module
        });
        roots.extend(variables.map(|var| AllowedRoot::Variable(var, is_generic)));
        roots
    }

    /// Appends code that sets the predicate `ok` if `size` bytes at the address in the register
    /// `address` are in one of the roots of an access.
    ///
    /// `read`, for an asynchronous copy, is the number of bytes that it reads; `size` is 0 then.
    #[allow(
        clippy::too_many_arguments,
        reason = "the address and its size are two arguments of each caller"
    )]
    pub(super) fn compare(
        &mut self,
        out: &mut String,
        access: &Access,
        root: Option<&Root>,
        (address, is_wide): (&str, bool),
        size: u32,
        ok: &str,
        read: Option<&str>,
    ) -> Result<(), Refusal> {
        let roots = self.roots(access, root);
        if roots.is_empty() && root.is_some() {
            let reason = "the check has no bounds for the memory of this access";
            return refuse(&self.kernel.name, access.line, reason);
        }
        let bits = if is_wide { 64 } else { 32 };
        let base = if is_wide { self.d(0) } else { self.r(0) };
        let is_write = access.kind != AccessKind::Read;
        let _ = write!(out, "setp.ne.b{bits} {ok}, {address}, {address}; ");
        for allowed in roots {
            let (bound, fits) = match allowed {
                AllowedRoot::Memory(memory) => {
                    let start = self.parameter(ExtraParameter::Base(memory));
                    let _ = write!(out, "ld.param.u64 {base}, [{start}]; ");
                    let fits = self.limit(out, (memory, is_write), size);
                    (self.d(1), fits)
                }
                AllowedRoot::Variable(var, is_generic) => {
                    let is_constant =
                        var.is_table || matches!(var.space, Space::Const | Space::Param);
                    if is_write && is_constant || !self.is_visible(&var.name) {
                        continue;
                    }
                    variable_address(out, var, (&base, bits), is_generic);
                    match self.variable_limit(out, access.line, var, is_wide, size)? {
                        Some(bound) => (bound, None),
                        // Another module may define it.
                        None => continue,
                    }
                }
            };
            let _ = write!(out, "sub.s{bits} {base}, {address}, {base}; ");
            match (read, fits) {
                (Some(read), _) => self.compare_ends(out, read, &base, &bound, ok),
                (None, Some(fits)) => {
                    let _ = write!(
                        out,
                        "setp.lt.and.u{bits} {fits}, {base}, {bound}, {fits}; \
                         or.pred {ok}, {ok}, {fits}; "
                    );
                }
                (None, None) => {
                    let _ = write!(out, "setp.lt.or.u{bits} {ok}, {base}, {bound}, {ok}; ");
                }
            }
        }
        Ok(())
    }

    /// Returns the number of offsets in a variable at which `size` bytes fit, as an operand of a
    /// comparison, or `None` if the module does not know the size of the variable. Appends the
    /// code that reads it from a parameter if the launch sets it.
    fn variable_limit(
        &mut self,
        out: &mut String,
        line: u32,
        var: &Var,
        is_wide: bool,
        size: u32,
    ) -> Result<Option<String>, Refusal> {
        if var.is_dynamic {
            let count = self.parameter(ExtraParameter::DynamicShared { size });
            let (wide, narrow) = (self.d(1), self.r(1));
            let _ = write!(out, "ld.param.u64 {wide}, [{count}]; ");
            if is_wide {
                return Ok(Some(wide));
            }
            let _ = write!(out, "cvt.u32.u64 {narrow}, {wide}; ");
            return Ok(Some(narrow));
        }
        let Some(bytes) = var.size else {
            return Ok(None);
        };
        let count = ExtraParameter::limit(bytes, size);
        if count > 1 << 31 {
            let reason = format!(
                "the variable {} has {bytes} bytes, more than can be checked",
                var.name
            );
            return refuse(&self.kernel.name, line, reason);
        }
        Ok(Some(count.to_string()))
    }

    /// Appends code that sets the predicate `ok` if the offset in the register `offset`, and the
    /// sum of it and of the number of bytes in `read`, are less than `bound`. The sum may wrap
    /// only if the first comparison fails.
    fn compare_ends(&self, out: &mut String, read: &str, offset: &str, bound: &str, ok: &str) {
        let (end, inside) = (self.d(2), self.p(4));
        let _ = write!(
            out,
            "setp.lt.u64 {inside}, {offset}, {bound}; \
             cvt.u64.u32 {end}, {read}; \
             add.s64 {offset}, {offset}, {end}; \
             setp.lt.and.u64 {inside}, {offset}, {bound}, {inside}; \
             or.pred {ok}, {ok}, {inside}; "
        );
    }

    /// Appends code that sets the predicate `ok` if the bytes from `low` to `high`, counted from
    /// the address in the register `base`, are in one of the roots of an access.
    pub(super) fn compare_range(
        &mut self,
        out: &mut String,
        access: &Access,
        root: Option<&Root>,
        (base, is_wide): (&str, bool),
        (low, high): (i64, i64),
        ok: &str,
    ) -> Result<(), Refusal> {
        let Ok(size) = u32::try_from(high - low) else {
            return refuse(&self.kernel.name, access.line, "a range of more than 4 GiB");
        };
        if let ([AllowedRoot::Memory(memory)], true) =
            (self.roots(access, root).as_slice(), is_wide)
        {
            let memory = *memory;
            let is_write = access.kind != AccessKind::Read;
            let (offset, limit) = (self.d(0), self.d(1));
            let is_full = self.extra.len() >= MAX_PARAMETERS;
            let start = self.parameter(match low {
                0 => ExtraParameter::Base(memory),
                _ if is_full => ExtraParameter::Base(memory),
                _ => ExtraParameter::Start {
                    memory,
                    offset: -low,
                },
            });
            let _ = write!(out, "ld.param.u64 {offset}, [{start}]; ");
            let fits = self.limit(out, (memory, is_write), size);
            let _ = write!(out, "sub.s64 {offset}, {base}, {offset}; ");
            if is_full && low != 0 {
                let _ = write!(out, "add.s64 {offset}, {offset}, {low}; ");
            }
            let _ = match fits {
                Some(fits) => write!(out, "setp.lt.and.u64 {ok}, {offset}, {limit}, {fits}; "),
                None => write!(out, "setp.lt.u64 {ok}, {offset}, {limit}; "),
            };
            return Ok(());
        }
        let (bits, address) = match is_wide {
            true => (64, self.d(8)),
            false => (32, self.r(8)),
        };
        let _ = write!(out, "add.s{bits} {address}, {base}, {low}; ");
        self.compare(out, access, root, (&address, is_wide), size, ok, None)
    }

    /// Appends code that loads the number of offsets at which `size` bytes are in a memory to the
    /// second 64-bit register. With many parameters, it computes the number from the size of the
    /// memory, and returns a predicate that is set if the number is not negative.
    fn limit(
        &mut self,
        out: &mut String,
        (memory, is_write): (usize, bool),
        size: u32,
    ) -> Option<String> {
        let limit = self.d(1);
        // An asynchronous copy has no fixed size, so its limit is always a parameter.
        let is_computed = self.extra.len() >= MAX_PARAMETERS && size > 1;
        let count = self.parameter(ExtraParameter::Limit {
            memory,
            size: if is_computed { 1 } else { size },
            is_write,
        });
        let _ = write!(out, "ld.param.u64 {limit}, [{count}]; ");
        is_computed.then(|| {
            let (fits, less) = (self.p(4), size - 1);
            let _ = write!(out, "setp.gt.u64 {fits}, {limit}, {less}; ");
            let _ = write!(out, "sub.s64 {limit}, {limit}, {less}; ");
            fits
        })
    }

    /// Appends code that clears `ok` unless the address is a multiple of the size. Sizes are less
    /// than 2³², so the low half of a 64-bit address is enough.
    pub(super) fn align(
        &self,
        out: &mut String,
        (address, is_wide): (&str, bool),
        mask: u32,
        ok: &str,
    ) {
        if mask > 0 {
            let low = self.r(0);
            let convert = if is_wide { "cvt.u32.u64" } else { "mov.u32" };
            let _ = write!(
                out,
                "{convert} {low}, {address}; and.b32 {low}, {low}, {mask}; "
            );
            let _ = write!(out, "setp.eq.and.b32 {ok}, {low}, 0, {ok}; ");
        }
    }
}

/// Appends code that sets a register of 32 or 64 bits to the address of a variable.
fn variable_address(out: &mut String, var: &Var, (register, bits): (&str, u32), is_generic: bool) {
    let _ = write!(out, "mov.u{bits} {register}, {}; ", var.name);
    if is_generic {
        let space = match var.space {
            Space::Shared => "shared",
            Space::Global => "global",
            Space::Const => "const",
            _ => "local",
        };
        let _ = write!(out, "cvta.{space}.u64 {register}, {register}; ");
    }
}
