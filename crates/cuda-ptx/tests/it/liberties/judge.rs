//! The rows, as the assembler and the analysis see them.

use std::collections::{BTreeMap, BTreeSet};
use std::env;

use test_assembler::Assembler;

use super::rows::{Row, rows};
use super::{Kernel, analysed, text, verdict};

const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];
const LIMIT: &str = "--maxrregcount=24";

fn is_full() -> bool {
    env::var_os("CUDA_FULL").is_some_and(|value| value == "1")
}

/// The options with which a text is assembled for an architecture.
fn options(arch: &str) -> Vec<Vec<&'static str>> {
    let mut all = vec![vec!["-O3"], vec!["-O3", LIMIT]];
    if arch == "sm_90" || is_full() {
        all.extend([vec!["-O1"], vec!["-O0"], vec!["-g"], vec!["-O1", LIMIT]]);
    }
    if is_full() {
        all.extend([
            vec!["-O2"],
            vec!["-O1", LIMIT],
            vec!["-O0", LIMIT],
            vec!["-g", LIMIT],
        ]);
        all.extend([
            vec!["-O3", "-lineinfo"],
            vec!["-O3", "--dont-merge-basicblocks"],
        ]);
    }
    all
}

fn is_known(row: &Row, arch: &str) -> bool {
    arch[3..].parse::<u32>().is_ok_and(|arch| row.arch <= arch)
}

/// Whether a row is assembled with these options. A row that needs a limit of registers shows
/// nothing without one, and the others show nothing with one.
fn is_seen(row: &Row, options: &[&str]) -> bool {
    is_full() || row.is_limited() == options.contains(&LIMIT)
}

/// The machine code of the kernels in each place: a version, an architecture and options.
fn machine_code(
    assembler: &Assembler,
    arch: &str,
    options: &[&str],
    rows: &[Row],
) -> BTreeMap<String, Vec<String>> {
    let kernels = rows
        .iter()
        .filter(|row| is_known(row, arch) && is_seen(row, options))
        .flat_map(|row| [&row.needed, &row.satisfied]);
    let text = text(kernels, arch);
    let cubin = assembler.assemble(&text, arch, options);
    let cubin = cubin.unwrap_or_else(|refused| panic!("{}\n{text}", refused.stderr));
    let listings = assembler.disassemble(&cubin).into_iter();
    listings.map(|it| (it.function, it.instructions)).collect()
}

#[test]
fn assembler_takes_each_liberty_only_where_the_rules_say() {
    let Some(assemblers) = test_assembler::assemblers() else {
        return;
    };
    let rows = rows();
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    let mut faults = Vec::new();
    let mut places = 0;
    for assembler in &assemblers {
        for arch in ARCHITECTURES
            .into_iter()
            .filter(|arch| assembler.knows(arch))
        {
            for options in options(arch) {
                places += 1;
                let code = machine_code(assembler, arch, &options, &rows);
                for row in rows
                    .iter()
                    .filter(|row| is_known(row, arch) && is_seen(row, &options))
                {
                    let holds = |kernel: &Kernel| (row.holds)(&code[&kernel.name]);
                    if holds(&row.needed) == Some(false) {
                        taken.insert(row.name);
                    }
                    if holds(&row.satisfied) == Some(false) {
                        let place = (&assembler.version, arch, &options);
                        let code = code[&row.satisfied.name].join("\n");
                        faults.push(format!("{} {place:?}:\n{code}", row.name));
                    }
                }
            }
        }
    }
    println!("{} rows in {places} places", rows.len());
    assert!(
        faults.is_empty(),
        "{} faults: {}",
        faults.len(),
        faults.join("\n\n")
    );
    let all: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
    assert_eq!(taken, all, "a liberty that no version takes needs no rule");
}

/// A number for which the kernels store outside of `x`, if the guard is not there.
const OUTSIDE: i32 = 1000;

#[test]
fn analysis_proves_only_what_the_assembler_keeps() {
    for row in rows() {
        let is_safe = |kernel: &Kernel| {
            let is_proven = verdict(kernel, OUTSIDE).is_proven();
            is_proven && analysed(kernel).volatile_loads().is_empty()
        };
        assert!(!is_safe(&row.needed), "{}", row.name);
        assert!(
            is_safe(&row.satisfied),
            "{}: {}",
            row.name,
            verdict(&row.satisfied, OUTSIDE)
        );
    }
}
