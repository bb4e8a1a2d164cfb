//! A Python extension that exchanges tensors with NumPy, PyTorch and CuPy without copies.
//!
//! Teaches: DLPack in both directions. A [`Session`] imports any array that has `__dlpack__` and is
//! in device memory, launches a kernel on its own stream, and returns an [`Array`] that NumPy,
//! PyTorch and CuPy import. No call waits for the device: producer and consumer order their streams
//! through the arguments of `__dlpack__`.

mod array;
mod capsule;
mod worker;

use cuda_driver::memory::ManagedBuffer;
use cuda_driver::prelude::*;
use cuda_driver::safe::Unproven;
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use array::{Array, Memory};
use worker::Worker;

/// The version of DLPack that this extension asks producers for.
const MAX_VERSION: (u32, u32) = (1, 0);

/// Converts an error of this crate into an exception.
fn exception(error: cuda_driver::Error) -> PyErr {
    match error {
        cuda_driver::Error::Exchange(_) => PyBufferError::new_err(error.to_string()),
        other => PyRuntimeError::new_err(other.to_string()),
    }
}

/// A device with its primary context, which PyTorch and CuPy use too, a stream and a kernel.
#[pyclass(frozen)]
#[derive(Debug)]
struct Session {
    context: Context,
    stream: Stream,
    affine: SafeKernel,
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (ordinal = 0))]
    fn new(ordinal: u32) -> PyResult<Self> {
        let open = || {
            let context = Driver::load()?.device(ordinal)?.primary_context()?;
            let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0)?;
            let module = SafeModule::load(&context, &Ptx::new(include_str!("affine.ptx"))?)?;
            // Every launch is proven. A checked one would allocate a record of its violations.
            let affine = module.kernel("affine")?.with_unproven(Unproven::Reject);
            Ok(Self {
                context,
                stream,
                affine,
            })
        };
        open().map_err(exception)
    }

    /// The stream on which the kernel runs, as the argument `stream` of `__dlpack__`.
    #[getter]
    fn stream(&self) -> i64 {
        self.stream.dlpack_argument()
    }

    /// The version of the driver.
    #[getter]
    fn driver(&self) -> String {
        let driver = self.context.driver();
        format!("{} ({})", driver.version(), driver.origin())
    }

    /// Queues `factor * x + summand` for a compact float32 array and returns the result, an array
    /// of the same shape. The producer must not change `x` until the kernel has read it: a program
    /// that overwrites `x` in place has to make its stream wait for `stream` first.
    #[pyo3(signature = (x, factor, summand = 0.0))]
    fn affine(&self, x: &Bound<'_, PyAny>, factor: f32, summand: f32) -> PyResult<Array> {
        let input = self.import(x)?;
        // SAFETY: the producer has ordered `stream` behind its uses, and the memory is valid ← that
        // is the protocol of `__dlpack__`; it does not write the memory ← documented above.
        let input = unsafe { input.into_buffer::<f32>(&self.stream) }.map_err(exception)?;
        if !input.is_compact() {
            return Err(PyBufferError::new_err(
                "the array is not compact: copy it with `contiguous()` first",
            ));
        }
        let shape = input.shape().to_vec();
        let view = input.as_slice();
        let mut output = DeviceBuffer::zeroed(&self.stream, view.len()).map_err(exception)?;
        let len = u32::try_from(view.len())
            .map_err(|_| PyValueError::new_err("the array has more than 2^32 elements"))?;
        if len > 0 {
            let config = LaunchConfig::for_num_elems(len).map_err(exception)?;
            let args = (view, &mut output, factor, summand, len);
            let launch = self.stream.launch_safe(&self.affine, config, args);
            launch.map_err(exception)?;
        }
        // A worker thread releases `input` after the kernel.
        Ok(Array::new(&self.context, Memory::Device(output), shape))
    }

    /// Copies numbers to device memory.
    fn device(&self, values: Vec<f32>) -> PyResult<Array> {
        let buffer = DeviceBuffer::from_host(&self.stream, &values).map_err(exception)?;
        let shape = vec![values.len()];
        Ok(Array::new(&self.context, Memory::Device(buffer), shape))
    }

    /// Copies numbers to page-locked host memory.
    fn pinned(&self, values: Vec<f32>) -> PyResult<Array> {
        let buffer = PinnedBuffer::from_host(&self.context, &values, PinnedFlags::DEFAULT)
            .map_err(exception)?;
        let shape = vec![values.len()];
        Ok(Array::new(&self.context, Memory::Pinned(buffer), shape))
    }

    /// Copies numbers to managed memory.
    fn managed(&self, values: Vec<f32>) -> PyResult<Array> {
        let buffer = ManagedBuffer::from_host(&self.stream, &values).map_err(exception)?;
        let shape = vec![values.len()];
        Ok(Array::new(
            &self.context,
            Memory::Managed(buffer.into()),
            shape,
        ))
    }

    /// Starts a thread that copies, launches and checks results on two streams until it is stopped.
    /// If `allocates` is true, it also allocates memory, waits for streams and queries events:
    /// calls that break a capture of other code in global mode, because the program makes them by
    /// name.
    fn start_worker(&self, allocates: bool) -> PyResult<Worker> {
        let worker = Worker::start(&self.context, &self.affine, allocates);
        worker.map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// Waits until the work that was queued on the stream is complete.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.stream.synchronize()).map_err(exception)
    }
}

impl Session {
    /// Asks the producer of an array for a tensor that is ordered with the stream of the session.
    fn import(&self, x: &Bound<'_, PyAny>) -> PyResult<cuda_driver::dlpack::DlTensor> {
        let arguments = PyDict::new(x.py());
        arguments.set_item("stream", self.stream.dlpack_argument())?;
        arguments.set_item("max_version", MAX_VERSION)?;
        let capsule = match x.call_method("__dlpack__", (), Some(&arguments)) {
            // Producers of DLPack before version 1.0 do not know this argument.
            Err(error) if error.is_instance_of::<PyTypeError>(x.py()) => {
                arguments.del_item("max_version")?;
                x.call_method("__dlpack__", (), Some(&arguments))?
            }
            other => other?,
        };
        capsule::take(&capsule)
    }
}

/// The module `cuda_exchange`.
#[pymodule]
fn cuda_exchange(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Session>()?;
    module.add_class::<Array>()?;
    module.add_class::<Worker>()
}
