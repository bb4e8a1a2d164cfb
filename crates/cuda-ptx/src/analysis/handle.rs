//! Decides for one use of a texture or a surface whether its handle is an argument that permits it.
//!
//! The hardware confines each fetch to the memory of its texture. It confines a surface access to
//! the surface, too, but an access outside of it may be a fault: see [`outcome`].

use std::collections::HashMap;

use crate::flow::{Access, BoundaryMode, Kernel, Object, ObjectKind, ObjectUse, Op, Source, Value};

use super::access::Finding;
use super::form::Form;
use super::round::Round;
use super::symbols::Kind;
use super::verdict::{Outcome, Reason, Root};

/// Judges a use of the object with this handle. For a surface, `coordinate` is the one in bytes.
pub(super) fn judge_object(
    round: &Round<'_>,
    access: &Access,
    object: ObjectUse,
    handle: Option<Form>,
    coordinate: Option<Form>,
) -> Finding {
    match parameter(round, access, object, handle) {
        Ok(parameter) => Finding {
            outcome: outcome(round, access, object, parameter, coordinate),
            end: None,
            refusal: None,
        },
        Err(refusal) => Finding {
            outcome: Outcome::Checked {
                root: None,
                reason: Reason::UnknownAddress,
            },
            end: None,
            refusal: Some(refusal),
        },
    }
}

/// The parameter whose object the instruction uses, if it may do so.
fn parameter(
    round: &Round<'_>,
    access: &Access,
    object: ObjectUse,
    handle: Option<Form>,
) -> Result<u32, String> {
    let mnemonic = &access.mnemonic;
    let unknown = || {
        format!(
            "{mnemonic} uses a handle that is not the value of one parameter; only textures and \
             surfaces that are arguments of the launch are supported"
        )
    };
    let handle = handle.ok_or_else(unknown)?;
    let (&[(symbol, 1)], 0) = (handle.terms(), handle.constant) else {
        return Err(unknown());
    };
    let name = |parameter: u32| &round.kernel.params[parameter as usize].name;
    let parameter = match round.symbols.info(symbol).kind {
        Kind::Object(parameter) => parameter,
        Kind::Scalar(parameter, 0, 8) | Kind::Buffer(parameter, 0) => {
            let name = name(parameter);
            return Err(format!(
                "{mnemonic} uses {name} as a handle, but the argument is not a texture or a \
                 surface; it must be {object}"
            ));
        }
        _ => return Err(unknown()),
    };
    let argument = round.launch.arguments.get(parameter as usize);
    let given = argument.and_then(|argument| argument.object.as_ref());
    let given = given.ok_or_else(unknown)?;
    if object.permits(given) {
        return Ok(parameter);
    }
    let name = name(parameter);
    Err(format!(
        "{mnemonic} needs {object}, but the argument for {name} is {given}"
    ))
}

/// The result for an instruction that uses an object which permits it.
///
/// An access outside of a surface is a fault in the mode `.trap`, and an access whose coordinate in
/// bytes is not a multiple of its size may be one in all modes. What the modes mean for layers is
/// not documented. All of these need a check when the kernel runs.
fn outcome(
    round: &Round<'_>,
    access: &Access,
    object: ObjectUse,
    parameter: u32,
    coordinate: Option<Form>,
) -> Outcome {
    let root = Root::Object { parameter };
    let reason = match object {
        ObjectUse::Surface {
            mode: BoundaryMode::Trap,
            ..
        } => Some(Reason::Trap),
        ObjectUse::Surface { shape, .. } if shape.is_layered() => Some(Reason::Layer),
        ObjectUse::Surface { size, .. } => {
            let form = coordinate.and_then(|form| round.symbols.concrete(&form));
            let is_aligned = form.is_some_and(|form| form.is_multiple_of(size.into()));
            let align = access.size.into();
            (size != 1 && !is_aligned).then_some(Reason::Misaligned { align })
        }
        _ => None,
    };
    match reason {
        Some(reason) => Outcome::Checked {
            root: Some(root),
            reason,
        },
        None => Outcome::Proven {
            root,
            low: 0,
            high: 0,
        },
    }
}

/// The parameters that a kernel uses as handles without any computation, and an object for each.
pub(super) fn needed(kernel: &Kernel) -> Vec<(u32, Object)> {
    let order = kernel.graph.order.iter();
    let blocks: Vec<_> = order.map(|&block| &kernel.blocks[block as usize]).collect();
    let mut sources: HashMap<Value, Source> = HashMap::new();
    let mut parameters: HashMap<Value, u32> = HashMap::new();
    for ins in blocks.iter().flat_map(|block| &block.ins) {
        match (ins.op, ins.target, ins.guard) {
            (Op::Copy { .. }, Some(target), None) => {
                sources.insert(target, ins.sources[0]);
            }
            (
                Op::Param {
                    param,
                    offset: 0,
                    size: 8,
                    ..
                },
                Some(target),
                None,
            ) => {
                parameters.insert(target, param);
            }
            _ => {}
        }
    }
    let mut found: Vec<(u32, Object)> = Vec::new();
    for ins in blocks.iter().flat_map(|block| &block.ins) {
        let Op::Access(number) = ins.op else {
            continue;
        };
        let Some(object) = kernel.accesses[number as usize].object else {
            continue;
        };
        // Copies of copies come to an end, because each value is set once.
        let mut source = ins.sources[0];
        while let Source::Value(value) = source
            && let Some(&from) = sources.get(&value)
        {
            source = from;
        }
        let Source::Value(value) = source else {
            continue;
        };
        let Some(&parameter) = parameters.get(&value) else {
            continue;
        };
        let new = object.example();
        match found.iter_mut().find(|it| it.0 == parameter) {
            Some((_, old)) => *old = joined(*old, new, object),
            None => found.push((parameter, new)),
        }
    }
    found.sort_by_key(|it| it.0);
    found
}

/// An object that permits both uses, as far as one exists. `last` is the use that needs `new`.
fn joined(old: Object, new: Object, last: ObjectUse) -> Object {
    let is_query = matches!(
        last,
        ObjectUse::QueryTexture(_) | ObjectUse::QuerySurface(_)
    );
    let kind = match (old.kind, new.kind) {
        (ObjectKind::Texture { can_gather: a }, ObjectKind::Texture { can_gather: b }) => {
            ObjectKind::Texture { can_gather: a || b }
        }
        (
            ObjectKind::Surface {
                element_bytes: old_bytes,
                is_writable: a,
            },
            ObjectKind::Surface {
                element_bytes,
                is_writable: b,
            },
        ) => ObjectKind::Surface {
            element_bytes: if is_query { old_bytes } else { element_bytes },
            is_writable: a || b,
        },
        (kind, _) => kind,
    };
    let shape = if last.permits(&old) || is_query {
        old.shape
    } else {
        new.shape
    };
    Object { kind, shape }
}
