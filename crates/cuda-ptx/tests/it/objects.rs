//! Textures and surfaces: which handles, objects and forms of instructions are accepted.

use cuda_ptx::analysis::{
    Argument, Object, ObjectKind, ObjectShape, Outcome, Reason, Root, Verdict,
};

use crate::support::{analysis, int, launch, output, reasons};

/// A kernel with the parameters `a`, `b` (8 bytes) and `n` (4 bytes), whose handles are `%a`, `%b`.
fn text(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .texref image;\n\
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n) {{\n\
         .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %d<8>;\n\
         .reg .b64 %a, %b; .reg .b32 %n;\n\
         ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u32 %n, [n];\n\
         mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.f32 %f1, 0f00000000;\n{body}\nret;\n}}"
    )
}

const FETCH: &str = "tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%a, {%f1, %f1}];";

fn texture(shape: ObjectShape) -> Argument {
    let kind = ObjectKind::Texture { can_gather: false };
    Argument::object(Object { kind, shape })
}

fn gathered(shape: ObjectShape) -> Argument {
    let kind = ObjectKind::Texture { can_gather: true };
    Argument::object(Object { kind, shape })
}

fn surface(shape: ObjectShape, element_bytes: u32, is_writable: bool) -> Argument {
    let kind = ObjectKind::Surface {
        element_bytes,
        is_writable,
    };
    Argument::object(Object { kind, shape })
}

fn number() -> Argument {
    Argument::scalar([7; 8])
}

/// The verdict of a launch of 32 × 4 threads with these arguments for `a` and `b`.
fn verdict(body: &str, a: Argument, b: Argument) -> Verdict {
    let arguments = [a, b, int(100)];
    analysis(&text(body), "k").evaluate(&launch([1; 3], [32, 4, 1], arguments))
}

/// The reason for which a launch is refused.
#[track_caller]
fn refusal(body: &str, a: Argument, b: Argument) -> String {
    let verdict = verdict(body, a, b);
    let refusal = verdict.refusal().unwrap_or_else(|| panic!("{verdict}"));
    // The body begins at line 10; module-level and whole-kernel reasons name the kernel.
    assert!(refusal.line >= 10, "{refusal}");
    refusal.reason.clone()
}

#[test]
fn a_fetch_through_a_texture_argument_is_proven() {
    use ObjectShape::{Cube, CubeLayered, Linear, OneD, OneDLayered, ThreeD, TwoD, TwoDLayered};
    let to = "{%f2, %f3, %f4, %f5}";
    let cases = [
        (OneD, "tex.1d.v4.f32.f32", "[%a, {%f1}]"),
        (Linear, "tex.1d.v4.f32.s32", "[%a, {%r1}]"),
        (TwoD, "tex.2d.v4.s32.f32", "[%a, {%f1, %f1}]"),
        (TwoD, "tex.level.2d.v4.f32.f32", "[%a, {%f1, %f1}], %f1"),
        (
            TwoD,
            "tex.grad.2d.v4.f32.f32",
            "[%a, {%f1, %f1}], {%f1, %f1}, {%f1, %f1}",
        ),
        (ThreeD, "tex.3d.v4.f32.f32", "[%a, {%f1, %f1, %f1, %f1}]"),
        (OneDLayered, "tex.a1d.v4.f32.f32", "[%a, {%r1, %f1}]"),
        (
            TwoDLayered,
            "tex.a2d.v4.f32.f32",
            "[%a, {%r1, %f1, %f1, %f1}]",
        ),
        (Cube, "tex.cube.v4.f32.f32", "[%a, {%f1, %f1, %f1, %f1}]"),
        (
            CubeLayered,
            "tex.acube.v4.f32.f32",
            "[%a, {%r1, %f1, %f1, %f1}]",
        ),
    ];
    let shapes = cases.map(|case| case.0);
    for (shape, mnemonic, place) in cases {
        let body = format!("{mnemonic} {to}, {place};");
        for given in shapes {
            let verdict = verdict(&body, texture(given), number());
            assert_eq!(
                verdict.is_proven(),
                given == shape,
                "{body} {given}: {verdict}"
            );
            assert_eq!(verdict.refusal().is_some(), given != shape);
        }
        let verdict = verdict(&body, texture(shape), number());
        let access = &verdict.contract().unwrap().accesses[0];
        let root = Root::Object { parameter: 0 };
        assert_eq!(access.outcome.root(), Some(&root));
        let text = verdict.to_string();
        assert!(
            text.contains(&format!("a is a texture of {shape}, PTX line 10")),
            "{text}"
        );
    }
}

#[test]
fn only_the_value_of_a_texture_argument_is_a_handle() {
    let plane = || texture(ObjectShape::TwoD);
    let fetch = |handle: &str| FETCH.replace("%a", handle);
    // A number that may be a handle, and an address.
    let reason = refusal(FETCH, number(), plane());
    assert!(reason.contains("uses a as a handle"), "{reason}");
    let reason = refusal(FETCH, output(64), plane());
    assert!(
        reason.contains("must be a texture of two dimensions"),
        "{reason}"
    );
    for computed in [
        "add.s64 %d1, %a, 8;".to_owned(),
        "sub.s64 %d1, %a, %b;".to_owned(),
        "cvt.u32.u64 %r3, %a; cvt.u64.u32 %d1, %r3;".to_owned(),
        "ld.param.u32 %r3, [a]; ld.param.u32 %r4, [a+4]; mov.b64 %d1, {%r3, %r4};".to_owned(),
        "ld.global.u64 %d1, [%b];".to_owned(),
        "mov.u64 %d1, image;".to_owned(),
        "or.b64 %d1, %a, 1;".to_owned(),
        "setp.lt.u32 %p1, %r1, 3; selp.b64 %d1, %a, %b, %p1;".to_owned(),
        "mov.u64 %d1, %a; setp.lt.u32 %p1, %r1, 3; @%p1 mov.u64 %d1, %b;".to_owned(),
        // Never set, and set for some threads.
        String::new(),
        "setp.lt.u32 %p1, %r1, 3; @%p1 mov.u64 %d1, %a;".to_owned(),
    ] {
        let body = format!("{computed} {}", fetch("%d1"));
        let reason = refusal(&body, plane(), plane());
        assert!(
            reason.contains("not the value of one parameter"),
            "{reason}"
        );
    }
    for reference in ["image", "a"] {
        let reason = refusal(&fetch(reference), plane(), plane());
        assert!(reason.contains("only handles in parameters"), "{reason}");
    }
}

#[test]
fn copies_of_a_handle_are_followed() {
    let plane = || texture(ObjectShape::TwoD);
    for copied in [
        "mov.u64 %d1, %a;",
        "mov.b64 %d2, %a; add.s64 %d3, %d2, 8; sub.s64 %d1, %d3, 8;",
        // The numbers of the launch decide the branch.
        "setp.lt.u32 %p1, %n, 200; selp.b64 %d1, %a, %b, %p1;",
        // Both cases are the same.
        "mov.u64 %d1, %a; setp.lt.u32 %p1, %r1, 3; @%p1 mov.u64 %d1, %a;",
    ] {
        let body = format!("{copied} {}", FETCH.replace("%a", "%d1"));
        let verdict = verdict(&body, plane(), number());
        assert!(verdict.is_proven(), "{copied}: {verdict}");
    }
    // An instruction that no thread reaches needs no object.
    let body = format!("setp.gt.u32 %p1, %n, 200; @%p1 bra there; ret; there: {FETCH}");
    let verdict = verdict(&body, number(), number());
    assert!(verdict.is_proven(), "{verdict}");
    assert_eq!(
        verdict.contract().unwrap().accesses[0].outcome,
        Outcome::Unreached
    );
}

#[test]
fn unknown_forms_are_refused_for_every_launch() {
    let to = "{%f2, %f3, %f4, %f5}";
    let forms = [
        format!("tex.2d.v4.f32.s32 {to}, [%a, {{%r1, %r2}}];"),
        format!("tex.2d.v4.f32.f32 {to}, [%a, %b, {{%f1, %f1}}];"),
        format!("tex.2d.v4.f32.f32 {to}, [%a, {{%f1, %f1}}], {{%r1, %r1}};"),
        format!("tex.2dms.v4.f32.s32 {to}, [%a, {{%r1, %r1, %r1, %r1}}];"),
        format!("tld4.r.cube.v4.f32.f32 {to}, [%a, {{%f1, %f1, %f1, %f1}}];"),
        format!("tld4.r.2d.v4.f32.f32 {to}, [%a, {{%f1, %f1}}], {{%r1, %r1}};"),
        "suld.p.2d.b32.trap %r3, [%a, {%r1, %r2}];".to_owned(),
        "sust.p.2d.b32.trap [%a, {%r1, %r2}], %r3;".to_owned(),
        "sust.b.2d.v4.b64.zero [%a, {%r1, %r2}], {%d1, %d2, %d3, %d4};".to_owned(),
        "sust.b.cube.b32.zero [%a, {%r1, %r2, %r2, %r2}], %r3;".to_owned(),
        "sured.b.add.a1d.u32.zero [%a, {%r1, %r2}], %r3;".to_owned(),
        "txq.addr_mode_0.b32 %r3, [%a];".to_owned(),
        "txq.level.width.b32 %r3, [%a], %r1;".to_owned(),
        "suq.memory_layout.b32 %r3, [%a];".to_owned(),
        "istypep.texref %p1, %a;".to_owned(),
    ];
    for form in &forms {
        let refusal = analysis(&text(form), "k").refusal();
        let refusal = refusal.unwrap_or_else(|| panic!("{form} is accepted"));
        assert!(
            refusal.reason.contains("textures and surfaces"),
            "{refusal}"
        );
        assert_eq!(refusal.line, 10, "{form}");
    }
}

#[test]
fn gathers_need_an_array_that_permits_them() {
    let body = "tld4.r.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%a, {%f1, %f1}];";
    assert!(verdict(body, gathered(ObjectShape::TwoD), number()).is_proven());
    for other in [texture(ObjectShape::TwoD), gathered(ObjectShape::ThreeD)] {
        let reason = refusal(body, other, number());
        assert!(reason.contains("whose array permits gathers"), "{reason}");
    }
}

#[test]
fn queries_need_an_object_with_the_property() {
    use ObjectShape::{Cube, OneDLayered, ThreeD, TwoD};
    for (query, has, lacks) in [
        ("height", Cube, OneDLayered),
        ("depth", ThreeD, TwoD),
        ("array_size", OneDLayered, Cube),
    ] {
        let txq = format!("txq.{query}.b32 %r3, [%a];");
        assert!(verdict(&txq, texture(has), number()).is_proven());
        refusal(&txq, texture(lacks), number());
        refusal(&txq, surface(has, 4, true), number());
        let suq = format!("suq.{query}.b32 %r3, [%a];");
        assert!(verdict(&suq, surface(has, 2, false), number()).is_proven());
        refusal(&suq, surface(lacks, 2, false), number());
        refusal(&suq, texture(has), number());
    }
}

#[test]
fn a_surface_needs_its_shape_size_and_permission() {
    use ObjectShape::{Cube, OneD, TwoD, TwoDLayered};
    let store = "shl.b32 %r3, %r1, 2; sust.b.2d.b32.zero [%a, {%r3, %r2}], %r1;";
    assert!(verdict(store, surface(TwoD, 4, true), number()).is_proven());
    for (other, expected) in [
        (surface(TwoD, 4, false), "a read-only surface"),
        (surface(TwoD, 8, true), "elements of 8 bytes"),
        (surface(OneD, 4, true), "of one dimension"),
        (surface(TwoDLayered, 4, true), "layers of two dimensions"),
        (texture(TwoD), "is a texture"),
    ] {
        let reason = refusal(store, other, number());
        assert!(reason.contains(expected), "{reason}");
    }
    let add = store.replace("sust.b.2d.b32", "sured.b.add.2d.u32");
    assert!(verdict(&add, surface(TwoD, 4, true), number()).is_proven());
    refusal(&add, surface(TwoD, 4, false), number());
    let load = "shl.b32 %r3, %r1, 2; suld.b.2d.b32.clamp %r4, [%a, {%r3, %r2}];";
    assert!(verdict(load, surface(TwoD, 4, false), number()).is_proven());
    // The faces of a cube are layers.
    let faces = "suld.b.a2d.b8.zero %h1, [%a, {%r1, %r2, %r2, %r2}];";
    for shape in [Cube, TwoDLayered] {
        let verdict = verdict(faces, surface(shape, 1, false), number());
        assert_eq!(reasons(&verdict), [Reason::Layer]);
    }
    refusal(faces, surface(TwoD, 1, false), number());
}

#[test]
fn surface_accesses_that_may_be_faults_are_checked() {
    let plane = |bytes| surface(ObjectShape::TwoD, bytes, true);
    // The mode is `.trap` if none is given.
    for mode in ["", ".trap"] {
        let store = format!("shl.b32 %r3, %r1, 2; sust.b.2d.b32{mode} [%a, {{%r3, %r2}}], %r1;");
        let verdict = verdict(&store, plane(4), number());
        assert_eq!(reasons(&verdict), [Reason::Trap], "{verdict}");
    }
    let misaligned = |align| [Reason::Misaligned { align }];
    for (x, size, align) in [
        ("shl.b32 %r3, %r1, 2;", "b32", 0),
        ("shl.b32 %r3, %r1, 1;", "b32", 4),
        ("shl.b32 %r3, %r1, 2;", "v2.b32", 8),
        ("mad.lo.s32 %r3, %r1, -16, 32;", "v4.b32", 0),
        ("mad.lo.s32 %r3, %r1, -16, 33;", "v4.b32", 16),
        ("ld.global.u32 %r3, [%b];", "b16", 2),
        ("ld.global.u32 %r3, [%b];", "b8", 0),
        // The product wraps, and stays a multiple.
        (
            "mad.lo.s32 %r3, %n, 1073741824, 8; shl.b32 %r3, %r3, 1;",
            "b64",
            0,
        ),
    ] {
        let (value, bytes) = match size {
            "b8" | "b16" => ("%h1", if size == "b8" { 1 } else { 2 }),
            "b64" => ("%d1", 8),
            "v2.b32" => ("{%r4, %r5}", 8),
            "v4.b32" => ("{%r4, %r5, %r6, %r7}", 16),
            _ => ("%r4", 4),
        };
        for (mode, kind) in [("zero", true), ("clamp", false)] {
            let body = match kind {
                true => format!("{x} sust.b.2d.{size}.{mode} [%a, {{%r3, %r2}}], {value};"),
                false => format!("{x} suld.b.2d.{size}.{mode} {value}, [%a, {{%r3, %r2}}];"),
            };
            let verdict = verdict(&body, plane(bytes), output(64));
            let found = reasons(&verdict);
            match align {
                0 => assert_eq!(found, [], "{body}: {verdict}"),
                align => assert_eq!(found, misaligned(align), "{body}: {verdict}"),
            }
        }
    }
}

#[test]
fn a_handle_is_an_unknown_number() {
    // As an index it is not bounded, as an address it has no root.
    let plane = || texture(ObjectShape::TwoD);
    for (body, reason) in [
        (
            "add.s64 %d1, %b, %a; st.global.u32 [%d1], %r1;",
            Reason::NoBound,
        ),
        ("st.global.u32 [%a], %r1;", Reason::UnknownAddress),
        ("ld.u32 %r3, [%a+16];", Reason::UnknownAddress),
    ] {
        let verdict = verdict(body, plane(), output(64));
        let found = reasons(&verdict);
        let is_expected = match &reason {
            Reason::NoBound => {
                matches!(found[..], [Reason::NoBound | Reason::OutOfRange { .. }])
            }
            other => found == [other.clone()],
        };
        assert!(is_expected, "{body}: {found:?}");
    }
    // Its value may be stored, and its low bits are below 16.
    let body = "st.global.u64 [%b], %a; and.b64 %d1, %a, 15; add.s64 %d1, %b, %d1;\n\
                st.global.u8 [%d1], %h1;";
    assert!(verdict(body, plane(), output(16)).is_proven());
    assert!(!verdict(body, plane(), output(15)).is_proven());
    // What a fetch returns is an unknown number, too. An assembler may repeat the fetch, so a
    // comparison says nothing about the next use, but a mask does.
    let masked = |mask: &str, condition: &str, bytes| {
        let body = format!(
            "{FETCH} mov.b32 %r3, %f2; {mask} mul.wide.u32 %d1, %r3, 4; add.s64 %d1, %b, %d1;\n\
             setp.lt.u32 %p1, %r3, 8; {condition} st.global.u32 [%d1], %r1;"
        );
        verdict(&body, plane(), output(bytes)).is_proven()
    };
    assert!(masked("and.b32 %r3, %r3, 7;", "", 32));
    assert!(!masked("and.b32 %r3, %r3, 7;", "", 31));
    assert!(!masked("", "@%p1", 32));
}

#[test]
fn arguments_that_are_more_than_a_handle_are_refused() {
    let kernel = |param: &str| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .visible .entry k(.param {param} a) {{ .reg .b64 %a; .reg .f32 %f<6>;\n\
             ld.param.u64 %a, [a]; mov.f32 %f1, 0f00000000; {FETCH} ret; }}"
        )
    };
    for (param, expected) in [
        (".u64", None),
        (".u64 .ptr .global .align 1", None),
        (
            ".u64 .ptr .global .align 16",
            Some("declared as an address"),
        ),
        (".align 8 .b8 ", None),
    ] {
        let text = match param.ends_with(' ') {
            true => kernel(param).replace(" a)", " a[16])"),
            false => kernel(param),
        };
        let values = launch([1; 3], [1; 3], [texture(ObjectShape::TwoD)]);
        let verdict = analysis(&text, "k").evaluate(&values);
        match expected {
            Some(expected) => {
                let refusal = verdict.refusal().unwrap();
                assert!(refusal.reason.contains(expected), "{refusal}");
            }
            None => assert_eq!(verdict.is_proven(), !param.ends_with(' '), "{verdict}"),
        }
    }
}

#[test]
fn the_objects_of_a_kernel_are_found() {
    let body = "mov.u64 %d1, %a; txq.width.b32 %r3, [%d1];\n\
                tex.3d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%d1, {%f1, %f1, %f1, %f1}];\n\
                suld.b.1d.b64.zero %d2, [%b, {%r1}]; sust.b.1d.b64.zero [%b, {%r1}], %d2;\n\
                suq.width.b32 %r4, [%b];";
    let analysis = analysis(&text(body), "k");
    assert!(analysis.uses_objects());
    let objects = analysis.objects();
    let texture = Object {
        kind: ObjectKind::Texture { can_gather: false },
        shape: ObjectShape::ThreeD,
    };
    let surface = Object {
        kind: ObjectKind::Surface {
            element_bytes: 8,
            is_writable: true,
        },
        shape: ObjectShape::OneD,
    };
    assert_eq!(objects, [(0, texture), (1, surface)]);
    let arguments = [Argument::object(texture), Argument::object(surface), int(1)];
    let verdict = analysis.evaluate(&launch([1; 3], [1; 3], arguments));
    assert!(verdict.refusal().is_none(), "{verdict}");
}

#[test]
fn a_verdict_depends_only_on_relevant_parameters() {
    let found = analysis(&text("st.global.u32 [%a], %n;"), "k").relevant();
    // The value that is stored does not matter.
    assert_eq!(found, [(0, 0, 8)]);
    let indexed = "mul.wide.u32 %d1, %n, 4; add.u64 %d1, %d1, %a; st.global.u32 [%d1], %n;";
    let found = analysis(&text(indexed), "k").relevant();
    assert_eq!(found, [(0, 0, 8), (2, 0, 4)]);
}
