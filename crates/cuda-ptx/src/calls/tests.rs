use super::{Inliner, MAX_INSERTED};
use crate::analysis::{Analysis, Argument, Buffer, LaunchValues, Verdict};
use crate::instrument::{Check, instrument};

/// `x[i] = f(x, i)` for `i` below `n`.
const KERNEL: &str = ".version 8.0
.target sm_80
.address_size 64
.global .align 1 .b8 $str[4] = {97, 98, 99, 0};
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 g,
    .param .b64 s);
FUNCTION
.visible .entry k(.param .u64 x, .param .u32 n) {
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [x];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra end;
    CALL
    mul.wide.u32 %d2, %r5, 4;
    add.s64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r6;
end:
    ret;
}
";

/// `(p: *u32, i: u32) -> u32 { p[i] }`, which calls nothing.
const GET: &str = ".func (.param .b32 res) get(.param .b64 p, .param .b32 i) {
    .reg .b32 %r<9>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [p];
    ld.param.u32 %r1, [i];
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
    ld.u32 %r5, [%d3];
    st.param.b32 [res+0], %r5;
    ret;
}";

/// A call of `get` as nvcc writes it.
const CALL: &str = "{ .param .b64 param0; st.param.b64 [param0+0], %d1;
    .param .b32 param1; st.param.b32 [param1+0], %r5;
    .param .b32 retval0;
    call.uni (retval0), get, (param0, param1);
    ld.param.b32 %r6, [retval0+0]; }";

fn kernel(function: &str, call: &str) -> String {
    KERNEL.replace("FUNCTION", function).replace("CALL", call)
}

fn analysis(text: &str) -> Analysis {
    let module = crate::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = module.functions.iter().find(|it| it.entry).unwrap();
    Analysis::of(&module, function)
}

fn evaluate(text: &str, bytes: u64) -> Verdict {
    let buffer = Buffer {
        bytes,
        align: 256,
        is_writable: true,
    };
    analysis(text).evaluate(&LaunchValues {
        cluster: None,
        grid: [4, 1, 1],
        block: [256, 1, 1],
        dynamic_shared: 0,
        arguments: vec![
            Argument::buffer(buffer),
            Argument::scalar(1000_u32.to_le_bytes()),
        ],
    })
}

#[test]
fn an_access_in_a_function_is_proven() {
    let text = kernel(GET, CALL);
    let verdict = evaluate(&text, 4000);
    assert!(verdict.is_proven(), "{verdict}");
    let contract = verdict.contract().unwrap();
    assert_eq!(contract.accesses.len(), 2);
    // The access has the line of the function.
    let line = text
        .lines()
        .position(|it| it.contains("ld.u32 %r5"))
        .unwrap()
        + 1;
    assert_eq!(contract.accesses[0].line as usize, line);
    assert!(!evaluate(&text, 3999).is_proven());
}

#[test]
fn arguments_in_registers_are_passed() {
    let get = ".func (.reg .u32 res) get(.reg .u64 p, .param .u32 i) {
        .reg .b32 %r<9>; .reg .b64 %d<9>;
        ld.param.u32 %r1, [i]; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, p, %d2;
        ld.global.u32 res, [%d3]; ret; }";
    let text = kernel(get, "call (%r6), get, (%d1, %r5);");
    assert!(evaluate(&text, 4000).is_proven());
    assert!(!evaluate(&text, 3999).is_proven());
    let text = kernel(get, "call (%r6), get, (%d1, 1000);");
    assert!(evaluate(&text, 4004).is_proven());
    assert!(!evaluate(&text, 4003).is_proven());
    // Without the guard of its caller.
    let text = kernel(
        get,
        "add.s32 %r7, %r5, 1; @%p1 call (%r6), get, (%d1, %r7);",
    );
    assert!(evaluate(&text, 4000).is_proven());
    let text = kernel(
        get,
        "add.s32 %r7, %r5, 1; @!%p1 call (%r6), get, (%d1, %r7);",
    );
    assert!(evaluate(&text, 4004).is_proven());
    assert!(!evaluate(&text, 4003).is_proven());
}

#[test]
fn a_result_keeps_its_bounds() {
    let clamp = ".func (.param .b32 res) clamp(.param .b32 i) {
        .reg .pred %p<2>; .reg .b32 %r<9>;
        ld.param.u32 %r1, [i]; setp.gt.u32 %p1, %r1, 99; @%p1 bra big;
        st.param.b32 [res], %r1; ret;
        big: st.param.b32 [res], 99; ret; }";
    let call = "mul.lo.s32 %r5, %r5, %r5; call (%r5), clamp, (%r5); mov.u32 %r6, 1;";
    let text = kernel(clamp, call);
    assert!(evaluate(&text, 400).is_proven());
    assert!(!evaluate(&text, 399).is_proven());
    // Nested calls keep it, too.
    let twice = format!(
        "{clamp} .func (.param .b32 res) twice(.param .b32 i) {{ .reg .b32 %r<3>;
        ld.param.u32 %r1, [i]; call (%r2), clamp, (%r1); add.u32 %r2, %r2, 1;
        st.param.b32 [res+0], %r2; ret; }}"
    );
    let text = kernel(&twice, &call.replace("clamp", "twice"));
    assert!(evaluate(&text, 404).is_proven());
    assert!(!evaluate(&text, 403).is_proven());
}

#[test]
fn an_unset_result_proves_nothing() {
    let maybe = ".func (.param .b32 res) maybe(.param .b32 i) {
        .reg .pred %p<2>; .reg .b32 %r<9>;
        ld.param.u32 %r1, [i]; setp.gt.u32 %p1, %r1, 99; @%p1 ret;
        st.param.b32 [res], %r1; ret; }";
    let call = "call (%r5), maybe, (%r5); mov.u32 %r6, 1;";
    assert!(!evaluate(&kernel(maybe, call), 1 << 40).is_proven());
}

#[test]
fn parts_of_several_sizes_are_in_memory() {
    let get = ".func (.param .b32 res) get(.param .align 8 .b8 s[16]) {
        .reg .b16 %h<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;
        ld.param.u8 %h1, [s+8]; cvt.u32.u16 %r1, %h1; st.param.b32 [res], %r1; ret; }";
    let call = "{ .param .align 8 .b8 param0[16]; st.param.b64 [param0+0], %d1;
        st.param.v2.b32 [param0+8], {%r5, %r5}; .param .b32 retval0;
        call.uni (retval0), get, (param0); ld.param.b32 %r6, [retval0+0]; }
        and.b32 %r5, %r6, 255;";
    let text = kernel(get, call);
    let expanded = {
        let module = crate::parse(&text).unwrap();
        Inliner::new(&module)
            .expand(&module.functions[2])
            .unwrap()
            .unwrap()
    };
    assert!(expanded.body.contains("ld.local.u8"), "{}", expanded.body);
    let verdict = evaluate(&text, 1024);
    assert!(verdict.is_proven(), "{verdict}\n{}", expanded.body);
}

#[test]
fn a_failed_assert_is_a_trap() {
    let check = ".func check(.param .b32 i) { .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %d<5>;
        ld.param.u32 %r1, [i]; setp.lt.u32 %p1, %r1, 500; @%p1 bra fine;
        mov.u64 %d1, $str; cvta.global.u64 %d2, %d1;
        { .param .b64 param0; st.param.b64 [param0+0], %d2; .param .b64 param1;
        st.param.b64 [param1+0], %d2; .param .b32 param2; st.param.b32 [param2+0], 7;
        .param .b64 param3; st.param.b64 [param3+0], %d2; .param .b64 param4;
        st.param.b64 [param4+0], 1;
        call.uni __assertfail, (param0, param1, param2, param3, param4); }
        fine: ret; }";
    let text = kernel(check, "call check, (%r5); mov.u32 %r6, 1;");
    let analysis = analysis(&text);
    assert_eq!(analysis.variables(), Vec::<String>::new());
    let line = text
        .lines()
        .position(|it| it.contains("call.uni __a"))
        .unwrap()
        + 1;
    assert_eq!(analysis.traps(), [line as u32]);
    // What follows the assert needs no more than it permits.
    assert!(evaluate(&text, 2000).is_proven());
    assert!(!evaluate(&text, 1999).is_proven());
}

#[test]
fn a_rewritten_kernel_has_no_calls() {
    let text = kernel(GET, CALL);
    let module = crate::parse(&text).unwrap();
    let function = module.functions.iter().find(|it| it.entry).unwrap();
    let analysis = Analysis::of(&module, function);
    let check = Check {
        access: 0,
        root: None,
        is_aligned: false,
    };
    let new = instrument(&text, &module, function, &analysis, &[check], &[]).unwrap();
    let line = text
        .lines()
        .position(|it| it.contains("ld.u32 %r5"))
        .unwrap()
        + 1;
    assert_eq!(new.sites[0].line as usize, line);
    let module = crate::parse(&new.text).unwrap();
    let function = module.functions.iter().find(|it| it.entry).unwrap();
    assert!(Inliner::new(&module).expand(function).unwrap().is_none());
    assert!(new.text.contains("{ ret; }"), "{}", new.text);
}

#[test]
fn other_calls_are_refused_with_their_line() {
    let twice = "/**/ .func f() { .shared .b32 s[4]; ret; }";
    for (function, call, expected) in [
        (
            "/**/ .func f() { call f; ret; }",
            "call f;",
            "recursive call of f",
        ),
        (
            ".func g(); .func f() { call g; ret; }\n/**/ .func g() { call f; ret; }",
            "call f;",
            "recursive call of f",
        ),
        (".extern .func f();", "/**/ call f;", "does not define: f"),
        (
            ".extern .func malloc();",
            "/**/ call malloc;",
            "allocates: malloc",
        ),
        (".extern .func vprintf();", "/**/ call vprintf;", "printf"),
        ("", "/**/ call nothing;", "through a pointer: nothing"),
        ("", "/**/ call %d1, p;", "through a pointer: %d1"),
        (
            ".func f(.reg .u32 a) { ret; }",
            "/**/ call f;",
            "arguments in the call of f is 0, but that of its parameters is 1",
        ),
        (
            ".func (.reg .u32 a) f() { ret; }",
            "/**/ call f;",
            "results in the call of f is 0, but the function returns 1",
        ),
        (
            ".func f(.reg .u64 a) { ret; }",
            "/**/ call f, (%r1);",
            "argument 1 of the call of f is neither a register of 64 bits",
        ),
        (
            "/**/ .func f() { .global .u32 g; ret; }",
            "call f;",
            "f has the static variable g",
        ),
        (
            "/**/ .func f() { .reg .u32 $str; ret; }",
            "call f;",
            "f declares $str",
        ),
        (
            twice,
            "call f; call f;",
            "belongs to f, which is called in several places",
        ),
        (
            "/**/ .func f(.param .u64 a) { .reg .b64 %d; mov.u64 %d, a; ret; }",
            "call f, (%d1);",
            "the address of a",
        ),
        (
            "/**/ .func f(.param .u64 a) { .reg .b64 %d; ld.param.u64 %d, [%d]; ret; }",
            "call f, (%d1);",
            "computed address",
        ),
        (
            "/**/ .func f(.param .u64 a) { .reg .b64 %d; ld.param.u64 %d, [a+4]; ret; }",
            "call f, (%d1);",
            "beyond a parameter",
        ),
        (
            "/**/ .func f(.param .u64 a) { .reg .b64 %d; st.param.u64 [a], %d; ret; }",
            "call f, (%d1);",
            "stores to its parameter",
        ),
    ] {
        let text = kernel(function, call);
        // The text has one line with the mark.
        let at = text.lines().position(|line| line.contains("/**/"));
        let found = analysis(&text).refusal().expect("a refusal");
        assert!(found.reason.contains(expected), "{text}: {found}");
        let line = at.map(|index| index as u32 + 1);
        assert_eq!(Some(found.line), line, "{text}: {found}");
    }
}

/// `f10` calls `f9` twice, and so on, so that a short kernel has many statements.
#[test]
fn the_calls_of_all_kernels_have_one_limit() {
    let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n");
    let leaf = "add.s32 %r1, %r1, %r1;\n".repeat(300);
    text += &format!(".func f0() {{\n.reg .b32 %r<2>;\nmov.u32 %r1, 7;\n{leaf}ret;\n}}\n");
    for number in 1..=10 {
        let below = number - 1;
        text += &format!(".func f{number}() {{\ncall f{below}; call f{below};\nret;\n}}\n");
    }
    for number in 0..6 {
        text += &format!(".visible .entry k{number}() {{ call f10; ret; }}\n");
    }
    text += ".visible .entry deep() { call f10; call f10; ret; }\n";
    text += ".visible .entry small() { call f3; ret; }\n";
    let module = crate::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let mut inliner = Inliner::new(&module);
    let (mut bytes, mut reasons) = (0, Vec::new());
    for function in module.functions.iter().filter(|it| it.entry) {
        match inliner.expand(function) {
            Ok(expanded) => bytes += expanded.map_or(0, |it| it.body.len()),
            Err(refused) => reasons.push((function.name, refused.reason)),
        }
    }
    // Kernels that call less than is left can still be launched.
    let refused: Vec<&str> = reasons.iter().map(|it| it.0).collect();
    assert_eq!(refused, ["k3", "k4", "k5", "deep"]);
    assert!(bytes < 64 * MAX_INSERTED as usize, "{bytes}");
    let reason = &reasons[0].1;
    assert!(
        reason.contains("of the 1000000 for all kernels"),
        "{reason}"
    );
    assert!(reason.contains("load the kernel from another module"));
    let reason = &reasons[3].1;
    assert!(reason.contains("more than 400000 statements"), "{reason}");
}
