//! What the benches share: the null driver, on which only the wrapper's own cost is left.

mod null_driver;

pub use null_driver::null_driver;
