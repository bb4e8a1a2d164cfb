//! NVIDIA's assembler as the judge of the list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use cuda_ptx::forms::{self, Example};
use test_assembler::{Assembler, assemblers, newest};

use super::{analysed, kernel, module};

/// The most kernels of one text.
const MOST: usize = 300;

/// Assembles one kernel for each instruction. Returns those that are refused, with the error.
fn judge(
    assembler: &Assembler,
    version: &str,
    target: &str,
    instructions: &[&str],
) -> BTreeMap<String, String> {
    let mut refused = BTreeMap::new();
    for all in instructions.chunks(MOST) {
        // An error may hide those of other kernels, so what is refused is left out.
        let mut left: Vec<&str> = all.to_vec();
        while !left.is_empty() {
            let mut text = module(version, target);
            let mut lines = BTreeMap::new();
            for (number, instruction) in left.iter().enumerate() {
                text += &kernel(&format!("k{number}"), instruction);
                lines.insert(text.lines().count() - 1, *instruction);
            }
            let Err(answer) = assembler.assemble(&text, target, &["-O0"]) else {
                break;
            };
            assert!(
                answer.is_orderly(),
                "{:?}: {}",
                answer.status,
                answer.stderr
            );
            let before = refused.len();
            for line in answer.stderr.lines() {
                let Some((_, rest)) = line.split_once("line ") else {
                    continue;
                };
                let (number, message) = rest.split_once(';').unwrap_or((rest, ""));
                let number = number.trim().parse::<usize>().unwrap_or(0);
                if let Some(instruction) = lines.get(&number) {
                    refused.insert((*instruction).to_owned(), message.trim().to_owned());
                }
            }
            assert!(refused.len() > before, "{}", answer.stderr);
            left.retain(|it| !refused.contains_key(*it));
        }
    }
    refused
}

/// Whether the assembler has this PTX version.
fn has_version(assembler: &Assembler, version: &str, target: &str) -> bool {
    let text = module(version, target) + &kernel("k", "bar.sync 0;");
    assembler.assemble(&text, target, &["-O0"]).is_ok()
}

#[test]
fn assembler_accepts_every_example() {
    let Some(assemblers) = assemblers() else {
        return;
    };
    let mut groups: BTreeMap<(&str, &str), Vec<Example>> = BTreeMap::new();
    for (_, example) in super::examples() {
        let key = (example.version, example.target);
        groups.entry(key).or_default().push(example);
    }
    let mut faults = String::new();
    let mut judged: BTreeSet<&str> = BTreeSet::new();
    for assembler in &assemblers {
        for (&(version, target), examples) in &groups {
            if !assembler.knows(target) || !has_version(assembler, version, target) {
                continue;
            }
            let texts: Vec<&str> = examples.iter().map(|it| it.text.as_str()).collect();
            judged.extend(&texts);
            for (text, error) in judge(assembler, version, target, &texts) {
                let by = &assembler.version;
                let _ = writeln!(
                    faults,
                    "ptxas {by}, PTX {version}, {target}: {text}\n    {error}"
                );
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(judged.len() > 5000, "{}", judged.len());
}

/// Instructions that differ from `example` in one modifier or in one operand.
fn neighbours(example: &Example) -> Vec<String> {
    let text = example.text.trim_end_matches(';');
    let head = text.split(' ').next().unwrap_or(text);
    let mut parts = head.split('.');
    let opcode = parts.next().unwrap_or("");
    let modifiers: Vec<&str> = parts.collect();
    let operands: Vec<&str> = example.operands.iter().map(|it| it.text.as_str()).collect();
    let mut all = Vec::new();
    let mut add = |modifiers: &[&str], operands: &[&str]| {
        let mut text = String::from(opcode);
        for modifier in modifiers {
            let _ = write!(text, ".{modifier}");
        }
        all.push(format!("{text} {};", operands.join(", ")));
    };
    const MODIFIERS: &[&str] = &[
        "u8",
        "u16",
        "u32",
        "s32",
        "u64",
        "b8",
        "b16",
        "b32",
        "b64",
        "f16",
        "f16x2",
        "bf16",
        "f32",
        "f64",
        "pred",
        "global",
        "shared",
        "local",
        "const",
        "param",
        "v2",
        "v4",
        "rn",
        "rz",
        "ftz",
        "sat",
        "approx",
        "relu",
        "gpu",
        "sys",
        "relaxed",
        "acquire",
        "release",
        "volatile",
        "ca",
        "cg",
        "nc",
        "lo",
        "hi",
        "wide",
        "cc",
        "aligned",
        "sync",
        "eq",
        "lt",
        "lo",
        "and",
        "L1::no_allocate",
        "L2::128B",
        "uni",
        "add",
        "noftz",
        "trap",
        "zero",
        "2d",
        "x2",
        "trans",
    ];
    for at in 0..modifiers.len() {
        let mut fewer = modifiers.clone();
        fewer.remove(at);
        add(&fewer, &operands);
        let mut more = modifiers.clone();
        more.insert(at, modifiers[at]);
        add(&more, &operands);
        if at > 0 {
            let mut swapped = modifiers.clone();
            swapped.swap(at - 1, at);
            add(&swapped, &operands);
        }
        for other in MODIFIERS {
            let mut changed = modifiers.clone();
            changed[at] = other;
            add(&changed, &operands);
        }
    }
    for other in MODIFIERS {
        for at in 0..=modifiers.len() {
            let mut more = modifiers.clone();
            more.insert(at, other);
            add(&more, &operands);
        }
    }
    const OPERANDS: &[&str] = &[
        "%p1",
        "!%p1",
        "%b1",
        "%h1",
        "%r1",
        "%d1",
        "%f1",
        "%g1",
        "%u1",
        "%v1",
        "%e1",
        "1",
        "-1",
        "0f3F800000",
        "0d3FF0000000000000",
        "1.5",
        "_",
        "x",
        "%tid.x",
        "%clock64",
        "WARP_SZ",
        "{%r1, %r2}",
        "{%f1}",
        "%r1|%p1",
        "%p1|%p2",
        "[%d1]",
        "[%r1]",
        "[%f1]",
        "[64]",
        "[x]",
        "[n]",
    ];
    for at in 0..operands.len() {
        let mut fewer = operands.clone();
        fewer.remove(at);
        add(&modifiers, &fewer);
        for other in OPERANDS {
            let mut changed = operands.clone();
            changed[at] = other;
            add(&modifiers, &changed);
        }
    }
    for other in ["%r1", "%d1", "%p1", "1"] {
        let mut more = operands.clone();
        more.push(other);
        add(&modifiers, &more);
    }
    all
}

#[test]
fn assembler_accepts_every_permitted_neighbour() {
    let Some(assembler) = newest() else {
        return;
    };
    let mut permitted: BTreeMap<String, &str> = BTreeMap::new();
    let mut count = 0;
    for family in forms::families() {
        for row in family.rows {
            if let Some(example) = row.examples().first() {
                for text in neighbours(example) {
                    count += 1;
                    if analysed(&text).is_ok() {
                        permitted.insert(text, row.form);
                    }
                }
            }
        }
    }
    let texts: Vec<&str> = permitted.keys().map(String::as_str).collect();
    let mut faults = String::new();
    for (text, error) in judge(&assembler, "9.1", "sm_100a", &texts) {
        // The list does not know which target has which form.
        let is_of_target = error.contains("not supported on .target") || error.contains("requires");
        if !is_of_target || error.contains("requires .global") {
            let _ = writeln!(faults, "{}: {text}\n    {error}", permitted[&text]);
        }
    }
    assert!(
        count > 20_000 && texts.len() > 2000,
        "{count}, {}",
        texts.len()
    );
    assert!(faults.is_empty(), "{faults}");
}
