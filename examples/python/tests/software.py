"""Checks the extension on the driver that CUDA_DRIVER_LIBRARY names, with NumPy and ctypes.

The variable names the software device; ctypes calls the functions of the same library, as a C
consumer does.
"""

import ctypes
import os
import unittest

import cuda_exchange
import numpy

driver = ctypes.CDLL(os.environ["CUDA_DRIVER_LIBRARY"])
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype = ctypes.c_void_p
pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
rename = ctypes.pythonapi.PyCapsule_SetName
rename.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Tensor(ctypes.Structure):
    """DLTensor"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned"""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


def check(status):
    assert status == 0, f"CUDA error {status}"


class Consumer:
    """A consumer of device memory in C, with a stream of its own."""

    def __init__(self):
        self.stream = ctypes.c_void_p()
        check(driver.cuStreamCreate(ctypes.byref(self.stream), 1))

    def read(self, array):
        """Queues a copy behind the producer, and waits for this stream only."""
        capsule = array.__dlpack__(stream=self.stream.value, max_version=(1, 0))
        managed = Managed.from_address(pointer(capsule, b"dltensor_versioned"))
        rename(capsule, b"used_dltensor_versioned")
        tensor = managed.tensor
        assert (managed.major, tensor.device_type, tensor.device_id) == (1, 2, 0)
        assert (tensor.code, tensor.bits, tensor.lanes) == (2, 32, 1)
        shape = [tensor.shape[i] for i in range(tensor.ndim)]
        values = numpy.empty(shape, dtype=numpy.float32)
        source = ctypes.c_uint64(tensor.data + tensor.byte_offset)
        check(
            driver.cuMemcpyDtoHAsync_v2(
                values.ctypes.data_as(ctypes.c_void_p),
                source,
                ctypes.c_size_t(values.nbytes),
                self.stream,
            )
        )
        check(driver.cuStreamSynchronize(self.stream))
        managed.deleter(ctypes.addressof(managed))
        return values


class Exchange(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = cuda_exchange.Session()
        context = ctypes.c_void_p()
        check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        check(driver.cuCtxSetCurrent(context))

    def test_numpy_reads_and_writes_pinned_and_managed_memory(self):
        for create in [self.session.pinned, self.session.managed]:
            array = create([1.0, 2.0, 3.0])
            view = numpy.from_dlpack(array)
            self.assertEqual(view.tolist(), [1.0, 2.0, 3.0])
            self.assertTrue(view.flags.c_contiguous)
            with self.assertRaisesRegex(BufferError, "before"):
                numpy.from_dlpack(array)
            del array
            self.assertEqual(view.sum(), 6.0)

    def test_numpy_refuses_device_memory(self):
        with self.assertRaises((BufferError, RuntimeError)):
            numpy.from_dlpack(self.session.device([1.0]))

    def test_device_memory_of_numpy_is_not_imported(self):
        with self.assertRaises((BufferError, RuntimeError)):
            self.session.affine(numpy.ones(3, dtype=numpy.float32), 2.0)

    def test_a_consumer_in_c_reads_results_of_a_kernel(self):
        consumer = Consumer()
        for number in range(200):
            first = self.session.device([float(number)] * 1000)
            # Imports and exports device memory.
            second = self.session.affine(first, 2.0, 1.0)
            third = self.session.affine(second, 3.0)
            expected = numpy.full(1000, 3.0 * (2.0 * number + 1.0), dtype=numpy.float32)
            numpy.testing.assert_array_equal(consumer.read(third), expected)

    def test_consumers_on_default_streams(self):
        consumer = Consumer()
        for value in [1, 2, None]:
            array = self.session.affine(self.session.device([5.0] * 4), 2.0)
            if value == 2:
                # The per-thread stream, which the copy below does not wait for.
                capsule = array.__dlpack__(stream=value, max_version=(1, 0))
                check(driver.cuStreamSynchronize(ctypes.c_void_p(2)))
            else:
                capsule = array.__dlpack__(stream=value)
                check(driver.cuStreamSynchronize(ctypes.c_void_p(1)))
            del capsule
        for wrong in [0, -2]:
            with self.assertRaisesRegex(BufferError, "stream"):
                self.session.device([1.0]).__dlpack__(stream=wrong)
        self.assertEqual(consumer.read(self.session.device([4.0])).tolist(), [4.0])

    def test_the_array_interface_describes_device_memory(self):
        array = self.session.device([1.0, 2.0])
        described = array.__cuda_array_interface__
        self.assertEqual(described["shape"], (2,))
        self.assertEqual(described["typestr"], "<f4")
        self.assertEqual(described["version"], 3)
        self.assertEqual(described["stream"], self.session.stream)
        self.session.synchronize()
        values = (ctypes.c_float * 2)()
        check(
            driver.cuMemcpyDtoH_v2(
                values, ctypes.c_uint64(described["data"][0]), ctypes.c_size_t(8)
            )
        )
        self.assertEqual(list(values), [1.0, 2.0])
        self.assertFalse(hasattr(self.session.pinned([1.0]), "__cuda_array_interface__"))

    def test_a_worker_computes_meanwhile(self):
        worker = self.session.start_worker(allocates=True)
        consumer = Consumer()
        for _ in range(50):
            consumer.read(self.session.device([1.0] * 10))
        self.assertGreater(worker.stop(), 0)


if __name__ == "__main__":
    unittest.main()
