//! Copies of pageable memory through the page-locked blocks of a context.
//!
//! The driver would do the same internally, but on one thread, and it might access the program's
//! memory after the call. Here the device accesses only the blocks. Only threads of the program
//! access the program's memory, and only while it is borrowed.
//!
//! `upload` and `download` use `copy`, which has the parts that both share; `pieces` divides a
//! copy.

mod blocks;
mod copy;
mod download;
mod filling;
mod non_temporal;
mod pieces;
mod upload;

pub(crate) use copy::DeviceSide;
pub(crate) use download::{download, download_array, download_rows};
pub(crate) use upload::{upload, upload_array, upload_rows};
