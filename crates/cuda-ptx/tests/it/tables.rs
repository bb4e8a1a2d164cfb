//! Constant tables in checked copies.

use cuda_ptx::analysis::{Outcome, Root};
use cuda_ptx::instrument::{Check, instrument, needs_variable};

use crate::support::{analysis, input, launch, output};

/// Loads an element of `t` whose number is in memory, and stores to an address from memory.
const TEXT: &str = ".version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 t[4] = {1, 2, 3, 4};
.visible .entry k(.param .u64 out, .param .u64 in) {
    .reg .b32 %r<3>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [in];
    ld.global.u64 %d3, [%d2];
    mov.u64 %d4, t;
    add.s64 %d5, %d4, %d3;
    LOAD %r1, [%d5];
    ld.global.u64 %d6, [%d2+8];
    STORE [%d6], %r1;
    ret;
}
";

/// The checks of a copy, and its text.
fn copy(load: &str, store: &str) -> (Vec<Check>, String) {
    let text = TEXT.replace("LOAD", load).replace("STORE", store);
    let module = cuda_ptx::parse(&text).unwrap();
    let analysis = analysis(&text, "k");
    assert_eq!(analysis.tables(), ["t"]);
    let verdict = analysis.evaluate(&launch([1, 1, 1], [1, 1, 1], [output(16), input(16)]));
    let contract = verdict.contract().unwrap();
    assert!(contract.variables.is_empty());
    let accesses = contract.accesses.iter().enumerate();
    let checks = accesses.filter_map(|(access, report)| match &report.outcome {
        Outcome::Checked { root, .. } => Some(Check {
            access,
            root: root.clone(),
            is_aligned: false,
        }),
        _ => None,
    });
    let checks: Vec<Check> = checks.collect();
    let memories = [0, 1].map(|parameter| {
        Some(Root::Buffer {
            parameter,
            offset: 0,
        })
    });
    let function = &module.functions[0];
    let new = instrument(&text, &module, function, &analysis, &checks, &memories).unwrap();
    (checks, new.text)
}

#[test]
fn a_check_permits_loads_from_a_table_and_no_stores() {
    for (load, store) in [
        ("ld.global.u32", "st.global.u32"),
        ("ld.global.nc.u32", "st.u32"),
        ("ld.u32", "st.u32"),
    ] {
        let (checks, text) = copy(load, store);
        // The load has the table as its root, and the store has none.
        let roots: Vec<_> = checks.iter().map(|check| check.root.as_ref()).collect();
        let table = Root::Variable("t".to_owned());
        assert_eq!(roots, [Some(&table), None], "{load}");
        // The copy has the table with its contents.
        assert!(text.contains("t[4] = {1, 2, 3, 4};"), "{text}");
        // The kernel and the two checks of the load take the address of the table; the checks of
        // the store do not.
        let (load_part, store_part) = text.split_once("[%d2+8]").unwrap();
        let uses = [load_part, store_part].map(|part| part.matches(", t;").count());
        assert_eq!(uses, [3, 0], "{text}");
        let is_generic = load_part.contains("cvta.global.u64");
        assert_eq!(is_generic, load == "ld.u32", "{text}");
    }
}

/// An instruction whose result the search does not follow makes the table a variable.
#[test]
fn an_address_that_is_not_followed_makes_a_variable() {
    let text = TEXT.replace("add.s64 %d5, %d4, %d3", "max.u64 %d5, %d4, %d3");
    let text = text.replace("LOAD", "ld.global.u32");
    let text = text.replace("STORE", "st.global.u32");
    let analysis = analysis(&text, "k");
    assert_eq!(analysis.variables(), ["t"]);
    assert_eq!(analysis.tables(), [""; 0]);
}

#[test]
fn a_refused_copy_names_the_variable() {
    let text = TEXT
        .replace("LOAD", "ld.global.u32")
        .replace("STORE", "st.global.u32");
    let refusal = needs_variable(&analysis(&text, "k"), "t", &[]);
    assert_eq!(refusal.kernel, "k");
    assert!(refusal.reason.contains("its own variable t"), "{refusal}");
}

/// Addresses that move through registers in the wrong order take many passes.
#[test]
fn a_text_that_takes_many_passes_has_no_tables() {
    let tables = |count: usize| {
        let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n");
        let mut body = format!(".reg .b64 %d<{}>;\n", count + 1);
        for number in 0..count {
            text += &format!(".global .align 4 .u32 t{number}[1] = {{1}};\n");
            body += &format!("mov.u64 %d{number}, t{number};\n");
        }
        for number in 0..count {
            body += &format!("add.s64 %d{number}, %d{}, %d{number};\n", number + 1);
        }
        text += &format!(".visible .entry k() {{\n{body}ret;\n}}\n");
        let module = cuda_ptx::parse(&text).unwrap();
        module.variables.iter().filter(|it| it.constant).count()
    };
    assert_eq!(tables(10), 10);
    let start = std::time::Instant::now();
    assert_eq!(tables(800), 0);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
