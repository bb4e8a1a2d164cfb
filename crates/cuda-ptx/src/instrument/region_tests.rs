//! Tests of regions, whose accesses are checked together.

use super::tests::{X, instructions, rewrite};
use super::{ExtraParameter, Instrumented};
use crate::analysis::Root;

fn new(body: &str) -> Instrumented {
    rewrite(body, Some(X)).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// The number of regions.
fn regions(new: &Instrumented) -> usize {
    new.text.matches(" bra $chk0_slow").count()
}

/// The code between the beginning of a region and its branch to the copy.
fn check(new: &Instrumented, region: usize) -> &str {
    let end = new.text.find(&format!("bra $chk0_slow{region}")).unwrap();
    let line = new.text[..end].rfind('\n').unwrap_or(0);
    &new.text[line..end]
}

fn limits(new: &Instrumented) -> Vec<u32> {
    let limits = new.parameters.iter().filter_map(|it| match it {
        ExtraParameter::Limit { size, .. } => Some(*size),
        _ => None,
    });
    limits.collect()
}

#[test]
fn accesses_with_one_base_are_compared_once() {
    let new = new("ld.global.u32 %r1, [%d3+-4]; ld.global.u32 %r2, [%d3+8];\n\
                   add.s64 %d4, %d3, 16; ld.global.u32 %r3, [%d4]; ret;");
    assert_eq!(regions(&new), 1, "{}", new.text);
    assert_eq!(check(&new, 0).matches("setp.lt").count(), 1);
    // From -4 to 20, and each access on its own.
    assert_eq!(limits(&new), [24, 4]);
    let start = ExtraParameter::Start {
        memory: 0,
        offset: 4,
    };
    assert_eq!(new.parameters[0], start);
    let loads = instructions(&new, "ld");
    let plain = loads.iter().filter(|load| load.starts_with("ld.global"));
    assert_eq!(plain.count(), 3, "{loads:?}");
    assert_eq!(new.sites.len(), 3);
}

#[test]
fn later_addresses_are_computed_at_the_beginning() {
    let new = new("st.global.u32 [%d3], %r1; mov.u32 %r2, %tid.x;\n\
                   mul.wide.u32 %d4, %r2, 4; add.s64 %d5, %d3, %d4; st.global.u32 [%d5], %r1; ret;");
    assert_eq!(regions(&new), 1, "{}", new.text);
    let check = check(&new, 0);
    for copy in [
        "mov.u32 %chk0_c32_0, %tid.x;",
        "mul.wide.u32 %chk0_c64_0, %chk0_c32_0, 4;",
        "add.s64 %chk0_c64_1, %d3, %chk0_c64_0;",
    ] {
        assert!(check.contains(copy), "{check}");
    }
}

#[test]
fn a_loaded_address_begins_a_region() {
    let new = new("ld.global.u64 %d4, [%d3]; st.global.u32 [%d4], %r1; ret;");
    assert_eq!(regions(&new), 2, "{}", new.text);
    // The load is before the second check.
    let load = new.text.find("ld.volatile.global.u64 %d4, [%d3]").unwrap();
    let branch = new.text.find("bra $chk0_slow1").unwrap();
    assert!(load < branch);
}

#[test]
fn a_loaded_address_in_a_region_has_its_own_check() {
    let new = new("ld.global.u64 %d4, [%d3]; ld.global.u32 %r1, [%d4];\n\
                   ld.global.u32 %r2, [%d3+8]; ret;");
    assert_eq!(regions(&new), 1, "{}", new.text);
    let branch = new.text.find("bra $chk0_slow0").unwrap();
    let (before, after) = new.text.split_at(branch);
    // From 0 to 12: the first load and the last one.
    assert_eq!(before.matches("setp.lt").count(), 1, "{before}");
    let (fast, slow) = after.split_once("$chk0_slow0: ").unwrap();
    assert_eq!(fast.matches("setp.lt").count(), 1, "{fast}");
    assert_eq!(slow.matches("setp.lt").count(), 3, "{slow}");
    assert!(fast.contains("ld.global.u32 %r2, [%d3+8];"), "{fast}");
    assert!(!fast.contains("ld.global.u32 %r1, [%d4];"), "{fast}");
    assert_eq!(new.sites.len(), 4);
}

#[test]
fn many_accesses_with_a_loaded_address_begin_a_region() {
    let loads = (0..8).map(|index| format!("ld.global.u32 %r1, [%d4+{}];", 4 * index));
    let loads: String = loads.collect();
    let new = new(&format!(
        "ld.global.u64 %d4, [%d3];\n{loads} st.global.u32 [%d3+8], %r1; ret;"
    ));
    assert_eq!(regions(&new), 2, "{}", new.text);
    // The second one compares the loaded address and that of the store.
    assert_eq!(check(&new, 1).matches("setp.lt").count(), 2);
}

#[test]
fn a_region_is_not_split_before_its_first_common_check() {
    let text = |access: &str, count| {
        let all = (0..count).map(|index| access.replace('#', &(4 * index).to_string()));
        all.collect::<String>()
    };
    let loads = text("ld.global.u32 %r1, [%d4+#];", 8);
    let stores = text("st.global.u32 [%d3+#], %r1;", 9);
    let new = new(&format!(
        "setp.eq.u64 %p1, %d2, 0; START: div.u64 %d4, %d3, %d2; @%p1 bra STORES;\n\
                   {loads} STORES: {stores} ret;"
    ));
    assert_eq!(regions(&new), 1, "{}", new.text);
    assert_eq!(new.text.matches("$chk0_slow0:").count(), 1, "{}", new.text);
}

#[test]
fn warp_wide_instructions_end_a_region() {
    for between in [
        "bar.sync 0;",
        "barrier.sync 0;",
        "shfl.sync.bfly.b32 %r2, %r2, 1, 31, -1;",
        "vote.sync.any.pred %p1, %p2, -1;",
        "activemask.b32 %r2;",
        "membar.gl;",
    ] {
        let body = format!("st.global.u32 [%d3], %r1; {between} st.global.u32 [%d3+4], %r1; ret;");
        let new = new(&body);
        assert_eq!(regions(&new), 2, "{between}: {}", new.text);
        assert_eq!(new.text.matches(between).count(), 1, "{}", new.text);
    }
}

#[test]
fn branches_lead_to_labels_of_their_own_copy() {
    let new = new(
        "mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 0; st.global.u32 [%d3], %r1;\n\
                   @%p1 bra LATER; st.global.u32 [%d3+4], %r1; @%p1 bra END;\n\
                   LATER: st.global.u32 [%d3+8], %r1; END: ret;",
    );
    assert_eq!(regions(&new), 1, "{}", new.text);
    let branches = instructions(&new, "bra");
    let count = |to: &str| branches.iter().filter(|it| it.ends_with(to)).count();
    assert_eq!(count("bra LATER;"), 1);
    assert_eq!(count("bra $chk0_at0_0;"), 1);
    assert_eq!(new.text.matches("$chk0_at0_0:").count(), 1);
    // A label behind the region is the same for both.
    assert_eq!(count("bra END;"), 2, "{branches:?}");
}

#[test]
fn a_guarded_access_can_be_checked_before_its_branch() {
    let new = new(
        "mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 0; @%p1 bra A;\n\
                   add.s32 %r2, %r2, 1; @%p1 bra B; st.global.u32 [%d3], %r1;\n\
                   B: @%p1 bra C; st.global.u32 [%d3+4], %r1; C: st.global.u32 [%d3+8], %r1; A: ret;",
    );
    assert_eq!(regions(&new), 1, "{}", new.text);
    assert_eq!(limits(&new), [12, 4]);
}

#[test]
fn a_value_that_depends_on_a_branch_is_not_moved() {
    let new = new(
        "mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 0; ld.global.u32 %r1, [%d3];\n\
                   @%p1 bra MERGED; add.s64 %d3, %d3, 8;\n\
                   MERGED: ld.global.u32 %r3, [%d3]; ret;",
    );
    assert_eq!(regions(&new), 2, "{}", new.text);
    let (label, branch) = (
        new.text.find("MERGED:").unwrap(),
        new.text.find("bra $chk0_slow1").unwrap(),
    );
    assert!(label < branch, "{}", new.text);
}

#[test]
fn a_changed_register_is_compared_after_its_change() {
    let new = new("ld.global.u32 %r1, [%d3]; add.s64 %d3, %d3, %d2;\n\
                   ld.global.u32 %r2, [%d3]; @%p1 add.s64 %d3, %d3, 8; ret;");
    assert_eq!(regions(&new), 1, "{}", new.text);
    let check = check(&new, 0);
    assert!(check.contains("add.s64 %chk0_c64_0, %d3, %d2;"), "{check}");
    assert!(
        check.contains("sub.s64 %chk0_d0, %chk0_c64_0, %chk0_d0;"),
        "{check}"
    );
    // A change under a predicate cannot be made earlier.
    let new = self::new(
        "setp.eq.u64 %p1, %d2, 0; ld.global.u32 %r1, [%d3]; @%p1 add.s64 %d3, %d3, 8;\n\
         ld.global.u32 %r2, [%d3]; ret;",
    );
    assert_eq!(regions(&new), 2, "{}", new.text);
}

#[test]
fn a_loop_is_entered_before_its_region() {
    let new = new(
        "mov.u32 %r2, 0; LOOP: st.global.u32 [%d3], %r1; add.s64 %d3, %d3, 4;\n\
                   add.s32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 9; @%p1 bra LOOP; ret;",
    );
    assert_eq!(regions(&new), 1, "{}", new.text);
    let (label, branch) = (
        new.text.find("LOOP:").unwrap(),
        new.text.find("bra $chk0_slow0").unwrap(),
    );
    assert!(label < branch, "{}", new.text);
    assert_eq!(new.text.matches("bra LOOP").count(), 1);
}

#[test]
fn a_false_predicate_skips_the_check() {
    let body = "@!%p1 st.global.u32 [%d3], %r1; ret;";
    // The predicate is possibly not set, so each use may see another value.
    assert_eq!(regions(&new(body)), 0);
    let new = new(&format!("setp.eq.u64 %p1, %d2, 0; {body}"));
    assert_eq!(regions(&new), 1, "{}", new.text);
    let check = check(&new, 0);
    assert!(check.contains("mov.pred %chk0_p8, %p1;"), "{check}");
    assert!(
        check.contains("or.pred %chk0_p9, %chk0_p9, %chk0_p8;"),
        "{check}"
    );
}

#[test]
fn a_short_register_is_in_range_without_its_offset() {
    let root = Root::Variable("tile".to_owned());
    let body = "mov.u32 %r2, tile; st.shared.u32 [%r2+32], %r1; ret;";
    let new = rewrite(body, Some(root)).unwrap();
    assert_eq!(regions(&new), 1, "{}", new.text);
    // 36 of the 64 bytes, from the register on.
    let check = check(&new, 0);
    assert!(check.contains("add.s32 %chk0_r8, %r2, 0;"), "{check}");
    assert!(
        check.contains("setp.lt.or.u32 %chk0_p9, %chk0_r0, 29,"),
        "{check}"
    );
}

#[test]
fn addresses_between_two_others_are_not_compared() {
    let step = "mov.u32 %r2, %tid.x; mul.wide.s32 %d4, %r2, 4;";
    let loads = "ld.global.u32 %r1, [%d3]; add.s64 %d5, %d3, %d4; ld.global.u32 %r1, [%d5];\n\
                 add.s64 %d6, %d5, %d4; ld.global.u32 %r1, [%d6+8]; add.s64 %d7, %d6, %d4;\n\
                 ld.global.u32 %r1, [%d7]; ret;";
    let compared = |step: &str| {
        let new = new(&format!("{step} {loads}"));
        assert_eq!(regions(&new), 1, "{}", new.text);
        let count = check(&new, 0).matches("setp.lt").count();
        (count, limits(&new))
    };
    // The ends have the range of all offsets.
    assert_eq!(compared(step), (2, vec![12, 4]));
    // A step of any 64 bits might wrap, and so might one that is set elsewhere.
    assert_eq!(compared("mov.u64 %d4, %d2;"), (4, vec![4]));
    let twice = format!("{step} mov.u64 %d4, %d2;");
    assert_eq!(compared(&twice), (4, vec![4]));
    // A difference is between the others only if the step is set.
    let signs = "ld.global.u32 %r1, [%d3]; add.s64 %d5, %d3, %d4; ld.global.u32 %r1, [%d5];\n\
                 sub.s64 %d6, %d3, %d4; ld.global.u32 %r1, [%d6]; ret;";
    let new = new(&format!("{step} {signs}"));
    assert_eq!(check(&new, 0).matches("setp.lt").count(), 3, "{}", new.text);
}

#[test]
fn many_ranges_share_their_parameters() {
    let loads = (0..100).map(|index| {
        let offset = 16 * index;
        format!(
            "ld.global.u64 %d4, [%d3+{offset}]; add.s64 %d3, %d3, %d4; \
             ld.global.u32 %r1, [%d3+{}];",
            offset + 4
        )
    });
    let new = new(&format!("{} ret;", loads.collect::<String>()));
    assert!(new.parameters.len() < 80, "{:?}", new.parameters);
    // Beyond the limit: the size of the memory is compared with that of the range.
    let last = check(&new, regions(&new) - 1);
    let end = last.rfind("ld.param.u64 %chk0_d0").map(|at| &last[at..]);
    let end = end.unwrap_or_default();
    assert!(end.contains("setp.gt.u64 %chk0_p4, %chk0_d1, 3;"), "{end}");
    assert!(end.contains("sub.s64 %chk0_d1, %chk0_d1, 3;"), "{end}");
    assert!(
        end.contains("setp.lt.and.u64 %chk0_p9, %chk0_d0, %chk0_d1, %chk0_p4;"),
        "{end}"
    );
}

#[test]
fn ranges_of_unknown_memory_share_their_parameters() {
    let loads = (1..=100).map(|index| {
        format!(
            "ld.global.u64 %d4, [%d3]; bar.sync 0; ld.global.u32 %r1, [%d4]; \
             ld.global.u32 %r1, [%d4+{}]; bar.sync 0;\n",
            4 * index
        )
    });
    let new = rewrite(&format!("{} ret;", loads.collect::<String>()), None).unwrap();
    assert!(new.parameters.len() < 80, "{:?}", new.parameters);
    let last = check(&new, regions(&new) - 1);
    assert!(
        last.contains("setp.gt.u64 %chk0_p4, %chk0_d1, 403;"),
        "{last}"
    );
}
