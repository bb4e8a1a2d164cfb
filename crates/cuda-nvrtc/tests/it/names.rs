//! Name expressions and headers in memory.

use cuda_nvrtc::{CppType, Error, Options, Program};

use crate::at_hand::{every_nvrtc, nvrtc};

/// The names of the kernels in a PTX text.
fn entries(ptx: &str) -> Vec<&str> {
    ptx.lines()
        .filter_map(|line| line.split_once(".entry ")?.1.split(['(', ' ']).next())
        .collect()
}

#[test]
fn a_template_is_instantiated_under_the_name_that_the_ptx_has() {
    const SOURCE: &str =
        "namespace a { template <typename T, int N> __global__ void k(T *x) { x[0] += N; } }";
    for nvrtc in every_nvrtc() {
        let first = format!("a::k<{}, 3>", f64::NAME);
        let second = format!("a::k<{}, 4>", u8::NAME);
        let program = Program::new(&nvrtc, SOURCE)
            .name_expression(&first)
            .name_expression(&second);
        let compiled = program.compile_ptx(&Options::new()).unwrap();
        let text = compiled.image.to_text();
        let mut entries = entries(&text);
        let mut lowered = [&first, &second].map(|name| compiled.lowered_name(name).unwrap());
        // The mangled name of `void a::k<double, 3>(double*)` in the Itanium C++ ABI.
        assert_eq!(lowered[0], "_ZN1a1kIdLi3EEEvPT_");
        entries.sort_unstable();
        lowered.sort_unstable();
        assert_eq!(entries, lowered);
        assert_eq!(compiled.lowered_names.len(), 2);
        assert_eq!(compiled.lowered_name("a::k"), None);
    }
}

#[test]
fn unknown_name_expression_is_a_compile_error() {
    for nvrtc in every_nvrtc() {
        let program =
            Program::new(&nvrtc, "__global__ void k() {}").name_expression("nothing<int>");
        let error = program.compile_ptx(&Options::new()).unwrap_err();
        assert!(matches!(&error, Error::Compile(_)), "{error:?}");
        assert!(error.to_string().contains("nothing"), "{error}");
    }
}

/// Each Rust type has the size of the C++ type that its name denotes.
#[test]
fn types_have_the_same_size_on_both_sides() {
    fn check<T: CppType>() -> String {
        format!(
            "static_assert(sizeof({}) == {}, \"{}\");\n",
            T::NAME,
            size_of::<T>(),
            T::NAME
        )
    }
    let Some(nvrtc) = nvrtc() else { return };
    let source = [
        check::<bool>(),
        check::<i8>(),
        check::<u8>(),
        check::<i16>(),
        check::<u16>(),
        check::<i32>(),
        check::<u32>(),
        check::<i64>(),
        check::<u64>(),
        check::<f32>(),
        check::<f64>(),
    ];
    Program::new(&nvrtc, source.concat())
        .compile_ptx(&Options::new())
        .unwrap();
    // A wrong size is detected.
    let wrong = source.concat().replace("== 8", "== 9");
    Program::new(&nvrtc, wrong)
        .compile_ptx(&Options::new())
        .unwrap_err();
}

#[test]
fn headers_in_memory_are_found_by_name() {
    for nvrtc in every_nvrtc() {
        let source =
            "#include \"inner/a.h\"\n#include <b.h>\n__global__ void k(int *x) { x[0] = A + B; }";
        let program = Program::new(&nvrtc, source)
            .header("inner/a.h", "#include \"c.h\"\n#define A C")
            .header("b.h", "#define B 4000")
            .header("c.h", "#define C 321");
        let text = program
            .compile_ptx(&Options::new())
            .unwrap()
            .image
            .to_text();
        assert!(text.contains("4321"), "{text}");
        let error = Program::new(&nvrtc, source)
            .compile_ptx(&Options::new())
            .unwrap_err();
        assert!(error.to_string().contains("inner/a.h"), "{error}");
    }
}

#[test]
fn a_nul_byte_is_found_wherever_it_is() {
    let Some(nvrtc) = nvrtc() else { return };
    let plain = || Program::new(&nvrtc, "int a;").name("a.cu");
    let of = |program: Program, options: &Options| match program.compile_ptx(options) {
        Err(Error::Nul { place, position }) => (place, position),
        other => panic!("{other:?}"),
    };
    let none = Options::new();
    let (place, position) = of(Program::new(&nvrtc, "int\0a;").name("a.cu"), &none);
    assert!(place.contains("source of \"a.cu\""), "{place}");
    assert_eq!(position, 3);
    assert!(
        of(plain().name("b\0"), &none)
            .0
            .contains("name of the program")
    );
    assert!(
        of(plain().header("h\0", ""), &none)
            .0
            .contains("name of a header")
    );
    let (place, position) = of(plain().header("h.h", "ab\0"), &none);
    assert!(place.contains("\"h.h\""), "{place}");
    assert_eq!(position, 2);
    assert!(
        of(plain().name_expression("k<\0>"), &none)
            .0
            .contains("name expression")
    );
    assert!(
        of(plain(), &Options::new().define("A", "\0"))
            .0
            .contains("--define-macro=A=")
    );
}
