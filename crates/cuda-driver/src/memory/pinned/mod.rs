//! Page-locked host memory, which the device can copy from and to directly.
//!
//! C returns a bare pointer. Here the memory has an owner: [`PinnedBuffer`] for memory that the
//! driver allocates, or [`RegisteredBuffer`] for a `Vec` that is registered with the driver. Both
//! dereference to slices, and both implement [`PageLocked`].

mod block;
mod buffer;
mod in_pool;
mod locked;
mod registered;
mod storage;
mod uninit;

pub use buffer::{PinnedBuffer, PinnedFlags};
pub(crate) use locked::{Locked, LockedPool, sealed};
pub use registered::{RegisterError, RegisterFlags, RegisteredBuffer};
pub use storage::{PinnedPart, PinnedStorage};
pub use uninit::UninitPinned;

use std::ops::DerefMut;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::DeviceRepr;

/// An owner of page-locked host memory: [`PinnedBuffer`], [`PinnedPart`] or [`RegisteredBuffer`].
///
/// # Safety
///
/// `start()` is the address of `len()` elements of `T` that the driver of `context()` has
/// page-locked. The elements keep their address when the owner moves, and stay page-locked until it
/// is dropped.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not page-locked memory of `{T}`",
    label = "not page-locked memory",
    note = "copies that run while the host continues need a `PinnedBuffer<{T}>` or a `RegisteredBuffer<{T}>`"
)]
pub unsafe trait PageLocked<T: DeviceRepr>:
    sealed::Lock + DerefMut<Target = [T]> + Send + Sync
{
    /// Returns the context in which the memory was page-locked.
    fn context(&self) -> &Context;
}

/// Fails unless copies in `copying` may use page-locked memory of the context `owner`.
///
/// Both contexts must belong to the same driver. The program that owns a borrowed context waits for
/// the work in that context before it destroys it, but not for copies that are queued in other
/// contexts. So only copies in a borrowed context itself may use its page-locked memory.
pub(crate) fn expect_locked_for(
    copying: &Context,
    owner: &Context,
    what: &'static str,
) -> Result<()> {
    copying.driver().expect_handles_of(owner.driver(), what)?;
    if owner.is_borrowed() && owner != copying {
        let what = "page-locked memory of a borrowed context";
        return Err(Error::other_context(what, owner, copying));
    }
    Ok(())
}
