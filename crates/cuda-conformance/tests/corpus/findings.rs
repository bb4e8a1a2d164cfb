//! The programs in CUDA C++ of `docs/findings.md`: the software device reports each of them, and
//! reports nothing about the same program without the defect.

use cuda_driver::prelude::*;
use cuda_nvrtc::Arch;
use cuda_sim::{Hazard, ReportKind};

use crate::support::{Fixture, Source, simulated};

const PAGE: &str = include_str!("../../../../docs/findings.md");

/// A program of the page, with its defects and its correction.
struct Case {
    kernel: &'static str,
    threads: u32,
    shared_bytes: u32,
    /// The numbers of elements of the arrays of `int` that the kernel takes.
    arrays: &'static [usize],
    expected: ReportKind,
    /// A text of the program, and its replacement that removes the defect.
    correction: (&'static str, &'static str),
}

const RACE: ReportKind = ReportKind::Race(Hazard::ReadAfterWrite);

const CASES: &[Case] = &[
    Case {
        kernel: "load",
        threads: 2,
        shared_bytes: 4,
        arrays: &[2],
        expected: ReportKind::OutOfBounds,
        correction: ("list[2 * threadIdx.x]", "list[0]"),
    },
    Case {
        kernel: "copy",
        threads: 64,
        shared_bytes: 0,
        arrays: &[64, 64],
        expected: ReportKind::Race(Hazard::WriteAfterWrite),
        correction: ("cuda::memcpy", "if (threadIdx.x == 0) cuda::memcpy"),
    },
    Case {
        kernel: "sync",
        threads: 64,
        shared_bytes: 0,
        arrays: &[64],
        expected: RACE,
        correction: ("__syncwarp();", "__syncthreads();"),
    },
    Case {
        kernel: "swap",
        threads: 2,
        shared_bytes: 0,
        arrays: &[2],
        expected: RACE,
        correction: ("out[", "__syncthreads(); out["),
    },
    Case {
        kernel: "read",
        threads: 2,
        shared_bytes: 0,
        arrays: &[1, 2],
        expected: ReportKind::OutOfBounds,
        correction: ("in[threadIdx.x]", "in[0]"),
    },
    Case {
        kernel: "axpy",
        threads: 32,
        shared_bytes: 0,
        arrays: &[10, 10, 10],
        expected: ReportKind::OutOfBounds,
        correction: ("i < n", "i < 10"),
    },
    Case {
        kernel: "reverse",
        threads: 10,
        shared_bytes: 0,
        arrays: &[1, 1],
        expected: ReportKind::OutOfBounds,
        correction: ("i = threadIdx.x", "i = 0"),
    },
    Case {
        kernel: "replace",
        threads: 1,
        shared_bytes: 0,
        arrays: &[],
        expected: ReportKind::OutOfBounds,
        correction: (
            "int descriptor[1];",
            "__align__(128) int descriptor[32];
            for (int i = 0; i < 32; i++) descriptor[i] = 0;",
        ),
    },
    Case {
        kernel: "store_tile",
        threads: 32,
        shared_bytes: 0,
        arrays: &[32],
        expected: RACE,
        correction: ("out[", "__syncwarp(); out["),
    },
];

/// Returns the programs in C++ of the page.
fn programs() -> impl Iterator<Item = &'static str> {
    let blocks = PAGE.split("```c++\n").skip(1);
    blocks.map(|block| block.split_once("```").unwrap().0)
}

/// Returns the name of the only kernel of a program.
fn kernel_of(program: &str) -> &str {
    let after = program.split_once("__global__ void ").unwrap().1;
    after.split_once('(').unwrap().0
}

impl Case {
    /// Compiles and runs a program, and returns the kinds of the reports about it.
    fn reports(&self, fixture: &Fixture, name: String, program: &str) -> Vec<ReportKind> {
        let text = program.replace("__global__", "extern \"C\" __global__");
        let source = Source::new(name.leak(), text.leak()).with_headers();
        let arch = Arch::compute(9, 0).accelerated();
        let module = fixture.module_of_ptx(&source, arch);
        let kernel = module.function(self.kernel).unwrap();
        let mut arrays: Vec<DeviceBuffer<i32>> =
            self.arrays.iter().map(|n| fixture.zeroed(*n)).collect();
        let config = LaunchConfig::new(1, self.threads).with_shared_bytes(self.shared_bytes);
        let stream = &fixture.stream;
        let mut args = ArgList::new();
        match arrays.as_mut_slice() {
            [r, x, y] => {
                args.push(r).push(3_i32).push(x).push(y).push(16_u32);
            }
            arrays => {
                for array in arrays {
                    args.push(array);
                }
            }
        }
        // SAFETY: the kernels take these arguments. Some access memory out of bounds; the software
        // device checks each access.
        unsafe { stream.launch(&kernel, config, &args) }.unwrap();
        drop(args);
        // A report of an invalid access is also an error, as on a GPU.
        let is_fault = stream.synchronize().is_err();
        let reports = fixture.simulator.as_ref().unwrap().take_reports();
        assert_eq!(is_fault, reports.iter().any(|it| it.status.is_some()));
        reports.into_iter().map(|report| report.kind).collect()
    }
}

/// Returns a new software device of compute capability 9.0; none without NVRTC.
fn device() -> Option<Fixture> {
    simulated().find(|fixture| {
        let capability = fixture.context.device().compute_capability().unwrap();
        (capability.major, capability.minor) == (9, 0)
    })
}

#[test]
fn each_program_of_the_page_has_a_case() {
    let kernels: Vec<_> = programs().map(kernel_of).collect();
    let cases: Vec<_> = CASES.iter().map(|case| case.kernel).collect();
    assert_eq!(kernels, cases);
}

#[test]
fn each_program_is_reported_as_the_page_says() {
    for (case, program) in CASES.iter().zip(programs()) {
        let Some(fixture) = device() else { return };
        let kinds = case.reports(&fixture, format!("{}.cu", case.kernel), program);
        assert!(kinds.contains(&case.expected), "{}: {kinds:?}", case.kernel);
    }
}

#[test]
fn no_corrected_program_is_reported() {
    for (case, program) in CASES.iter().zip(programs()) {
        let Some(fixture) = device() else { return };
        let (wrong, right) = case.correction;
        assert!(program.contains(wrong), "{}", case.kernel);
        let name = format!("{}-corrected.cu", case.kernel);
        let kinds = case.reports(&fixture, name, &program.replace(wrong, right));
        assert_eq!(kinds, [], "{}", case.kernel);
    }
}
