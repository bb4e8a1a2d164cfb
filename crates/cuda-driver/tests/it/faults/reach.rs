//! The functions that the safe layer calls, and a check that the scenarios call each of them.

use std::collections::BTreeSet;

use super::fixture::run;
use super::scenarios;
use crate::support::skipped;

/// Functions that no scenario calls, with the reasons.
const NOT_REACHED: &[(&str, &str)] = &[
    ("cuCoredumpGetAttribute", NO_CORE_DUMPS),
    ("cuCoredumpGetAttributeGlobal", NO_CORE_DUMPS),
    ("cuCoredumpSetAttribute", NO_CORE_DUMPS),
    ("cuCoredumpSetAttributeGlobal", NO_CORE_DUMPS),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuDestroyExternalMemory", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuDestroyExternalSemaphore", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuExternalMemoryGetMappedBuffer", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuGraphAddExternalSemaphoresSignalNode", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuGraphAddExternalSemaphoresWaitNode", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    (
        "cuGraphExecExternalSemaphoresSignalNodeSetParams",
        NO_SHARING,
    ),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuGraphExecExternalSemaphoresWaitNodeSetParams", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuGraphExternalSemaphoresSignalNodeSetParams", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuGraphExternalSemaphoresWaitNodeSetParams", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuImportExternalMemory", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuImportExternalSemaphore", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuSignalExternalSemaphoresAsync", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuWaitExternalSemaphoresAsync", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuIpcCloseMemHandle", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuIpcGetEventHandle", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuIpcGetMemHandle", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuIpcOpenEventHandle", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuIpcOpenMemHandle_v2", NO_SHARING),
    #[cfg(not(target_os = "linux"))]
    ("cuMemExportToShareableHandle", NO_VIRTUAL_MEMORY),
    #[cfg(not(target_os = "linux"))]
    ("cuMemImportFromShareableHandle", NO_VIRTUAL_MEMORY),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuMemPoolExportPointer", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuMemPoolExportToShareableHandle", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuMemPoolImportFromShareableHandle", NO_SHARING),
    #[cfg(not(any(target_os = "linux", windows)))]
    ("cuMemPoolImportPointer", NO_SHARING),
    #[cfg(not(target_os = "linux"))]
    ("cuMemAddressFree", NO_VIRTUAL_MEMORY),
    #[cfg(not(target_os = "linux"))]
    ("cuMemAddressReserve", NO_VIRTUAL_MEMORY),
    #[cfg(not(target_os = "linux"))]
    ("cuMemCreate", NO_VIRTUAL_MEMORY),
    #[cfg(not(target_os = "linux"))]
    ("cuMemGetAccess", NO_VIRTUAL_MEMORY),
    #[cfg(not(target_os = "linux"))]
    ("cuMemGetAllocationGranularity", NO_VIRTUAL_MEMORY),
    #[cfg(not(target_os = "linux"))]
    ("cuMemGetAllocationPropertiesFromHandle", NO_VIRTUAL_MEMORY),
    #[cfg(not(target_os = "linux"))]
    ("cuMemGetHandleForAddressRange", NO_VIRTUAL_MEMORY),
    #[cfg(not(target_os = "linux"))]
    ("cuMemMap", NO_VIRTUAL_MEMORY),
    #[cfg(not(target_os = "linux"))]
    ("cuMemRelease", NO_VIRTUAL_MEMORY),
    #[cfg(not(target_os = "linux"))]
    ("cuMemSetAccess", NO_VIRTUAL_MEMORY),
    #[cfg(not(target_os = "linux"))]
    ("cuMemUnmap", NO_VIRTUAL_MEMORY),
];

#[cfg(not(any(target_os = "linux", windows)))]
const NO_SHARING: &str = "the software device shares memory on Linux and Windows only";
#[cfg(not(target_os = "linux"))]
const NO_VIRTUAL_MEMORY: &str = "the software device has virtual memory on Linux only";
const NO_CORE_DUMPS: &str = "the software device writes no core dumps";

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// Returns whether the library sources are present; a machine that only runs the tests has none.
pub(super) fn has_sources() -> bool {
    std::path::Path::new(SOURCES).is_dir()
}

/// Returns the driver functions that the library calls: the names `cuXxx(` in its sources.
pub(super) fn called() -> BTreeSet<String> {
    let mut open = vec![std::path::PathBuf::from(SOURCES)];
    let mut names = BTreeSet::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let code = line.trim_start();
            if code.starts_with("//") || code.starts_with("#[") {
                continue;
            }
            for (at, _) in code.match_indices("cu") {
                let before = code[..at].chars().next_back();
                if before
                    .is_some_and(|it| it.is_alphanumeric() || matches!(it, '_' | ':' | '"' | '`'))
                {
                    continue;
                }
                let is_part = |it: &char| it.is_alphanumeric() || *it == '_';
                let name: String = code[at..].chars().take_while(is_part).collect();
                let is_function = cuda_sys::FUNCTIONS.iter().any(|it| it.name == name);
                if is_function {
                    names.insert(name);
                }
            }
        }
    }
    names
}

#[test]
fn the_scenarios_call_all_that_the_library_calls() {
    if !has_sources() {
        skipped("the coverage of the scenarios: the library sources are missing");
        return;
    }
    let mut reached = BTreeSet::new();
    for scenario in scenarios::all() {
        let ended = run(scenario, None);
        assert!(
            ended.wrong.is_empty(),
            "{}: {:?}",
            scenario.name,
            ended.wrong
        );
        reached.extend(
            ended
                .trace
                .iter()
                .map(|entry| entry.function.name.to_owned()),
        );
    }
    let called = called();
    let excepted: BTreeSet<String> = NOT_REACHED
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let missing: Vec<&String> = called
        .difference(&reached)
        .filter(|it| !excepted.contains(*it))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    let needless: Vec<&String> = excepted
        .iter()
        .filter(|it| reached.contains(*it) || !called.contains(*it))
        .collect();
    assert!(needless.is_empty(), "{needless:?}");
    println!(
        "{} of {} functions are reached",
        called.len() - excepted.len(),
        called.len()
    );
    assert!(called.len() > 150);
}
