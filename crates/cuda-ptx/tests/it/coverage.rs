//! The number of accesses of the kernels in the repository that are proven, with guessed arguments:
//! a parameter of 8 bytes is a large buffer, and every number is 1000.

use std::fs;
use std::path::Path;

use cuda_ptx::analysis::{Analysis, Argument, Buffer, LaunchValues, Outcome, Verdict};
use cuda_ptx::{Function, parse};

use crate::text::texts;

/// Kernels, those that are proven and those that are refused; accesses, and those that are proven.
#[derive(Debug, Default)]
struct Counts {
    kernels: u32,
    proven_kernels: u32,
    refused: u32,
    accesses: u32,
    proven: u32,
}

fn launch(function: &Function<'_>) -> LaunchValues {
    let buffer = Buffer {
        bytes: 1 << 40,
        align: 256,
        is_writable: true,
    };
    let arguments = function.params.iter().map(|param| {
        let bits: u64 = param
            .ty
            .trim_start_matches(char::is_alphabetic)
            .parse()
            .unwrap_or(64);
        let bytes = bits / 8 * u64::from(param.vector) * param.count.unwrap_or(1);
        match bytes {
            8 => Argument::buffer(buffer),
            _ => Argument::scalar(
                (0..bytes)
                    .map(|at| [0xe8, 3, 0, 0][at as usize % 4])
                    .collect::<Vec<u8>>(),
            ),
        }
    });
    LaunchValues {
        cluster: None,
        grid: [8, 1, 1],
        block: [128, 1, 1],
        dynamic_shared: 32 << 10,
        arguments: arguments.collect(),
    }
}

#[test]
fn most_accesses_of_real_kernels_are_proven() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/nvrtc_output");
    let mut found = Vec::new();
    texts(&root, &mut found);
    found.sort();
    let mut counts = Counts::default();
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        let module = parse(&text).unwrap();
        for function in module.functions.iter().filter(|function| function.entry) {
            let analysis = Analysis::of(&module, function);
            let verdict = analysis.evaluate(&launch(function));
            assert_eq!(
                analysis.evaluate(&launch(function)),
                verdict,
                "the result is the same again"
            );
            counts.kernels += 1;
            counts.proven_kernels += u32::from(verdict.is_proven());
            match &verdict {
                Verdict::Refused(refusal) => {
                    println!("{}: {refusal}", path.display());
                    counts.refused += 1;
                }
                Verdict::Proven(contract) | Verdict::Checked(contract) => {
                    let is_open = |outcome: &Outcome| matches!(outcome, Outcome::Checked { .. });
                    let open = contract
                        .accesses
                        .iter()
                        .filter(|access| is_open(&access.outcome));
                    counts.accesses += contract.accesses.len() as u32;
                    counts.proven += (contract.accesses.len() - open.count()) as u32;
                }
            }
        }
    }
    println!("{counts:?}");
    assert!(counts.kernels > 20, "{counts:?}");
    assert!(counts.proven * 100 > counts.accesses * 90, "{counts:?}");
}
