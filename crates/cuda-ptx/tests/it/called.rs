//! Kernels that call functions, which NVRTC compiled.

use cuda_ptx::analysis::{Argument, Buffer, LaunchValues, Verdict};

use crate::support::{analysis, input, int, launch, output, reasons};

const TEXT: &str = include_str!("kernels/calls.ptx");

fn evaluate(name: &str, launch: &LaunchValues) -> Verdict {
    analysis(TEXT, name).evaluate(launch)
}

#[test]
fn functions_need_exactly_the_data_of_their_callers() {
    let plane = |in_bytes, out_bytes| {
        let arguments = [input(in_bytes), output(out_bytes), int(100), int(80)];
        evaluate("called", &launch([7, 10, 1], [16, 8, 1], arguments))
    };
    let verdict = plane(32_000, 32_000);
    assert!(verdict.is_proven(), "{verdict}");
    assert_eq!(reasons(&plane(31_999, 32_000)).len(), 1);
    assert_eq!(reasons(&plane(32_000, 31_999)).len(), 1);
    // The access has the lines of the function.
    let expected = "PTX line 48, calls.cu:4";
    assert!(verdict.to_string().contains(expected), "{verdict}");
}

#[test]
fn nested_functions_keep_the_bounds_of_their_results() {
    let line = |bytes| {
        let arguments = [input(bytes), output(4000), int(1000)];
        evaluate("nested", &launch([4, 1, 1], [256, 1, 1], arguments))
    };
    let verdict = line(4000);
    assert!(verdict.is_proven(), "{verdict}");
    assert!(!line(3999).is_proven());
}

#[test]
fn structs_are_passed_in_parts() {
    let view = |bytes| {
        let mut data = vec![0; 8];
        data.extend([100_i32.to_le_bytes(), 80_i32.to_le_bytes()].concat());
        let buffer = Buffer {
            bytes,
            align: 4,
            is_writable: true,
        };
        let argument = Argument::scalar(data).with_buffer(0, buffer);
        evaluate("by_value", &launch([7, 10, 1], [16, 8, 1], [argument]))
    };
    let verdict = view(32_000);
    assert!(verdict.is_proven(), "{verdict}");
    assert!(!view(31_999).is_proven());
}

#[test]
fn an_assert_bounds_what_follows_it() {
    let scatter = |bytes| {
        let arguments = [input(4000), output(bytes), int(1000)];
        evaluate("asserted", &launch([4, 1, 1], [256, 1, 1], arguments))
    };
    let verdict = scatter(4000);
    assert!(verdict.is_proven(), "{verdict}");
    assert!(!scatter(3999).is_proven());
    let analysis = analysis(TEXT, "asserted");
    assert_eq!(analysis.traps().len(), 1);
    assert!(analysis.variables().is_empty());
}
