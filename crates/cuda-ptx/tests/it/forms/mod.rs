//! The list of permitted instruction forms.

mod assembler;
mod closed;
mod corpus;
mod page;

use std::collections::BTreeSet;
use std::fmt::Write;

use cuda_ptx::analysis::{Analysis, Argument};
use cuda_ptx::forms::{self, Example, OperandRole};

use crate::support::{launch, output};

/// The registers that examples use.
const REGISTERS: &str = ".reg .pred %p<100>; .reg .b8 %b<100>; .reg .b16 %h<100>; \
    .reg .b32 %r<100>, %s<100>; .reg .b64 %d<100>, %a<100>; .reg .f32 %f<100>; .reg .f64 %g<100>; \
    .reg .u32 %u<9>; .reg .s64 %v<9>; .reg .f16 %e<9>;";

/// A kernel with one instruction.
fn kernel(name: &str, instruction: &str) -> String {
    let (mut before, mut after) = (String::new(), "");
    if instruction.contains("%q") {
        before += ".reg .b128 %q<100>; ";
    }
    if instruction.contains("%d99") {
        before += "createpolicy.fractional.L2::evict_first.b64 %d99, 1.0; ";
    }
    if instruction.contains("brx") {
        before += "T: .branchtargets L; ";
    }
    if instruction.starts_with("br") {
        after = "L: ";
    }
    format!(
        ".visible .entry {name}(.param .u64 x, .param .align 16 .b8 n[64]) {{ {REGISTERS} \
         {before}\n{instruction}\n{after}ret; }}\n"
    )
}

/// A module that has kernels for a version and a target.
fn module(version: &str, target: &str) -> String {
    format!(".version {version}\n.target {target}\n.address_size 64\n")
}

/// The reason for which cuda-ptx refuses a kernel with one instruction, and the accesses.
fn analysed(instruction: &str) -> Result<Vec<(cuda_ptx::analysis::AccessKind, u32)>, String> {
    let text = module("8.8", "sm_100a") + &kernel("k", instruction);
    let module = cuda_ptx::parse(&text).map_err(|error| error.to_string())?;
    let analysis = Analysis::of(&module, &module.functions[0]);
    if let Some(refusal) = analysis.refusal() {
        return Err(refusal.to_string());
    }
    let arguments = [output(1 << 20), Argument::scalar([0; 64])];
    let verdict = analysis.evaluate(&launch([1, 1, 1], [64, 1, 1], arguments));
    let Some(contract) = verdict.contract() else {
        return Ok(Vec::new());
    };
    let accesses = contract.accesses.iter();
    Ok(accesses.map(|it| (it.kind, it.size)).collect())
}

fn examples() -> Vec<(&'static str, Example)> {
    let rows = forms::families().into_iter().flat_map(|family| family.rows);
    rows.flat_map(|row| {
        let examples = row.examples().into_iter();
        examples.map(move |example| (row.form, example))
    })
    .collect()
}

#[test]
fn every_row_is_parsed() {
    let families = forms::families();
    let parsed: usize = families.iter().map(|family| family.rows.len()).sum();
    assert_eq!(parsed, forms::row_count());
    assert!(parsed > 400, "{parsed}");
    let rows: BTreeSet<&str> = families
        .iter()
        .flat_map(|family| family.rows.iter().map(|row| row.form))
        .collect();
    assert_eq!(rows.len(), parsed, "a row occurs twice");
}

#[test]
fn every_example_is_permitted() {
    let mut faults = String::new();
    let examples = examples();
    for (row, example) in &examples {
        if let Err(reason) = analysed(&example.text) {
            let _ = writeln!(faults, "{row}\n    {}\n    {reason}", example.text);
        }
    }
    assert!(examples.len() > 5000, "{}", examples.len());
    assert!(faults.is_empty(), "{faults}");
}

/// The table and the decoder state the bytes of each access independently.
#[test]
fn accesses_have_the_size_of_their_row() {
    let mut faults = String::new();
    let mut compared = 0;
    for (row, example) in examples() {
        let Ok(accesses) = analysed(&example.text) else {
            continue;
        };
        let roles = example.operands.iter().map(|operand| operand.role);
        let stated: Vec<_> = roles
            .filter_map(|role| match role {
                OperandRole::Address { kind, bytes } => Some((kind, bytes)),
                _ => None,
            })
            .collect();
        let is_object = example
            .operands
            .iter()
            .any(|operand| operand.role == OperandRole::Handle);
        // Parameters are no memory, and a reduction is a write without a result.
        if is_object || example.text.contains("[n]") {
            continue;
        }
        let is_same = accesses.len() == stated.len()
            && accesses.iter().zip(&stated).all(|(found, stated)| {
                let is_reduction = example.text.starts_with("red.");
                let is_kind = found.0 == stated.0 || is_reduction;
                is_kind && stated.1.is_none_or(|bytes| bytes == found.1)
            });
        compared += stated.len();
        if !is_same {
            let text = &example.text;
            let _ = writeln!(faults, "{row}\n    {text}\n    {stated:?}, {accesses:?}");
        }
    }
    assert!(compared > 2000, "{compared}");
    assert!(faults.is_empty(), "{faults}");
}
