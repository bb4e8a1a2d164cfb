//! Tests PTX instructions one by one against results that the host computes in another way.
//!
//! Integer results are computed with 128-bit integers, floating-point results with exact numbers
//! that are rounded once. Each form is a kernel of its own and is applied to edge values and random
//! ones, in both dialects of PTX, on software devices and on the GPU if there is one. The results
//! of the GPU are also compared with those of the software device.

mod compare;
mod fixture;
mod input;
mod kernel;
mod number;
mod operation;
mod table;

use std::collections::BTreeSet;

use compare::check;

#[test]
fn integers() {
    check(&table::integer::operations());
}

#[test]
fn bits() {
    check(&table::bits::operations());
}

#[test]
fn halves() {
    check(&table::half::operations());
}

#[test]
fn comparisons() {
    check(&table::compare::operations());
}

#[test]
fn conversions() {
    check(&table::convert::operations());
}

#[test]
fn approximations() {
    check(&table::approximate::operations());
}

#[test]
fn warps() {
    check(&table::warp::operations());
}

#[test]
fn special_registers() {
    check(&table::special::operations());
}

#[test]
fn memory() {
    check(&table::memory::operations());
}

#[test]
fn atomics() {
    check(&table::atomic::operations());
}

#[test]
fn floats_of_8_bits() {
    check(&table::byte_float::operations());
}

#[test]
fn floats() {
    check(&table::float::operations());
}

#[test]
fn every_group_has_enough_cases() {
    let all = table::all();
    let names: BTreeSet<&str> = all.iter().map(|one| one.name.as_str()).collect();
    println!("{} instructions in {} cases", names.len(), all.len());
    assert!(names.len() >= 250, "{}", names.len());
}
