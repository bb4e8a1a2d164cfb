//! The time for a text is linear in its length.

use std::time::{Duration, Instant};

use super::super::{Analysis, Root};
use crate::canonical::Canonical;
use crate::instrument::{Check, instrument};

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// The shortest of three times for a part of the work on a text.
fn time(text: &str, work: &dyn Fn(&str) -> Duration) -> Duration {
    let times = (0..3).map(|_| work(text));
    times.min().unwrap_or_default()
}

/// Fails if four times the size takes more than about nine times as long. Quadratic work takes
/// sixteen times as long.
fn expect_linear(size: usize, text: impl Fn(usize) -> String, work: &dyn Fn(&str) -> Duration) {
    let (short, long) = (time(&text(size), work), time(&text(4 * size), work));
    let most = 9 * short + Duration::from_millis(20);
    assert!(
        long < most,
        "{short:?} for {size}, {long:?} for 4 times {size}"
    );
}

fn canonical(text: &str) -> Canonical {
    let module = crate::parse(text).unwrap_or_else(|error| panic!("{error}"));
    Canonical::new(&module).unwrap_or_else(|error| panic!("{error}"))
}

/// The time in which a module is printed.
fn printing(text: &str) -> Duration {
    let module = crate::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let start = Instant::now();
    let _ = Canonical::new(&module);
    start.elapsed()
}

fn repeated(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect()
}

#[test]
fn many_kernels_take_linear_time() {
    let text = |count| {
        let kernels = repeated(count, |number| {
            format!(".global .u32 v{number};\n.visible .entry k{number}() {{ ret; }}\n")
        });
        format!("{HEAD}{kernels}")
    };
    expect_linear(700, text, &printing);
    let calls = |count| {
        let kernels = repeated(count, |number| {
            format!(".visible .entry k{number}() {{ call f; ret; }}\n")
        });
        format!("{HEAD}.func f() {{ ret; }}\n{kernels}")
    };
    expect_linear(300, calls, &printing);
}

#[test]
fn long_names_take_linear_time() {
    let text = |length: usize| {
        let digits = "1".repeat(length);
        format!(
            "{HEAD}.func f() {{ .reg .b64 %r<9>; mov.u64 %r1, %q{digits}; ret; }}\n\
             .visible .entry k() {{ call f; ret; }}\n"
        )
    };
    expect_linear(16_000, text, &printing);
    let error = crate::parse(&text(70_000)).unwrap_err();
    assert!(
        error
            .message
            .contains("has 70002 bytes; the limit is 65536")
    );
}

#[test]
fn edges_are_counted_before_they_are_made() {
    let text = |count| {
        let labels: Vec<String> = (0..count).map(|number| format!("L{number}")).collect();
        let blocks = repeated(count, |number| format!("L{number}: brx.idx %r1, T;\n"));
        format!(
            "{HEAD}.visible .entry k(.param .u32 n) {{\n.reg .b32 %r<9>;\nld.param.u32 %r1, [n];\n\
             T: .branchtargets {};\n{blocks}ret; }}\n",
            labels.join(",")
        )
    };
    expect_linear(700, text, &printing);
    let canonical = canonical(&text(700));
    let reason = &canonical.refusal("k").expect("refused").reason;
    assert_eq!(
        reason,
        "the control flow is too complex; the limit is 320000 edges"
    );
}

#[test]
fn a_check_after_many_branches_takes_linear_time() {
    let text = |count| {
        let branches = repeated(count, |number| {
            format!(
                "setp.lt.u32 %p1, %r1, {number};\n@%p1 bra L{number};\nadd.s32 %r2, %r2, %r1;\n\
                 L{number}:\n"
            )
        });
        format!(
            "{HEAD}.visible .entry k(.param .u64 x, .param .u32 n) {{\n.reg .pred %p<2>; \
             .reg .b32 %r<3>; .reg .b64 %d<4>;\nld.param.u64 %d1, [x];\nld.param.u32 %r1, [n];\n\
             mov.u32 %r2, %tid.x;\n{branches}mul.wide.u32 %d2, %r2, 4;\nadd.s64 %d3, %d1, %d2;\n\
             st.global.u32 [%d3], %r1;\nret; }}\n"
        )
    };
    let checking = |text: &str| {
        let module = crate::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let function = &module.functions[0];
        let analysis = Analysis::of(&module, function);
        let x = Root::Buffer {
            parameter: 0,
            offset: 0,
        };
        let check = Check {
            access: 0,
            root: Some(x.clone()),
            is_aligned: false,
        };
        let start = Instant::now();
        let new = instrument(text, &module, function, &analysis, &[check], &[Some(x)]);
        let time = start.elapsed();
        assert!(new.is_ok_and(|new| new.sites.len() == 1));
        time
    };
    expect_linear(700, text, &checking);
}

#[test]
fn names_that_are_taken_take_linear_time() {
    let variables = |count| {
        let blocks = repeated(count, |_| "{ .shared .b32 s; }\n".to_owned());
        format!("{HEAD}.visible .entry k() {{\n{blocks}ret; }}\n")
    };
    expect_linear(700, variables, &printing);
    let beginnings = |count| {
        let names = repeated(count, |number| format!(".global .u32 inl{number}_;\n"));
        format!("{HEAD}{names}.func f() {{ ret; }}\n.visible .entry k() {{ call f; ret; }}\n")
    };
    expect_linear(1000, beginnings, &printing);
    // Each variable has the address of the next, and the last that of nothing.
    let addresses = |count| {
        let all = repeated(count, |number| {
            format!(".global .u64 v{number} = v{};\n", number + 1)
        });
        format!("{HEAD}{all}.visible .entry k() {{ ret; }}\n")
    };
    expect_linear(700, addresses, &printing);
}

#[test]
fn nesting_and_reasons_have_limits() {
    let nested = |depth: usize| {
        let (open, close) = ("{".repeat(depth), "}".repeat(depth));
        format!("{HEAD}.visible .entry k() {{ {open}{close} ret; }}")
    };
    assert!(crate::parse(&nested(900)).is_ok());
    let error = crate::parse(&nested(1001)).unwrap_err();
    assert!(error.message.contains("the limit is 1000"), "{error}");
    let name = "a".repeat(60_000);
    let text = format!("{HEAD}.visible .entry k() {{ .reg .b64 %d; mov.u64 %d, {name}; ret; }}");
    let canonical = canonical(&text);
    let reason = &canonical.refusal("k").expect("refused").reason;
    assert_eq!(reason.len(), 8192);
    assert!(reason.contains("a [...] a"));
}
