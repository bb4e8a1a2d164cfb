//! Graph launches and stream capture of a driver.
//!
//! A launch turns an executable graph into steps for the engine, which are ordered only by the
//! edges.

pub(in crate::driver) mod capture;
pub(in crate::driver) mod capture_mode;
pub(in crate::driver) mod launch;
