//! Launches and copies with raw pointers, arguments of which only the bytes are known, slices of
//! kernels compiled from Rust, and arguments of other crates.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use cuda_driver::error::{ArgumentError, Error};
use cuda_driver::launch::{Accepts, ArgType, KernelArg, KernelArgs, RawRows, Tracked};
use cuda_driver::memory::PinnedFlags;
use cuda_driver::prelude::*;
use cuda_sys::{CUDA_MEMCPY2D, CUmemorytype};

use crate::support::{COPY, COPY_LIST, assert_all, everywhere, filled, late_devices, new_stream};

/// Kernels that double the elements of slices.
const SLICES: &str = include_str!("kernels/rust_slices.ptx");

const N: u32 = 1 << 10;

fn config() -> LaunchConfig {
    LaunchConfig::for_num_elems(N).unwrap()
}

/// Launches the kernel of `COPY` with an array of pointers.
fn raw_copy(
    stream: &Stream,
    kernel: &Function,
    attributes: Option<&LaunchAttributes<'_>>,
    [from, to]: [u64; 2],
    uses: impl KernelArgs,
) -> cuda_driver::Result<()> {
    let (mut from, mut to, mut len) = (from, to, N);
    let mut params: [*mut c_void; 3] = [
        (&raw mut from).cast(),
        (&raw mut to).cast(),
        (&raw mut len).cast(),
    ];
    // SAFETY: the kernel takes two addresses and a `u32`; the callers pass buffers of N words.
    unsafe { stream.launch_raw(kernel, config(), attributes, &mut params, uses) }
}

#[test]
fn raw_launches_are_ordered_with_other_uses() {
    for fixture in late_devices(16) {
        let kernel = fixture.kernel(COPY, "copy");
        let (one, two) = (fixture.stream(), fixture.stream());
        let mut source = filled(&one, N, 1);
        let mut middle = filled(&two, N, 0);
        let mut last = filled(&one, N, 0);
        let addresses = [source.as_raw(), middle.as_raw()];
        raw_copy(&two, &kernel, None, addresses, (&source, &mut middle)).unwrap();
        let attributes = LaunchAttributes::new().cooperative();
        let addresses = [middle.as_raw(), last.as_raw()];
        let mut uses = ArgList::new();
        uses.uses(&middle).uses(&mut last);
        raw_copy(&one, &kernel, Some(&attributes), addresses, &uses).unwrap();
        drop(uses);
        source.fill(5).unwrap();
        middle.fill(6).unwrap();
        assert_all(&last, 1, &fixture.name);
        assert_all(&middle, 6, &fixture.name);
    }
}

#[test]
fn a_raw_launch_with_missing_arguments_is_an_error() {
    for fixture in everywhere() {
        let (stream, kernel) = (fixture.stream(), fixture.kernel(COPY, "copy"));
        let mut value = 0_u64;
        let mut params: [*mut c_void; 2] = [(&raw mut value).cast(); 2];
        // SAFETY: the launch is refused.
        let error =
            unsafe { stream.launch_raw(&kernel, config(), None, &mut params, ()) }.unwrap_err();
        let expected = ArgumentError::Count {
            kernel: "copy".to_owned(),
            expected: 3,
            parameters: COPY_LIST.to_owned(),
            given: 2,
        };
        assert_eq!(error, Error::Argument(Box::new(expected)));
        let other = Context::new(fixture.context.device(), Default::default()).unwrap();
        let buffer = filled(&new_stream(&other), N, 0);
        let error = raw_copy(&stream, &kernel, None, [buffer.as_raw(); 2], (&buffer,)).unwrap_err();
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    }
}

#[test]
fn raw_copies_are_ordered_with_other_uses() {
    for fixture in late_devices(16) {
        let (one, two) = (fixture.stream(), fixture.stream());
        let mut source = filled(&one, N, 1);
        let mut middle = filled(&two, N, 0);
        let mut pinned =
            PinnedBuffer::<u32>::zeroed(&fixture.context, N as usize, PinnedFlags::DEFAULT)
                .unwrap();
        let bytes = 4 * N as usize;
        let (from, to) = (source.as_raw(), middle.as_raw());
        // SAFETY: both buffers have N words.
        unsafe { two.copy_raw(to, from, bytes, (&mut middle, &source)) }.unwrap();
        source.fill(5).unwrap();
        let host = pinned.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: both have N words, and the host memory is read only after the stream was waited
        // for.
        unsafe { one.copy_raw(host, middle.as_raw(), bytes, (&middle,)) }.unwrap();
        middle.fill(6).unwrap();
        one.synchronize().unwrap();
        assert!(pinned.iter().all(|word| *word == 1), "{}", fixture.name);
        assert_all(&source, 5, &fixture.name);
        assert_all(&middle, 6, &fixture.name);
        // SAFETY: no byte is copied.
        unsafe { one.copy_raw(to, from, 0, ()) }.unwrap();
    }
}

#[test]
fn raw_copies_of_rows_are_ordered() {
    for fixture in late_devices(4) {
        let (one, two) = (fixture.stream(), fixture.stream());
        let words: Vec<u32> = (0..32).collect();
        let mut source = DeviceBuffer::from_host(&one, &words).unwrap();
        let mut target = filled(&two, 8, 0);
        let device = CUmemorytype::CU_MEMORYTYPE_DEVICE;
        let copy = CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: device,
            srcHost: ptr::null(),
            srcDevice: source.as_raw(),
            srcArray: ptr::null_mut(),
            srcPitch: 32,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: device,
            dstHost: ptr::null_mut(),
            dstDevice: target.as_raw(),
            dstArray: ptr::null_mut(),
            dstPitch: 8,
            WidthInBytes: 8,
            Height: 4,
        };
        // SAFETY: 4 rows of 8 bytes are within both buffers.
        unsafe { two.copy_rows_raw(copy, (&source, &mut target)) }.unwrap();
        source.fill(9).unwrap();
        let expected = [0, 1, 8, 9, 16, 17, 24, 25];
        assert_eq!(target.to_vec().unwrap(), expected, "{}", fixture.name);
    }
}

#[test]
fn raw_rows_reach_device_and_host_memory() {
    for fixture in late_devices(2) {
        let stream = fixture.stream();
        let words: Vec<u32> = (0..32).collect();
        let source = DeviceBuffer::from_host(&stream, &words).unwrap();
        let mut target = filled(&stream, 12, 0);
        let flags = PinnedFlags::DEFAULT;
        let mut pinned = PinnedBuffer::<u32>::zeroed(&fixture.context, 8, flags).unwrap();
        let rows = RawRows {
            to: target.as_raw(),
            to_pitch: 12,
            from: source.as_raw() + 4,
            from_pitch: 32,
            row_bytes: 8,
            rows: 4,
        };
        // SAFETY: 4 rows of 8 bytes are within both buffers.
        unsafe { stream.copy_rows_raw(rows, (&source, &mut target)) }.unwrap();
        let back = RawRows {
            to: pinned.as_mut_ptr().expose_provenance() as u64,
            to_pitch: 8,
            from: rows.to,
            from_pitch: rows.to_pitch,
            ..rows
        };
        // SAFETY: as above, and the host waits before it uses the page-locked memory.
        unsafe { stream.copy_rows_raw(back, (&target,)) }.unwrap();
        stream.synchronize().unwrap();
        let name = &fixture.name;
        assert_eq!(*pinned, [1, 2, 9, 10, 17, 18, 25, 26], "{name}");
        let expected = [1, 2, 0, 9, 10, 0, 17, 18, 0, 25, 26, 0];
        assert_eq!(target.to_vec().unwrap(), expected, "{name}");
    }
}

#[test]
fn bytes_are_arguments_of_their_size_and_alignment() {
    for fixture in everywhere() {
        let (stream, kernel) = (fixture.stream(), fixture.kernel(COPY, "copy"));
        let (source, mut target) = (filled(&stream, N, 3), filled(&stream, N, 0));
        let mut args = ArgList::new();
        let addresses = [source.as_raw(), target.as_raw()];
        for address in addresses {
            args.push_bytes(&address.to_ne_bytes(), 8).unwrap();
        }
        args.push_bytes(&N.to_ne_bytes(), 4).unwrap();
        args.uses(&source).uses(&mut target);
        // SAFETY: the kernel reads N words of the one and writes N of the other.
        unsafe { stream.launch(&kernel, config(), &args) }.unwrap();
        drop(args);
        assert_all(&target, 3, &fixture.name);

        let mut args = ArgList::new();
        args.push(&source).push_bytes(&[0; 8], 8).unwrap();
        args.push_bytes(&[0; 8], 8).unwrap();
        // SAFETY: the launch is refused.
        let error = unsafe { stream.launch(&kernel, config(), &args) }.unwrap_err();
        assert!(matches!(error, Error::Argument(_)), "{error}");
        for align in [0, 3, 32] {
            let error = args.push_bytes(&[0; 8], align).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        }
        assert_eq!(args.len(), 3);
    }
}

#[test]
fn slices_of_rust_kernels_are_an_address_and_a_length() {
    for fixture in late_devices(8) {
        let (one, two) = (fixture.stream(), fixture.stream());
        let (whole, parts) = (
            fixture.kernel(SLICES, "double"),
            fixture.kernel(SLICES, "double_in_parts"),
        );
        let mut source = filled(&one, N, 3);
        let mut middle = filled(&two, N, 0);
        let mut last = filled(&one, N, 1);
        let to = middle.as_mut_slice().with_len();
        assert_eq!((to.len(), to.is_empty()), (N as usize, false));
        let args = (source.as_slice().with_len(), to);
        // SAFETY: the kernel reads the elements of the one and writes those of the other.
        unsafe { two.launch(&whole, config(), args) }.unwrap();
        let half = last.slice_mut(..N as usize / 2).unwrap().with_len();
        assert_ne!(half.as_raw(), 0);
        let mut args = ArgList::new();
        args.push_slice(middle.as_slice().with_len())
            .push_slice(half);
        // SAFETY: as above.
        unsafe { one.launch(&parts, config(), &args) }.unwrap();
        drop(args);
        source.fill(7).unwrap();
        middle.fill(8).unwrap();
        let words = last.to_vec().unwrap();
        let (lower, upper) = words.split_at(N as usize / 2);
        assert!(lower.iter().all(|word| *word == 12), "{}", fixture.name);
        assert!(upper.iter().all(|word| *word == 1), "{}", fixture.name);
        // In a tuple, the two parameters are written out.
        let args = (&middle, u64::from(N), &mut last, u64::from(N));
        // SAFETY: as above.
        unsafe { one.launch(&parts, config(), args) }.unwrap();
        assert_all(&last, 16, &fixture.name);
    }
}

/// An argument of another crate: a tensor that a kernel reads.
struct Tensor<'a>(&'a DeviceBuffer<u32>);

// SAFETY: the value and the memory are those of the borrow.
unsafe impl<'a> KernelArg for Tensor<'a> {
    type Value = <&'a DeviceBuffer<u32> as KernelArg>::Value;

    const ARG_TYPE: ArgType = <&'a DeviceBuffer<u32> as KernelArg>::ARG_TYPE;

    fn value(&self) -> Self::Value {
        self.0.value()
    }

    fn tracked(&self) -> Option<Tracked<'_>> {
        self.0.tracked()
    }
}

// SAFETY: the value has the size of an address.
unsafe impl Accepts<Tensor<'_>> for Reads<u32> {}

#[test]
fn arguments_of_other_crates_are_ordered() {
    for fixture in late_devices(16) {
        let kernel = fixture.kernel(COPY, "copy");
        let typed: Kernel<(Reads<u32>, Writes<u32>, u32)> = kernel.typed().unwrap();
        let (one, two) = (fixture.stream(), fixture.stream());
        let mut source = filled(&one, N, 1);
        let mut target = filled(&two, N, 0);
        assert_ne!(
            format!("{:?}", Tensor(&source).tracked().unwrap()),
            format!("{:?}", Tensor(&target).tracked().unwrap())
        );
        // SAFETY: the kernel reads N words of the one and writes N of the other.
        unsafe { typed.launch(&two, config(), (Tensor(&source), &mut target, N)) }.unwrap();
        source.fill(5).unwrap();
        assert_all(&target, 1, &fixture.name);
    }
}

/// An argument whose value panics.
struct Panics;

// SAFETY: there is never a value.
unsafe impl KernelArg for Panics {
    type Value = u32;

    fn value(&self) -> u32 {
        panic!("no value");
    }
}

#[test]
fn a_panicking_argument_leaves_the_list_unchanged() {
    for fixture in everywhere() {
        let (stream, kernel) = (fixture.stream(), fixture.kernel(COPY, "copy"));
        let (source, mut target) = (filled(&stream, N, 3), filled(&stream, N, 0));
        let mut args = ArgList::new();
        args.push(&source).push(&mut target);
        let pushed = catch_unwind(AssertUnwindSafe(|| {
            args.push(Panics);
        }));
        assert!(pushed.is_err());
        assert_eq!(args.len(), 2);
        args.push(N);
        // SAFETY: the kernel reads N words of the one and writes N of the other.
        unsafe { stream.launch(&kernel, config(), &args) }.unwrap();
        drop(args);
        assert_all(&target, 3, &fixture.name);
    }
}
