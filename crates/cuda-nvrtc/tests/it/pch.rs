//! Precompiled headers.

use std::thread;
use std::time::{Duration, Instant};

use cuda_nvrtc::{CancelToken, Error, Options, PchStatus, Program, Version};

use crate::at_hand::{every_nvrtc, nvrtc};
use crate::limits::heavy;
use crate::process::run_ignored;

const FIRST: Version = Version::new(12080);
/// The first version that stores the files in a folder of the process.
const OWN_FOLDER: Version = Version::new(13000);

#[test]
fn missing_pch_support_names_the_needed_version() {
    for nvrtc in every_nvrtc() {
        if nvrtc.version() >= FIRST {
            continue;
        }
        let (ask, set) = (nvrtc.pch_heap_size(), nvrtc.set_pch_heap_size(1 << 20));
        for (error, call) in [
            (ask.unwrap_err(), "nvrtcGetPCHHeapSize"),
            (set.unwrap_err(), "nvrtcSetPCHHeapSize"),
        ] {
            assert!(matches!(error, Error::MissingFunction { .. }), "{error:?}");
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("{call} requires NVRTC 12.8")),
                "{text}"
            );
        }
        let compiled = Program::new(&nvrtc, "").compile_ptx(&Options::new());
        assert_eq!(compiled.unwrap().pch, PchStatus::NotAttempted);
    }
}

/// Runs in a new process: the heap belongs to the process, and its size is fixed once it is in use.
#[test]
fn a_small_pch_heap_is_reported_with_the_needed_size() {
    let Some(nvrtc) = nvrtc().filter(|nvrtc| nvrtc.version() >= FIRST) else {
        return;
    };
    let text = run_ignored("pch::grow_the_heap", |_| {});
    assert!(
        text.contains("written at last"),
        "{}: {text}",
        nvrtc.version()
    );
}

#[test]
#[ignore = "run by a_small_pch_heap_is_reported_with_the_needed_size, in its own process"]
fn grow_the_heap() {
    let Some(nvrtc) = nvrtc() else { return };
    let before = nvrtc.pch_heap_size().unwrap();
    assert!(before >= 1 << 20, "{before}");
    let small = 1 << 20;
    nvrtc.set_pch_heap_size(small).unwrap();
    let page = nvrtc.pch_heap_size().unwrap();
    assert!(page >= small && page < before, "{page} of {before}");

    let declarations: String = (0..4000)
        .map(|i| {
            format!("struct S{i} {{ int a, b; __device__ int sum() const {{ return a + {i} * b; }} }};\n")
        })
        .collect();
    let program = Program::new(
        &nvrtc,
        "#include \"many.h\"\n__global__ void k(S7 *s) { s->a = s->sum(); }",
    )
    .header("many.h", declarations);
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new();
    let plain = program.compile_ptx(&options).unwrap();
    assert_eq!(plain.pch, PchStatus::NotAttempted);
    let options = options.precompiled_headers(true);
    // SAFETY: only NVRTC may write to the folder, in this process ← it is new, and only listed.
    let options = unsafe { options.precompiled_headers_dir(dir.path()) };
    let compiled = program.compile_ptx(&options).unwrap();
    let PchStatus::HeapExhausted { required } = compiled.pch else {
        panic!("{:?} with {page} bytes", compiled.pch);
    };
    assert_eq!(compiled.image, plain.image);
    assert!(required > page, "{required} of {page}");

    nvrtc.set_pch_heap_size(required).unwrap();
    let compiled = program.compile_ptx(&options).unwrap();
    assert_eq!(compiled.pch, PchStatus::Created);
    assert_eq!(compiled.image, plain.image);
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    assert!(files > 0, "no file was written");
    // The second compilation uses the files.
    let again = program.compile_ptx(&options).unwrap();
    assert_eq!(again.pch, PchStatus::NotAttempted);
    assert_eq!(again.image, plain.image);
    println!("written at last: {required} bytes");
}

/// Runs in a new process: the heap belongs to the process, and other tests compile at the same
/// time.
#[test]
fn the_heap_is_not_replaced_under_a_compilation() {
    let Some(nvrtc) = nvrtc().filter(|nvrtc| nvrtc.version() >= FIRST) else {
        return;
    };
    let text = run_ignored("pch::set_the_heap_while_compiling", |_| {});
    assert!(
        text.contains("refused and then set"),
        "{}: {text}",
        nvrtc.version()
    );
}

#[test]
#[ignore = "run by the_heap_is_not_replaced_under_a_compilation, in its own process"]
fn set_the_heap_while_compiling() {
    let Some(nvrtc) = nvrtc() else { return };
    let size = nvrtc.pch_heap_size().unwrap();
    let program = heavy(&nvrtc);
    let token = CancelToken::new();
    let options = Options::new().cancel(&token);
    let refused = thread::scope(|scope| {
        let compiling = scope.spawn(|| program.compile_ptx(&options).map(|_| ()));
        while !compiling.is_finished() {
            if let Err(error) = nvrtc.set_pch_heap_size(size) {
                token.cancel();
                return Some(error);
            }
            thread::sleep(Duration::from_millis(1));
        }
        None
    });
    assert!(
        matches!(refused, Some(Error::Compiling { .. })),
        "{refused:?}"
    );
    // Once the compilation has ended, the heap can be replaced.
    let start = Instant::now();
    while let Err(error) = nvrtc.set_pch_heap_size(size) {
        assert!(start.elapsed() < Duration::from_secs(60), "{error}");
        thread::sleep(Duration::from_millis(10));
    }
    // A compilation that its caller has abandoned still uses the heap.
    let short = Options::new().timeout(Duration::from_millis(300));
    let (open, close) = ("A<".repeat(20_000), ">".repeat(20_000));
    let source =
        format!("template <class T> struct A {{}}; __global__ void k() {{ {open}int{close} a; }}");
    let error = Program::new(&nvrtc, source)
        .compile_ptx(&short)
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    let refused = nvrtc.set_pch_heap_size(size).unwrap_err();
    assert!(matches!(refused, Error::Compiling { .. }), "{refused}");
    println!("refused and then set");
}

/// Files of precompiled headers are mapped as memory of NVRTC, so safe code must not name them.
#[test]
fn raw_options_cannot_name_precompiled_headers() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().display();
    for nvrtc in every_nvrtc() {
        let program = Program::new(&nvrtc, "__global__ void k() {}");
        for option in [
            format!("--pch-dir={dir}"),
            format!(" -pch-dir={dir}"),
            format!("--create-pch={dir}/a.pch"),
            format!("\t--use-pch={dir}/a.pch"),
        ] {
            let error = program.compile_ptx(&Options::new().raw("--pch").raw(&option));
            let error = error.unwrap_err();
            assert!(matches!(error, Error::UnsafeOption { .. }), "{error}");
            let text = error.to_string();
            for part in [option.as_str(), "Options::precompiled_headers"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}

/// NVRTC 12.8 and 12.9 store the files in the current folder, where other processes may replace
/// them.
#[test]
fn precompiled_headers_in_the_current_folder_are_refused() {
    for nvrtc in every_nvrtc() {
        if nvrtc.version() < FIRST || nvrtc.version() >= OWN_FOLDER {
            continue;
        }
        let program = Program::new(&nvrtc, "__global__ void k() {}");
        let dir = tempfile::tempdir().unwrap();
        for options in [
            Options::new().precompiled_headers(true),
            Options::new().raw(" -pch"),
        ] {
            let error = program.compile_ptx(&options).unwrap_err();
            assert!(matches!(error, Error::SharedPchFolder { .. }), "{error}");
            let text = error.to_string();
            for part in [&*nvrtc.version().to_string(), "precompiled_headers_dir"] {
                assert!(text.contains(part), "{text}");
            }
            // SAFETY: only NVRTC may write to the folder, in this process ← it is new and not used
            // again.
            let options = unsafe { options.precompiled_headers_dir(dir.path()) };
            program.compile_ptx(&options).unwrap();
        }
    }
}

/// The folder that NVRTC chooses belongs to the process, is not accessible for other users, and is
/// deleted when the process ends.
#[cfg(target_os = "linux")]
#[test]
fn each_process_has_its_own_precompiled_headers() {
    let Some(nvrtc) = nvrtc().filter(|nvrtc| nvrtc.version() >= OWN_FOLDER) else {
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().to_owned();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let text = run_ignored("pch::use_the_folder_of_the_process", |command| {
                    command.env("TMPDIR", &folder);
                });
                assert!(text.contains("used again"), "{}: {text}", nvrtc.version());
            });
        }
    });
    let left = std::fs::read_dir(temp.path()).unwrap().count();
    assert_eq!(left, 0, "files are left in {}", temp.path().display());
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by each_process_has_its_own_precompiled_headers, in its own process"]
fn use_the_folder_of_the_process() {
    use std::os::unix::fs::MetadataExt;

    let Some(nvrtc) = nvrtc() else { return };
    let declarations: String = (0..300)
        .map(|i| format!("template <int N> struct S{i} {{ int a[N + {i}]; }};\n"))
        .collect();
    let program = Program::new(
        &nvrtc,
        "#include \"many.h\"\n__global__ void k(S7<1> *s) {}",
    )
    .header("many.h", declarations);
    let options = Options::new().precompiled_headers(true);
    let compiled = program.compile_ptx(&options).unwrap();
    assert_eq!(compiled.pch, PchStatus::Created);
    let own = format!("__nvrtc_auto_pch_{}_", std::process::id());
    let folders = std::fs::read_dir(std::env::temp_dir()).unwrap();
    let mut folders = folders.map(|entry| entry.unwrap());
    let folder = folders
        .find(|entry| entry.file_name().to_string_lossy().starts_with(&own))
        .expect("a folder of this process");
    assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
    let again = program.compile_ptx(&options).unwrap();
    let log = again.log.as_str();
    assert!(log.contains("using precompiled header file"), "{log}");
    println!("used again");
}
