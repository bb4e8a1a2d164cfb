//! Buffers whose elements are not what the kernel's pointer points to.

use cuda_driver::Error;
use cuda_driver::error::ArgumentError;
use cuda_driver::launch::{ArgType, ParamType, Tracked};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{Fixture, software};

/// Returns a kernel whose mangled name states its parameters: a pointer to `letter`, and one to
/// `float`.
fn kernel(fixture: &Fixture, letter: &str) -> Function {
    let name = format!("_Z1kP{letter}PKf");
    let ptx = format!(
        ".version 7.0\n.target sm_52\n.address_size 64\n\
         .visible .entry {name}(.param .u64 a, .param .u64 b) {{ ret; }}"
    );
    fixture.kernel(&ptx, &name)
}

/// Returns the index of the argument that the error names.
fn index(error: Error) -> usize {
    match error {
        Error::Argument(error) => match *error {
            ArgumentError::Elements { index, .. } => index,
            ArgumentError::Signature(error) => index(Error::Argument(error)),
            other => panic!("{other}"),
        },
        other => panic!("{other}"),
    }
}

#[test]
fn elements_of_another_type_are_refused() {
    let fixture = software(Builder::new());
    let (stream, config) = (fixture.stream(), LaunchConfig::new(1, 1));
    let y = DeviceBuffer::<f32>::zeroed(&stream, 4).unwrap();
    macro_rules! launched {
        ($kernel:expr, $ty:ty, $y:expr) => {{
            let mut x = DeviceBuffer::<$ty>::zeroed(&stream, 4).unwrap();
            // SAFETY: the kernel accesses nothing.
            unsafe { stream.launch($kernel, config, (&mut x, $y)) }
        }};
    }
    for (letter, fits) in [
        ("f", [true, true, false, false, false, false]),
        ("j", [true, false, true, true, false, false]),
        ("x", [true, false, false, false, true, false]),
        ("d", [true, false, false, false, false, true]),
        ("h", [true; 6]),
        ("3Foo", [true; 6]),
        ("v", [true; 6]),
    ] {
        let kernel = kernel(&fixture, letter);
        // Twice, because the first launch that matches is remembered.
        for _ in 0..2 {
            let found = [
                launched!(&kernel, u8, &y),
                launched!(&kernel, f32, &y),
                launched!(&kernel, u32, &y),
                launched!(&kernel, i32, &y),
                launched!(&kernel, u64, &y),
                launched!(&kernel, f64, &y),
            ];
            for (found, fits) in found.into_iter().zip(fits) {
                match fits {
                    true => found.unwrap(),
                    false => assert_eq!(index(found.unwrap_err()), 0, "{letter}"),
                }
            }
            launched!(&kernel, [f64; 2], &y).unwrap();
        }
        let z = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
        assert_eq!(index(launched!(&kernel, u8, &z).unwrap_err()), 1);
        launched!(&kernel, u8, z.as_slice().cast::<f32>().unwrap()).unwrap();
    }
}

#[test]
fn lists_and_signatures_are_compared_too() {
    let fixture = software(Builder::new());
    let (stream, config) = (fixture.stream(), LaunchConfig::new(1, 1));
    let kernel = kernel(&fixture, "f");
    let mut x = DeviceBuffer::<f64>::zeroed(&stream, 4).unwrap();
    let y = DeviceBuffer::<f32>::zeroed(&stream, 4).unwrap();
    let address = x.as_raw();
    {
        let mut list = ArgList::new();
        list.push(&mut x).push(&y);
        // SAFETY: the kernel accesses nothing.
        let launched = unsafe { stream.launch(&kernel, config, &list) };
        assert_eq!(index(launched.unwrap_err()), 0);
    }
    // An address without a type fits.
    let mut list = ArgList::new();
    list.push(address).push(&y);
    // SAFETY: as above.
    unsafe { stream.launch(&kernel, config, &list) }.unwrap();
    let typed = kernel.typed::<(Writes<f32>, Reads<i64>)>();
    assert_eq!(index(typed.unwrap_err()), 1);
    let prepared = kernel.prepare(&[ParamType::writes::<f64>(), ParamType::reads::<f32>()]);
    assert_eq!(index(prepared.unwrap_err()), 0);
    let fine = kernel.prepare(&[ParamType::writes::<f32>(), ParamType::reads::<f32>()]);
    // The elements are not compared again with those of the signature.
    assert!(fine.unwrap().args().push(&mut x).is_ok());
}

/// A vector of a user's type, whose representation is `f64`.
struct Weights<'a>(DeviceSlice<'a, f64>);

// SAFETY: the value and the memory are those of the view.
unsafe impl<'a> KernelArg for Weights<'a> {
    type Value = <DeviceSlice<'a, f64> as KernelArg>::Value;

    const ARG_TYPE: ArgType = ArgType::address_of(<f64 as DeviceRepr>::ARG_TYPE);

    fn value(&self) -> Self::Value {
        self.0.value()
    }

    fn tracked(&self) -> Option<Tracked<'_>> {
        self.0.tracked()
    }
}

#[test]
fn a_newtype_states_its_elements() {
    let fixture = software(Builder::new());
    let (stream, config) = (fixture.stream(), LaunchConfig::new(1, 1));
    let x = DeviceBuffer::<f64>::zeroed(&stream, 4).unwrap();
    let y = DeviceBuffer::<f32>::zeroed(&stream, 4).unwrap();
    let launch = |letter| {
        let kernel = kernel(&fixture, letter);
        // SAFETY: the kernel accesses nothing.
        unsafe { stream.launch(&kernel, config, (Weights(x.as_slice()), &y)) }
    };
    launch("d").unwrap();
    assert_eq!(index(launch("f").unwrap_err()), 0);
}
