//! Every `PFN_…_v<version>` of the header is a row of the table, and the table has no other rows.
//!
//! The header is scanned as plain text, independently of the generator.

#[cfg(not(cuda_header))]
#[test]
fn completeness_is_checked_only_against_a_header() {
    // The number of functions of the snapshot: those that cuda.h of CUDA 13.5 and cudaProfiler.h
    // declare.
    assert_eq!(cuda_sys::FUNCTIONS.len(), 688);
    test_needs::skipped(&format!("no header to scan: {}", cuda_sys::BINDINGS));
}

#[cfg(cuda_header)]
#[test]
fn the_table_is_the_headers_list_of_functions() {
    use std::collections::BTreeSet;
    use std::path::Path;

    use cuda_sys::{BINDINGS, FUNCTIONS, Source};

    if !Path::new(env!("CUDA_SYS_INCLUDE")).join("cuda.h").is_file() {
        test_needs::skipped("the header of the build is not on this machine");
        return;
    }
    let mut theirs = BTreeSet::new();
    for name in ["cudaTypedefs.h", "cudaProfilerTypedefs.h"] {
        let path = Path::new(env!("CUDA_SYS_INCLUDE")).join(name);
        let text = std::fs::read_to_string(&path).expect("a header of the build");
        for definition in text.split("*PFN_").skip(1) {
            // Macros select among the versions: only names before a closing parenthesis are
            // typedefs.
            let (typedef, _) = definition.split_once(')').expect("a typedef ends");
            assert!(
                theirs.insert(typedef.to_owned()),
                "{typedef} twice in {name}"
            );
        }
    }
    let Source::Header { version } = BINDINGS.source else {
        panic!("built without the header: {BINDINGS}");
    };
    let mut newer = 0;
    let mut ours = BTreeSet::new();
    for function in &FUNCTIONS {
        let mode = match &function.name[function.name.len() - 5..] {
            mode @ ("_ptds" | "_ptsz") => mode,
            _ => "",
        };
        let since = function.since();
        let typedef = format!("{}_v{}{mode}", function.base, since.number());
        if since > version {
            // From the snapshot: the header is older than the function.
            assert!(!theirs.contains(&typedef), "{typedef}");
            newer += 1;
        } else {
            assert!(ours.insert(typedef), "{function}: two of one typedef");
        }
    }
    println!(
        "{BINDINGS}: {} typedefs, {newer} newer functions",
        theirs.len()
    );
    let lacking: Vec<&String> = theirs.difference(&ours).collect();
    let mut beyond: Vec<&String> = ours.difference(&theirs).collect();
    if version < BINDINGS.version {
        // A later header may say that a function exists since this release.
        let date = format!("_v{}", version.number());
        beyond.retain(|typedef| {
            let dated = typedef.contains(&date);
            if dated {
                println!("only later headers declare {typedef}");
            }
            !dated
        });
    }
    assert!(lacking.is_empty(), "not in the table: {lacking:?}");
    assert!(beyond.is_empty(), "not in the header: {beyond:?}");
    match version.number() {
        13000 => assert_eq!(theirs.len(), 634 + 3),
        13050 => assert_eq!(theirs.len(), 685 + 3),
        _ => assert!(theirs.len() > 634),
    }
}
