//! Errors and warnings, as text and as structured data.

use std::error::Error as _;

use cuda_nvrtc::{Arch, CompileError, Error, Nvrtc, Options, Program, Severity, Version};

use crate::at_hand::{every_nvrtc, nvrtc};

fn refused(nvrtc: &Nvrtc, source: impl Into<Vec<u8>>, options: &Options) -> Box<CompileError> {
    match Program::new(nvrtc, source)
        .name("planted.cu")
        .compile_ptx(options)
    {
        Err(Error::Compile(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Plants an error in each line and checks that it is reported with that line and its source.
#[test]
fn errors_have_a_location() {
    for nvrtc in every_nvrtc() {
        let lines: Vec<String> = (0..8)
            .map(|i| format!("__device__ int v{i} = {i};"))
            .collect();
        for planted in 0..lines.len() {
            let mut lines = lines.clone();
            lines[planted] = "    __device__ int w = missing;".to_owned();
            let error = refused(&nvrtc, lines.join("\n"), &Options::new());
            let found: Vec<_> = error.errors().collect();
            assert_eq!(found.len(), 1, "{error}");
            assert_eq!(found[0].line, Some(u32::try_from(planted + 1).unwrap()));
            assert_eq!(found[0].file.as_deref(), Some("planted.cu"));
            assert_eq!(found[0].severity, Severity::Error);
            assert_eq!(found[0].message, "identifier \"missing\" is undefined");
            assert_eq!(found[0].snippet.as_deref(), Some(lines[planted].as_str()));
            // Older versions do not print a pointer to the column.
            if nvrtc.version() >= Version::new(12040) {
                let column = lines[planted].find("missing").unwrap() + 1;
                assert_eq!(found[0].column, Some(u32::try_from(column).unwrap()));
            }
        }
    }
}

#[test]
fn an_error_reads_as_the_compiler_wrote_it() {
    for nvrtc in every_nvrtc() {
        let source = "__global__ void k(float *x) {\n    int unused;\n    x[0] = 1\n}\n";
        let error = refused(&nvrtc, source, &Options::new());
        let text = error.to_string();
        let mut lines = text.lines();
        let first = lines.next().unwrap();
        assert!(first.contains("planted.cu does not compile"), "{text}");
        assert!(
            first.contains(&format!("NVRTC {}", nvrtc.version())),
            "{text}"
        );
        assert!(first.ends_with("1 error, 1 warning"), "{text}");
        assert!(
            text.contains("planted.cu(4): error: expected a \";\"\n"),
            "{text}"
        );
        assert!(text.contains("\n      int unused;"), "{text}");
        if nvrtc.version() >= Version::new(12040) {
            // The log contains every line but the first, in order.
            let mut rest = error.log().as_str();
            for line in lines {
                let at = rest
                    .find(line)
                    .unwrap_or_else(|| panic!("{line:?} is not in the log"));
                rest = &rest[at + line.len()..];
            }
        }
        let wrapped = Error::Compile(error);
        assert_eq!(wrapped.to_string(), text);
        assert!(wrapped.source().is_none());
    }
}

#[test]
fn warnings_are_returned_on_success() {
    for nvrtc in every_nvrtc() {
        let source = "__global__ void k() {\n  int unused;\n}";
        let program = Program::new(&nvrtc, source).name("w.cu");
        let compiled = program.compile_ptx(&Options::new()).unwrap();
        let warnings = compiled.warnings();
        assert_eq!(warnings.len(), 1, "{}", compiled.log);
        assert_eq!((warnings[0].number, warnings[0].line), (Some(177), Some(2)));
        let quiet = program
            .compile_ptx(&Options::new().suppress_warning(177))
            .unwrap();
        assert!(quiet.log.is_empty(), "{}", quiet.log);
        let error = program
            .compile_ptx(&Options::new().warning_to_error(177))
            .unwrap_err();
        assert!(error.to_string().contains("\"unused\""), "{error}");
    }
}

#[test]
fn errors_in_headers_templates_and_files_that_are_missing() {
    for nvrtc in every_nvrtc() {
        let source = "#include \"h.h\"\n__global__ void k(int *x) { x[0] = f(x[1]); }";
        let program = Program::new(&nvrtc, source).name("planted.cu").header(
            "h.h",
            "\ntemplate <class T> __device__ T f(T a) {\n  return a.x; }\n",
        );
        let Err(Error::Compile(error)) = program.compile_ptx(&Options::new()) else {
            panic!("it compiles");
        };
        let found = error.errors().next().unwrap();
        assert_eq!(
            (found.file.as_deref(), found.line),
            (Some("h.h"), Some(3)),
            "{error}"
        );
        assert!(found.snippet.as_deref().unwrap().contains("return a.x;"));
        assert!(
            found.notes[0].contains("instantiation"),
            "{:?}",
            found.notes
        );

        let error = refused(&nvrtc, "\n#include \"no.h\"\n", &Options::new());
        let found = error.errors().next().unwrap();
        assert_eq!(
            (found.severity, found.line),
            (Severity::Fatal, Some(2)),
            "{error}"
        );
        assert!(found.message.contains("no.h"));
    }
}

#[test]
fn messages_of_the_assembler_are_parsed() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = "__global__ void k() { asm(\"bogus.op;\"); }";
    let error = refused(&nvrtc, source, &Options::new().arch(Arch::sm(9, 0)));
    let found = error.errors().next().unwrap();
    assert_eq!(found.file.as_deref(), Some("ptxas"), "{error}");
    assert!(error.to_string().contains("bogus"), "{error}");
}

#[test]
fn many_errors_are_counted_and_not_all_printed() {
    let Some(nvrtc) = nvrtc() else { return };
    let source: String = (0..60)
        .map(|i| format!("__device__ int v{i} = missing{i};\n"))
        .collect();
    let error = refused(&nvrtc, source, &Options::new());
    let text = error.to_string();
    assert_eq!(error.errors().count(), 60);
    assert!(text.contains("60 errors"), "{text}");
    assert!(
        text.contains("missing29") && !text.contains("missing30"),
        "{text}"
    );
    assert!(text.ends_with("… and 30 more"), "{text}");
    assert!(error.log().as_str().contains("missing59"));
}

#[test]
fn an_error_is_small_and_can_cross_threads() {
    const fn crosses<T: Send + Sync + 'static>() {}
    const { crosses::<Error>() };
    assert!(size_of::<Error>() <= 96, "{}", size_of::<Error>());
}

#[test]
fn a_missing_header_is_named() {
    for nvrtc in every_nvrtc() {
        let source = "#include <no/such.h>\n__global__ void k() {}\n";
        let error = refused(&nvrtc, source, &Options::new());
        assert_eq!(error.missing_header(), Some("no/such.h"), "{error}");
        let error = Error::Compile(error);
        assert_eq!(error.missing_header(), Some("no/such.h"));
        let other = refused(&nvrtc, "int x = y;", &Options::new());
        assert_eq!(other.missing_header(), None, "{other}");
    }
}
