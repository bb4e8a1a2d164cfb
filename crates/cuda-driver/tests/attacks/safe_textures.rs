//! Safe launches of kernels that try to access memory outside of their textures and surfaces. None
//! of these programs has `unsafe`.

use cuda_driver::prelude::*;
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape, Sampler, Texture};
use cuda_driver::{Error, Result};

use crate::safe::{has_violation, kernel};
use crate::support::Attack;

fn plane(stream: &Stream, value: u32) -> Array<u32> {
    let shape = ArrayShape::two_d(8, 8);
    Array::from_host_with(stream, &shape, ArrayFlags::SURFACE, &[value; 64]).unwrap()
}

/// Whether the launch was refused.
fn is_refused<T>(result: Result<T>) -> bool {
    match result {
        Err(Error::SafeLaunch(_)) => true,
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    }
}

/// Claim: a number is not a texture, even if it is the handle of one, and neither is a handle that
/// a kernel stored. A handle is not an address.
#[test]
fn handles_are_passed_as_numbers() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (copy, save, fetch) = (
            kernel(case, "copy"),
            kernel(case, "save"),
            kernel(case, "fetch"),
        );
        let image = plane(&stream, 5);
        let texture = Texture::new(&image, &Sampler::new()).unwrap();
        let mut out = plane(&stream, 7);
        let config = LaunchConfig::new(8, 8);
        for handle in [texture.as_raw(), texture.as_raw() + 1, 0, u64::MAX] {
            let surface = out.surface_mut().unwrap();
            let launch = stream.launch_safe(&copy, config, (&texture, surface, 8_u32));
            launch.unwrap().wait().unwrap();
            let surface = out.surface_mut().unwrap();
            let launch = stream.launch_safe(&copy, config, (handle, surface, 8_u32));
            assert!(is_refused(launch));
            let surface = out.surface_mut().unwrap().as_raw();
            let launch = stream.launch_safe(&copy, config, (&texture, surface, 8_u32));
            assert!(is_refused(launch));
        }
        assert_eq!(out.to_vec().unwrap(), [5; 64]);
        // One kernel stores the handle, and another would read the texture of it.
        let one = LaunchConfig::new(1, 1);
        let mut saved = DeviceBuffer::<u64>::zeroed(&stream, 1).unwrap();
        stream
            .launch_safe(&save, one, (&texture, &mut saved))
            .unwrap();
        assert_eq!(saved.to_vec().unwrap(), [texture.as_raw()]);
        drop((texture, image));
        let mut word = DeviceBuffer::filled(&stream, 1, 7_u32).unwrap();
        assert!(is_refused(stream.launch_safe(
            &fetch,
            one,
            (&saved, &mut word)
        )));
        // As an address it is outside of every argument.
        let follow = kernel(case, "follow");
        let launch = stream.launch_safe(&follow, one, (&mut saved,)).unwrap();
        assert!(has_violation(launch.wait()));
        stream.synchronize().unwrap();
    });
}

/// Claim: everything may be dropped at once, while a launch with a texture and a surface is queued,
/// also in a graph. New arrays do not take the place of the old ones too early.
#[test]
fn textures_are_dropped_behind_a_safe_launch() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let copy = kernel(case, "copy");
        let config = LaunchConfig::new(8, 8);
        let mut out = plane(&stream, 7);
        for value in 1..5 {
            case.hold_up(&stream);
            let image = plane(&stream, value);
            let texture = Texture::new(&image, &Sampler::new()).unwrap();
            let surface = out.surface_mut().unwrap();
            let launch = stream.launch_safe(&copy, config, (&texture, surface, 8_u32));
            drop((launch.unwrap(), texture, image));
            let other = plane(&stream, 99);
            assert_eq!(out.to_vec().unwrap(), [value; 64]);
            drop(other);
        }
        let image = plane(&stream, 6);
        let texture = Texture::new(&image, &Sampler::new()).unwrap();
        let mut graph = case.graph();
        let args = (&texture, out.surface_mut().unwrap(), 8_u32);
        graph.add_kernel_safe(&[], &copy, config, args).unwrap();
        let exec = graph.instantiate().unwrap();
        drop((texture, image, graph));
        case.launch_late(&exec, &stream);
        drop((exec, copy));
        assert_eq!(out.to_vec().unwrap(), [6; 64]);
        stream.synchronize().unwrap();
    });
}

/// Claim: stores stay in a writable surface, whatever the coordinates are, and no store is made to
/// a surface that is read. The context survives.
#[test]
fn surfaces_are_left_in_all_directions() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mark = kernel(case, "mark");
        let (before, mut array, after) = (plane(&stream, 7), plane(&stream, 0), plane(&stream, 7));
        let points = [
            [0_i32, 0],
            [32, 0],
            [-4, 0],
            [28, 7],
            [28, 8],
            [0, -1],
            [i32::MIN, 0],
            [0, i32::MIN],
            [i32::MAX, i32::MAX],
            [i32::MAX - 3, 3],
            [2, 2],
            [1 << 16, 0],
            [0, 1 << 16],
            [-32, 1],
            [30, 7],
            [4, 0],
        ];
        let at = DeviceBuffer::from_host(&stream, &points).unwrap();
        let config = LaunchConfig::new(1, points.len() as u32);
        let launch = stream.launch_safe(&mark, config, (array.surface().unwrap(), &at));
        assert!(is_refused(launch));
        case.hold_up(&stream);
        let launch = stream
            .launch_safe(&mark, config, (array.surface_mut().unwrap(), &at))
            .unwrap();
        assert!(has_violation(launch.wait()));
        let mut expected = [0; 64];
        (expected[0], expected[63], expected[1]) = (1, 4, 16);
        assert_eq!(array.to_vec().unwrap(), expected);
        for other in [before, after] {
            assert_eq!(other.to_vec().unwrap(), [7; 64]);
        }
        stream.synchronize().unwrap();
    });
}

/// Claim: a kernel that reads a texture of the array that it writes is an error, as in every
/// launch.
#[test]
fn a_texture_of_the_written_surface_is_refused() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let copy = kernel(case, "copy");
        let mut image = plane(&stream, 5);
        let texture = Texture::new(&image, &Sampler::new()).unwrap();
        let surface = image.surface_mut().unwrap();
        let launch = stream.launch_safe(&copy, LaunchConfig::new(8, 8), (&texture, surface, 8_u32));
        assert!(matches!(launch, Err(Error::Array(_))), "{launch:?}");
        assert_eq!(image.to_vec().unwrap(), [5; 64]);
    });
}
