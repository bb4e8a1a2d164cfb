//! The CUDA array interface (`__cuda_array_interface__`): a dictionary that describes an array in
//! device memory. It owns nothing.

use cuda_sys::CUdeviceptr;

use super::Element;
use super::layout::compact_len;
use crate::error::{Error, ExchangeError, Result};
use crate::memory::DeviceSlice;
use crate::stream::Stream;

/// The entries of `__cuda_array_interface__`, version 3.
///
/// The array is valid as long as the buffer, so the program has to keep the buffer alive. The
/// consumer has to order its work behind [`stream`](Self::stream).
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::dlpack::ArrayInterface;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let buffer = DeviceBuffer::<f32>::zeroed(&stream, 6)?;
/// let array = ArrayInterface::of(&buffer.as_slice(), &[2, 3])?;
/// assert_eq!((array.typestr, array.version), ("<f4", 3));
/// assert_eq!(array.data, (buffer.as_raw(), true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayInterface {
    /// `shape`: the length of each dimension.
    pub shape: Vec<usize>,
    /// `typestr`: the type of the elements.
    pub typestr: &'static str,
    /// `data`: the address, and whether the consumer must only read.
    pub data: (CUdeviceptr, bool),
    /// `strides`, in bytes. `None` if the array is compact and row-major.
    pub strides: Option<Vec<isize>>,
    /// `stream`: the stream behind which the consumer orders its work.
    pub stream: Option<i64>,
    /// `version`: always 3.
    pub version: u32,
}

impl ArrayInterface {
    /// Describes a view as a compact, row-major array that the consumer may read. The stream is the
    /// owning stream of the buffer: make it wait for the uses on other streams, for example with
    /// [`Stream::join`].
    ///
    /// # Errors
    ///
    /// [`Error::Exchange`] unless the shape has as many elements as the view, or if NumPy has no
    /// name for the type of the elements.
    pub fn of<T: Element>(view: &DeviceSlice<'_, T>, shape: &[usize]) -> Result<Self> {
        compact_len(shape, view.len())?;
        let Some(typestr) = T::TYPESTR else {
            let what = "the array interface has no name for this type of elements";
            return Err(Error::from(ExchangeError::Layout { what }));
        };
        Ok(Self {
            shape: shape.to_vec(),
            typestr,
            data: (view.as_raw(), true),
            strides: None,
            stream: Some(stream_argument(view.memory.owning_stream())),
            version: 3,
        })
    }
}

/// Returns the number that names a stream in Python: 1 for the legacy stream, 2 for the per-thread
/// stream, otherwise the handle.
pub(super) fn stream_argument(stream: &Stream) -> i64 {
    // The handles of the default streams are 1 and 2. An address fits.
    i64::try_from(stream.as_raw().addr()).unwrap_or(i64::MAX)
}
