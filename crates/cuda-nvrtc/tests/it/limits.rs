//! Cancellation, time-outs, the stack and the locale.

use std::thread;
use std::time::{Duration, Instant};

use cuda_nvrtc::{Arch, CancelToken, Error, Nvrtc, Options, Program, Version};

use crate::at_hand::{every_nvrtc, nvrtc};
use crate::process::run_ignored;

const FLOW: Version = Version::new(12080);

/// A program that takes seconds to compile.
pub(crate) fn heavy(nvrtc: &Nvrtc) -> Program {
    let source = "extern \"C\" __global__ void k(float *x) {\n#pragma unroll 300\nfor (int i = 0; i < 300; ++i) {\n\
                  x[i * 3] = sinf(x[i * 5 + 1]) + cosf(x[i * 7 + 2]) * x[i ^ 33]; } }";
    Program::new(nvrtc, source)
}

#[test]
fn a_time_out_ends_a_long_compilation() {
    let Some(nvrtc) = nvrtc().filter(|nvrtc| nvrtc.version() >= FLOW) else {
        return;
    };
    let limit = Duration::from_millis(300);
    let options = Options::new().arch(Arch::sm(9, 0)).timeout(limit);
    let start = Instant::now();
    let error = heavy(&nvrtc).compile_cubin(&options).unwrap_err();
    let taken = start.elapsed();
    assert!(
        matches!(error, Error::TimedOut { limit: l } if l == limit),
        "{error}"
    );
    assert!(taken >= limit && taken < limit * 10, "{taken:?}");
    // The next compilation is not affected.
    Program::new(&nvrtc, "")
        .compile_ptx(&Options::new().timeout(Duration::from_secs(60)))
        .unwrap();
}

/// Runs in a new process: NVRTC parses one program at a time, and continues with this one.
#[test]
fn timeout_also_stops_the_parser() {
    let Some(_) = nvrtc().filter(|nvrtc| nvrtc.version() >= FLOW) else {
        return;
    };
    run_ignored("limits::time_out_in_the_parser", |_| {});
}

/// NVRTC's parser takes minutes for this source, and does not check for a cancellation.
#[test]
#[ignore = "run by timeout_also_stops_the_parser, in its own process"]
fn time_out_in_the_parser() {
    let nvrtc = Nvrtc::load().unwrap();
    let (open, close) = ("A<".repeat(20_000), ">".repeat(20_000));
    let source =
        format!("template <class T> struct A {{}}; __global__ void k() {{ {open}int{close} a; }}");
    let start = Instant::now();
    let options = Options::new().timeout(Duration::from_millis(300));
    let error = Program::new(&nvrtc, source)
        .compile_ptx(&options)
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(8),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_token_cancels_from_another_thread() {
    let Some(nvrtc) = nvrtc().filter(|nvrtc| nvrtc.version() >= FLOW) else {
        return;
    };
    let token = CancelToken::new();
    let options = Options::new().arch(Arch::sm(9, 0)).cancel(&token);
    let start = Instant::now();
    let error = thread::scope(|scope| {
        let compiling = scope.spawn(|| heavy(&nvrtc).compile_cubin(&options));
        thread::sleep(Duration::from_millis(200));
        token.cancel();
        compiling.join().unwrap().unwrap_err()
    });
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
    let error = Program::new(&nvrtc, "").compile_ptx(&options).unwrap_err();
    assert!(
        matches!(error, Error::Cancelled),
        "a cancelled token stays so: {error}"
    );
}

#[test]
fn an_nvrtc_without_cancellation_is_an_error() {
    for nvrtc in every_nvrtc() {
        let options = Options::new().timeout(Duration::from_secs(60));
        match Program::new(&nvrtc, "").compile_ptx(&options) {
            Ok(_) => assert!(nvrtc.version() >= FLOW),
            Err(error) => {
                assert!(nvrtc.version() < FLOW);
                let text = error.to_string();
                assert!(
                    text.contains("nvrtcSetFlowCallback requires NVRTC 12.8"),
                    "{text}"
                );
            }
        }
    }
}

/// On the stack of a standard Rust thread this source would crash the process.
#[test]
fn a_deeply_nested_source_compiles() {
    for nvrtc in every_nvrtc() {
        for (before, after) in [("(", ")"), ("-", ""), ("{", "}"), ("[", "]")] {
            let depth = 32_000;
            let (before, after) = (format!("{before} ").repeat(depth), after.repeat(depth));
            let source = match before.as_bytes()[0] {
                b'{' => format!("__global__ void k() {{ {before}{after} }}"),
                b'[' => format!("int a = {before}{after};"),
                _ => format!("__global__ void k(float *x) {{ x[0] = {before}x[1]{after}; }}"),
            };
            let result = Program::new(&nvrtc, source.as_str()).compile_ptx(&Options::new());
            assert!(
                matches!(result, Ok(_) | Err(Error::Compile(_))),
                "{result:?}"
            );
        }
    }
}

#[test]
fn a_source_too_deep_for_the_stack_is_refused() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = format!("int a = {}1{};", "(".repeat(1 << 20), ")".repeat(1 << 20));
    let error = Program::new(&nvrtc, source)
        .name("deep.cu")
        .compile_ptx(&Options::new())
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooDeep {
                depth: 0x10_0000,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("deep.cu"), "{error}");
}

#[test]
fn a_name_expression_too_deep_for_the_stack_is_refused() {
    let Some(nvrtc) = nvrtc() else { return };
    // Deeper than the limit of this crate, but not too deep for NVRTC.
    let (open, close) = ("(".repeat(1100), ")".repeat(1100));
    let error = Program::new(&nvrtc, "template <int N> __global__ void k() {}")
        .name_expression(format!("k<{open}1{close}>"))
        .compile_ptx(&Options::new().stack_size(8 << 20))
        .unwrap_err();
    assert!(
        matches!(error, Error::TooDeep { depth: 1100, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("name expression"), "{error}");
}

#[test]
fn stack_size_below_the_minimum_is_raised() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = format!(
        "__device__ int a = {}1{};",
        "(".repeat(1000),
        ")".repeat(1000)
    );
    let options = Options::new().stack_size(1);
    Program::new(&nvrtc, source).compile_ptx(&options).unwrap();
}

/// Runs in a new process, because other tests compile at the same time.
#[cfg(unix)]
#[test]
fn the_locale_is_left_as_found() {
    run_ignored("limits::compile_and_compare_locales", |_| {});
}

#[cfg(unix)]
#[test]
#[ignore = "run by the_locale_is_left_as_found, in its own process"]
fn compile_and_compare_locales() {
    use std::ffi::{CStr, CString};
    use std::ptr;

    fn locale() -> CString {
        // SAFETY: a null name must only query ← the C standard says so.
        let name = unsafe { libc::setlocale(libc::LC_ALL, ptr::null()) };
        // SAFETY: the pointer must be to a string ← `setlocale` returns one for a query.
        unsafe { CStr::from_ptr(name) }.to_owned()
    }

    // SAFETY: no other thread may use the locale meanwhile ← this is the only test of this process.
    unsafe { libc::setlocale(libc::LC_ALL, c"C.UTF-8".as_ptr()) };
    let before = locale();
    assert_ne!(before.as_c_str(), c"C");
    for nvrtc in every_nvrtc() {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    Program::new(&nvrtc, "")
                        .compile_ptx(&Options::new())
                        .unwrap()
                });
            }
        });
        assert_eq!(locale(), before, "NVRTC {}", nvrtc.version());
    }
}
