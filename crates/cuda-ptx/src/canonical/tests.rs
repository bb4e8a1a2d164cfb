//! What is printed, and what is left out.

use super::Canonical;
use crate::parse;

/// A module with the variables and the kernel `k`, which has the parameters `x` and `n`.
fn module(variables: &str, body: &str) -> String {
    format!(
        ".version 8.3\n.target sm_80\n.address_size 64\n{variables}\n\
         .visible .entry k(.param .u64 x, .param .u32 n) {{\n\
         .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<4>;\n{body}\nret; }}"
    )
}

fn print(text: &str) -> Canonical {
    Canonical::new(&parse(text).unwrap()).unwrap()
}

/// The reason for which `k` is left out.
fn reason(text: &str) -> String {
    let canonical = print(text);
    let refusal = canonical
        .refusal("k")
        .unwrap_or_else(|| panic!("{}", canonical.text()));
    refusal.reason.clone()
}

#[test]
fn a_declared_register_is_not_a_special_register() {
    let text = module(
        "",
        ".reg .b32 %laneid; mov.u32 %laneid, 1000; mov.u32 %r1, %laneid;",
    );
    let canonical = print(&text);
    assert!(
        !canonical.text().contains("%laneid"),
        "{}",
        canonical.text()
    );
    assert!(canonical.text().contains("mov.u32 %b32_1, %b32_0;"));
    let special = print(&module("", "mov.u32 %r1, %laneid;"));
    assert!(special.text().contains("mov.u32 %b32_0, %laneid;"));
}

#[test]
fn names_that_refer_to_nothing_refuse_the_kernel() {
    for (body, expected) in [
        ("mov.u32 %q1, 7;", "%q1 is not declared"),
        ("mov.u32 %r20, 7;", "%r20 is not declared"),
        ("mov.u32 %r1, %tid;", "%tid is not declared"),
        (
            "mov.u32 %r1, %laneid.x;",
            "%laneid is not declared, and not a special register",
        ),
        ("mov.u32 %r1, %envreg32;", "%envreg32 is not declared"),
        ("@%p9 mov.u32 %r1, 7;", "%p9 is not a register"),
        ("mov.u64 %d1, nowhere;", "nowhere is not declared"),
        ("ld.global.u32 %r1, [%clock];", "%clock is not an address"),
        (
            "mov.u64 %d1, %d2+4;",
            "%d2+4 is not the address of a variable",
        ),
    ] {
        let reason = reason(&module("", body));
        assert!(
            reason.contains(expected),
            "{reason} does not contain {expected}"
        );
    }
}

#[test]
fn an_access_names_the_space_of_its_variable() {
    let global = ".global .align 4 .b32 g[4];";
    let canonical = print(&module(global, "ld.global.u32 %r1, [g+4];"));
    assert!(canonical.text().contains("ld.global.u32 %b32_0, [g+4];"));
    for load in ["ld.shared.u32", "ld.u32"] {
        let reason = reason(&module(global, &format!("{load} %r1, [g];")));
        assert!(reason.starts_with(load), "{reason}");
    }
}

#[test]
fn nested_scopes_become_one() {
    let body = ".local .align 4 .b8 buffer[8];\n\
        mov.u32 %r1, 1;\n{ .reg .b32 %r<3>; .local .align 4 .b8 buffer[16];\n\
        mov.u32 %r1, 2; st.local.u32 [buffer+12], %r1; }\nst.local.u32 [buffer], %r1;";
    let text = print(&module("", body)).text().to_owned();
    for expected in [
        ".reg .b32 %b32_<2>;",
        ".local .align 4 .b8 buffer[8];",
        ".local .align 4 .b8 buffer_1[16];",
        "mov.u32 %b32_1, 2;",
        "st.local.u32 [buffer_1+12], %b32_1;",
        "st.local.u32 [buffer], %b32_0;",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

#[test]
fn a_refused_kernel_does_not_refuse_the_others() {
    let good = module("", "mov.u32 %r1, 7;");
    let bad = ".extern .func f();\n.visible .entry bad() { call f, (); ret; }\n.func g() .noreturn { ret; }\n\
        .visible .entry also_bad() { call g, (); ret; }";
    let canonical = print(&format!("{good}\n{bad}"));
    assert!(canonical.kernel("k").is_some());
    assert!(canonical.kernel("bad").is_none());
    let reason = |kernel| canonical.refusal(kernel).map(|it| it.reason.as_str());
    assert_eq!(reason("k"), None);
    assert!(reason("bad").is_some_and(|it| it.contains("does not define: f")));
    let expected = "call of g, which has the directive .noreturn";
    assert_eq!(reason("also_bad"), Some(expected));
    assert!(!canonical.text().contains("bad"), "{}", canonical.text());
}

#[test]
fn directives_are_printed_from_a_list() {
    let text = module("", "").replace(") {", ") .maxntid 64, 1, 1 .minnctapersm 2 {");
    let printed = print(&text).text().to_owned();
    assert!(
        printed.contains(".maxntid 64, 1, 1\n.minnctapersm 2\n{"),
        "{printed}"
    );
    let text = module("", "").replace(") {", ") .blocksareclusters {");
    assert_eq!(
        reason(&text),
        "the directive .blocksareclusters is not supported"
    );
    let text = module("", "").replace("sm_80", "sm_80, texmode_independent");
    let error = Canonical::new(&parse(&text).unwrap()).unwrap_err();
    assert!(error.message.contains("texmode_independent"));
}

#[test]
fn variables_keep_their_values() {
    let variables = ".visible .global .align 8 .b32 table[3] = {1, 0xFFFFFFFF, 3};\n\
        .const .align 16 .v2 .f32 pairs[2] = {{1.0, 2.0}, {3.0, 4.0}};\n\
        .global .align 8 .u64 at[2] = {generic(table)+4, table};\n\
        .func f() { ret; }\n.global .align 8 .u64 to = f;\n.global .align 8 .u64 to_that = to;\n\
        .extern .shared .align 16 .b8 dynamic[];";
    let canonical = print(&module(variables, "ld.global.u32 %r1, [table+4];"));
    let again = parse(canonical.text()).unwrap();
    let original = parse(variables_only(variables)).unwrap();
    let find = |name| {
        original
            .variables
            .iter()
            .find(|it| it.name == name)
            .unwrap()
    };
    let mut found = Vec::new();
    for variable in &again.variables {
        let expected = find(variable.name);
        assert_eq!(variable.init, expected.init, "{}", variable.name);
        assert_eq!(
            (variable.count, variable.align),
            (expected.count, expected.align)
        );
        found.push(variable.name);
    }
    // The address of a function is that of code, which is not in the text.
    assert_eq!(found, ["table", "pairs", "at", "dynamic"]);
    let text = module(variables, "ld.global.u64 %d1, [to_that];");
    assert_eq!(
        reason(&text),
        "the initial value of to_that is the address of to"
    );
    // The text of a kernel has only the variables that it uses.
    let kernel = canonical.kernel("k").unwrap();
    let kernel = kernel.parse().unwrap();
    assert_eq!(kernel.variables.len(), 1);
}

/// A module that has only the variables.
fn variables_only(variables: &str) -> &'static str {
    let text = format!(".version 8.3\n.target sm_80\n.address_size 64\n{variables}");
    Box::leak(text.into_boxed_str())
}

#[test]
fn lines_are_those_of_the_original_text() {
    let text = module("", "\n\nadd.u32 %r1, %r2, 1;\n\nbra END;\nEND:");
    let canonical = print(&text);
    let line_of = |text: &str, what: &str| {
        let found = text.lines().position(|line| line.contains(what)).unwrap();
        found as u32 + 1
    };
    for (printed, original) in [("add.u32", "add.u32"), ("bra", "bra"), ("$L0:", "END:")] {
        let line = line_of(canonical.text(), printed);
        assert_eq!(
            canonical.original_line(line),
            Some(line_of(&text, original))
        );
    }
    let kernel = canonical.kernel("k").unwrap();
    let module = kernel.parse().unwrap();
    let Some(crate::Statement::Instruction(add)) = module.functions[0]
        .body
        .as_ref()
        .unwrap()
        .iter()
        .find(|it| matches!(it, crate::Statement::Instruction(_)))
    else {
        panic!()
    };
    assert_eq!((add.opcode, add.line), ("add", line_of(&text, "add.u32")));
}

#[test]
fn a_printed_text_is_printed_unchanged() {
    let body = "ld.param.u64 %d1, [x]; setp.eq.u32 %p1, %r1, -5; @!%p1 bra A;\n\
        { .reg .f64 %f; mov.f64 %f, 1.5; }\nA: st.global.u32 [%d1+-4], %r1;";
    let first = print(&module(".global .u32 g = 4;", body))
        .text()
        .to_owned();
    assert_eq!(print(&first).text(), first);
}

#[test]
fn the_texts_of_all_kernels_are_as_long_as_the_module() {
    let mut text = String::from(".version 8.3\n.target sm_80\n.address_size 64\n");
    for number in 0..200 {
        text.push_str(&format!(
            ".global .align 4 .b32 v{number}[64];\n.visible .entry k{number}() {{\n\
             .reg .b32 %r<2>; ld.global.u32 %r1, [v{number}]; ret; }}\n"
        ));
    }
    let canonical = print(&text);
    let kernels = (0..200).filter_map(|number| canonical.kernel(&format!("k{number}")));
    let lengths: Vec<usize> = kernels.map(|kernel| kernel.text().len()).collect();
    assert_eq!(lengths.len(), 200);
    // Each has the header, its own variable and its own body.
    let header = ".version 8.3\n.target sm_80\n.address_size 64\n".len();
    let all = lengths.iter().map(|length| length - header).sum::<usize>() + header;
    assert_eq!(all, canonical.text().len());
}

#[test]
fn a_variable_that_another_kernel_writes_is_not_a_table() {
    let table = ".global .align 4 .b32 t[4] = {1, 2, 3, 4};";
    let text = module(table, "ld.global.u32 %r1, [t+4];");
    let writer = ".visible .entry w() { st.global.u32 [t], 7; ret; }";
    for (text, expected) in [(text.clone(), true), (format!("{text}\n{writer}"), false)] {
        let canonical = print(&text);
        let kernel = canonical.kernel("k").unwrap();
        assert_eq!(kernel.parse().unwrap().variables[0].constant, expected);
    }
}

#[test]
fn read_only_loads_that_decide_about_addresses_are_volatile() {
    let body = "ld.param.u64 %d1, [x];\nld.global.nc.u32 %r1, [%d1];\n\
        ld.global.nc.v2.u32 {%r2, %r3}, [%d1];\nmul.wide.u32 %d2, %r1, 4;\n\
        add.u64 %d3, %d1, %d2;\nst.global.u32 [%d3], %r2;";
    let printed = print(&module("", body)).text().to_owned();
    // The assembler could load the index once more, after the program has compared it.
    assert!(printed.contains("ld.volatile.global.u32 %"), "{printed}");
    // What is stored does not matter.
    assert!(printed.contains("ld.global.nc.v2.u32 {%"), "{printed}");
}

#[test]
fn masks_of_warps_have_the_own_lane() {
    let sums = |mask: &str| {
        let body = format!("redux.sync.add.u32 %r1, %r2, {mask};");
        print(&module("", &body)).text().to_owned()
    };
    assert!(sums("-1").contains("redux.sync.add.u32 %b32_0, %b32_1, "));
    assert!(!sums("-1").contains("%lanemask_eq"));
    for (mask, given) in [("1", "1"), ("%r3", "%b32_2")] {
        let text = sums(mask);
        let own = ["mov.u32 %b32_", ", %lanemask_eq;\nor.b32 %b32_"];
        assert!(own.iter().all(|part| text.contains(part)), "{text}");
        assert!(text.contains(&format!(", {given};\nredux.sync")), "{text}");
    }
}

#[test]
fn registers_that_are_read_first_are_set_for_addresses() {
    // A branch leaves %r1 as it was, and another leaves %f1.
    let body = |address: &str| {
        format!(
            "ld.param.u64 %d1, [x];\nld.global.u32 %r2, [%d1];\nsetp.eq.u32 %p1, %r2, 0;\n\
             @%p1 bra L;\nshr.u32 %r1, %r2, 28;\nL:\nand.b32 %r3, {address}, 15;\n\
             mul.wide.u32 %d2, %r3, 4;\nadd.u64 %d3, %d1, %d2;\nst.global.u32 [%d3], %r1;"
        )
    };
    let printed = |address| print(&module("", &body(address))).text().to_owned();
    let text = printed("%r1");
    let (first, load) = (text.find("mov.b32 %b32_1, 0;"), text.find("ld.param"));
    assert!(first.is_some() && first < load, "{text}");
    // What is stored may be any number.
    assert!(!printed("%r2").contains("mov.b32"));
}
