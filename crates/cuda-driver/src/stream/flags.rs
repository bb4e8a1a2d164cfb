//! The flags of streams.

bitflags::bitflags! {
    /// The behaviour of a stream. Unknown bits are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct StreamFlags: u32 {
        /// The stream neither waits for the NULL stream of the context, nor makes it wait.
        const NON_BLOCKING = 1;
        const _ = !0;
    }
}

impl StreamFlags {
    /// `CU_STREAM_DEFAULT`: the stream waits for the NULL stream, and the NULL stream for it.
    #[doc(alias = "CU_STREAM_DEFAULT")]
    #[doc(alias = "cudaStreamDefault")]
    pub const DEFAULT: Self = Self::empty();
}
