use std::collections::BTreeSet;

use super::{Include, Scan, join_lines, scan};
use crate::cache::Refusal;

fn read(text: &str) -> Result<Scan, Refusal> {
    scan(&join_lines(text.as_bytes())?, &BTreeSet::new())
}

/// Returns the names of the includes as they would be written.
fn names(text: &str) -> Vec<String> {
    let scan = read(text).unwrap_or_else(|refusal| panic!("{text:?}: {refusal}"));
    scan.includes.iter().map(written).collect()
}

fn written(include: &Include) -> String {
    let name = String::from_utf8_lossy(&include.name);
    if include.quoted {
        format!("\"{name}\"")
    } else {
        format!("<{name}>")
    }
}

#[test]
fn every_spelling_of_an_include_is_found() {
    for text in [
        "#include \"a b.h\"",
        "  #\tinclude\t\"a b.h\" junk",
        "/*x*/ # /*y\n*/ include /*z*/ \"a b.h\"",
        "#inc\\\nlude \"a \\\r\nb.h\"",
        "%:include \"a b.h\"",
        "\u{feff}#include \"a b.h\"",
        "\x0c\x0b#include\"a b.h\"",
        "int a;\r#include \"a b.h\"\r",
        "#import \"a b.h\"",
        "// a comment */ /**/ #include \"a b.h\"",
        "/*\n #include \"a b.h\" */",
        "R\"x(\n#include \"a b.h\"\n)x\"",
        "#if 0\n#include \"a b.h\"\n#endif",
        "#if __has_include(\"a b.h\")",
        "#elif defined(__has_include) && __has_include( /**/ \"a b.h\" )",
    ] {
        assert_eq!(names(text), ["\"a b.h\""], "{text:?}");
    }
    assert_eq!(
        names("#include <a>\n#include< b/c.h >\n#include \"<d>\""),
        ["<a>", "< b/c.h >", "\"<d>\""]
    );
}

#[test]
fn other_directives_name_no_files() {
    for text in [
        "",
        "#",
        "%",
        "#include",
        "# /*",
        "#includes <a>",
        "include <a>",
        "\"a.h\" <b.h>",
        "#define A <b.h>",
        "#ifdef __has_include",
        "#if defined(__has_include)",
        "a ## b",
        "#pragma once",
        "// #include <a>",
        " * see #include <a>",
        "x #include <a>",
        "/* x */ y #include <a>",
    ] {
        assert_eq!(names(text), [""; 0], "{text:?}");
    }
}

#[test]
fn computed_includes_name_their_macro() {
    let found =
        read("#define H <a.h>\n#define G(x) <x>\n#define E\n#include H\n#include G(y)").unwrap();
    assert_eq!(found.computed, [b"H".to_vec(), b"G".to_vec()]);
    let headers: Vec<_> = found
        .defines
        .iter()
        .map(|define| (define.name.as_slice(), define.header.as_ref().map(written)))
        .collect();
    let header = Some("<a.h>".to_owned());
    assert_eq!(headers, [(&b"H"[..], header), (b"G", None), (b"E", None)]);
    assert_eq!(read("#define H <a.h> x").unwrap().defines[0].header, None);
    for text in ["#include <a", "#include \"a\n", "#include \\u0041"] {
        assert_eq!(read(text), Err(Refusal::ComputedInclude), "{text:?}");
    }
}

#[test]
fn wrappers_of_has_include_are_followed() {
    let wrap = "#define HAS(a, file) __has_include(file)";
    assert_eq!(read(wrap).unwrap().wrappers, [b"HAS".to_vec()]);
    let wrappers = BTreeSet::from([b"HAS".to_vec()]);
    let found = scan(b"#if HAS(<a.h>)\n#define TWICE(x) HAS(x)", &wrappers).unwrap();
    assert_eq!(
        found.includes.iter().map(written).collect::<Vec<_>>(),
        ["<a.h>"]
    );
    assert_eq!(found.wrappers, [b"TWICE".to_vec()]);
    assert!(scan(wrap.as_bytes(), &wrappers).is_ok());
    for text in [
        "#if __has_include(X)",
        "#define HAS __has_include",
        "#define HAS(x) __has_include(x ## y)",
        "#define HAS(x) __has_include(y)",
        "#define HAS(x) /*\n*/ __has_include",
    ] {
        assert_eq!(read(text), Err(Refusal::HasInclude), "{text:?}");
    }
}

#[test]
fn unsupported_directives_are_refused() {
    for (text, refusal) in [
        ("char d[] = __DATE__;", Refusal::TimeMacro),
        ("__TI\\\nME__", Refusal::TimeMacro),
        ("#define NOW (__TIMESTAMP__)", Refusal::TimeMacro),
        ("#include_next <a>", Refusal::IncludeNext),
        ("#if __has_include_next(<a>)", Refusal::IncludeNext),
        ("#if __has_embed(<a>)", Refusal::HasInclude),
        ("#embed <a>", Refusal::ComputedInclude),
        ("??=include <a>", Refusal::Trigraph),
        ("#inc??/\nlude <a>", Refusal::Trigraph),
        ("#inc\\\rlude <a>", Refusal::Trigraph),
    ] {
        assert_eq!(read(text), Err(refusal), "{text:?}");
    }
    assert!(names("__DATE").is_empty());
}

#[test]
fn another_file_name_is_noticed() {
    for text in ["#line 3 \"a/b.cu\"", "# 3 \"a/b.cu\" 1", "#line LINE"] {
        assert!(read(text).unwrap().renames, "{text:?}");
    }
    for text in ["#line 3", "# 3", "#if 3 \"\""] {
        assert!(!read(text).unwrap().renames, "{text:?}");
    }
}
