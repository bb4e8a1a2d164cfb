//! The full text of the error for each mistake that a newcomer makes, on the software device.
//!
//! - Launches: too few or too many arguments, an argument of another size (`u64`, `u8`, `f64`, a
//!   number for a buffer) or of another type (`u32` for `f32`, a buffer for `f64`), an empty grid,
//!   a block of 2,048 threads in one or two dimensions, a grid that is too high, too much dynamic
//!   shared memory, a large cluster, a part of a cluster, a signature that does not match.
//! - Lookups: a misspelled kernel, mangled names (plain, in a namespace, of a template), a name of
//!   many kernels, a kernel of a library, a NUL byte in a name, a missing variable, a variable of
//!   another size.
//! - Images: text that is not PTX, PTX that is too new, a NUL byte in PTX, UTF-16, gzip and a fat
//!   binary instead of PTX, PTX that crashes the compiler, a missing file, a file without an image.
//! - Compiling: no NVRTC on the machine.
//! - Memory: an allocation that is too large for the device (a buffer, managed memory, an array, the
//!   memory of a graph), for the host, for the limit of a pool and for an address; host and device memory of different lengths, buffers of different lengths; views of
//!   another type.
//! - Devices and contexts: an ordinal that does not exist; a kernel, a buffer, an event and the
//!   memory of a graph from another context.
//! - Order: the time of work that has not ended and of events without times, a wait during a
//!   capture, an invalid address.
//! - Kernels: an instruction that does not exist, one that only GPUs have, a write to memory that
//!   was passed as `&`, a kernel without end.
//! - Graphs: a cycle, a node of another graph, a removed node.
//!
//! `texts.txt` has the expected texts. The texts of mistakes that the compiler finds are in
//! `tests/ui`: a struct with padding, without the derive or without `repr(C)`, a buffer by value,
//! an `Option`, 17 arguments.

mod cases;
mod clusters;
mod images;
mod safe;
#[cfg(feature = "nvrtc")]
mod source;
#[cfg(all(feature = "nvrtc", target_os = "linux"))]
mod without_nvrtc;

use std::collections::BTreeMap;

/// Replaces hexadecimal addresses, which differ between runs.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str("0x…");
        result.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    result
}

/// Reads texts: a line `# name`, and then the lines of the text.
fn parse(file: &str) -> BTreeMap<String, String> {
    let sections = file.split("\n# ").map(|it| it.trim_start_matches("# "));
    let pairs = sections.filter_map(|section| section.split_once('\n'));
    pairs
        .map(|(name, text)| (name.to_owned(), text.trim_end().to_owned()))
        .collect()
}

/// The name of the text for a machine without NVRTC.
const NO_NVRTC: &str = "no NVRTC";

/// The name of the text for a machine without a driver.
const NO_DRIVER: &str = "no driver";

/// Returns the text of the error without NVRTC, if this machine can show it.
fn no_nvrtc() -> Option<String> {
    #[cfg(all(feature = "nvrtc", target_os = "linux"))]
    return without_nvrtc::text("without_nvrtc::prints_the_error");
    #[cfg(not(all(feature = "nvrtc", target_os = "linux")))]
    return None;
}

/// Returns the text of the error without a driver, if this machine can show it.
fn no_driver() -> Option<String> {
    #[cfg(all(feature = "nvrtc", target_os = "linux"))]
    return without_nvrtc::text("without_nvrtc::prints_the_error_of_the_driver");
    #[cfg(not(all(feature = "nvrtc", target_os = "linux")))]
    return None;
}

/// The names of the texts for CUDA C++ sources, which only a machine with NVRTC has.
const SOURCES: [&str; 9] = [
    "buffer of f64 for a float of the source",
    "byte order mark in CUDA C++",
    "header of the host",
    "header that has a counterpart",
    "include folder that does not exist",
    "instance of a template that was not asked for",
    "line of a source without a name",
    "line of a source with a name",
    "two headers of one name",
];

/// Returns the texts for sources, if this machine can compile.
fn of_sources() -> Option<cases::Texts> {
    #[cfg(feature = "nvrtc")]
    return source::all();
    #[cfg(not(feature = "nvrtc"))]
    return None;
}

#[test]
fn every_mistake_has_its_text() {
    let mut expected = parse(include_str!("texts.txt"));
    let no_nvrtc = no_nvrtc();
    if no_nvrtc.is_none() {
        expected.remove(NO_NVRTC);
    }
    let no_driver = no_driver();
    if no_driver.is_none() {
        expected.remove(NO_DRIVER);
    }
    let of_sources = of_sources();
    if of_sources.is_none() {
        expected.retain(|name, _| !SOURCES.contains(&name.as_str()));
    }
    let found: BTreeMap<String, String> = cases::all()
        .into_iter()
        .chain(of_sources.into_iter().flatten())
        .chain(no_nvrtc.map(|text| (NO_NVRTC, text)))
        .chain(no_driver.map(|text| (NO_DRIVER, text)))
        .map(|(name, text)| (name.to_owned(), without_addresses(text.trim_end())))
        .collect();
    assert!(found.len() >= 60, "{} mistakes", found.len());
    let differs = |name: &&String| expected.get(*name) != found.get(*name);
    let differing: Vec<String> = found
        .keys()
        .filter(differs)
        .map(|name| format!("# {name}\n{}\n", found[name]))
        .collect();
    assert!(
        differing.is_empty(),
        "these texts differ:\n{}",
        differing.join("\n")
    );
    let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&expected));
}
