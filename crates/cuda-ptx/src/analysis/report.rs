//! The contract of the findings.

use std::sync::Arc;

use crate::flow::{Kernel, Var};

use super::access::Finding;
use super::form::Form;
use super::launch::LaunchValues;
use super::symbols::{Kind, Symbols};
use super::verdict::{
    AccessKind, AccessReport, Contract, ObjectCondition, Outcome, Precondition, Reason, Root,
    VariableSize,
};

/// Makes the contract of the findings. What was proven before the analysis gave up stays proven.
pub(super) fn report(
    kernel: &Kernel,
    symbols: &Symbols,
    findings: Vec<Option<Finding>>,
    gave_up: bool,
) -> Contract {
    let mut contract = Contract {
        kernel: kernel.name.clone(),
        preconditions: Vec::new(),
        accesses: Vec::new(),
        objects: Vec::new(),
        variables: kernel.used_variables(),
        sizes: Vec::new(),
        files: Arc::default(),
    };
    for (access, finding) in kernel.accesses.iter().zip(findings) {
        let (mut outcome, end) = match finding {
            Some(finding) => (finding.outcome, finding.end),
            None => (Outcome::Unreached, None),
        };
        if let (true, Outcome::Checked { reason, .. }) = (gave_up, &mut outcome) {
            *reason = Reason::GaveUp;
        }
        if let (Outcome::Proven { root, high, .. }, Some(end)) = (&outcome, end)
            && let Root::Buffer { parameter, offset } = root
        {
            let name = &kernel.params[*parameter as usize].name;
            let new = Precondition {
                buffer: match offset {
                    0 => name.clone(),
                    offset => format!("{name}+{offset}"),
                },
                root: root.clone(),
                bytes: *high,
                expression: expression(kernel, symbols, &end),
                align: access.align().into(),
                is_written: access.kind != AccessKind::Read,
                line: access.line,
                location: access.location,
            };
            merge(&mut contract.preconditions, new);
        }
        if let (Some(object), Some(Root::Object { parameter })) = (access.object, outcome.root()) {
            let new = ObjectCondition {
                parameter: *parameter,
                name: kernel.params[*parameter as usize].name.clone(),
                requirement: object.to_string(),
                line: access.line,
            };
            let is_same = |old: &ObjectCondition| {
                old.parameter == new.parameter && old.requirement == new.requirement
            };
            if !contract.objects.iter().any(is_same) {
                contract.objects.push(new);
            }
        }
        contract.accesses.push(AccessReport {
            line: access.line,
            location: access.location,
            mnemonic: access.mnemonic.clone(),
            kind: access.kind,
            space: access.space,
            size: access.size,
            is_object: access.object.is_some(),
            outcome,
        });
    }
    contract
}

/// Adds a precondition, or joins it with that of the same buffer.
fn merge(preconditions: &mut Vec<Precondition>, new: Precondition) {
    let Some(old) = preconditions.iter_mut().find(|old| old.root == new.root) else {
        preconditions.push(new);
        return;
    };
    let align = old.align.max(new.align);
    let is_written = old.is_written || new.is_written;
    if new.bytes > old.bytes {
        *old = new;
    }
    (old.align, old.is_written) = (align, is_written);
}

/// A form over scalars as text, such as `4·n + 8`.
fn expression(kernel: &Kernel, symbols: &Symbols, form: &Form) -> String {
    let mut text = String::new();
    let mut push = |value: i128, name: Option<String>| {
        let (sign, value) = (value < 0, value.unsigned_abs());
        match (text.is_empty(), sign) {
            (true, true) => text.push('-'),
            (true, false) => {}
            (false, true) => text.push_str(" - "),
            (false, false) => text.push_str(" + "),
        }
        match name {
            Some(name) if value == 1 => text.push_str(&name),
            Some(name) => text.push_str(&format!("{value}·{name}")),
            None => text.push_str(&value.to_string()),
        }
    };
    for &(symbol, by) in form.terms() {
        if let Kind::Scalar(param, offset, _) = symbols.info(symbol).kind {
            let name = &kernel.params[param as usize].name;
            push(
                by,
                Some(match offset {
                    0 => name.clone(),
                    offset => format!("{name}[{offset}]"),
                }),
            );
        }
    }
    if form.constant != 0 || form.is_number() {
        push(form.constant, None);
    }
    text
}

/// Returns the sizes of the variables whose addresses the kernel uses.
pub(super) fn sizes(kernel: &Kernel, launch: &LaunchValues) -> Vec<VariableSize> {
    let used = kernel
        .vars
        .iter()
        .filter(|var| var.is_used && var.param.is_none());
    let size = |var: &Var| {
        let bytes = match var.is_dynamic {
            true => launch.dynamic_shared.into(),
            false => var.size?,
        };
        Some(VariableSize {
            name: var.name.clone(),
            space: var.space,
            bytes,
            is_dynamic: var.is_dynamic,
        })
    };
    used.filter_map(size).collect()
}
