use super::{Base, Init, Literal, Operand, Space, Statement, parse};

const SAMPLE: &str = r#"
// A comment
.version 8.8
.target sm_90a, debug
.address_size 64
.file 1 "a b.cu", 12, 34
.visible .const .align 4 .f32 table[2][2] = { {0f3F800000}, {-1.5, 2} };
.global .align 8 .u64 pointers[2] = { generic(table)+4, f };
.extern .shared .align 16 .b8 dynamic[];
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.func (.reg .u32 out) f(.reg .u32 in) { add.u32 out, in, 1; ret; }
.visible .entry k(.param .u64 .ptr .global .align 4 k_param_0, .param .align 8 .b8 s[16])
.maxntid 128, 1, 1
.minnctapersm 2
{
    .reg .pred %p<3>;
    .reg .b32 %r<10>, x;
    .loc 1 5 3, function_name $L__info, inlined_at 1 2 3
    ld.param.u64 %rd1, [k_param_0+8];
$L__A:
    @!%p1 bra.uni $L__B;
    { .reg .v2 .b32 v; mov.b32 %r1, %tid.x; st.global.v2.b32 [%rd1+-4], {%r1, _}; }
    setp.lt.s32 %p1|%p2, %r1, -7;
    targets: .branchtargets $L__A, $L__B;
    proto: .callprototype (.param .b32 _) _ (.param .b64 _);
    call (r), %rd1, (a, b), proto;
    tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [t, {%r1, %r2}];
    ld.relaxed.gpu.global.L2::128B.u32 %r1, [%rd1];
$L__B: ret;
}
.section .debug_abbrev { .b8 1, { } label: .b8 2 }
"#;

#[test]
fn a_module_with_all_directives() {
    let module = parse(SAMPLE).unwrap();
    assert_eq!(module.version, (8, 8));
    assert_eq!((module.target.sm, module.target.suffix), (90, "a"));
    assert_eq!(module.files, [(1, "a b.cu")]);
    let table = &module.variables[0];
    assert_eq!(table.count, Some(4));
    let expected = [
        Init::Literal(Literal::F32(0x3f80_0000)),
        Init::Literal(Literal::F64(0)),
        Init::Literal(Literal::F64((-1.5f64).to_bits())),
        Init::Literal(Literal::Int(2)),
    ];
    assert_eq!(table.init, expected);
    assert_eq!(module.variables[2].count, None);
    let kernel = &module.functions[2];
    assert_eq!(kernel.params.len(), 2);
    assert_eq!(kernel.params[1].count, Some(16));
    assert_eq!(kernel.directives[0], ("maxntid", vec![128, 1, 1]));
    let body = kernel.body.as_ref().unwrap();
    let instructions: Vec<_> = body
        .iter()
        .filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
        .collect();
    assert_eq!(instructions[0].mnemonic(), "ld.param.u64");
    assert_eq!(
        instructions[0].operands[1],
        Operand::Address(Base::Name("k_param_0"), 8)
    );
    assert!(instructions[1].predicate.unwrap().negated);
    assert_eq!(instructions[2].operands[1], Operand::Member("%tid", "x"));
    assert_eq!(
        instructions[3].operands[0],
        Operand::Address(Base::Name("%rd1"), -4)
    );
    assert_eq!(
        instructions[4].operands[2],
        Operand::Literal(Literal::Int((-7i64) as u64))
    );
    assert!(instructions[7].has("L2::128B"));
}

#[test]
fn directives_that_no_code_depends_on_are_in_the_tree() {
    let text = ".version 9.0 .target sm_90 .address_size 64
        .pragma \"a\", \"b\";
        .func (.reg .u32 r) f(.reg .u32 x) .noreturn { trap; }
        .func .attribute(.unified(1, 2)) g();
        .alias g, f;
        .global .attribute(.managed) .u32 m;
        .entry k(.param .u64 .ptr .shared .align 16 p, .param .u64 .ptr q) .pragma \"c\";
        { .pragma \"nounroll\"; .loc 1 2 3, function_name $x+4, inlined_at 1 5 6
          t: .callprototype _ () .noreturn; ret; }
        .section .debug_str { x: .b8 1 }";
    let module = parse(text).unwrap();
    assert_eq!(module.pragmas, ["a", "b"]);
    assert_eq!(module.sections, [".debug_str"]);
    let alias = module.aliases[0];
    assert_eq!((alias.name, alias.target, alias.line), ("g", "f", 5));
    assert!(module.variables[0].is_managed());
    let [f, g, k] = &module.functions[..] else {
        panic!("{:?}", module.functions);
    };
    assert_eq!(f.directives, [("noreturn", vec![])]);
    assert_eq!(g.attributes[0].values, [1, 2]);
    assert_eq!(k.pragmas, ["c"]);
    let pointer = k.params[0].pointer.unwrap();
    assert_eq!(
        (pointer.space, pointer.align),
        (Some(Space::Shared), Some(16))
    );
    assert_eq!(k.params[1].pointer.map(|it| it.space), Some(None));
    let body = k.body.as_ref().unwrap();
    assert_eq!(body[0], Statement::Pragma("nounroll"));
    let Statement::Loc {
        function,
        inlined_at: Some(at),
        ..
    } = body[1]
    else {
        panic!("{:?}", body[1]);
    };
    assert_eq!((function, at.line), (Some(("$x", 4)), 5));
    let Statement::Prototype("t", prototype) = &body[2] else {
        panic!("{:?}", body[2]);
    };
    assert_eq!(prototype.directives, [("noreturn", vec![])]);
}

#[test]
fn truncated_text_is_an_error() {
    for end in 0..SAMPLE.len() {
        // The sample is ASCII. Only whether it returns matters: most prefixes end inside something.
        let outcome = parse(&SAMPLE[..end]);
        let inside =
            end > SAMPLE.find(".entry").unwrap() && end < SAMPLE.find(".section").unwrap() - 2;
        assert!(!(inside && outcome.is_ok()), "prefix of {end} bytes parsed");
    }
}

#[test]
fn invalid_text_is_an_error_with_a_position() {
    for text in [
        "",
        "\0",
        "}",
        "é",
        ".version",
        ".version 8",
        ".version 8.0 .target",
        ".version 8.0 .target sm_",
        ".version 8.0 .target sm_80 .entry k() { add",
        ".version 8.0 .target sm_80 .entry k() { mov.f64 a, 1e999; }",
        ".version 8.0 .target sm_80 .global .b8 a[99999999999][99999999999];",
        ".version 8.0 /* open",
        ".version 8.0 .target sm_80 .file 1 \"open",
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.line >= 1 && error.column >= 1, "{text:?}");
    }
    let error = parse(".version 8.0\n.target sm_80\n.visible .entry k()\n{\n  add.u32 a b;\n}\n");
    let error = error.unwrap_err();
    assert_eq!((error.line, error.column), (5, 13));
    assert!(
        error
            .to_string()
            .starts_with("ptxas application ptx input, line 5; error   : ")
    );
}

#[test]
fn deep_nesting_is_an_error() {
    for (open, head) in [("[", "mov.u32 a, "), ("{", "mov.u32 a, "), ("(", "call ")] {
        let text = format!(
            ".version 8.0 .target sm_80 .entry k() {{ {head}{} ; }}",
            open.repeat(100_000)
        );
        assert!(parse(&text).is_err());
    }
    let braces = "{".repeat(100_000);
    assert!(
        parse(&format!(
            ".version 8.0 .target sm_80 .global .b8 a[] = {braces};"
        ))
        .is_err()
    );
    assert!(parse(&format!(".version 8.0 .target sm_80 .entry k() {braces}")).is_err());
}

#[test]
fn a_mask_of_used_bytes_is_of_the_next_load() {
    let text = ".version 9.0 .target sm_90 .address_size 64 .visible .entry k() {
        .pragma \"nounroll\";
        .pragma \"used_bytes_mask 3855\";
        ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];
        .pragma \"used_bytes_mask 0x0F0f\";
        @!%p1 ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];
        .pragma \"used_bytes_mask 15\"; mov.u32 %r1, 0;
        ld.global.v2.u32 {%r1, %r2}, [%d1];
        .pragma \"used_bytes_mask 4294967296\"; ld.global.u32 %r1, [%d1];
        .pragma \"used_bytes_mask\"; ld.global.u32 %r1, [%d1];
        ret; }";
    let module = parse(text).unwrap();
    let body = module.functions[0].body.as_ref().unwrap();
    let instructions = body.iter().filter_map(|statement| match statement {
        Statement::Instruction(instruction) => Some(instruction),
        Statement::Pragma(_) => None,
        other => panic!("{other:?}"),
    });
    let masks: Vec<_> = instructions.clone().map(|it| it.used_bytes).collect();
    let mask = Some(3855);
    assert_eq!(masks, [mask, mask, None, None, None, None, None]);
    // The pragmas that no load takes.
    let kept = body.iter().filter_map(|statement| match statement {
        Statement::Pragma(text) => Some(*text),
        _ => None,
    });
    let kept: Vec<_> = kept.collect();
    let expected = [
        "nounroll",
        "used_bytes_mask 15",
        "used_bytes_mask 4294967296",
        "used_bytes_mask",
    ];
    assert_eq!(kept, expected);
    // The text of a load includes its pragma, and that of others does not.
    let starts = instructions.map(|it| {
        let text = &text[it.span.start..it.span.end];
        text.split(' ').next().unwrap()
    });
    let starts: Vec<_> = starts.collect();
    assert_eq!(starts[..3], [".pragma", ".pragma", "mov.u32"]);
    assert!(starts[3..6].iter().all(|start| start.starts_with("ld.")));
    let Some(Statement::Instruction(second)) = body.get(2) else {
        panic!("{:?}", body.get(2));
    };
    assert_eq!(
        second.to_string(),
        ".pragma \"used_bytes_mask 3855\"; @!%p1 ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];"
    );
}

#[test]
fn padded_initial_values_have_one_limit() {
    let text = |variables: usize| {
        let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n");
        for number in 0..variables {
            text += &format!(".global .u8 a{number}[2][800000] = {{{{1}},{{2}}}};\n");
        }
        text
    };
    assert!(parse(&text(1)).is_ok());
    let error = parse(&text(2)).unwrap_err().to_string();
    assert!(
        error.contains("line 5") && error.contains("too long"),
        "{error}"
    );
}

#[test]
fn masks_of_initial_values_are_not_nested() {
    let nested = |depth: usize| {
        let (open, close) = ("0xff(".repeat(depth), ")".repeat(depth));
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 a;\n\
             .global .u64 b[1] = {{{open}a{close}}};\n"
        )
    };
    assert!(parse(&nested(1)).is_ok());
    for depth in [2, 200_000] {
        let error = parse(&nested(depth)).unwrap_err().to_string();
        assert!(error.contains("line 5"), "{error}");
    }
}
