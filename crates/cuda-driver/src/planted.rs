//! Faults in the order of uses, planted to see that the tests find them.
//!
//! There are none in a usual build, and no trace of them: they need `--cfg cuda_driver_planted`,
//! and then the environment variable `CUDA_DRIVER_PLANTED` with the name of one.

/// A fault, named by what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A use does not wait for the one that wrote last.
    WriterNotAwaited,
    /// A use that only reads is not noted.
    ReaderLost,
    /// A write does not wait for those that read.
    ReadersNotAwaited,
    /// Memory is freed without waiting for its uses.
    FreedTooEarly,
    /// Memory is freed on another stream than its home.
    FreedOnOtherStream,
    /// A later use counts as waited for by the streams that waited for an earlier one.
    WaitedKept,
    /// The first use on another stream, which is recorded late, is not noted.
    LateUseLost,
    /// A write to a part of a buffer that was split is noted as a read.
    PartWriteLost,
    /// The first use on another stream does not wait for what its home did.
    HomeTailIgnored,
    /// A use at home takes the buffer for one that was never used elsewhere.
    CrossedReset,
    /// The event behind a use that is recorded late is recorded on the stream that waits.
    EventOnOtherStream,
    /// The buffer that a copy reads is not noted.
    CopySourceLost,
    /// A write stands for uses that its stream has not waited for.
    OthersForgotten,
    /// Memory that is used again does not wait for what its last owner did.
    HandedOverTooEarly,
    /// Nothing is recorded before a call that waits for the program.
    NoCheckpoint,
    /// A buffer does not know how late it was used at home, so an early checkpoint stands for all
    /// uses.
    EpochNotKept,
    /// The per-thread stream counts as one stream for all threads.
    PerThreadAsOne,
    /// The per-thread stream is recorded late, as others are.
    PerThreadLate,
    /// A replay of a graph does not wait for what was done with its memory elsewhere.
    DirtyIgnored,
    /// A replay of a graph is not noted.
    ReplayNotNoted,
    /// Memory that a graph holds goes with its owner.
    HeldIgnored,
}

impl Fault {
    /// Whether this build and this process have it.
    #[cfg(not(cuda_driver_planted))]
    pub(crate) const fn is_planted(self) -> bool {
        let _ = self;
        false
    }

    /// Whether this build and this process have it.
    #[cfg(cuda_driver_planted)]
    pub(crate) fn is_planted(self) -> bool {
        use std::sync::OnceLock;
        static PLANTED: OnceLock<Option<String>> = OnceLock::new();
        let planted = PLANTED.get_or_init(|| std::env::var("CUDA_DRIVER_PLANTED").ok());
        planted.as_deref() == Some(&format!("{self:?}"))
    }
}
