//! The null driver as a library: every function of `cuda.h`, exported under its name.

#[path = "../../../src/null_driver.rs"]
#[allow(
    dead_code,
    reason = "the benches of the workspace build a table from it, this crate a library"
)]
mod null_driver;

#[allow(
    non_snake_case,
    unused_variables,
    reason = "the names are those of C, and most arguments are ignored"
)]
#[allow(clippy::too_many_arguments, reason = "the C functions have as many")]
mod exports {
    use cuda_sys::*;

    use super::null_driver;

    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}
