//! Rewritten texts: what is checked, what becomes volatile, and what is refused.

use crate::analysis::{Analysis, Refusal, Root};
use crate::flow::ObjectUse;
use crate::{Operand, Statement, parse};

use super::{Check, ExtraParameter, Instrumented, RECORD_WORDS, Record, instrument};

pub(super) const X: Root = Root::Buffer {
    parameter: 0,
    offset: 0,
};

/// Rewrites a kernel with the parameters `x` and `at`, in which all accesses are checked.
pub(super) fn rewrite(body: &str, root: Option<Root>) -> Result<Instrumented, Refusal> {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .global .align 4 .u32 counter;\n\
         .visible .entry other() {{ trap; }}\n\
         .visible .entry k(.param .u64 x, .param .u64 at) {{\n\
         .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<8>;\n\
         .shared .align 4 .b8 tile[64]; .local .align 4 .b8 own[16];\n\
         ld.param.u64 %d1, [x]; ld.param.u64 %d2, [at]; add.s64 %d3, %d1, %d2;\n{body}\n}}"
    );
    let module = parse(&text).unwrap();
    let function = module.functions.iter().find(|it| it.name == "k").unwrap();
    let analysis = Analysis::of(&module, function);
    let count = analysis.kernel().map_or(0, |kernel| kernel.accesses.len());
    let checks: Vec<Check> = (0..count)
        .map(|access| Check {
            access,
            root: root.clone(),
            is_aligned: false,
        })
        .collect();
    let new = instrument(&text, &module, function, &analysis, &checks, &[Some(X)])?;
    let again = parse(&new.text).unwrap_or_else(|error| panic!("{error}\n{}", new.text));
    let function = again.functions.iter().find(|it| it.name == "k").unwrap();
    assert_eq!(function.params.len(), 2 + new.parameters.len());
    let labels: Vec<&str> = function.body.iter().flatten().filter_map(label).collect();
    for branch in function.body.iter().flatten().filter_map(target) {
        assert!(
            labels.contains(&branch),
            "{branch} is not a label: {}",
            new.text
        );
    }
    // Everything keeps its line.
    assert_eq!(new.text.lines().count(), text.lines().count());
    Ok(new)
}

fn label<'a>(statement: &Statement<'a>) -> Option<&'a str> {
    match statement {
        Statement::Label(name, _) => Some(name),
        _ => None,
    }
}

/// The label that a branch leads to.
fn target<'a>(statement: &Statement<'a>) -> Option<&'a str> {
    match statement {
        Statement::Instruction(branch) if branch.opcode == "bra" => match branch.operands[..] {
            [Operand::Name(name)] => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// The instructions of the kernel with this opcode, as text.
pub(super) fn instructions(new: &Instrumented, opcode: &str) -> Vec<String> {
    let module = parse(&new.text).unwrap();
    let function = module.functions.iter().find(|it| it.name == "k").unwrap();
    let body = function.body.as_ref().unwrap();
    let found = body.iter().filter_map(|statement| match statement {
        Statement::Instruction(one) if one.opcode == opcode => Some(one.to_string()),
        _ => None,
    });
    found.collect()
}

#[test]
fn a_checked_access_is_guarded_by_its_own_address() {
    let new = rewrite("st.global.u32 [%d3+8], %r1; ret;", Some(X)).unwrap();
    let limit = ExtraParameter::Limit {
        memory: 0,
        size: 4,
        is_write: true,
    };
    let start = ExtraParameter::Start {
        memory: 0,
        offset: -8,
    };
    let (base, record) = (ExtraParameter::Base(0), ExtraParameter::Record);
    assert_eq!(new.parameters, [start, limit, base, record]);
    let stores = instructions(&new, "st");
    assert_eq!(stores[0], "st.global.u32 [%d3+8], %r1;");
    assert_eq!(stores[1], "@%chk0_p5 st.global.u32 [%chk0_d8], %r1;");
    assert!(new.text.contains("add.s64 %chk0_d8, %chk0_d8, 8;"));
    assert_eq!(new.sites.len(), 1);
    assert_eq!(new.sites[0].line, 10);
}

#[test]
fn a_predicate_stays_a_condition_of_the_access() {
    let new = rewrite("@!%p1 ld.global.v2.u32 {%r1, %r2}, [%d3]; ret;", Some(X)).unwrap();
    assert!(new.text.contains("not.pred %chk0_p8, %p1;"));
    let zeros = instructions(&new, "mov");
    for register in ["%r1", "%r2"] {
        let zero = format!("@%chk0_p6 mov.b32 {register}, 0;");
        assert!(zeros.contains(&zero), "{zeros:?}");
    }
}

#[test]
fn zeros_are_written_before_the_load() {
    // The result is also the address, and the predicate is a register of the text.
    let new = rewrite("@%p1 ld.global.u64 %d3, [%d3]; ret;", Some(X)).unwrap();
    let at = |text: &str| {
        new.text
            .find(text)
            .unwrap_or_else(|| panic!("{}", new.text))
    };
    let (zero, load) = (
        at("mov.b64 %d3, 0;"),
        at("ld.volatile.global.u64 %d3, [%chk0_d8];"),
    );
    assert!(at("mov.b64 %chk0_d8, %d3;") < zero && zero < load);
}

#[test]
fn zeros_do_not_replace_operands() {
    for (access, zero) in [
        // The address has a register of its own.
        ("ld.global.u64 %d3, [%d3];", "; mov.b64 %d3, 0;"),
        ("ld.global.v2.u32 {%r1, %r2}, [%d3];", "; mov.b32 %r2, 0;"),
        (
            "createpolicy.fractional.L2::evict_first.b64 %d2, 1.0; \
             ld.global.L2::cache_hint.u64 %d2, [%d1], %d2;",
            "@%chk0_p6 mov.b64 %d2, 0;",
        ),
        (
            "atom.global.add.u32 %r1, [%d3], %r1;",
            "@%chk0_p6 mov.b32 %r1, 0;",
        ),
        (
            "atom.global.add.u32 %r2, [%d3], %r1;",
            "@%chk0_p6 mov.b32 %r2, 0;",
        ),
    ] {
        let new = rewrite(&format!("{access} ret;"), Some(X)).unwrap();
        assert!(new.text.contains(zero), "{access}: {}", new.text);
    }
}

#[test]
fn a_known_alignment_is_not_checked() {
    // Once for the region, and once for the access.
    for (is_aligned, count) in [(false, 2), (true, 0)] {
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
            .visible .entry k(.param .u64 x) { .reg .b32 %r<2>; .reg .b64 %d<2>;\n\
            ld.param.u64 %d1, [x]; st.global.u32 [%d1], %r1; ret; }";
        let module = parse(text).unwrap();
        let analysis = Analysis::of(&module, &module.functions[0]);
        let check = Check {
            access: 0,
            root: Some(X),
            is_aligned,
        };
        let function = &module.functions[0];
        let new = instrument(text, &module, function, &analysis, &[check], &[Some(X)]).unwrap();
        let tests = new.text.matches("; and.b32").count();
        assert_eq!(tests, count, "{}", new.text);
    }
}

#[test]
fn loads_that_decide_a_checked_access_are_volatile() {
    let new = rewrite(
        "ld.global.u32 %r2, [%d3]; setp.ne.u32 %p1, %r2, 0;\n\
         @%p1 ld.global.u32 %r1, [%d3+4]; ret;",
        Some(X),
    )
    .unwrap();
    let loads = instructions(&new, "ld");
    let is_volatile = |load: &String| load.contains("ld.volatile.global.u32 %r2");
    assert!(loads.iter().any(is_volatile), "{loads:?}");
    let is_weak = |load: &String| load.contains("ld.global.u32 %r2");
    assert!(!loads.iter().any(is_weak), "{loads:?}");
}

#[test]
fn loads_that_feed_a_checked_address_are_volatile() {
    let body = "ld.global.nc.L1::evict_last.u64 %d4, [%d1]; ld.global.u64 %d6, [%d1+8];\n\
                add.s64 %d5, %d4, %d2; st.global.u64 [%d5], %d6; ret;";
    let new = rewrite(body, Some(X)).unwrap();
    let loads = instructions(&new, "ld");
    let has = |text: &str| loads.iter().any(|load| load.contains(text));
    assert!(has("ld.volatile.global.u64 %d4"), "{loads:?}");
    // The stored value is not part of an address.
    assert!(has("ld.global.u64 %d6"), "{loads:?}");
}

#[test]
fn unknown_roots_are_compared_with_every_place() {
    let body = "mov.u64 %d4, tile; cvta.shared.u64 %d4, %d4; mov.u64 %d5, own;\n\
                cvta.local.u64 %d5, %d5; st.u8 [%d3], %r1; ret;";
    let new = rewrite(body, None).unwrap();
    assert!(
        new.text.contains("cvta.shared.u64 %chk0_d0"),
        "{}",
        new.text
    );
    assert!(new.text.contains("cvta.local.u64 %chk0_d0"), "{}", new.text);
    assert!(new.parameters.contains(&ExtraParameter::Base(0)));
}

#[test]
fn traps_and_ends_lead_to_the_record() {
    let new = rewrite("@%p1 exit; @%p2 trap; ret;", None).unwrap();
    assert!(instructions(&new, "trap").is_empty());
    assert_eq!(instructions(&new, "ret").len(), 1);
    assert_eq!(new.sites.len(), 1);
    assert_eq!(new.sites[0].access, None);
    // Other kernels lose their code.
    assert!(new.text.contains(".entry other() { ret; }"));
}

#[test]
fn a_register_cannot_take_the_place_of_a_variable() {
    let body = "{ .reg .b64 tile; mov.u64 tile, %d3; st.shared.u32 [tile], %r1; }\n\
                mov.u64 %d4, tile; st.shared.u32 [%d4], %r1; ret;";
    let new = rewrite(body, None).unwrap();
    let stores = instructions(&new, "mov");
    let bases = stores
        .iter()
        .filter(|text| text.ends_with("%chk0_d0, tile;"));
    // The second store has a check of its own, and one as a region.
    assert_eq!(bases.count(), 2, "{stores:?}");
    let first = new.text.split('}').next().unwrap_or_default();
    assert!(!first.contains("%chk0_d0, tile;"), "{}", new.text);
}

#[test]
fn uncheckable_accesses_are_refused_with_their_line() {
    // The bodies begin on line 10, and each access is on a line of its own.
    let cases = [
        (
            "mov.u32 %r2, tile;\nldmatrix.sync.aligned.m8n16.x1.shared.b8 {%r1}, [%r2]; ret;",
            "no form of `ldmatrix`",
            11,
        ),
        (
            "mov.u32 %r2, tile;\n\nmbarrier.init.shared.b64 [%r2], 1; ret;",
            "an mbarrier",
            12,
        ),
        (
            "\nld.global.u32 %r1, [counter]; ret;",
            "its own variable counter",
            11,
        ),
        (
            "mov.u64 %d4, counter;\n\n\ntrap;",
            "this trap cannot be reported",
            13,
        ),
        (
            "@%p1 mov.u64 %d4, %d3;\nld.global.u32 %r1, [%d4]; ret;",
            "is possibly not set",
            11,
        ),
        ("\n\ncall other; ret;", "call of the kernel other", 12),
    ];
    for (body, reason, line) in cases {
        let refusal = rewrite(body, None).unwrap_err();
        assert!(refusal.to_string().contains(reason), "{refusal}");
        assert_eq!(refusal.line, line, "{refusal}");
    }
}

#[test]
fn threads_of_a_warp_decide_together_about_a_matrix() {
    let body = |form: &str| format!("mov.u32 %r2, tile; {form}; ret;");
    let root = Root::Variable("tile".to_owned());
    let new = |form| rewrite(&body(form), Some(root.clone())).unwrap();
    let load = new("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r3}, [%r2]");
    // 16 threads name a row, and the predicate of the load is that of all threads.
    assert!(
        load.text
            .contains("setp.ge.or.u32 %chk0_p9, %chk0_r0, 16, %chk0_p9;"),
        "{}",
        load.text
    );
    let zeros = "vote.sync.all.pred %chk0_p5, %chk0_p5, -1; mov.b32 %r1, 0; mov.b32 %r3, 0; \
                 @%chk0_p5 ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r3}, [%chk0_r8];";
    assert!(load.text.contains(zeros), "{}", load.text);
    let store = new("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {%r1, %r3, %r4, %r5}");
    assert!(!store.text.contains("%laneid"), "{}", store.text);
    assert!(
        store.text.contains("-1; @%chk0_p5 stmatrix.sync"),
        "{}",
        store.text
    );
}

#[test]
fn a_record_is_read_by_its_version() {
    let mut words = [0; RECORD_WORDS];
    assert_eq!(Record::read(&words), None);
    words[..13].copy_from_slice(&[3, 7, 1, 0, 0x10, 0x7f, 1, 2, 3, 4, 5, 6, 9]);
    let record = Record::read(&words).unwrap();
    assert_eq!((record.site, record.threads), (2, 7));
    assert_eq!((record.address, record.third), (0x7f_0000_0010, 9));
    assert_eq!((record.block, record.thread), ([1, 2, 3], [4, 5, 6]));
    words[2] = 2;
    assert_eq!(Record::read(&words), None);
}

#[test]
fn limits_count_the_addresses_of_whole_accesses() {
    let limit = ExtraParameter::limit;
    assert_eq!(
        [limit(16, 4), limit(4, 4), limit(3, 4), limit(0, 4)],
        [13, 1, 0, 0]
    );
    assert_eq!([limit(0, 0), limit(u64::MAX, 1)], [1, u64::MAX - 1]);
}

/// Rewrites a kernel with the surfaces `s` and `t`, in which all surface accesses are checked.
fn rewrite_surface(body: &str) -> Result<Instrumented, Refusal> {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 s, .param .u64 out) {{\n\
         .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<8>;\n\
         ld.param.u64 %d1, [s]; ld.param.u64 %d2, [out];\n\
         ld.global.u32 %r1, [%d2]; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;\n{body}\n}}"
    );
    let module = parse(&text).unwrap();
    let function = &module.functions[0];
    let analysis = Analysis::of(&module, function);
    let accesses = &analysis.kernel().unwrap().accesses;
    let accesses = accesses.iter().enumerate();
    let checked = accesses.filter(|(_, it)| !matches!(it.object, Some(ObjectUse::Fetch(_))));
    let checks = checked.map(|(access, it)| Check {
        access,
        root: Some(match it.object {
            Some(_) => Root::Object { parameter: 0 },
            None => X,
        }),
        is_aligned: false,
    });
    let checks: Vec<Check> = checks.collect();
    let new = instrument(&text, &module, function, &analysis, &checks, &[Some(X)])?;
    parse(&new.text).unwrap_or_else(|error| panic!("{error}\n{}", new.text));
    assert_eq!(new.text.lines().count(), text.lines().count());
    Ok(new)
}

/// The limits of the coordinates that a rewritten text compares.
fn limits(new: &Instrumented) -> Vec<(u32, u32)> {
    let limits = new.parameters.iter().filter_map(|it| match it {
        ExtraParameter::Surface {
            parameter: 0,
            axis,
            size,
        } => Some((*axis, *size)),
        _ => None,
    });
    limits.collect()
}

#[test]
fn a_trap_mode_access_compares_its_coordinates() {
    let new = rewrite_surface("@%p1 sust.b.2d.v2.b32.trap [%d1, {%r1, %r2}], {%r4, %r5}; ret;");
    let new = new.unwrap();
    assert_eq!(limits(&new), [(0, 8), (1, 1)]);
    assert_eq!(
        instructions(&new, "sust"),
        ["@%chk0_p5 sust.b.2d.v2.b32.zero [%d1, {%chk0_r8, %chk0_r9}], {%r4, %r5};"]
    );
    assert!(
        new.text.contains("and.b32 %chk0_r0, %chk0_r8, 7;"),
        "{}",
        new.text
    );
    assert!(new.text.contains("st.global.u32 [%chk0_d0+48], %chk0_r14;"));
    // The coordinate was loaded, so that load must not be repeated.
    assert!(
        new.text.contains("ld.volatile.global.u32 %r1"),
        "{}",
        new.text
    );
    assert_eq!(new.sites[1].root, Some(Root::Object { parameter: 0 }));
}

#[test]
fn each_shape_compares_its_own_coordinates() {
    for (place, expected, new) in [
        ("1d.b32.trap %r4, [%d1, {%r1}]", &[(0, 4)][..], "{%chk0_r8}"),
        (
            "3d.b32.trap %r4, [%d1, {%r1, %r2, %r3, %r3}]",
            &[(0, 4), (1, 1), (2, 1)],
            "{%chk0_r8, %chk0_r9, %chk0_r10, %chk0_r8}",
        ),
        (
            "a1d.b32.trap %r4, [%d1, {%r3, %r1}]",
            &[(0, 4), (2, 1)],
            "{%chk0_r10, %chk0_r8}",
        ),
        (
            "a2d.b32.trap %r4, [%d1, {%r3, %r1, 5, %r2}]",
            &[(0, 4), (1, 1), (2, 1)],
            "{%chk0_r10, %chk0_r8, %chk0_r9, %chk0_r8}",
        ),
        // In other modes only the layer and the alignment.
        (
            "2d.b32.clamp %r4, [%d1, {%r1, %r2}]",
            &[],
            "{%chk0_r8, %chk0_r9}",
        ),
        (
            "a2d.b32.zero %r4, [%d1, {%r3, %r1, %r2, %r2}]",
            &[(2, 1)],
            "{%chk0_r10, %chk0_r8, %chk0_r9, %chk0_r8}",
        ),
    ] {
        let rewritten = rewrite_surface(&format!("suld.b.{place}; ret;")).unwrap();
        assert_eq!(limits(&rewritten), expected, "{place}");
        let load = &instructions(&rewritten, "suld")[0];
        assert!(load.contains(&format!("[%d1, {new}]")), "{load}");
        assert_eq!(load.contains("clamp"), place.contains("clamp"), "{load}");
        assert!(!load.contains("trap"), "{load}");
        assert!(rewritten.text.contains("mov.b32 %r4, 0;"), "{place}");
    }
}

#[test]
fn surfaces_that_are_written_decide_no_branch_of_a_copy() {
    let load = "suld.b.2d.b32.trap %r4, [%d1, {%r1, %r2}]; setp.eq.u32 %p1, %r4, 0; @%p1 bra end;";
    let store = "sust.b.2d.b32.trap [%d1, {%r1, %r2}], %r3;";
    let refusal = rewrite_surface(&format!("{load} {store} end: ret;")).unwrap_err();
    assert!(refusal.reason.contains("depends on a surface"), "{refusal}");
    rewrite_surface(&format!("{load} end: ret;")).unwrap();
    for undefined in [
        "suld.b.2d.b32.zero %r4, [%d1, {%r7, %r2}]; ret;",
        "suld.b.a2d.b32.zero %r4, [%d1, {%r7, %r2, %r2, %r2}]; ret;",
        "suld.b.a1d.b32.zero %r4, [%d1, {%r7, %r2}]; ret;",
    ] {
        let refusal = rewrite_surface(undefined).unwrap_err();
        assert!(
            refusal.reason.contains("possibly not set"),
            "{undefined}: {refusal}"
        );
    }
}

#[test]
fn textures_of_linear_memory_decide_no_branch_of_a_copy() {
    let store = "suld.b.2d.b32.trap %r4, [%d1, {%r1, %r2}]; end: ret;";
    for (fetch, is_refused) in [
        (
            "tex.1d.v4.u32.s32 {%r4, %r5, %r6, %r7}, [%d2, {%r1}];",
            true,
        ),
        (
            "mov.f32 %f1, 0f00000000; tex.1d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%d2, {%f1}];",
            false,
        ),
    ] {
        let body =
            format!(".reg .f32 %f<2>; {fetch} setp.eq.u32 %p1, %r4, 0; @%p1 bra end; {store}");
        match rewrite_surface(&body) {
            Err(refusal) if is_refused => {
                assert!(refusal.reason.contains("linear memory"), "{refusal}");
            }
            result => assert!(result.is_ok() && !is_refused, "{fetch}: {result:?}"),
        }
    }
}

#[test]
fn a_checked_load_keeps_its_mask_of_used_bytes() {
    let mask = ".pragma \"used_bytes_mask 15\";";
    let load = "ld.global.v2.u32 {%r1, %r2}, [%d3];";
    for root in [Some(X), None] {
        let new = rewrite(&format!("{mask} {load} ret;"), root).unwrap();
        let loads = instructions(&new, "ld");
        let masked: Vec<_> = loads.iter().filter(|it| it.starts_with(mask)).collect();
        // Loads that the checks add, such as those of parameters, must not get the mask.
        assert_eq!(masked.len(), 1, "{loads:?}");
        assert!(masked[0].contains("ld.global.v2.u32"), "{loads:?}");
        assert_eq!(new.text.matches("used_bytes_mask").count(), 1);
    }
}
