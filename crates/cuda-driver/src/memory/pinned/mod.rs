//! Page-locked host memory: what the device copies from and to by itself.
//!
//! Where C hands out a bare pointer, these are owners: memory of the driver ([`PinnedBuffer`]), or
//! a `Vec` that is registered with it ([`RegisteredBuffer`]). Both are slices, and both count as
//! [`PageLocked`].

mod block;
mod buffer;
mod locked;
mod registered;

pub(crate) use block::PinnedBlock;
pub use buffer::{PinnedBuffer, PinnedFlags};
pub(crate) use locked::{Keep, Locked, sealed};
pub use registered::{RegisterError, RegisterFlags, RegisteredBuffer};

use std::ops::DerefMut;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::DeviceRepr;

/// Owners of page-locked host memory: [`PinnedBuffer`] and [`RegisteredBuffer`].
///
/// # Safety
///
/// From `start()` on lie `len()` elements of `T` that the driver of `context()` has locked. They
/// stay where they are when the owner moves, and stay locked until it is dropped.
pub unsafe trait PageLocked<T: DeviceRepr>:
    sealed::Lock + DerefMut<Target = [T]> + Send + Sync
{
    /// The context in which the memory was locked.
    fn context(&self) -> &Context;
}

/// Returns an error unless copies in `copying` may use page-locked memory of `owner`.
///
/// Both must be of one driver. The owner of a borrowed context waits for the work in that context
/// before it ends it, not for copies that are queued elsewhere: so memory of a borrowed context is
/// used by its own copies only.
pub(crate) fn expect_locked_for(
    copying: &Context,
    owner: &Context,
    what: &'static str,
) -> Result<()> {
    copying.driver().expect_handles_of(owner.driver(), what)?;
    if owner.is_borrowed() && owner != copying {
        return Err(Error::OtherContext {
            what: "page-locked memory of a borrowed context",
        });
    }
    Ok(())
}
