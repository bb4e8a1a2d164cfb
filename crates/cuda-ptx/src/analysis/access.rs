//! Decides for one access whether it stays in its buffer or variable.

use crate::ast::Space;
use crate::flow::{Access, AccessKind, Tile};

use super::bound::{Bound, Prover};
use super::form::{Form, Symbol, floor_div};
use super::round::Round;
use super::symbols::Kind;
use super::verdict::{Outcome, Reason, Root};

/// The result for one access.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) outcome: Outcome,
    /// The first byte after the access, as an expression in scalars.
    pub(super) end: Option<Form>,
    /// The reason for which no launch with these arguments is possible.
    pub(super) refusal: Option<String>,
}

/// How many choices, one inside the other, the alignment of an address may depend on.
const CHOICES: u32 = 2;

/// A root: its size, its alignment, and whether it may be written.
struct RootInfo {
    root: Root,
    size: Option<u64>,
    align: u64,
    is_writable: bool,
}

/// Judges an access at `address`. A matrix has a stride, in elements.
pub(super) fn judge(
    round: &Round<'_>,
    access: &Access,
    address: Option<Form>,
    stride: Option<&Form>,
    facts: &[Form],
) -> Finding {
    let checked = |root, reason| Finding {
        outcome: Outcome::Checked { root, reason },
        end: None,
        refusal: None,
    };
    let Some(address) = address else {
        return checked(None, Reason::UnknownAddress);
    };
    let symbols = &round.symbols;
    let mut roots = address
        .terms()
        .iter()
        .filter(|term| symbols.is_root(term.0));
    let (Some(&(root, 1)), None) = (roots.next(), roots.next()) else {
        return checked(None, Reason::UnknownAddress);
    };
    let Some(info) = root_info(round, root, access) else {
        return checked(None, Reason::WrongSpace);
    };
    match bounds(round, access, &address.without(root), stride, facts, &info) {
        Ok((low, high, end)) => Finding {
            outcome: Outcome::Proven {
                root: info.root,
                low,
                high,
            },
            end: Some(end),
            refusal: None,
        },
        Err(reason) => checked(Some(info.root), reason),
    }
}

/// Returns the properties of a root, if an access to its space may use it.
fn root_info(round: &Round<'_>, root: Symbol, access: &Access) -> Option<RootInfo> {
    match round.symbols.info(root).kind {
        Kind::Buffer(param, offset) => {
            let argument = round.launch.arguments.get(param as usize)?;
            let buffer = argument.buffer_at(offset)?;
            matches!(access.space, None | Some(Space::Global)).then(|| RootInfo {
                root: Root::Buffer {
                    parameter: param,
                    offset,
                },
                size: Some(buffer.bytes),
                align: buffer.align,
                is_writable: buffer.is_writable,
            })
        }
        Kind::Variable(var, is_generic) => {
            let info = round.kernel.vars.get(var as usize)?;
            let fits = match access.space {
                None => is_generic,
                Some(Space::Global) => info.space == Space::Global,
                Some(space) => !is_generic && info.space == space,
            };
            let fits = fits && access.fits(info.space);
            // Matrices exist in these two spaces only.
            let holds_tiles = matches!(info.space, Space::Global | Space::Shared);
            (fits && (access.tile.is_none() || holds_tiles)).then(|| RootInfo {
                root: Root::Variable(info.name.clone()),
                size: round.size_of(var),
                align: info.align,
                is_writable: !info.is_table && !matches!(info.space, Space::Const | Space::Param),
            })
        }
        _ => None,
    }
}

/// The range of bytes of an access, if it is in its root.
fn bounds(
    round: &Round<'_>,
    access: &Access,
    base: &Form,
    stride: Option<&Form>,
    facts: &[Form],
    root: &RootInfo,
) -> Result<(u64, u64, Form), Reason> {
    if !access.is_simple && access.tile.is_none() {
        return Err(Reason::Matrix);
    }
    let size = root.size.ok_or(Reason::UnknownSize)?;
    if access.kind != AccessKind::Read && !root.is_writable {
        return Err(Reason::ReadOnly);
    }
    let prover = round.prover(facts);
    let offset = base.plus(access.offset.into()).ok_or(Reason::NoBound)?;
    // A register of 32 bits may wrap before the instruction adds its offset. Variables in shared
    // memory are below 2³⁰, so that 2³¹ more does not wrap.
    if access.bits == 32 && access.offset != 0 {
        let is_shared = access.space == Some(Space::Shared);
        let is_exact = prover.is_at_least(base, 0) && prover.is_at_most(base, 1 << 31);
        if !is_shared || !is_exact {
            return Err(Reason::NoBound);
        }
    }
    let low = prover.lower(&offset).ok_or(Reason::NoBound)?;
    let mut high = prover.upper(&offset).ok_or(Reason::NoBound)?;
    let mut bytes = i128::from(access.size);
    if let Some(tile) = access.tile {
        // The largest offset and the largest stride may belong to different threads. So the proof
        // covers a warp that uses the address of one thread and the stride of another.
        let span = span(round, &prover, tile, stride)?;
        let value = high.value.checked_add(span.value);
        let form = high.form.add(&span.form);
        let (value, form) = value.zip(form).ok_or(Reason::NoBound)?;
        high = Bound { value, form };
        bytes = tile.line_bytes().into();
    }
    let end = high.value.checked_add(bytes).ok_or(Reason::NoBound)?;
    let is_inside = low >= 0 && end <= i128::from(size);
    let (Ok(start), Ok(stop), true) = (u64::try_from(low), u64::try_from(end), is_inside) else {
        let clamped = |value: i128| {
            let limit = 1i128 << 64;
            value.clamp(-limit, limit)
        };
        return Err(Reason::OutOfRange {
            low: clamped(low),
            high: clamped(end),
            bytes: size,
        });
    };
    let align = u64::from(access.align()).max(1);
    let is_multiple = round.symbols.is_multiple(&offset, align.into(), CHOICES);
    if !is_multiple || !root.align.is_multiple_of(align) {
        return Err(Reason::Misaligned { align });
    }
    let form = high.form.plus(bytes).ok_or(Reason::NoBound)?;
    Ok((start, stop, form))
}

/// The bytes from the beginning of the first line of a matrix to that of the last.
fn span(
    round: &Round<'_>,
    prover: &Prover<'_>,
    tile: Tile,
    stride: Option<&Form>,
) -> Result<Bound, Reason> {
    let unit = i128::from(tile.stride_unit());
    let least = i128::from(tile.elements);
    let unknown = Reason::Stride {
        multiple: tile.stride_unit().into(),
        least: tile.elements.into(),
    };
    let bound = || {
        let stride = stride?;
        // The manual does not say whether the operand has a sign.
        let is_allowed = round.symbols.concrete(stride)?.is_multiple_of(unit)
            && prover.is_at_least(stride, least)
            && prover.is_at_most(stride, i32::MAX.into());
        let bound = prover.upper(stride).filter(|_| is_allowed)?;
        let (lines, bits) = (i128::from(tile.lines) - 1, i128::from(tile.bits));
        // A multiple of the unit has a whole number of bytes.
        let largest = floor_div(bound.value, unit).checked_mul(unit)?;
        let value = largest.checked_mul(lines * bits)? / 8;
        let form = match bits >= 8 && largest == bound.value {
            true => bound.form.scale(lines * bits / 8)?,
            false => Form::number(value),
        };
        Some(Bound { value, form })
    };
    bound().ok_or(unknown)
}
