//! The programs themselves: what they accept, refuse and write.

use std::env;

use super::{assemblers, newest};

const SUM: &str = ".version 6.4\n.target sm_75\n.address_size 64
.visible .entry first(.param .u64 p) { .reg .b64 %d<2>; .reg .b32 %r<2>;
ld.param.u64 %d1, [p]; cvta.to.global.u64 %d1, %d1; ld.global.u32 %r1, [%d1];
add.u32 %r1, %r1, 77; st.global.u32 [%d1], %r1; ret; }
.visible .entry second() { ret; }
";

#[test]
fn each_version_assembles_and_refuses() {
    let Some(assemblers) = assemblers() else {
        return;
    };
    for assembler in &assemblers {
        let version = &assembler.version;
        assert!(assembler.knows("sm_75"), "{assembler:?}");
        assert!(!assembler.knows("sm_74"), "{assembler:?}");
        let cubin = assembler.assemble(SUM, "sm_75", &[]).unwrap();
        let code = cubin.code();
        let names: Vec<&str> = code.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [".text.first", ".text.second"], "{version}");
        // An instruction has 16 bytes, and `second` at least one.
        assert!(
            code.iter()
                .all(|(_, code)| code.len() >= 16 && code.len() % 16 == 0)
        );
        let wrong = SUM.replace("ret;", "ret, 5;");
        let refused = assembler.assemble(&wrong, "sm_75", &[]).unwrap_err();
        assert!(refused.is_orderly(), "{refused:?}");
        assert!(refused.stderr.contains("line 6"), "{}", refused.stderr);
        let refused = assembler.assemble(SUM, "sm_74", &[]).unwrap_err();
        assert!(refused.is_orderly() && refused.stderr.contains("sm_74"));
    }
    let knows = |version: &str, arch| {
        let mut found = assemblers.iter();
        let found = found.find(|assembler| assembler.version.starts_with(version));
        found.is_none_or(|assembler| assembler.knows(arch))
    };
    assert!(knows("12.0.", "sm_50") && knows("12.9.", "sm_121a") && knows("13.0.", "sm_110f"));
}

#[test]
fn instructions_are_listed_per_function() {
    let Some(assembler) = newest() else {
        return;
    };
    let cubin = assembler.assemble(SUM, "sm_80", &["-O1"]).unwrap();
    let listings = assembler.disassemble(&cubin);
    assert_eq!(listings.len(), 2, "{listings:?}");
    for listing in listings {
        let loads = listing.instructions.iter().filter(|it| it.contains("LDG"));
        let expected = usize::from(listing.function == "first");
        assert_eq!(loads.count(), expected, "{listing:?}");
        assert!(listing.instructions.iter().any(|it| it.contains("EXIT")));
    }
}

#[test]
fn values_of_variables_are_in_their_section() {
    let Some(assembler) = newest() else {
        return;
    };
    let text = format!("{SUM}.visible .global .align 4 .u32 v[2] = {{258, 7}};\n");
    let cubin = assembler.assemble(&text, "sm_80", &[]).unwrap();
    let values = cubin.sections(".nv.global.init");
    let values: Vec<_> = values.into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(values, [vec![2, 1, 0, 0, 7, 0, 0, 0]]);
}

#[test]
fn the_ci_step_requires_all_versions() {
    if env::var("CUDA_TEST_REQUIRE_PTXAS").is_ok_and(|value| value == "1") {
        assert_eq!(assemblers().unwrap().len(), 5);
    }
}
