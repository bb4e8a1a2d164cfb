//! Which places are trusted, with files of several users.

#[cfg(unix)]
mod trust;
#[cfg(unix)]
mod users;
