//! Deeply nested sources: an error, where NVRTC would overflow its stack and crash.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use cuda_nvrtc::{Error, Nvrtc, Options, Program};
use test_needs::skip;

use crate::at_hand::{every_nvrtc, nvrtc};
use crate::process::{ignored, run_ignored};

/// Constructs that nest without an open bracket, and the number of levels that crashes the process
/// unless the source is rejected.
const DANGEROUS: [(&str, usize); 16] = [
    ("if (x) ", 200_000),
    ("if (x); else ", 200_000),
    ("while (x) ", 200_000),
    ("for (;;) ", 200_000),
    ("sizeof ", 100_000),
    ("- ", 100_000),
    ("(int)", 100_000),
    ("delete ", 100_000),
    ("x = ", 100_000),
    ("x += ", 100_000),
    ("x ? x : ", 100_000),
    ("[&]{ ", 100_000),
    ("*&", 100_000),
    ("(int) - ", 100_000),
    ("x + (", 100_000),
    ("f(", 100_000),
];

/// Such constructs outside of functions.
const DANGEROUS_OUTSIDE: [(&str, usize); 6] = [
    ("A<", 500_000),
    ("template<", 500_000),
    ("extern \"C\" ", 200_000),
    ("namespace a { ", 200_000),
    ("decltype(", 200_000),
    ("union { ", 200_000),
];

fn inside(text: &str) -> String {
    format!("__device__ int f(int);\n__global__ void k(int x, int *p) {{ {text}")
}

/// Every dangerous source, with its name.
fn dangerous() -> Vec<(String, String)> {
    let within = DANGEROUS.map(|(piece, count)| (piece.to_owned(), inside(&piece.repeat(count))));
    let outside = DANGEROUS_OUTSIDE.map(|(piece, count)| {
        let head = "template <class T> struct A {};\n";
        (piece.to_owned(), format!("{head}{}", piece.repeat(count)))
    });
    within.into_iter().chain(outside).collect()
}

/// Starts an ignored test of this file in a new process.
fn child(test: &str, library: &str) -> Command {
    let mut command = ignored(test);
    use_library(&mut command, library);
    command
}

/// Makes the process of `command` use this NVRTC only.
fn use_library(command: &mut Command, library: &str) {
    command
        .env("CUDA_NVRTC_LIBRARY", library)
        .env("CUDA_TEST_NVRTC_DIR", "");
}

/// Runs an ignored test of this file in a new process, and returns its output.
fn in_a_child(test: &str, library: &str) -> String {
    run_ignored(test, |command| use_library(command, library))
}

#[test]
fn dangerous_sources_are_errors() {
    for nvrtc in every_nvrtc() {
        in_a_child("nesting::compile_dangerous_sources", nvrtc.origin());
    }
}

#[test]
#[ignore = "run by dangerous_sources_are_errors, in its own process"]
fn compile_dangerous_sources() {
    let nvrtc = Nvrtc::load().unwrap();
    for (piece, source) in dangerous() {
        let result = Program::new(&nvrtc, source)
            .name("deep.cu")
            .compile_ptx(&Options::new());
        let Err(error @ Error::TooDeep { .. }) = result else {
            panic!("{piece:?}: {result:?}");
        };
        let message = error.to_string();
        for part in [
            "deep.cu",
            "nested too deeply",
            "268435456 bytes",
            "Options::stack_size",
        ] {
            assert!(message.contains(part), "{piece:?}: {message}");
        }
    }
}

#[test]
fn accepted_sources_do_not_overflow_the_stack() {
    for nvrtc in every_nvrtc() {
        in_a_child("nesting::compile_the_deepest_accepted", nvrtc.origin());
    }
}

/// The nesting costs by which sources are judged match those of NVRTC: it parses sources that are
/// just accepted.
#[test]
#[ignore = "run by accepted_sources_do_not_overflow_the_stack, in its own process"]
fn compile_the_deepest_accepted() {
    let nvrtc = Nvrtc::load().unwrap();
    // The smallest stack, so that the other costs of a compilation matter most.
    let options = Options::new().stack_size(1);
    let within = DANGEROUS.map(|(piece, _)| (piece, true));
    let outside = DANGEROUS_OUTSIDE.map(|(piece, _)| (piece, false));
    for (piece, is_inside) in within.into_iter().chain(outside) {
        let compile = |count: usize| {
            let text = piece.repeat(count);
            let source = if is_inside {
                inside(&text)
            } else {
                format!("template <class T> struct A {{}};\n{text}")
            };
            Program::new(&nvrtc, source).compile_ptx(&options)
        };
        // The error reports the depth that is safe.
        let Err(Error::TooDeep { depth, limit, .. }) = compile(20_000) else {
            panic!("{piece:?} is accepted");
        };
        let deepest = 20_000 * limit / depth - 8;
        println!("{piece:?}: {deepest}");
        let result = compile(deepest);
        let expected = matches!(result, Ok(_) | Err(Error::Compile(_)));
        assert!(expected, "{piece:?}, {deepest} levels: {result:?}");
    }
}

#[test]
fn headers_and_name_expressions_are_checked() {
    for nvrtc in every_nvrtc() {
        in_a_child("nesting::compile_dangerous_parts", nvrtc.origin());
    }
}

#[test]
#[ignore = "run by headers_and_name_expressions_are_checked, in its own process"]
fn compile_dangerous_parts() {
    let nvrtc = Nvrtc::load().unwrap();
    for piece in ["A<", "sizeof ", "(int)", "x ? x : ", "x = "] {
        let many = piece.repeat(100_000);
        let named = Program::new(&nvrtc, "template <int N> __global__ void k() {}")
            .name_expression(format!("k<{many}"));
        let included = Program::new(&nvrtc, "#include \"deep.h\"").header("deep.h", inside(&many));
        for (program, place) in [(named, "name expression"), (included, "deep.h")] {
            let error = program.compile_ptx(&Options::new()).unwrap_err();
            assert!(matches!(error, Error::TooDeep { .. }), "{piece:?}: {error}");
            assert!(error.to_string().contains(place), "{piece:?}: {error}");
        }
    }
}

/// Every available CUDA header, including CUB and libcu++, and every kernel of the corpus.
#[test]
fn real_sources_are_far_below_the_limit() {
    let Some(nvrtc) = nvrtc() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![
        root.join("target/cuda-setup/include"),
        root.join("crates/cuda-conformance/tests/corpus/kernels"),
    ];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    if files.is_empty() {
        return skip("neither CUDA's headers nor the kernels of the corpus are on this machine");
    }
    // Many headers per program, because each compilation takes time. They are not included.
    for files in files.chunks(200) {
        let mut program = Program::new(&nvrtc, "#error nothing\n");
        for file in files {
            let text = fs::read(file).unwrap();
            if !text.contains(&0) {
                program = program.header(file.to_str().unwrap(), text);
            }
        }
        // A quarter of the default stack of a compilation.
        let error = program
            .compile_ptx(&Options::new().stack_size(64 << 20))
            .unwrap_err();
        assert!(matches!(error, Error::Compile(_)), "{error}");
    }
    println!("{} files", files.len());
}

/// The number of casts, each of which needs 3.5 KiB of stack: more than 256 MiB has room for, and
/// fewer than 1 GiB has.
const UNSEEN: usize = 100_000;
/// The environment variables for `compile_unseen`: `macro` or the folder of the header, and the
/// stack size in MiB.
const UNSEEN_PLACE: &str = "CUDA_NESTING_PLACE";
const UNSEEN_STACK: &str = "CUDA_NESTING_STACK";

/// The check neither expands macros nor reads headers on disk: README.md, Known limitations. If
/// this test fails because the sources are rejected or compile, that paragraph is out of date.
#[test]
#[cfg(unix)]
fn macros_and_headers_on_disk_can_overflow_the_stack() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = env::temp_dir().join(format!("cuda-nvrtc-nesting-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let text = inside(&format!("x = {} 1; }}", "(int)".repeat(UNSEEN)));
    fs::write(folder.join("deep.h"), text).unwrap();
    for place in ["macro", folder.to_str().unwrap()] {
        for (stack, is_enough) in [("64", false), ("1024", true)] {
            let mut child = child("nesting::compile_unseen", nvrtc.origin());
            let child = child.env(UNSEEN_PLACE, place).env(UNSEEN_STACK, stack);
            let output = child.output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                output.status.success(),
                is_enough,
                "{place}, {stack}: {text}"
            );
            // The guard below the stack ends the process; it does not panic.
            assert!(!text.contains("panicked"), "{place}, {stack}: {text}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[ignore = "run by macros_and_headers_on_disk_can_overflow_the_stack, in its own process"]
fn compile_unseen() {
    let nvrtc = Nvrtc::load().unwrap();
    let stack: usize = env::var(UNSEEN_STACK).unwrap().parse().unwrap();
    let options = Options::new().stack_size(stack << 20);
    let (source, options) = match &*env::var(UNSEEN_PLACE).unwrap() {
        "macro" => {
            // Each macro repeats the one before ten times: a source of a few hundred bytes.
            let mut text = String::from("#define A0 (int)\n");
            let levels = UNSEEN.ilog10();
            for level in 0..levels {
                let body = format!("A{level} ").repeat(10);
                text += &format!("#define A{} {body}\n", level + 1);
            }
            (text + &inside(&format!("x = A{levels} 1; }}")), options)
        }
        folder => {
            let options = options.include_dir(folder);
            ("#include <deep.h>\n".to_owned(), options)
        }
    };
    Program::new(&nvrtc, source).compile_ptx(&options).unwrap();
}
