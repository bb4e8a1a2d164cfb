//! Kernel arguments other than numbers and buffers (vectors, half floats, structs), and the
//! `launch!` macro.

use cuda_driver::Error;
use cuda_driver::prelude::*;
use cuda_driver::vector::{Double2, Float3, Float4, Int4, UChar4, UInt2, UShort3};

use crate::support::{COPY, everywhere};

/// A kernel that writes the bytes of its arguments to `out`: 16 bytes of a `float4`, 12 bytes of a
/// struct of three words and 2 bytes of a half float.
#[cfg(all(feature = "derive", feature = "half"))]
const ECHO: &str = include_str!("kernels/echo.ptx");

#[test]
fn macro_and_tuple_launch_the_same() {
    struct Kernels {
        copy: Function,
    }
    for fixture in everywhere() {
        let stream = fixture.stream();
        let kernels = Kernels {
            copy: fixture.kernel(COPY, "copy"),
        };
        let copy = &kernels.copy;
        let input = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3]).unwrap();
        let mut out = [(); 4].map(|()| DeviceBuffer::<u32>::zeroed(&stream, 3).unwrap());
        let [first, second, third, fourth] = &mut out;
        // SAFETY: the kernel reads three words and writes three; each has three.
        unsafe { launch!(stream, copy[1, 32](&input, first, 3_u32)) }.unwrap();
        // SAFETY: as above.
        unsafe { launch!(&stream, kernels.copy[(1, 1), (3, 1, 1), 1024](&input, second, 3_u32)) }
            .unwrap();
        let make = || kernels.copy.clone();
        // SAFETY: as above.
        unsafe { launch!(stream, (make())[1_u32, 3_u32,](&input, third, 3_u32,)) }.unwrap();
        // SAFETY: the launch is refused.
        let error = unsafe { launch!(stream, copy[1, 2048](&input, fourth, 3_u32)) }.unwrap_err();
        assert!(matches!(error, Error::LaunchConfig(_)), "{error}");
        let got = out.map(|buffer| buffer.to_vec().unwrap());
        assert_eq!(
            got,
            [[1, 2, 3], [1, 2, 3], [1, 2, 3], [0, 0, 0]],
            "{}",
            fixture.name
        );
    }
}

#[test]
fn vectors_are_aligned_as_in_cuda() {
    let layouts = [
        (align_of::<UChar4>(), size_of::<UChar4>(), (4, 4)),
        (align_of::<UShort3>(), size_of::<UShort3>(), (2, 6)),
        (align_of::<UInt2>(), size_of::<UInt2>(), (8, 8)),
        (align_of::<Int4>(), size_of::<Int4>(), (16, 16)),
        (align_of::<Float3>(), size_of::<Float3>(), (4, 12)),
        (align_of::<Float4>(), size_of::<Float4>(), (16, 16)),
        (align_of::<Double2>(), size_of::<Double2>(), (16, 16)),
    ];
    for (align, size, want) in layouts {
        assert_eq!((align, size), want);
    }
    assert_eq!(
        <[f32; 3]>::from(Float3::from([1.0, 2.0, 3.0])),
        [1.0, 2.0, 3.0]
    );
    for fixture in everywhere() {
        let stream = fixture.stream();
        let vectors = [
            Float4::new(1.0, 2.0, 3.0, 4.0),
            Float4::new(5.0, 6.0, 7.0, 8.0),
        ];
        let buffer = DeviceBuffer::from_host(&stream, &vectors).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), vectors, "{}", fixture.name);
    }
}

#[cfg(all(feature = "derive", feature = "half"))]
#[test]
fn structs_and_halves_reach_the_kernel_bit_by_bit() {
    use half::{bf16, f16};

    #[derive(Clone, Copy, Debug, PartialEq, DeviceRepr)]
    #[repr(C)]
    struct Item {
        id: u32,
        weight: f32,
        flags: [u16; 2],
    }

    #[derive(Clone, Copy, DeviceRepr)]
    #[repr(transparent)]
    struct Id(u32);

    assert_eq!(size_of::<Id>(), 4);
    for fixture in everywhere() {
        let stream = fixture.stream();
        let echo = fixture.kernel(ECHO, "echo");
        let vector = Float4::new(1.5, -2.0, f32::MAX, 0.25);
        let item = Item {
            id: 0xDEAD_BEEF,
            weight: -0.5,
            flags: [1, 0xFFFF],
        };
        let mut want = bytemuck::bytes_of(&vector).to_vec();
        want.extend(bytemuck::bytes_of(&item));
        for half in [f16::from_f32(0.1).to_bits(), bf16::from_f32(0.1).to_bits()] {
            let mut out = DeviceBuffer::<u8>::zeroed(&stream, 30).unwrap();
            let config = LaunchConfig::new(1, 1);
            let number = f16::from_bits(half);
            // SAFETY: the kernel writes 30 bytes.
            unsafe { stream.launch(&echo, config, (&mut out, vector, item, number)) }.unwrap();
            let got = out.to_vec().unwrap();
            assert_eq!(got[..28], want, "{}", fixture.name);
            assert_eq!(got[28..], half.to_le_bytes(), "{}", fixture.name);
        }
        let items = DeviceBuffer::from_host(&stream, &[item, item]).unwrap();
        assert_eq!(items.to_vec().unwrap(), [item, item], "{}", fixture.name);
    }
}

#[cfg(feature = "float8")]
#[test]
fn numbers_of_8_bits_are_elements_and_arguments() {
    use cuda_driver::launch::KernelArg;
    use float8::{F8E4M3, F8E5M2};

    for fixture in everywhere() {
        let stream = fixture.stream();
        let numbers = [0.5, -1.0, 448.0, 0.0].map(F8E4M3::from_f32);
        let buffer = DeviceBuffer::from_host(&stream, &numbers).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), numbers);
        // 1 sign bit, 4 bits of the exponent with a bias of 7, 3 bits of the mantissa.
        let bytes = buffer.as_slice().cast::<u8>().unwrap().to_vec().unwrap();
        assert_eq!(bytes, [0x30, 0xb8, 0x7e, 0]);
        let mut other = DeviceBuffer::<F8E5M2>::zeroed(&stream, 3).unwrap();
        other.fill(F8E5M2::from_f32(2.0)).unwrap();
        let bytes = other.as_slice().cast::<u8>().unwrap().to_vec().unwrap();
        assert_eq!(bytes, [0x40; 3]);
        assert_eq!(numbers[0].value().to_bits(), 0x30);
    }
}
