//! Kernels that try to exhaust the analysis, and launches that do not fit.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::super::{Analysis, Argument, Buffer, LaunchValues, Outcome, Reason, Verdict};

fn analysis(body: &str) -> Analysis {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 x, .param .u32 n) {{\n\
         .reg .pred %p<10000>; .reg .b32 %r<100000>; .reg .b64 %d<10>;\n\
         ld.param.u64 %d1, [x];\nld.param.u32 %r1, [n];\n{body}\n}}\n"
    );
    let module = crate::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    Analysis::of(&module, &module.functions[0])
}

fn launch() -> LaunchValues {
    LaunchValues {
        cluster: None,
        grid: [4, 1, 1],
        block: [256, 1, 1],
        dynamic_shared: 0,
        arguments: vec![
            Argument::buffer(Buffer {
                bytes: 4096,
                align: 256,
                is_writable: true,
            }),
            Argument::scalar(7u32.to_le_bytes()),
        ],
    }
}

/// Evaluates in bounded time.
fn evaluate(body: &str) -> Verdict {
    let start = Instant::now();
    let verdict = analysis(body).evaluate(&launch());
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    verdict
}

const STORE: &str =
    "mul.wide.u32 %d2, %r2, 4;\nadd.s64 %d3, %d1, %d2;\nst.global.u32 [%d3], %r1;\n";

#[test]
fn long_chains_do_not_exhaust_the_stack() {
    let mut chain = String::from("mov.u32 %r2, %tid.x;\nsetp.eq.u32 %p1, %r2, 1;\n");
    for number in 1..9000 {
        chain += &format!("not.pred %p{}, %p{number};\n", number + 1);
        chain += &format!("and.pred %p{}, %p1, %p{number};\n", number + 1);
        chain += "xor.b32 %r2, %r2, %r1;\nshr.u32 %r2, %r2, 0;\n";
    }
    chain += "@%p9000 bra $end;\n";
    assert!(
        evaluate(&format!("{chain}{STORE}$end:"))
            .contract()
            .is_some()
    );
    let mut nested = String::from("mov.u32 %r2, %tid.x;\n");
    for number in 0..3000 {
        nested += &format!("setp.eq.u32 %p1, %r2, {number};\n@%p1 bra $L{number};\n");
        nested += "selp.b32 %r2, %r2, %r1, %p1;\nmin.u32 %r2, %r2, %r1;\n";
    }
    for number in (0..3000).rev() {
        nested += &format!("$L{number}:\n");
    }
    assert!(evaluate(&format!("{nested}{STORE}")).contract().is_some());
}

#[test]
fn many_loops_and_values_end() {
    let mut loops = String::from("mov.u32 %r2, %tid.x;\n");
    for number in 0..300 {
        loops += &format!("$L{number}: add.u32 %r2, %r2, 1;\n");
    }
    for number in (0..300).rev() {
        loops += &format!(
            "add.u32 %r3, %r3, 2;\nsetp.lt.u32 %p1, %r2, {number};\n@%p1 bra $L{number};\n"
        );
    }
    assert!(evaluate(&format!("{loops}{STORE}")).contract().is_some());
    let mut values = String::new();
    for number in 2..60_000 {
        values += &format!("add.u32 %r{number}, %r{}, %r{};\n", number - 1, number / 2);
    }
    assert!(
        evaluate(&format!("{values}mov.u32 %r2, %r59999;\n{STORE}"))
            .contract()
            .is_some()
    );
    let mut huge = String::from("mov.u32 %r2, %tid.x;\n");
    for _ in 0..500_000 {
        huge += "add.u32 %r2, %r2, 0;\n";
    }
    let verdict = evaluate(&format!("{huge}{STORE}"));
    assert_eq!(
        verdict.refusal().expect("refused").reason,
        "the kernel has more than 400000 operations or 40000 basic blocks"
    );
}

#[test]
fn analysis_reports_that_it_gave_up() {
    // Each step chooses between two values that a later one depends on.
    let mut choices = String::from("mov.u32 %r2, %tid.x;\nmov.u32 %r3, %ctaid.x;\n");
    for number in 0..2000 {
        choices += &format!(
            "ld.global.u32 %r4, [%d1];\nsetp.lt.u32 %p1, %r4, %r3;\nadd.u32 %r5, %r4, {number};\n\
             selp.b32 %r2, %r2, %r5, %p1;\nselp.b32 %r3, %r5, %r2, %p1;\n\
             setp.lt.u32 %p2, %r2, %r3;\n@%p2 bra $L{number};\nadd.s32 %r2, %r2, %r3;\n$L{number}:\n"
        );
    }
    let verdict = evaluate(&format!("{choices}{STORE}"));
    let accesses = &verdict.contract().expect("not refused").accesses;
    let last = &accesses.last().expect("an access").outcome;
    assert!(
        matches!(
            last,
            Outcome::Checked {
                reason: Reason::GaveUp,
                ..
            }
        ),
        "{last:?}"
    );
}

/// What is known about local memory is kept for each block, so that its size has a limit.
#[test]
fn much_local_memory_in_many_blocks_counts_as_unset() {
    let is_proven = |variables: u32, blocks: u32| {
        let mut body = String::from("setp.eq.u32 %p1, %r1, 3;\nmov.u32 %r3, 0;\n");
        for number in 0..variables {
            body += &format!(".local .align 4 .b8 l{number}[16384];\n");
        }
        for number in 0..blocks {
            body += &format!("@%p1 bra $L{number};\nadd.u32 %r3, %r3, 1;\n$L{number}:\n");
        }
        body += "st.local.u32 [l0], 0;\nld.local.u32 %r2, [l0];\nsetp.ge.u32 %p2, %r2, 1;\n\
                 @%p2 ret;\n";
        let verdict = evaluate(&format!("{body}{STORE}"));
        (verdict.is_proven(), verdict.to_string())
    };
    for (variables, blocks) in [(40, 10), (1, 900)] {
        let (is_proven, verdict) = is_proven(variables, blocks);
        assert!(is_proven, "{verdict}");
    }
    assert!(!is_proven(40, 900).0);
}

/// The manual leaves these accesses undefined. An H200 drops some of them, and the results of
/// others depend on unrelated memory.
#[test]
fn only_loads_and_stores_access_local_memory() {
    let outcomes = |first: &str| {
        let body = format!(
            ".local .align 128 .b8 l[256];\nmov.u64 %d4, l;\ncvta.local.u64 %d5, %d4;\n{first}\n\
             ld.local.u32 %r2, [l];\nsetp.ge.u32 %p2, %r2, 1024;\n@%p2 ret;\n{STORE}"
        );
        let verdict = evaluate(&body);
        let contract = verdict.contract();
        let accesses = &contract.unwrap_or_else(|| panic!("{verdict}")).accesses;
        let all: Vec<Outcome> = accesses
            .iter()
            .map(|access| access.outcome.clone())
            .collect();
        (all[0].clone(), all[all.len() - 1].clone())
    };
    let is_proven = |outcome: &Outcome| matches!(outcome, Outcome::Proven { .. });
    for first in ["st.u32 [%d5], 0;", "st.volatile.u32 [%d5], 0;"] {
        let (first, last) = outcomes(first);
        assert!(is_proven(&first) && is_proven(&last), "{first:?} {last:?}");
    }
    for first in [
        "red.add.u32 [%d5], 0;",
        "red.relaxed.gpu.add.u32 [%d5], 0;",
        "atom.exch.b32 %r3, [%d5], 0;",
        "atom.cas.b32 %r3, [%d5], 0, 1;",
        "st.relaxed.gpu.u32 [%d5], 0;",
        "st.release.gpu.u32 [%d5], 0;",
        "ld.acquire.gpu.u32 %r3, [%d5];",
    ] {
        let (access, last) = outcomes(first);
        let reason = match access {
            Outcome::Checked { reason, .. } => reason,
            other => panic!("{first}: {other:?}"),
        };
        assert_eq!(reason, Reason::WrongSpace, "{first}");
        // The local variable is not set, except by the stores.
        assert_eq!(
            is_proven(&last),
            first.starts_with("st."),
            "{first}: {last:?}"
        );
    }
}

#[test]
fn unreachable_code_may_use_any_register() {
    for unreachable in [
        "tex.2d.v4.f32.f32 {%r9, %r8, %r7, %r6}, [%d1, {%r4, %r5}];",
        "ld.global.nc.u32 %r9, [%d9];",
        "vote.ballot.sync.b32 %r9, %p9, -1;",
        "ld.local.u32 %r9, [%d9];",
    ] {
        let body = format!("mov.u32 %r2, %tid.x;\n{STORE}ret;\n{unreachable}\n");
        let verdict = evaluate(&body);
        assert!(verdict.is_proven(), "{unreachable}: {verdict}");
    }
}

#[test]
fn a_launch_that_does_not_fit_is_refused() {
    let analysis = analysis(&format!("mov.u32 %r2, %tid.x;\n{STORE}"));
    assert!(analysis.evaluate(&launch()).is_proven());
    let refused = |change: &dyn Fn(&mut LaunchValues), expected: &str| {
        let mut launch = launch();
        change(&mut launch);
        let verdict = analysis.evaluate(&launch);
        let reason = &verdict.refusal().expect("refused").reason;
        assert!(reason.contains(expected), "{reason}");
    };
    refused(
        &|launch| drop(launch.arguments.pop()),
        "1 arguments for 2 parameters",
    );
    refused(
        &|launch| launch.arguments[1] = Argument::scalar([0; 8]),
        "8 bytes for n",
    );
    refused(&|launch| launch.grid[1] = 0, "grid or block size is 0");
    refused(&|launch| launch.block[0] = u32::MAX, "above 2147483647");
    refused(&|launch| launch.block = [u32::MAX; 3], "above 2147483647");
    // The products of these sizes exceed 64 bits.
    let most = [i32::MAX as u32; 3];
    let verdict = analysis.evaluate(&LaunchValues {
        grid: most,
        block: most,
        ..launch()
    });
    assert!(!verdict.is_proven(), "{verdict}");
    let buffer = Buffer {
        bytes: 1,
        align: 3,
        is_writable: false,
    };
    refused(
        &|launch| launch.arguments[0] = Argument::buffer(buffer),
        "not a power of two",
    );
    let buffer = Buffer { align: 4, ..buffer };
    let twice = || Argument::buffer(buffer).with_buffer(0, buffer);
    refused(&|launch| launch.arguments[0] = twice(), "overlap");
}

#[test]
fn a_product_of_127_bits_has_no_known_bits() {
    let verdict = evaluate(
        "ld.global.u64 %d2, [%d1];\nld.global.u64 %d3, [%d1+8];\n\
         mul.lo.s64 %d4, %d2, -4611686018427387904;\nor.b64 %d5, %d4, %d3;\n\
         add.s64 %d6, %d1, %d5;\nst.global.u8 [%d6], %r1;\nret;",
    );
    assert!(!verdict.is_proven(), "{verdict}");
}

/// Whether an operand of an instruction is, or contains, the name of a variable.
fn names_variable(line: &str) -> bool {
    let (_, operands) = line.trim().split_once(['\t', ' ']).unwrap_or_default();
    let is_part = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '%' | '$' | '.');
    let mut words = operands.split(|it| !is_part(it));
    words.any(|word| word.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_'))
}

#[test]
fn no_text_makes_the_analysis_panic() {
    let base = include_str!("../../../tests/it/kernels/known.ptx");
    let lines: Vec<&str> = base
        .lines()
        .filter(|line| line.starts_with('\t') && line.ends_with(';'))
        // Declarations are part of the new text.
        .filter(|line| !line.starts_with("\t."))
        // This kernel has the parameters of all kernels, but no variables.
        .filter(|line| line.contains("ld.param") || !names_variable(line))
        .collect();
    let mut rng = Rng::with_seed(5);
    let mut analysed = 0;
    for _ in 0..300 {
        let mut body: Vec<&str> = (0..60).map(|_| lines[rng.usize(..lines.len())]).collect();
        // What follows is unreachable up to the next label.
        if rng.bool() {
            let end = ["ret;", "exit;", "trap;", "bra $END;"][rng.usize(..4)];
            body[rng.usize(..60)] = end;
        }
        let mut names: Vec<&str> = body
            .iter()
            .filter_map(|line| line.split_once('[')?.1.split([']', '+']).next())
            .filter(|name| !name.starts_with('%'))
            .collect();
        names.sort_unstable();
        names.dedup();
        let params: String = names
            .iter()
            .map(|name| format!(", .param .align 8 .b8 {name}[64]"))
            .collect();
        let words = body.iter().flat_map(|line| line.split([' ', '\t', ';']));
        let mut labels: Vec<&str> = words.filter(|word| word.starts_with("$L")).collect();
        labels.sort_unstable();
        labels.dedup();
        let labels: String = labels.iter().map(|label| format!("{label}:\n")).collect();
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, \
             .param .u32 n{params}) {{\n.reg .pred %p<20>; .reg .b32 %r<99>; .reg .b64 %rd<99>, \
             %SP, %SPL;\n.reg .f32 %f<99>; .reg .f64 %fd<99>; .reg .b16 %rs<99>;\n\
             {}\n{labels}{}\n$END: ret;\n}}\n",
            body[..30].join("\n"),
            body[30..].join("\n")
        );
        let Ok(module) = crate::parse(&text) else {
            continue;
        };
        let mut launch = launch();
        launch
            .arguments
            .resize(2 + names.len(), Argument::scalar([0; 64]));
        let verdict = Analysis::of(&module, &module.functions[0]).evaluate(&launch);
        analysed += u32::from(verdict.contract().is_some());
    }
    // The others have a label twice, or a barrier that needs more threads.
    assert!(analysed > 80, "{analysed}");
}
