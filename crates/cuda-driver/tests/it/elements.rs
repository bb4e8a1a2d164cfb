//! Types of elements and arguments: arrays of any length, and types of other crates.

use std::fmt::Debug;

use bytemuck::TransparentWrapper;
use cuda_driver::memory::Element;
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::software;

/// Copies values to the device and back, as the words that a kernel would see.
fn round_trip<T: DeviceRepr + PartialEq + Debug>(values: &[T]) -> Vec<u32> {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let buffer = DeviceBuffer::from_host(&stream, values).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), values);
    let words = buffer.as_slice().cast::<u32>().unwrap();
    words.to_vec().unwrap()
}

#[test]
fn arrays_of_any_length_are_elements() {
    let row: [u32; 33] = std::array::from_fn(|at| at as u32);
    assert_eq!(round_trip(&[row, [7; 33]])[31..35], [31, 32, 7, 7]);
    assert_eq!(round_trip(&[[[1_u32; 17]; 3]]), [1; 51]);
}

#[cfg(feature = "derive")]
#[test]
fn arrays_of_any_length_are_fields() {
    #[derive(Clone, Copy, Debug, PartialEq, DeviceRepr)]
    #[repr(C)]
    struct Taps {
        weights: [u32; 33],
        count: u32,
    }
    let taps = Taps {
        weights: [5; 33],
        count: 9,
    };
    let words = round_trip(&[taps]);
    assert_eq!((words[32], words[33], words.len()), (5, 9, 34));
}

/// A type that only `bytemuck` knows, as another crate has it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Foreign {
    low: u32,
    high: u32,
}

// SAFETY: all bits zero must be a valid value ← the fields are integers.
unsafe impl bytemuck::Zeroable for Foreign {}
// SAFETY: all bit patterns must be valid, without padding ← the fields are integers of one size.
unsafe impl bytemuck::Pod for Foreign {}

#[test]
fn types_of_other_crates_are_elements_in_a_wrapper() {
    let values = [Foreign { low: 1, high: 2 }, Foreign { low: 3, high: 4 }];
    assert_eq!(round_trip(Element::wrap_slice(&values)), [1, 2, 3, 4]);
}

/// User types need no bound: this compiles only if the types of the crate have none.
#[test]
fn user_types_need_no_bound() {
    #[derive(Debug)]
    struct Tensor<T> {
        buffer: DeviceBuffer<T>,
        _pinned: Option<PinnedBuffer<T>>,
    }
    #[derive(Clone, Copy, Debug)]
    struct View<'a, T>(DeviceSlice<'a, T>);
    impl<T> Tensor<T> {
        fn into_parts(self) -> DeviceBuffer<T> {
            self.buffer
        }
    }
    let fixture = software(Builder::new());
    let tensor = Tensor {
        buffer: DeviceBuffer::from_host(&fixture.stream(), &[1_u32, 2]).unwrap(),
        _pinned: None,
    };
    let view = View(tensor.buffer.as_slice());
    assert_eq!(view.0.len(), 2);
    assert!(format!("{view:?}, {tensor:?}").contains("2 x 4"));
    assert_eq!(tensor.into_parts().to_vec().unwrap(), [1, 2]);
}

#[cfg(feature = "glam")]
#[test]
fn vectors_and_matrices_of_glam_are_elements() {
    let words = |values: &[f32]| -> Vec<u32> { values.iter().map(|it| it.to_bits()).collect() };
    let vectors = [
        glam::Vec3::new(1.0, 2.0, 3.0),
        glam::Vec3::new(4.0, 5.0, 6.0),
    ];
    assert_eq!(round_trip(&vectors), words(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let columns: [f32; 16] = std::array::from_fn(|at| at as f32);
    assert_eq!(
        round_trip(&[glam::Mat4::from_cols_array(&columns)]),
        words(&columns)
    );
    assert_eq!(round_trip(&[glam::UVec4::new(1, 2, 3, 4)]), [1, 2, 3, 4]);
}

#[cfg(feature = "num-complex")]
#[test]
fn complex_numbers_are_elements() {
    let values = [num_complex::Complex::new(1.0_f32, -2.0)];
    assert_eq!(
        round_trip(&values),
        [1.0_f32.to_bits(), (-2.0_f32).to_bits()]
    );
}

#[cfg(feature = "mint")]
#[test]
fn vectors_convert_to_those_of_mint_and_back() {
    use cuda_driver::vector::{Double2, Float3, UInt4};
    let vector: mint::Vector3<f32> = Float3::new(1.0, 2.0, 3.0).into();
    assert_eq!((vector.x, vector.y, vector.z), (1.0, 2.0, 3.0));
    assert_eq!(Float3::from(vector), Float3::new(1.0, 2.0, 3.0));
    assert_eq!(
        Double2::from(mint::Vector2 { x: 1.0, y: 2.0 }),
        Double2::new(1.0, 2.0)
    );
    let four = mint::Vector4::from(UInt4::new(1, 2, 3, 4));
    assert_eq!(<[u32; 4]>::from(four), [1, 2, 3, 4]);
}
