//! Structs with padding that are passed to kernels by value.

use std::mem::{MaybeUninit, offset_of};

use cuda_driver::launch::{KernelArg, Using};
use cuda_driver::memory::DevicePtr;
use cuda_driver::prelude::*;

use crate::support::{everywhere, gpu, late, software};

/// A kernel that writes the 8 words of its struct to the address in the struct.
const PADDED: &str = include_str!("kernels/padded.ptx");

/// Two bytes of padding before `large`.
#[derive(Clone, Copy, KernelArg)]
#[repr(C)]
struct Inner {
    small: u16,
    large: u32,
}

/// Padding at the offsets 1 to 7, 22, 23, and 29 to 31.
#[derive(Clone, Copy, KernelArg)]
#[repr(C)]
struct Item {
    kind: u8,
    out: DevicePtr<u32>,
    weight: f32,
    inner: Inner,
    last: i8,
}

#[derive(Clone, Copy, KernelArg)]
#[repr(C, align(16))]
struct Aligned(u8, f64);

impl Item {
    /// Creates an item in memory whose padding is not zero, and calls `f` with it.
    fn with_dirty_padding<R>(out: &DeviceBuffer<u32>, f: impl FnOnce(&Self) -> R) -> R {
        let mut item = MaybeUninit::<Self>::uninit();
        // SAFETY: there must be room for the bytes ← it is that of `item`.
        unsafe { item.as_mut_ptr().write_bytes(0xAA, 1) };
        // Only the fields are written, not the padding between them.
        put(&mut item, offset_of!(Self, kind), 7_u8);
        put(&mut item, offset_of!(Self, out), out.device_ptr());
        put(&mut item, offset_of!(Self, weight), 1.5_f32);
        put(&mut item, offset_of!(Self, inner.small), 0x1234_u16);
        put(&mut item, offset_of!(Self, inner.large), 0xDEAD_BEEF_u32);
        put(&mut item, offset_of!(Self, last), -1_i8);
        // SAFETY: the struct must be initialized ← all its fields are.
        f(unsafe { item.assume_init_ref() })
    }
}

/// Writes a field of type `F` at this offset.
fn put<T, F>(item: &mut MaybeUninit<T>, offset: usize, value: F) {
    assert!(offset + size_of::<F>() <= size_of::<T>());
    let field = item.as_mut_ptr().wrapping_byte_add(offset).cast::<F>();
    // SAFETY: the field must be writable and aligned ← it is within `item`, and the callers give
    // the offset of a field of this type.
    unsafe { field.write(value) };
}

/// The words that the kernel must receive.
fn words(out: &DeviceBuffer<u32>) -> [u32; 8] {
    let address = out.as_raw();
    [
        7,
        0,
        address as u32,
        (address >> 32) as u32,
        1.5_f32.to_bits(),
        0x1234,
        0xDEAD_BEEF,
        0xFF,
    ]
}

#[test]
fn padding_reaches_the_kernel_as_zeros() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let padded = fixture.kernel(PADDED, "padded");
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
        let want = words(&out);
        Item::with_dirty_padding(&out, |item| {
            let value = item.value();
            assert_eq!(size_of_val(&value), size_of::<Item>());
            assert_eq!(align_of_val(&value), align_of::<Item>());
            let bytes: Vec<u8> = want.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(format!("{value:?}"), format!("Block({bytes:?})"));
        });
        let item = Item::with_dirty_padding(&out, |item| *item);
        let args = Using::new((item,), (&mut out,));
        // SAFETY: the kernel writes 8 words to `out`.
        unsafe { stream.launch(&padded, LaunchConfig::new(1, 1), args) }.unwrap();
        assert_eq!(out.to_vec().unwrap(), want, "{}", fixture.name);
    }
}

#[test]
fn a_typed_kernel_takes_a_struct_with_padding() {
    for fixture in [software(late(1))].into_iter().chain(gpu()) {
        let stream = fixture.stream();
        let padded: Kernel<(Item,)> = fixture.kernel(PADDED, "padded").typed().unwrap();
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
        let want = words(&out);
        let item = Item::with_dirty_padding(&out, |item| *item);
        let args = Using::new((item,), (&mut out,));
        // SAFETY: the kernel writes 8 words to `out`.
        unsafe { padded.launch(&stream, LaunchConfig::new(1, 1), args) }.unwrap();
        assert_eq!(out.to_vec().unwrap(), want, "{}", fixture.name);
        // A list of arguments takes it as well.
        let mut args = ArgList::new();
        args.push(item).uses(&mut out);
        // SAFETY: as above.
        unsafe { stream.launch(padded.function(), LaunchConfig::new(1, 1), &args) }.unwrap();
        drop(args);
        assert_eq!(out.to_vec().unwrap(), want, "{}", fixture.name);
    }
}

#[test]
fn tuple_structs_keep_their_alignment() {
    let value = Aligned(0xAB, 1.0).value();
    assert_eq!((align_of_val(&value), size_of_val(&value)), (16, 16));
    let mut bytes = vec![0_u8; 8];
    bytes[0] = 0xAB;
    bytes.extend(1.0_f64.to_le_bytes());
    assert_eq!(format!("{value:?}"), format!("Block({bytes:?})"));
}

#[test]
fn device_pointers_are_addresses_with_a_type() {
    let fixture = software(late(1));
    let stream = fixture.stream();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
    let whole: DevicePtr<u32> = buffer.device_ptr();
    assert_eq!(whole.as_raw(), buffer.as_raw());
    assert_eq!(whole, DevicePtr::from_raw(buffer.as_raw()));
    let part = buffer.slice(2..).unwrap().device_ptr();
    assert_eq!(part.as_raw(), buffer.as_raw() + 8);
    assert_eq!(buffer.as_mut_slice().device_ptr(), whole);
    assert!(DevicePtr::<u32>::NULL.is_null() && !whole.is_null());
    // It can be stored in device memory, for a kernel that takes an array of addresses.
    let stored = DeviceBuffer::from_host(&stream, &[whole, part]).unwrap();
    assert_eq!(stored.to_vec().unwrap(), [whole, part]);
}
