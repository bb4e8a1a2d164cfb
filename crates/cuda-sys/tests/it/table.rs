//! The rows of [`FUNCTIONS`] correspond to the fields of [`DriverTable`], one to one.

use std::collections::HashSet;
use std::mem::{offset_of, size_of};

use cuda_sys::{DriverTable, FUNCTIONS, Function, Version, calls};

/// The names of the table's fields in memory order, as `Debug` prints them.
fn field_names(debug: &str) -> Vec<String> {
    debug
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split_once(": "))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn row(name: &str) -> &'static Function {
    FUNCTIONS
        .iter()
        .find(|function| function.name == name)
        .unwrap_or_else(|| panic!("{name} is not in the table"))
}

#[test]
fn each_row_has_the_field_of_its_name() {
    let fields = field_names(&format!("{:#?}", DriverTable::default()));
    let rows: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
    assert_eq!(fields, rows);
    assert_eq!(size_of::<DriverTable>(), rows.len() * size_of::<fn()>());
}

#[test]
fn fields_have_the_offsets_of_their_rows() {
    for (function, offset) in [
        (calls::cuInit, offset_of!(DriverTable, cuInit)),
        (
            calls::cuCtxCreate_v4,
            offset_of!(DriverTable, cuCtxCreate_v4),
        ),
        (
            calls::cuMemcpyHtoD_v2_ptds,
            offset_of!(DriverTable, cuMemcpyHtoD_v2_ptds),
        ),
        (
            calls::cuProfilerStop,
            offset_of!(DriverTable, cuProfilerStop),
        ),
    ] {
        let index = FUNCTIONS.iter().position(|row| row == function);
        assert_eq!(index, Some(offset / size_of::<fn()>()), "{function}");
    }
}

#[cfg(feature = "nvrtc")]
#[test]
fn each_row_of_nvrtc_has_the_field_of_its_name() {
    use cuda_sys::nvrtc::{FUNCTIONS, NvrtcTable};
    let fields = field_names(&format!("{:#?}", NvrtcTable::default()));
    let rows: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
    assert_eq!(fields, rows);
    assert!(rows.contains(&"nvrtcGetCUBIN"));
    assert!(rows.iter().all(|name| name.starts_with("nvrtc")));
}

#[test]
fn names_are_unique_and_begin_with_their_base() {
    let names: HashSet<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
    assert_eq!(names.len(), FUNCTIONS.len());
    // The arguments of `cuGetProcAddress` distinguish every two functions.
    let requests: HashSet<_> = FUNCTIONS
        .iter()
        .map(|function| (function.base, function.since(), function.per_thread))
        .collect();
    assert_eq!(requests.len(), FUNCTIONS.len());
    for function in &FUNCTIONS {
        let suffix = function.name.strip_prefix(function.base);
        let suffix = suffix.unwrap_or_else(|| panic!("{function}: base {}", function.base));
        let (revision, mode) = match suffix.find("_pt") {
            Some(at) => suffix.split_at(at),
            None => (suffix, ""),
        };
        assert!(["", "_ptds", "_ptsz"].contains(&mode), "{function}");
        assert_eq!(function.per_thread, !mode.is_empty(), "{function}");
        let number = revision.strip_prefix("_v").map(str::parse::<u32>);
        assert!(
            revision.is_empty() || matches!(number, Some(Ok(2..=9))),
            "{function}"
        );
        assert!(function.since() >= Version::new(2000), "{function:?}");
    }
}

/// Facts from NVIDIA's manual and headers, independent of this crate.
#[test]
fn known_functions_have_their_known_facts() {
    for (name, base, since, per_thread) in [
        ("cuInit", "cuInit", 2000, false),
        ("cuCtxCreate", "cuCtxCreate", 2000, false),
        ("cuCtxCreate_v2", "cuCtxCreate", 3020, false),
        ("cuCtxCreate_v3", "cuCtxCreate", 11040, false),
        ("cuCtxCreate_v4", "cuCtxCreate", 12050, false),
        ("cuMemcpyHtoD_v2", "cuMemcpyHtoD", 3020, false),
        ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD", 7000, true),
        ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync", 7000, true),
        ("cuLaunchKernel", "cuLaunchKernel", 4000, false),
        ("cuLaunchKernel_ptsz", "cuLaunchKernel", 7000, true),
        ("cuLaunchKernelEx", "cuLaunchKernelEx", 11060, false),
        ("cuGetProcAddress", "cuGetProcAddress", 11030, false),
        ("cuGetProcAddress_v2", "cuGetProcAddress", 12000, false),
        ("cuFuncGetParamInfo", "cuFuncGetParamInfo", 12040, false),
        ("cuMemAllocAsync", "cuMemAllocAsync", 11020, false),
    ] {
        let function = row(name);
        let facts = (function.base, function.since(), function.per_thread);
        assert_eq!(facts, (base, Version::new(since), per_thread), "{name}");
    }
}

#[test]
fn a_row_prints_its_name_and_version() {
    assert_eq!(calls::cuCtxCreate_v4.to_string(), "cuCtxCreate_v4");
    assert_eq!(
        format!("{:?}", calls::cuCtxCreate_v4),
        "cuCtxCreate_v4 (since CUDA 12.5)"
    );
}

#[test]
fn an_empty_table_reports_an_old_driver() {
    let table = DriverTable::default();
    // SAFETY: the flags must be valid for cuInit ← no function is called, because the slot is
    // empty.
    let status = unsafe { table.cuInit(0) };
    assert_eq!(status.0, 36);
}
