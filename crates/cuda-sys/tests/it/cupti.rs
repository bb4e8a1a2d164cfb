//! Compiles a C program against each version of CUPTI's headers that the machine has, to check that
//! the records and numbers in `cuda_sys::cupti` agree with it.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};

use cuda_sys::cupti::*;

use crate::c_compiler;

macro_rules! offsets {
    ($type:ident: $($field:ident)*) => {
        vec![$((stringify!($field), offset_of!($type, $field))),*]
    };
}

/// A record: the start of its name in C, the oldest number that the name ends with, and the fields.
type Record = (&'static str, u32, Vec<(&'static str, usize)>);

fn records() -> [Record; 4] {
    [
        (
            "CUpti_ActivityKernel",
            9,
            offsets!(CUpti_ActivityKernel: kind cacheConfig sharedMemoryConfig registersPerThread
                partitionedGlobalCacheRequested partitionedGlobalCacheExecuted start end completed
                deviceId contextId streamId gridX gridY gridZ blockX blockY blockZ
                staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal
                correlationId gridId name reserved0 queued submitted launchType
                isSharedMemoryCarveoutRequested sharedMemoryCarveoutRequested padding
                sharedMemoryExecuted graphNodeId shmemLimitConfig graphId),
        ),
        (
            "CUpti_ActivityMemcpy",
            5,
            offsets!(CUpti_ActivityMemcpy: kind copyKind srcKind dstKind flags bytes start end
                deviceId contextId streamId correlationId runtimeCorrelationId pad reserved0
                graphNodeId graphId),
        ),
        (
            "CUpti_ActivityMemcpyPtoP",
            4,
            offsets!(CUpti_ActivityMemcpyPtoP: kind copyKind srcKind dstKind flags bytes start end
                deviceId contextId streamId srcDeviceId srcContextId dstDeviceId dstContextId
                correlationId reserved0 graphNodeId graphId),
        ),
        (
            "CUpti_ActivityMemset",
            4,
            offsets!(CUpti_ActivityMemset: kind value bytes start end deviceId contextId streamId
                correlationId flags memoryKind pad reserved0 graphNodeId graphId),
        ),
    ]
}

/// The variable with a folder that contains the headers of several releases of CUPTI, which
/// `cargo xtask ci --only headers` sets. Without it, those that the machine has are used.
const RELEASES: &str = "CUDA_TEST_CUPTI_DIR";

/// The folders with the headers of CUPTI.
fn folders() -> BTreeSet<PathBuf> {
    let below = |releases: &Path| {
        let entries = fs::read_dir(releases).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    if let Some(releases) = env::var_os(RELEASES) {
        let folders: BTreeSet<_> = below(Path::new(&releases)).into_iter().collect();
        assert!(!folders.is_empty(), "{RELEASES} is {}", releases.display());
        return folders;
    }
    let mut folders = BTreeSet::new();
    for toolkit in cuda_places::toolkits() {
        for folder in [
            "include",
            "extras/CUPTI/include",
            "targets/x86_64-linux/include",
        ] {
            folders.insert(toolkit.root.join(folder));
        }
    }
    if let Some(setup) = cuda_places::Setup::around_this_program() {
        folders.extend(below(&setup.dir.join("cupti")));
    }
    folders.retain(|folder| folder.join("cupti_activity.h").is_file());
    folders
}

/// The folder with `cuda.h`, for headers of CUPTI that are without it.
fn cuda_include(folder: &Path) -> Option<PathBuf> {
    let setup = cuda_places::Setup::around_this_program().map(|setup| setup.dir.join("include"));
    let toolkits = cuda_places::toolkits()
        .into_iter()
        .map(|it| it.root.join("include"));
    let mut all = [folder.to_owned()].into_iter().chain(toolkits).chain(setup);
    all.find(|folder| folder.join("cuda.h").is_file())
}

/// The assertions about one version of the headers.
fn assertions(folder: &Path) -> String {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let declared = read("cupti_activity.h") + &read("cupti_activity_deprecated.h");
    let mut source = String::from(
        "#include <stddef.h>\n#include <cupti.h>\n#define SAME(a, b) _Static_assert((a) == (b), #a)\n",
    );
    let mut found = 0;
    for (name, oldest, fields) in records() {
        for number in oldest..100 {
            let name = format!("{name}{number}");
            if !declared.contains(&format!("}} {name};")) {
                continue;
            }
            found += 1;
            for (field, offset) in &fields {
                // Unnamed bits of the header have other names in some versions.
                if !["cacheConfig", "padding"].contains(field) {
                    writeln!(source, "SAME(offsetof({name}, {field}), {offset});").unwrap();
                }
            }
        }
    }
    assert!(found >= 4, "{}: {found} records", folder.display());
    for (field, offset) in offsets!(CUpti_CallbackData: callbackSite functionName functionParams
        functionReturnValue symbolName context contextUid correlationData correlationId)
    {
        writeln!(
            source,
            "SAME(offsetof(CUpti_CallbackData, {field}), {offset});"
        )
        .unwrap();
    }
    let numbers = read("cupti_driver_cbid.h");
    for (name, number) in CUPTI_QUEUEING_CALLS {
        // Old headers do not have the newest functions.
        if numbers.contains(&format!("CBID_{name} ")) {
            writeln!(source, "SAME(CUPTI_DRIVER_TRACE_CBID_{name}, {number});").unwrap();
        }
    }
    macro_rules! values {
        ($type:ident: $($name:ident)*) => {
            [$((stringify!($name), $type::$name.0)),*]
        };
    }
    let kinds = values!(CUpti_ActivityKind: CUPTI_ACTIVITY_KIND_MEMCPY CUPTI_ACTIVITY_KIND_MEMSET
        CUPTI_ACTIVITY_KIND_KERNEL CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
        CUPTI_ACTIVITY_KIND_MEMCPY2);
    let statuses = values!(CUptiResult: CUPTI_SUCCESS CUPTI_ERROR_INVALID_PARAMETER
        CUPTI_ERROR_MAX_LIMIT_REACHED CUPTI_ERROR_NOT_COMPATIBLE CUPTI_ERROR_NOT_INITIALIZED
        CUPTI_ERROR_INSUFFICIENT_PRIVILEGES CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    let others = [
        ("CUPTI_CB_DOMAIN_DRIVER_API", CUPTI_CB_DOMAIN_DRIVER_API),
        ("CUPTI_API_ENTER", CUPTI_API_ENTER),
        (
            "CUPTI_ACTIVITY_FLAG_FLUSH_FORCED",
            CUPTI_ACTIVITY_FLAG_FLUSH_FORCED,
        ),
    ];
    for (name, value) in kinds.iter().chain(&statuses).chain(&others) {
        writeln!(source, "SAME({name}, {value});").unwrap();
    }
    source
}

#[test]
fn records_have_the_layout_of_each_header() {
    let folders = folders();
    if folders.is_empty() {
        return test_needs::skipped("no headers of CUPTI");
    }
    for folder in folders {
        let Some(include) = cuda_include(&folder) else {
            test_needs::skipped("CUPTI's headers without cuda.h");
            continue;
        };
        let temp = tempfile::tempdir().unwrap();
        let source = temp.path().join("cupti.c");
        fs::write(&source, assertions(&folder)).unwrap();
        let Some(mut command) = c_compiler::command() else {
            return;
        };
        command
            .arg("-fsyntax-only")
            .arg("-I")
            .arg(&folder)
            .arg("-I")
            .arg(include)
            .arg(&source);
        let outcome = c_compiler::run(command);
        assert!(
            outcome.success,
            "{}: {}",
            folder.display(),
            outcome.messages
        );
        println!("the records agree with {}", folder.display());
    }
}

/// A changed offset is found.
#[test]
fn the_check_of_records_finds_a_difference() {
    let (Some(folder), Some(mut command)) = (folders().pop_first(), c_compiler::command()) else {
        return test_needs::skipped("no headers of CUPTI, or no C compiler");
    };
    let Some(include) = cuda_include(&folder) else {
        return test_needs::skipped("CUPTI's headers without cuda.h");
    };
    let wrong = assertions(&folder).replacen("start), 16", "start), 20", 1);
    let temp = tempfile::tempdir().unwrap();
    let source = temp.path().join("cupti.c");
    fs::write(&source, wrong).unwrap();
    command
        .arg("-fsyntax-only")
        .arg("-I")
        .arg(&folder)
        .arg("-I")
        .arg(include)
        .arg(&source);
    let outcome = c_compiler::run(command);
    assert!(
        !outcome.success && outcome.messages.contains("start"),
        "{}",
        outcome.messages
    );
}
