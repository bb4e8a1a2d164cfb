//! Shared code of the benches: the null driver, on which only the wrapper's own cost remains,
//! kernels that do nothing, measurements in pairs, and rows of Criterion.

mod drained;
mod kernels;
mod null_driver;
mod pairs;
pub mod reference;
mod rows;

pub use drained::drained;
pub use kernels::{COUNTS, empty_kernels, empty_kernels_ptx};
pub use null_driver::null_driver;
pub use pairs::{Estimate, Pairs, number_of_pairs, on_each_driver};
pub use rows::Rows;
