//! Copies between contexts.

use cuda_sys::CUdeviceptr;

use super::{DeviceRepr, DeviceSlice, DeviceSliceMut, expect_len};
use crate::driver::call;
use crate::error::Result;
use crate::order::{Gate, Scope};

impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// `cuMemcpyPeerAsync()`—Queues a copy from memory of any context of the same driver, on this
    /// buffer's home stream.
    ///
    /// The devices need no access to each other: where they have none, the driver goes through host
    /// memory. The copy waits for what other streams do with both sides, and what comes after waits
    /// for the copy, as within one context. Until the source is used again, it may keep this
    /// buffer's context alive; if it has the last handle, that context ends on a thread of its own,
    /// and no call on the source waits for it.
    ///
    /// If the context of the source is [borrowed](crate::Context::borrow_raw), the elements are
    /// copied to the host in that context and from there in this one, and the call returns when the
    /// source has been read: the owner of the context may end it at any time, and could not wait
    /// for a copy that was queued elsewhere.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both are of one length,
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the source is of another driver, or
    /// what the calls answer.
    #[doc(alias = "cuMemcpyPeerAsync")]
    pub fn copy_from_peer(&mut self, source: &DeviceSlice<'_, T>) -> Result<()> {
        let (home, peer) = (self.memory.home(), source.memory.home().context());
        if peer == home.context() {
            return self.copy_from(source);
        }
        expect_len(source.len(), self.len())?;
        home.driver()
            .expect_handles_of(peer.driver(), "the source")?;
        if self.is_empty() || size_of::<T>() == 0 {
            return Ok(());
        }
        if peer.is_borrowed() {
            return self.copy_through_host(source);
        }
        let (to, from): (CUdeviceptr, CUdeviceptr) = (self.as_raw(), source.as_raw());
        let bytes = self.len() * size_of::<T>();
        let _current = home.context().enter()?;
        let scope = Scope::new(home);
        scope.ready()?;
        // What takes long is waited for before the gates are entered.
        source.memory.tracker.settle_before(&scope, source.access)?;
        self.memory.tracker.settle_before(&scope, self.access)?;
        drop(scope);
        // Graphs may hold either side.
        let _gates = Gate::enter_both(home.context().gate(), peer.gate());
        let mut scope = Scope::new(home);
        source.memory.tracker.before_peer(&scope, source.access)?;
        self.memory.use_at_home(self.access, || {
            // SAFETY: both sides must hold the bytes and belong to the contexts given, which are
            // alive ← the lengths are equal, both views are within their allocations, whose frees
            // wait for this use; both buffers are borrowed.
            unsafe {
                call!(
                    home.driver(),
                    cuMemcpyPeerAsync(
                        to,
                        home.context().as_raw(),
                        from,
                        peer.as_raw(),
                        bytes,
                        home.as_raw()
                    )
                )
            }
        })?;
        source.memory.tracker.after(&mut scope, source.access);
        Ok(())
    }

    /// Copies from memory of another context, each half in its own context. The lengths are equal.
    fn copy_through_host(&mut self, source: &DeviceSlice<'_, T>) -> Result<()> {
        let piece = (MOST_ON_HOST / size_of::<T>().max(1)).max(1);
        let mut start = 0;
        while start < self.len() {
            let elements = source.piece(start, piece).to_vec()?;
            let range = start..start + elements.len();
            start = range.end;
            if let Some(mut to) = self.reborrow().into_slice(range) {
                to.copy_from_host(&elements)?;
            }
        }
        Ok(())
    }
}

/// The most bytes of a copy through the host that are on the host at a time.
const MOST_ON_HOST: usize = 4 << 20;
