//! Kernels whose signature is given at run time.

use cuda_driver::Error;
use cuda_driver::launch::{ParamType, PreparedKernel};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{Fixture, MIX, everywhere, software};

const N: u32 = 100;

/// The signature of `mix`: it computes `x[i] = 2 * x[i] + y[i]`.
fn signature() -> [ParamType; 3] {
    [
        ParamType::writes::<u32>(),
        ParamType::reads::<u32>(),
        ParamType::value::<u32>(),
    ]
}

fn prepared(fixture: &Fixture) -> PreparedKernel {
    fixture.kernel(MIX, "mix").prepare(&signature()).unwrap()
}

#[test]
fn one_list_of_arguments_is_launched_many_times() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mix = prepared(&fixture);
        assert_eq!(mix.signature(), signature());
        assert_eq!(mix.function().name(), "mix");
        let mut x = DeviceBuffer::filled(&stream, N as usize, 1_u32).unwrap();
        let y = DeviceBuffer::filled(&fixture.stream(), N as usize, 5_u32).unwrap();
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let mut args = mix.args();
        args.push(&mut x).unwrap().push(&y).unwrap();
        args.push(N).unwrap().uses(&y);
        for _ in 0..2 {
            // SAFETY: the kernel touches N words of each; each has N.
            unsafe { mix.launch(&stream, config, &args) }.unwrap();
        }
        // The same list in a graph.
        let graph = Graph::capture(&fixture.context, |scope| {
            // SAFETY: as above.
            unsafe { mix.launch(scope, config, &args) }.map(drop)
        });
        drop(args);
        assert_eq!(x.to_vec().unwrap(), [19; N as usize], "{}", fixture.name);
        let exec = graph.unwrap().instantiate().unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(x.to_vec().unwrap(), [43; N as usize], "{}", fixture.name);
    }
}

#[test]
fn a_signature_is_compared_with_the_kernel() {
    let fixture = software(Builder::new());
    let mix = fixture.kernel(MIX, "mix");
    for wrong in [
        vec![ParamType::writes::<u32>(), ParamType::reads::<u32>()],
        vec![
            ParamType::writes::<u32>(),
            ParamType::reads::<u32>(),
            ParamType::value::<u64>(),
        ],
        vec![ParamType::value::<u32>(); 3],
    ] {
        let error = mix.prepare(&wrong).unwrap_err();
        assert!(matches!(error, Error::Argument(_)), "{error}");
    }
}

#[test]
fn arguments_are_compared_with_the_signature() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let mix = prepared(&fixture);
    let text = |error: Error| error.to_string();
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, N as usize).unwrap();
    let y = DeviceBuffer::<u32>::zeroed(&stream, N as usize).unwrap();
    let mut args = mix.args();
    // A buffer that the kernel writes must be borrowed mutably.
    let refused = text(args.push(&y).unwrap_err());
    assert!(
        refused.contains("argument 1 of kernel mix is `&"),
        "{refused}"
    );
    assert!(refused.contains("`Writes<u32>`"), "{refused}");
    args.push(&mut x).unwrap();
    assert!(args.push(7_u64).is_err());
    args.push(&y).unwrap();
    assert_eq!(
        text(args.push(1.5_f32).unwrap_err()),
        "argument 3 of kernel mix is `f32`, but the prepared signature has `u32` there"
    );
    // An argument is missing.
    let config = LaunchConfig::new(1, 1);
    // SAFETY: the launch is refused.
    let missing = unsafe { mix.launch(&stream, config, &args) }.unwrap_err();
    assert_eq!(
        text(missing),
        "kernel mix takes 3 arguments (Writes<u32>, Reads<u32>, u32), but the launch passes 2"
    );
    args.push(N).unwrap();
    assert_eq!(
        text(args.push(N).unwrap_err()),
        "kernel mix takes 3 arguments (Writes<u32>, Reads<u32>, u32), but the launch passes 4"
    );
    // SAFETY: the launch is refused.
    let foreign = unsafe { prepared(&fixture).launch(&stream, config, &args) }.unwrap_err();
    assert!(matches!(foreign, Error::Unsupported { .. }), "{foreign}");
}
