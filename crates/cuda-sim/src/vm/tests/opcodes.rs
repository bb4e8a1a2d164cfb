//! The tables of opcodes, special registers and atomic operations.

use super::device::{Device, TARGET};
use crate::vm::decode::{opcode_examples, unimplemented_opcodes};
use crate::vm::special;

/// Loads a kernel that consists of `text`.
fn load(text: &str) -> Result<(), String> {
    let kernel = format!(
        ".global .align 64 .b8 data[64];
        .func helper() {{ ret; }}
        .visible .entry kernel() {{
            .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .pred %p<8>;
            .shared .align 128 .b8 tile[1024];
            $list: .branchtargets $next;
            {text}
            $next: ret; }}"
    );
    match Device::load(&kernel, &TARGET) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn every_opcode_is_registered_once() {
    let names: Vec<&str> = opcode_examples().map(|(name, _)| name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(names, sorted, "the table is not sorted or has a row twice");
    assert!(!names.is_empty());
}

#[test]
fn the_example_of_every_opcode_decodes() {
    for (name, example) in opcode_examples() {
        let opcode = example.split(['.', ' ', ';']).next();
        assert_eq!(opcode, Some(name), "the example of `{name}` is `{example}`");
        assert_eq!(load(example), Ok(()), "{example}");
    }
}

#[test]
fn an_opcode_outside_of_the_table_is_refused() {
    let error = load("frobnicate.b32 %r1;").unwrap_err();
    assert!(
        error.contains("Not a name of any known instruction: 'frobnicate'"),
        "{error}"
    );
}

#[test]
fn an_opcode_of_the_manual_is_in_one_of_two_tables() {
    let unimplemented = unimplemented_opcodes();
    assert!(unimplemented.is_sorted_by(|one, next| one < next));
    for name in unimplemented {
        assert!(opcode_examples().all(|(implemented, _)| implemented != *name));
        let error = load(&format!("{name}.b32 %r1, %r2;")).unwrap_err();
        assert!(
            error.contains(&format!("does not implement `{name}.b32`")),
            "{error}"
        );
    }
}

#[test]
fn every_special_register_is_found_once_by_name() {
    let names: Vec<&str> = special::names().collect();
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{name} has two rows");
        if *name == special::EXPLICIT_CLUSTER {
            assert_eq!(load(&format!("mov.pred %p1, {name};")), Ok(()));
            continue;
        }
        let (name, member) = name.split_once('.').unwrap_or((name, ""));
        assert!(special::parse(name, member).is_some(), "{name}.{member}");
        assert!(special::parse(name, "w").is_none(), "{name}.w");
        let dot = if member.is_empty() { "" } else { "." };
        let both =
            format!("mov.u32 %r1, {name}{dot}{member}; cvt.u64.u32 %d1, {name}{dot}{member};");
        assert_eq!(load(&both), Ok(()));
    }
    assert!(special::parse("%tid", "").is_none());
    assert!(special::parse("%ti", "x").is_none());
}
