//! Launches that would read and write one array.
//!
//! If a kernel writes an array through a surface, CUDA does not define what it reads from this
//! array through a texture. Borrows cannot exclude this, because a texture shares its array, so
//! each launch is checked.

use smallvec::SmallVec;

use super::args::KernelArgs;
use super::tracked::Tracked;
use crate::error::{ArrayError, Result};
use crate::memory::is_array_number;

/// Fails if an argument of a launch writes an array that another argument uses.
pub(crate) fn expect_no_array_conflict<A: KernelArgs>(args: &A) -> Result<()> {
    let mut is_written = false;
    // The closure never fails.
    let _ = args.each_tracked(&mut |tracked| {
        is_written |= writes_array(&tracked);
        Ok(())
    });
    if is_written {
        expect_no_conflict(args)
    } else {
        Ok(())
    }
}

/// Returns whether the argument is a surface that the kernel writes.
pub(super) fn writes_array(tracked: &Tracked<'_>) -> bool {
    is_array_number(tracked.address) && tracked.access.is_write()
}

/// Does the work of [`expect_no_array_conflict`] if a kernel writes an array.
#[cold]
pub(super) fn expect_no_conflict<A: KernelArgs>(args: &A) -> Result<()> {
    struct Use {
        arrays: std::ops::Range<u64>,
        is_write: bool,
        argument: u8,
    }
    let mut uses = SmallVec::<[Use; 8]>::new();
    args.each_tracked(&mut |tracked| {
        if !is_array_number(tracked.address) {
            return Ok(());
        }
        let this = Use {
            arrays: tracked.address..tracked.address.saturating_add(tracked.bytes as u64),
            is_write: tracked.access.is_write(),
            argument: tracked.argument,
        };
        let other = uses.iter().find(|other| {
            (this.is_write || other.is_write)
                && this.arrays.start < other.arrays.end
                && other.arrays.start < this.arrays.end
        });
        if let Some(other) = other {
            let (written, other) = if this.is_write {
                (this.argument, other.argument)
            } else {
                (other.argument, this.argument)
            };
            return Err(ArrayError::Conflict { written, other }.into());
        }
        uses.push(this);
        Ok(())
    })
}
