//! Trusted and untrusted places, with files of several users.

mod program;
#[cfg(unix)]
mod trust;
#[cfg(unix)]
mod users;
