//! The per-thread default stream, bound to the thread that uses it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use super::Stream;
use crate::context::Context;

/// The default stream of the thread that has created this handle. The handle does not leave the
/// thread.
///
/// The [`ThreadBuffer`](crate::memory::ThreadBuffer)s on it stay on the thread too. Their uses on
/// this stream need no event, unlike those of other buffers on the [per-thread
/// stream](Context::per_thread_stream), which another thread may use next.
///
/// ```
/// use cuda_driver::memory::ThreadBuffer;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// let stream = context.thread_stream();
/// let mut buffer = ThreadBuffer::filled(&stream, 100, 1_u32)?;
/// buffer.fill(2)?;
/// // Now another thread can use it.
/// let shared = buffer.into_shared();
/// let sum = std::thread::spawn(move || shared.to_vec().map(|words| words.iter().sum::<u32>()));
/// assert_eq!(sum.join().unwrap()?, 200);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ThreadStream {
    stream: Stream,
    /// Makes the type neither `Send` nor `Sync`.
    on_this_thread: PhantomData<*const ()>,
}

/// The default stream of the calling thread.
impl Context {
    /// `CU_STREAM_PER_THREAD`—Returns the default stream of the calling thread as a handle that
    /// does not leave the thread. It is the same queue as
    /// [`per_thread_stream`](Self::per_thread_stream).
    #[doc(alias = "CU_STREAM_PER_THREAD")]
    #[doc(alias = "cudaStreamPerThread")]
    #[must_use]
    pub fn thread_stream(&self) -> ThreadStream {
        ThreadStream {
            stream: self.per_thread_stream(),
            on_this_thread: PhantomData,
        }
    }
}

impl Deref for ThreadStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl fmt::Debug for ThreadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadStream({:?})", self.stream.as_raw())
    }
}
