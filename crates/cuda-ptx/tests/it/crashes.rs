//! Texts that end the process inside NVIDIA's assembler are refused.

use cuda_ptx::check_crashes;

const HEADER: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";
const CALLEE: &str = ".func (.param .b32 r) f(.param .b32 a) { st.param.b32 [r], 1; ret; }\n";
const CALL: &str = "call.uni (q), f, (p);";

/// A kernel that calls `f`, with `before` in front of the call, and `after` behind it.
fn calling(before: &str, after: &str) -> String {
    format!(
        "{HEADER}{CALLEE}.visible .entry k(.param .u64 x) {{\n\
         .reg .b64 %x<3>; .reg .b32 %r<3>; ld.param.u64 %x1, [x];\n\
         {{ .param .b32 p; .param .b32 q;\n{before}\n{CALL}\n{after} }}\n\
         st.global.u32 [%x1], %r1; ret; }}\n"
    )
}

fn module(before: &str, name: &str, body: &str) -> String {
    format!("{HEADER}{before}\n.visible .entry {name}() {{\n{body}\nret; }}\n")
}

/// One text for each cause, and the message. The assembler does not accept any of them.
fn crashing() -> Vec<(String, &'static str)> {
    let store = "st.param.b32 [p], 5;";
    let pointer = "mov.b64 %x2, x;";
    vec![
        (
            calling("st.param.b32 [p+16], 5;", ""),
            "line 8: an access to 4 bytes at offset 16 of parameter p, which has 4 bytes",
        ),
        (
            calling("st.param.b32 [p+-64], 5;", ""),
            "line 8: an access to 4 bytes at offset -64 of parameter p, which has 4 bytes",
        ),
        (
            calling(store, "ld.param.b32 %r1, [q+16];"),
            "line 10: an access to 4 bytes at offset 16 of parameter q, which has 4 bytes",
        ),
        (
            calling(&format!("{store} mov.b64 %x2, p+4;"), ""),
            "line 8: the address of p is taken, which is a parameter of a call",
        ),
        (
            calling(&format!("{store} mov.b64 %x2, p+0;"), ""),
            "line 8: the address of p is taken, which is a parameter of a call",
        ),
        (
            calling(&format!("{pointer} st.param.b32 [%x2+8], 5;"), ""),
            "line 8: a store to parameter space at %x2, which is not a parameter",
        ),
        (
            // The register is nearer than the variable.
            calling("{ .reg .b64 p; mov.b64 p, x; st.param.b32 [p], 5; }", ""),
            "line 8: a store to parameter space at p, which is not a parameter",
        ),
        (
            calling("st.param.b32 [%laneid], 5;", ""),
            "line 8: the address begins with %laneid, which is not declared",
        ),
        (
            calling(store, "ld.param.b32 %r1, [%ntid];"),
            "line 10: the address begins with %ntid, which is not declared",
        ),
        (
            calling(store, "call.uni (5), f, (p);"),
            "line 10: the result of a call is stored to a number",
        ),
        (
            calling(store, "call.cc (q), f, (p);"),
            "line 10: a call with the modifier .cc",
        ),
        (
            module(".common .const .u32 k;", "k", ""),
            "line 5: the function k has the name of a variable",
        ),
        (
            module(".weak .global .align 4 .b8 a[4], k[2] = {1, 2};", "k", ""),
            "line 5: the function k has the name of a variable",
        ),
        (
            // The text has another error.
            module(
                ".visible .const .u32 k;\n.func f() { .u32 .u32; }",
                "k",
                ".f32",
            ),
            "line 6: the function k has the name of a variable",
        ),
        (
            module("", "%laneid", ""),
            "line 5: the name of the kernel %laneid begins with %",
        ),
        (
            module(".global .u64 g = %reserved_smem_offset_begin;", "k", ""),
            "line 4: the initial value of g is the register %reserved_smem_offset_begin",
        ),
        (
            module("", "k", ".local .align 2147483648 .b8 v[16];"),
            "line 6: the alignment 2147483648 is above 1048576",
        ),
        (
            module(".global .s64 g = (-9223372036854775807 - 1) / -1;", "k", ""),
            "line 4: a constant expression divides by -; the divisor must be a positive number",
        ),
        (
            module("\u{feff}", "k", ""),
            "line 4: Unexpected character in the text",
        ),
        (
            module(".file 1 \"é.cu\"", "k", ""),
            "line 4: Unexpected non-ASCII character encountered in a string",
        ),
    ]
}

/// Texts that are near to those, and right.
fn right() -> Vec<String> {
    let store = "st.param.b32 [p], 5;";
    vec![
        calling("st.param.b32 [p+0], 5;", "ld.param.b32 %r1, [q+0];"),
        calling(
            "{ .reg .b64 %laneid; mov.b64 %laneid, x; ld.param.u64 %x2, [%laneid]; } st.param.b32 [p], 5;",
            "",
        ),
        calling(&format!("{store} mov.b64 %x2, x+4;"), ""),
        calling(
            "{ .reg .b64 %r1; mov.b64 %r1, %x1; ld.global.u32 %r2, [%r1]; } st.param.b32 [p], %r2;",
            "",
        ),
        module("", "k", ".shared .align 1024 .b8 v[16]; // é"),
        module("", "laneid", ""),
    ]
}

#[test]
fn texts_that_crash_the_assembler_are_refused() {
    for (text, message) in crashing() {
        let error = check_crashes(&text).expect_err(&text);
        let found = format!("line {}: {}", error.line, error.message);
        assert_eq!(found, message, "{text}");
    }
    for text in right() {
        assert_eq!(check_crashes(&text), Ok(()), "{text}");
    }
}

/// A variable of 2³² + 4 bytes has 4 bytes in the machine code.
#[test]
fn variables_of_four_gigabytes_are_refused() {
    for space in ["global", "shared", "local"] {
        let text = |bytes: u64| module("", "k", &format!(".{space} .b8 v[{bytes}];"));
        let error = check_crashes(&text((1 << 32) + 4)).unwrap_err();
        let message = "the variable v has 4294967300 bytes; the limit is 4294967295";
        assert_eq!((error.line, error.message.as_str()), (6, message));
        assert_eq!(check_crashes(&text(u32::MAX.into())), Ok(()));
    }
}

#[test]
fn a_text_that_is_not_parsed_is_checked_by_its_tokens() {
    let text =
        |align: u64| format!("{HEADER}.new_directive x, y; .global .align {align} .b8 g[4];");
    assert!(cuda_ptx::parse(&text(4)).is_err());
    assert_eq!(check_crashes(&text(4)), Ok(()));
    assert!(check_crashes(&text(1 << 31)).is_err());
    for text in ["", "garbage", ".version", "\"open", "/* open", "0x"] {
        assert_eq!(check_crashes(text), Ok(()), "{text}");
    }
}

/// The check refuses nothing that the assembler accepts.
#[test]
fn assembler_accepts_no_refused_text() {
    let Some(assembler) = test_assembler::newest() else {
        return;
    };
    let accepts = |text: &str| assembler.assemble(text, "sm_90", &[]).is_ok();
    for (text, message) in crashing() {
        // Version 12.0 accepts some characters that are not ASCII.
        assert!(!accepts(&text) || !text.is_ascii(), "{message}: {text}");
    }
    for text in right() {
        let has_other_characters = !text.is_ascii();
        // Versions 12.8 to 13.0 accept only ASCII, also in comments.
        assert!(accepts(&text) || has_other_characters, "{text}");
    }
}
