//! Arrays of the extension, which other libraries import.

use std::sync::{Arc, Mutex, PoisonError};

use cuda_driver::dlpack::{ArrayInterface, Consumer, DLDevice, DlTensor};
use cuda_driver::memory::ManagedBuffer;
use cuda_driver::prelude::*;
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::{capsule, exception};

/// The memory of an array.
#[derive(Debug)]
pub(crate) enum Memory {
    Device(DeviceBuffer<f32>),
    Pinned(PinnedBuffer<f32>),
    Managed(Arc<ManagedBuffer<f32>>),
}

impl Memory {
    /// The number of this kind of memory in DLPack.
    fn kind(&self) -> i32 {
        match self {
            Self::Device(_) => DLDevice::CUDA,
            Self::Pinned(_) => DLDevice::CUDA_HOST,
            Self::Managed(_) => DLDevice::CUDA_MANAGED,
        }
    }
}

/// A float32 array in device, page-locked or managed memory. Its first consumer becomes its owner.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Array {
    context: Context,
    /// `None` after an export.
    memory: Mutex<Option<Memory>>,
    kind: i32,
    shape: Vec<usize>,
}

impl Array {
    pub(crate) fn new(context: &Context, memory: Memory, shape: Vec<usize>) -> Self {
        Self {
            context: context.clone(),
            kind: memory.kind(),
            memory: Mutex::new(Some(memory)),
            shape,
        }
    }

    /// Exports the memory to a consumer that uses it on `stream`.
    fn export(&self, memory: Memory, stream: Option<i64>) -> cuda_driver::Result<DlTensor> {
        match memory {
            Memory::Device(buffer) => {
                // SAFETY: a handle must be a living stream of this driver ← the array API demands
                // it of the consumer; captures neither begin nor end meanwhile ← this thread holds
                // the interpreter during the export, and documentation says it for the deleter.
                let consumer = unsafe { Consumer::from_python(&self.context, stream) }?;
                buffer.into_dlpack(&self.shape, &consumer)
            }
            Memory::Pinned(buffer) => buffer.into_dlpack(&self.shape),
            Memory::Managed(buffer) => {
                // The consumer may be NumPy, which reads the memory at once.
                buffer.host()?;
                let owner = Arc::clone(&buffer);
                let (view, unordered) = (buffer.as_slice(), Consumer::unordered());
                let strides = [1];
                // SAFETY: the memory must be allocated while `owner` exists, and not be used by
                // this program meanwhile ← the owner is the buffer, and this was its last handle.
                unsafe { DlTensor::export(&view, &self.shape, &strides, false, &unordered, owner) }
            }
        }
    }
}

#[pymethods]
impl Array {
    /// The length of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// Returns the kind of memory and the ordinal of the device, as DLPack numbers them.
    fn __dlpack_device__(&self) -> (i32, u32) {
        (self.kind, self.context.device().ordinal())
    }

    /// Gives the memory to a consumer, whose stream is made to wait for the kernels that use it.
    ///
    /// The stream has to stay alive until the consumer has released the memory, and no capture of
    /// the stream may begin or end while it is exported or released.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, u32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(true) {
            return Err(PyBufferError::new_err(
                "this array is exported without copies only",
            ));
        }
        let is_host = self.kind != DLDevice::CUDA;
        if dl_device.is_some_and(|it| it != self.__dlpack_device__() && !(is_host && it.0 == 1)) {
            return Err(PyBufferError::new_err("the array is on another device"));
        }
        let memory = self
            .memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let memory =
            memory.ok_or_else(|| PyBufferError::new_err("the array was exported before"))?;
        let tensor = self.export(memory, stream).map_err(exception)?;
        let tensor = tensor.into_raw_for(max_version).map_err(exception)?;
        capsule::give(py, tensor)
    }

    /// Describes device memory to consumers that do not know DLPack. The array stays the owner.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Memory::Device(buffer)) = &*memory else {
            return Err(PyAttributeError::new_err("the array has no device memory"));
        };
        let described = ArrayInterface::of(&buffer.as_slice(), &self.shape).map_err(exception)?;
        let entries = PyDict::new(py);
        entries.set_item("shape", PyTuple::new(py, &described.shape)?)?;
        entries.set_item("typestr", described.typestr)?;
        entries.set_item("data", described.data)?;
        entries.set_item("strides", described.strides)?;
        entries.set_item("stream", described.stream)?;
        entries.set_item("version", described.version)?;
        Ok(entries)
    }
}
