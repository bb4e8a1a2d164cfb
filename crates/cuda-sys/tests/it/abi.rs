//! Compiles a C program against the header that the bindings were made from, to check that they
//! agree.
//!
//! The build script writes the facts (names as C spells them, numbers as Rust computes them), which
//! become static assertions in C. Items that the header lacks and the snapshot added are counted as
//! skipped.

#[cfg(not(cuda_header))]
#[test]
fn abi_is_checked_only_against_a_header() {
    assert!(matches!(
        cuda_sys::BINDINGS.source,
        cuda_sys::Source::Snapshot { .. }
    ));
    test_needs::skipped(&format!(
        "no header to check against: {}",
        cuda_sys::BINDINGS
    ));
}

#[cfg(cuda_header)]
mod header {
    use std::fmt::Write as _;

    use crate::c_compiler;

    struct Facts {
        types: &'static [TypeFacts],
        /// The name, the value, and whether the header has it.
        values: &'static [(&'static str, i64, bool)],
        /// The name, the result, the parameters, and whether the header has it.
        functions: &'static [(&'static str, &'static str, &'static str, bool)],
    }

    struct TypeFacts {
        c: &'static str,
        size: usize,
        align: usize,
        in_header: bool,
        /// Whether the size is that of the header; otherwise the type has grown since.
        same_size: bool,
        /// Whether the alignment is that of the header; otherwise it may have grown.
        same_align: bool,
        /// The name, the offset, and whether the header has it.
        fields: &'static [(&'static str, usize, bool)],
    }

    mod driver {
        use super::{Facts, TypeFacts};
        use cuda_sys::*;

        include!(concat!(env!("OUT_DIR"), "/layout.rs"));

        pub(super) fn get() -> Facts {
            facts()
        }
    }

    #[cfg(all(feature = "nvrtc", cuda_header_nvrtc))]
    mod nvrtc {
        use super::{Facts, TypeFacts};
        use cuda_sys::nvrtc::*;

        include!(concat!(env!("OUT_DIR"), "/layout_nvrtc.rs"));

        pub(super) fn get() -> Facts {
            facts()
        }
    }

    const DRIVER_INCLUDES: &str =
        "#include <stddef.h>\n#include <cuda.h>\n#include <cudaProfiler.h>\n";

    #[derive(Debug, Default, PartialEq)]
    struct Counts {
        sizes: usize,
        grown: usize,
        offsets: usize,
        values: usize,
        functions: usize,
        skipped: usize,
    }

    /// The facts as a C program, and the number of each kind.
    fn program(includes: &str, calling: &str, facts: &Facts) -> (String, Counts) {
        let mut c = includes.to_owned();
        let mut counts = Counts::default();
        let mut check = |condition: String| {
            writeln!(c, "_Static_assert({condition}, \"\");").expect("a string grows");
        };
        for ty in facts.types {
            if !ty.in_header {
                counts.skipped += 1;
                continue;
            }
            let name = ty.c;
            if ty.same_size {
                check(format!("sizeof({name}) == {}", ty.size));
                counts.sizes += 1;
            } else {
                check(format!("sizeof({name}) < {}", ty.size));
                counts.grown += 1;
            }
            let relation = if ty.same_align { "==" } else { "<=" };
            check(format!("_Alignof({name}) {relation} {}", ty.align));
            for (field, offset, in_header) in ty.fields {
                if *in_header {
                    check(format!("offsetof({name}, {field}) == {offset}"));
                    counts.offsets += 1;
                } else {
                    counts.skipped += 1;
                }
            }
        }
        for (name, value, in_header) in facts.values {
            if *in_header {
                check(format!("(long long)({name}) == {value}LL"));
                counts.values += 1;
            } else {
                counts.skipped += 1;
            }
        }
        for (name, output, inputs, in_header) in facts.functions {
            if *in_header {
                writeln!(
                    c,
                    "{output} ({calling} *const check_{name})({inputs}) = {name};"
                )
                .expect("a string grows");
                counts.functions += 1;
            } else {
                counts.skipped += 1;
            }
        }
        (c, counts)
    }

    fn compile(program: &str) -> Option<c_compiler::Outcome> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("abi.c");
        std::fs::write(&file, program).expect("the folder is writable");
        if !std::path::Path::new(env!("CUDA_SYS_INCLUDE"))
            .join("cuda.h")
            .is_file()
        {
            test_needs::skipped("the header of the build is not on this machine");
            return None;
        }
        let mut command = c_compiler::command()?;
        command
            .args(["-fsyntax-only", "-std=c11", "-D__CUDA_API_VERSION_INTERNAL"])
            .args(["-Werror=incompatible-pointer-types", "-I"])
            .arg(env!("CUDA_SYS_INCLUDE"))
            .arg(&file);
        Some(c_compiler::run(command))
    }

    fn agrees(includes: &str, calling: &str, facts: &Facts) -> Counts {
        let (program, counts) = program(includes, calling, facts);
        println!("{}: {counts:?}", env!("CUDA_SYS_INCLUDE"));
        if let Some(outcome) = compile(&program) {
            assert!(outcome.success, "{}", outcome.messages);
        }
        counts
    }

    #[test]
    fn the_driver_bindings_agree_with_their_header() {
        let counts = agrees(DRIVER_INCLUDES, "CUDAAPI", &driver::get());
        // The oldest supported header has 634 functions, plus two of the profiler.
        assert!(counts.functions >= 636, "{counts:?}");
        assert!(counts.sizes >= 180, "{counts:?}");
        assert!(counts.offsets >= 500, "{counts:?}");
        assert!(counts.values >= 900, "{counts:?}");
    }

    #[cfg(all(feature = "nvrtc", cuda_header_nvrtc))]
    #[test]
    fn the_nvrtc_bindings_agree_with_their_header() {
        let includes = "#include <stddef.h>\n#include <nvrtc.h>\n";
        let counts = agrees(includes, "", &nvrtc::get());
        assert!(counts.functions >= 20, "{counts:?}");
        assert!(counts.values >= 12, "{counts:?}");
    }

    /// Plants an error in each kind of fact and checks that the compiler rejects it.
    #[test]
    fn a_wrong_fact_is_refused() {
        const NONE: Facts = Facts {
            types: &[],
            values: &[],
            functions: &[],
        };
        const fn uuid(size: usize, align: usize, same_size: bool, offset: usize) -> TypeFacts {
            let fields: &[(&str, usize, bool)] = match offset {
                0 => &[("bytes", 0, true)],
                _ => &[("bytes", 1, true)],
            };
            TypeFacts {
                c: "CUuuid",
                size,
                align,
                in_header: true,
                same_size,
                same_align: true,
                fields,
            }
        }
        static TYPES: [[TypeFacts; 1]; 5] = [
            [uuid(16, 1, true, 0)],
            [uuid(8, 1, true, 0)],
            [uuid(16, 2, true, 0)],
            [uuid(16, 1, false, 0)],
            [uuid(16, 1, true, 1)],
        ];
        let types = |index: usize| Facts {
            types: &TYPES[index],
            ..NONE
        };
        let cases: [(bool, Facts); 11] = [
            (true, types(0)),
            (false, types(1)),
            (false, types(2)),
            (false, types(3)),
            (false, types(4)),
            (
                true,
                Facts {
                    values: &[("CUDA_ERROR_INVALID_VALUE", 1, true)],
                    ..NONE
                },
            ),
            (
                false,
                Facts {
                    values: &[("CUDA_ERROR_INVALID_VALUE", 2, true)],
                    ..NONE
                },
            ),
            (
                true,
                Facts {
                    functions: &[("cuInit", "CUresult", "unsigned int", true)],
                    ..NONE
                },
            ),
            (
                false,
                Facts {
                    functions: &[("cuInit", "CUresult", "unsigned long", true)],
                    ..NONE
                },
            ),
            (
                false,
                Facts {
                    functions: &[("cuInit", "void", "unsigned int", true)],
                    ..NONE
                },
            ),
            (
                true,
                Facts {
                    functions: &[("cuNoSuch", "CUresult", "void", false)],
                    ..NONE
                },
            ),
        ];
        for (index, (expected, facts)) in cases.iter().enumerate() {
            let (program, _) = program(DRIVER_INCLUDES, "CUDAAPI", facts);
            let Some(outcome) = compile(&program) else {
                return;
            };
            assert_eq!(
                outcome.success, *expected,
                "case {index}: {}",
                outcome.messages
            );
        }
    }
}
