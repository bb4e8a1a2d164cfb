//! Tensors that are exchanged with other code through the C ABI.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::dlpack::{
    ArrayInterface, Consumer, DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned,
    DLPackVersion, DLTensor, DlTensor, Element, RawTensor,
};
use cuda_driver::error::{Error, ExchangeError, Status};
use cuda_driver::memory::ManagedBuffer;
use cuda_driver::prelude::*;

use crate::foreign::borrowed;
use crate::support::{COPY, Fixture, assert_all, everywhere, filled, late_devices, launch_copy};

const N: u32 = 1 << 10;

/// Waits until `is_true`, which another thread causes.
#[track_caller]
fn wait_until(mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < Duration::from_secs(10), "too late");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A tensor that a consumer in C owns.
struct Held(NonNull<DLManagedTensorVersioned>);

// SAFETY: the struct may be used from any thread, as DLPack requires.
unsafe impl Send for Held {}

impl Held {
    fn tensor(&self) -> DLTensor {
        // SAFETY: the tensor is valid until it is released.
        unsafe { self.0.as_ref() }.dl_tensor
    }

    /// Releases the tensor on another thread.
    fn release(self) {
        let release = move || {
            let held = self;
            // SAFETY: the tensor is valid.
            let deleter = unsafe { held.0.as_ref() }.deleter.unwrap();
            // SAFETY: it is released once.
            unsafe { deleter(held.0.as_ptr()) };
        };
        thread::spawn(release).join().unwrap();
    }
}

/// Fills the words of the tensor on the raw stream, as a consumer does.
fn consumer_fills(fixture: &Fixture, held: &Held, value: u32, stream: &Stream) {
    let table = fixture.context.driver().library();
    let address = held.tensor().data.addr() as u64;
    // SAFETY: the tensor has N words.
    let status = unsafe { table.cuMemsetD32Async(address, value, N as usize, stream.as_raw()) };
    assert_eq!(status, Status::CUDA_SUCCESS);
}

#[test]
fn work_of_the_consumer_is_between_producer_and_free() {
    for fixture in late_devices(24) {
        let table = fixture.context.driver().library();
        let kernel = fixture.kernel(COPY, "copy");
        let (one, two) = (fixture.stream(), fixture.stream());
        let (foreign, _) = borrowed(&fixture, StreamFlags::NON_BLOCKING);
        let source = filled(&two, N, 7);
        let result = filled(&foreign, N, 0);
        let mut exported = filled(&one, N, 0);
        launch_copy(&kernel, &two, &source, &mut exported).unwrap();
        let address = exported.as_raw();
        let consumer = Consumer::on(&foreign);
        let tensor = exported
            .into_dlpack(&[N as usize / 4, 4], &consumer)
            .unwrap();
        assert!(!tensor.is_read_only());
        let held = Held(tensor.into_raw());
        let tensor = held.tensor();
        assert_eq!(
            (tensor.data.addr() as u64, tensor.byte_offset),
            (address, 0)
        );
        assert_eq!((tensor.device.device_type, tensor.device.device_id), (2, 0));
        assert_eq!(
            (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
            (1, 32, 1)
        );
        // SAFETY: the tensor has two dimensions.
        let shape = unsafe { slice::from_raw_parts(tensor.shape, 2) };
        // SAFETY: as above.
        let strides = unsafe { slice::from_raw_parts(tensor.strides, 2) };
        assert_eq!((shape, strides), (&[i64::from(N) / 4, 4][..], &[4, 1][..]));
        let to = result.as_raw();
        // The consumer copies the words, and releases the tensor while the copy is queued.
        let bytes = 4 * N as usize;
        // SAFETY: both have N words.
        let status = unsafe { table.cuMemcpyDtoDAsync_v2(to, address, bytes, foreign.as_raw()) };
        assert_eq!(status, Status::CUDA_SUCCESS);
        held.release();
        // This buffer may get the same memory.
        let next = filled(&one, N, 9);
        assert_all(&next, 9, &fixture.name);
        // The copy is on the owning stream of `result`.
        assert_all(&result, 7, &fixture.name);
    }
}

#[test]
fn tensors_without_a_stream_are_freed_when_the_context_is_idle() {
    for fixture in late_devices(4) {
        let context = &fixture.context;
        let live = || {
            fixture
                .simulator
                .as_ref()
                .map_or(0, |it| it.live().allocations)
        };
        let stream = fixture.stream();
        for consumer in [
            Consumer::unordered(),
            Consumer::on(&context.per_thread_stream()),
        ] {
            let before = live();
            let buffer = filled(&stream, N, 1);
            stream.synchronize().unwrap();
            let held = Held(
                buffer
                    .into_dlpack(&[N as usize], &consumer)
                    .unwrap()
                    .into_raw(),
            );
            consumer_fills(&fixture, &held, 3, &stream);
            held.release();
            wait_until(|| live() <= before);
        }
    }
}

/// The memory of a producer in C: words that a raw call allocates.
struct Producer {
    dims: [i64; 4],
    released: Arc<AtomicUsize>,
}

/// Returns a tensor of `words`, with the count of releases.
pub(crate) fn produced(
    words: &DeviceBuffer<u32>,
    change: impl FnOnce(&mut DLManagedTensorVersioned, &mut [i64; 4]),
) -> (NonNull<DLManagedTensorVersioned>, Arc<AtomicUsize>) {
    unsafe extern "C" fn deleter(raw: *mut DLManagedTensorVersioned) {
        // SAFETY: the struct was made below, and is released once.
        let tensor = unsafe { Box::from_raw(raw) };
        // SAFETY: as above.
        let producer = unsafe { Box::from_raw(tensor.manager_ctx.cast::<Producer>()) };
        producer.released.fetch_add(1, Ordering::SeqCst);
    }
    let released = Arc::new(AtomicUsize::new(0));
    let producer = Box::leak(Box::new(Producer {
        dims: [words.len() as i64, 1, 1, 1],
        released: Arc::clone(&released),
    }));
    let mut tensor = Box::new(DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 3 },
        manager_ctx: ptr::null_mut(),
        deleter: Some(deleter),
        flags: 0,
        dl_tensor: DLTensor {
            data: ptr::without_provenance_mut(words.as_raw() as usize),
            device: DLDevice {
                device_type: DLDevice::CUDA,
                device_id: 0,
            },
            ndim: 1,
            dtype: u32::DTYPE,
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        },
    });
    change(&mut tensor, &mut producer.dims);
    tensor.dl_tensor.shape = producer.dims.as_mut_ptr();
    if !tensor.dl_tensor.strides.is_null() {
        tensor.dl_tensor.strides = producer.dims.as_mut_ptr().wrapping_add(2);
    }
    tensor.manager_ctx = ptr::from_mut(producer).cast();
    (NonNull::from(Box::leak(tensor)), released)
}

#[test]
fn an_import_is_released_once_after_its_uses() {
    for fixture in late_devices(8) {
        let kernel = fixture.kernel(COPY, "copy");
        let (one, two) = (fixture.stream(), fixture.stream());
        let memory = filled(&one, N, 5);
        let (raw, released) = produced(&memory, |_, _| ());
        one.synchronize().unwrap();
        // SAFETY: the tensor is valid.
        let tensor = unsafe { DlTensor::from_raw(raw) }.unwrap();
        assert_eq!(tensor.shape().unwrap(), [N as usize]);
        // SAFETY: the stream has waited for the fill, and `memory` is not used otherwise.
        let mut imported = unsafe { tensor.into_buffer::<u32>(&one) }.unwrap();
        assert_eq!(
            (imported.shape(), imported.strides()),
            (&[N as usize][..], &[1][..])
        );
        assert!(imported.is_compact() && !imported.is_read_only());
        let mut result = filled(&two, N, 0);
        let config = LaunchConfig::for_num_elems(N).unwrap();
        // SAFETY: the kernel reads N words of the one and writes N of the other.
        unsafe { two.launch(&kernel, config, (imported.as_slice(), &mut result, N)) }.unwrap();
        let launched = two.record_event().unwrap();
        imported.as_mut_slice().unwrap().fill(8).unwrap();
        let buffer = imported.into_buffer().unwrap();
        assert_eq!(released.load(Ordering::SeqCst), 0);
        drop(buffer);
        wait_until(|| released.load(Ordering::SeqCst) == 1);
        assert!(launched.is_done().unwrap(), "{}", fixture.name);
        assert_all(&result, 5, &fixture.name);
        assert_all(&memory, 8, &fixture.name);
    }
}

#[test]
fn strided_and_read_only_imports_are_marked() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let words: Vec<u32> = (0..32).collect();
        let memory = DeviceBuffer::from_host(&stream, &words).unwrap();
        stream.synchronize().unwrap();
        let (raw, released) = produced(&memory, |tensor, dims| {
            tensor.flags = DLManagedTensorVersioned::READ_ONLY;
            tensor.dl_tensor.ndim = 2;
            tensor.dl_tensor.byte_offset = 8;
            tensor.dl_tensor.strides = ptr::dangling_mut();
            *dims = [3, 2, 8, 2];
        });
        // SAFETY: the tensor is valid.
        let tensor = unsafe { DlTensor::from_raw(raw) }.unwrap();
        // SAFETY: the stream has waited, and `memory` is not used otherwise.
        let mut imported = unsafe { tensor.into_buffer::<u32>(&stream) }.unwrap();
        assert_eq!(
            (imported.shape(), imported.strides()),
            (&[3, 2][..], &[8, 2][..])
        );
        assert!(!imported.is_compact() && imported.is_read_only());
        // From the element (0, 0) to the element (2, 1).
        assert_eq!(imported.as_slice().to_vec().unwrap(), words[2..21]);
        let error = imported.as_mut_slice().unwrap_err();
        assert!(matches!(error, Error::Exchange(_)), "{error}");
        assert!(imported.into_buffer().is_err());
        wait_until(|| released.load(Ordering::SeqCst) == 1);
    }
}

#[test]
fn tensors_that_cannot_be_imported_are_released_once() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let memory = filled(&stream, 16, 0);
        type Change = fn(&mut DLManagedTensorVersioned, &mut [i64; 4]);
        type Check = fn(&Error) -> bool;
        let cases: [(Change, Check); 7] = [
            (
                |it, _| it.version.major = 2,
                |error| error.to_string().contains("DLPack version 2.3,"),
            ),
            (
                |it, _| it.dl_tensor.device.device_id = 7,
                |error| {
                    error
                        .to_string()
                        .contains("device 7 of the DLPack device type 2")
                },
            ),
            (
                |it, _| it.dl_tensor.device.device_type = DLDevice::CPU,
                |error| error.to_string().contains("of the DLPack device type 1;"),
            ),
            (
                |it, _| it.dl_tensor.dtype = f32::DTYPE,
                |error| error.to_string().contains("float32, but uint32"),
            ),
            (
                |it, _| it.dl_tensor.byte_offset = 2,
                |error| matches!(error, Error::Misaligned { .. }),
            ),
            (
                |_, dims| dims[0] = -1,
                |error| error.to_string().contains("negative"),
            ),
            (
                |it, _| it.dl_tensor.ndim = -1,
                |error| error.to_string().contains("dimensions"),
            ),
        ];
        for (change, is_expected) in cases {
            let (raw, released) = produced(&memory, change);
            // SAFETY: the tensor is valid.
            let tensor = unsafe { DlTensor::from_raw(raw) };
            // SAFETY: the tensor is refused.
            let import = |it: DlTensor| unsafe { it.into_buffer::<u32>(&stream) };
            let imported = tensor.and_then(import);
            let error = imported.unwrap_err();
            assert!(is_expected(&error), "{error}");
            assert_eq!(released.load(Ordering::SeqCst), 1);
        }
    }
}

#[test]
fn older_consumers_and_producers_get_structs_without_a_version() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let export = || {
            let consumer = Consumer::on(&stream);
            filled(&stream, 6, 4)
                .into_dlpack(&[2, 3], &consumer)
                .unwrap()
        };
        match export().into_raw_for(Some((1, 1))).unwrap() {
            // SAFETY: the tensor was exported just now.
            RawTensor::Versioned(raw) => drop(unsafe { DlTensor::from_raw(raw) }.unwrap()),
            RawTensor::Unversioned(_) => panic!("a version was asked for"),
        }
        for version in [None, Some((0, 8))] {
            let RawTensor::Unversioned(raw) = export().into_raw_for(version).unwrap() else {
                panic!("no version was asked for");
            };
            let raw: NonNull<DLManagedTensor> = raw;
            // SAFETY: the tensor was exported just now.
            let tensor = unsafe { DlTensor::from_raw_unversioned(raw) };
            assert_eq!(tensor.shape().unwrap(), [2, 3]);
            // SAFETY: the memory is that of the buffer, on the same stream.
            let imported = unsafe { tensor.into_buffer::<u32>(&stream) }.unwrap();
            assert_eq!(imported.as_slice().to_vec().unwrap(), [4; 6]);
        }
        let buffer = filled(&stream, 6, 4);
        // SAFETY: the buffer outlives the tensor, which nothing uses.
        let tensor = unsafe {
            DlTensor::export(
                &buffer.as_slice(),
                &[3],
                &[2],
                true,
                &Consumer::on(&stream),
                (),
            )
        };
        let error = tensor.unwrap().into_raw_for(None).unwrap_err();
        assert!(error.to_string().contains("read-only"), "{error}");
        if let Some(simulator) = &fixture.simulator {
            drop(buffer);
            wait_until(|| simulator.live().allocations == 0);
        }
    }
}

#[test]
fn exports_have_their_shape_and_kind() {
    for fixture in everywhere() {
        let (context, stream) = (&fixture.context, fixture.stream());
        let consumer = Consumer::on(&stream);
        let error = filled(&stream, 6, 0)
            .into_dlpack(&[2, 4], &consumer)
            .unwrap_err();
        assert!(matches!(error, Error::Exchange(_)), "{error}");
        let mut leased = filled(&stream, 6, 0);
        let mut graph = Graph::new(context).unwrap();
        graph.add_fill(&[], &mut leased, 1_u32).unwrap();
        let error = leased.into_dlpack(&[6], &consumer).unwrap_err();
        assert!(matches!(error, Error::StillInUse { .. }), "{error}");

        let managed = ManagedBuffer::<f32>::zeroed(&stream, 4).unwrap();
        let owner = Arc::new(());
        let view = managed.as_slice();
        // SAFETY: the buffer outlives the tensor, which nothing uses.
        let tensor = unsafe {
            DlTensor::export(&view, &[2, 2], &[1, 2], true, &consumer, Arc::clone(&owner))
        };
        let tensor = tensor.unwrap();
        assert_eq!(tensor.tensor().device.device_type, DLDevice::CUDA_MANAGED);
        assert!(tensor.is_read_only());
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(tensor);
        assert_eq!(Arc::strong_count(&owner), 1);
        // SAFETY: the export is refused.
        let beyond = unsafe { DlTensor::export(&view, &[3], &[2], true, &consumer, ()) };
        assert!(matches!(beyond, Err(Error::Exchange(_))));

        let simulator = fixture.simulator.as_ref();
        let before = simulator.map_or(0, |it| it.live().host_bytes);
        let pinned = PinnedBuffer::from_host(context, &[1_u16, 2, 3], PinnedFlags::DEFAULT);
        let held = Held(pinned.unwrap().into_dlpack(&[3]).unwrap().into_raw());
        let tensor = held.tensor();
        assert_eq!(tensor.device.device_type, DLDevice::CUDA_HOST);
        assert_eq!(
            tensor.dtype,
            DLDataType {
                code: 1,
                bits: 16,
                lanes: 1
            }
        );
        let data: *mut c_void = tensor.data;
        let start = ptr::with_exposed_provenance::<u16>(data.addr());
        // SAFETY: the tensor has three elements.
        assert_eq!(unsafe { slice::from_raw_parts(start, 3) }, [1, 2, 3]);
        held.release();
        if let Some(simulator) = simulator {
            wait_until(|| simulator.live().host_bytes <= before);
        }
    }
}

#[test]
fn numbers_of_python_name_streams() {
    for fixture in everywhere() {
        let context = &fixture.context;
        let (foreign, _) = borrowed(&fixture, StreamFlags::NON_BLOCKING);
        let handle = foreign.dlpack_argument();
        assert_eq!(handle, foreign.as_raw().addr() as i64);
        assert_eq!(context.legacy_stream().dlpack_argument(), 1);
        assert_eq!(context.per_thread_stream().dlpack_argument(), 2);
        for given in [None, Some(1), Some(2), Some(-1), Some(handle)] {
            // SAFETY: `foreign` is alive, and nothing captures it.
            let consumer = unsafe { Consumer::from_python(context, given) }.unwrap();
            let buffer = filled(&fixture.stream(), 4, 1);
            drop(buffer.into_dlpack(&[4], &consumer).unwrap());
        }
        for given in [0, -2, i64::MIN] {
            // SAFETY: the numbers are refused.
            let error = unsafe { Consumer::from_python(context, Some(given)) }.unwrap_err();
            let expected = ExchangeError::StreamArgument { given };
            assert_eq!(error, Error::Exchange(Box::new(expected)));
        }
    }
}

#[test]
fn an_array_interface_describes_a_view() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let buffer = DeviceBuffer::<f64>::zeroed(&stream, 12).unwrap();
        let array = ArrayInterface::of(&buffer.slice(4..).unwrap(), &[2, 4]).unwrap();
        let expected = ArrayInterface {
            shape: vec![2, 4],
            typestr: "<f8",
            data: (buffer.as_raw() + 32, true),
            strides: None,
            stream: Some(stream.dlpack_argument()),
            version: 3,
        };
        assert_eq!(array, expected);
        assert!(ArrayInterface::of(&buffer.as_slice(), &[5]).is_err());
    }
}
