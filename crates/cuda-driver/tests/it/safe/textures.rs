//! Safe launches with textures, and the arguments that are refused.

use std::sync::Arc;

use cuda_driver::memory::{PitchedBuffer, SharedSlice};
use cuda_driver::prelude::*;
use cuda_driver::safe::{SafeKernel, SafeLaunchError, SafeModule, Unproven};
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape, Sampler, Texel, Texture};
use cuda_driver::{Error, Result};

use super::surfaces::{MARK, counted};
use super::{kernel, try_kernel, violation};
use crate::support::{Fixture, everywhere};

const LOOK: &str = include_str!("../kernels/texture.ptx");

/// The error of a launch that cannot be safe.
#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(Error::SafeLaunch(error)) => match *error {
            SafeLaunchError::Refused { .. } | SafeLaunchError::NotProven { .. } => {
                error.to_string()
            }
            other => panic!("expected a refusal: {other:?}"),
        },
        other => panic!("expected a refusal: {other:?}"),
    }
}

fn look(fixture: &Fixture, name: &str) -> SafeKernel {
    let module = SafeModule::load(&fixture.context, &Ptx::new(LOOK).unwrap()).unwrap();
    module.kernel(name).unwrap()
}

#[test]
fn a_launch_with_a_texture_is_proven() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let look = look(&fixture, "look_2d_int");
        let image = counted(&stream, &ArrayShape::two_d(5, 3), ArrayFlags::empty());
        let texture = Texture::new(&image, &Sampler::new()).unwrap();
        let points: Vec<[f32; 4]> = (0..20)
            .map(|i| [(i % 5) as f32 + 0.5, (i / 5) as f32 + 0.5, 0.0, 0.0])
            .collect();
        let at = DeviceBuffer::from_host(&stream, &points).unwrap();
        let mut out = DeviceBuffer::<[u32; 4]>::zeroed(&stream, 20).unwrap();
        let config = LaunchConfig::new(1, 32);
        // The second time the proof is known.
        for _ in 0..2 {
            let args = (&texture, &at, &mut out, 20_u32);
            let launch = stream.launch_safe(&look, config, args).unwrap();
            assert!(!launch.is_checked());
            launch.wait().unwrap();
        }
        // Beyond the last row, the nearest element is read.
        let expected = (0..15).chain(10..15);
        let found = out.to_vec().unwrap();
        assert!(found.iter().map(|it| it[0]).eq(expected), "{found:?}");
        // The buffers are compared as in each launch.
        let args = (&texture, &at, &mut out, 21_u32);
        let launch = stream.launch_safe(&look, config, args).unwrap();
        assert_eq!(violation(launch.wait()).offset, 320);
    }
}

#[test]
fn textures_of_buffers_are_read() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let table: Vec<u32> = (0..40).map(|at| 7 * at).collect();
        let table = DeviceBuffer::from_host(&stream, &table).unwrap();
        let table = Texture::new(&SharedSlice::from(table), &Sampler::new()).unwrap();
        let at: Vec<[f32; 4]> = (0..48).map(|i| [i as f32, 0.5, 0.0, 0.0]).collect();
        let at = DeviceBuffer::from_host(&stream, &at).unwrap();
        let mut out = DeviceBuffer::<[u32; 4]>::zeroed(&stream, 48).unwrap();
        let config = LaunchConfig::new(1, 48);
        let fetch = look(&fixture, "fetch_int");
        let args = (&table, &at, &mut out, 48_u32);
        let launch = stream.launch_safe(&fetch, config, args).unwrap();
        assert!(!launch.is_checked());
        launch.wait().unwrap();
        let found = out.to_vec().unwrap();
        // Beyond the end of linear memory, 0 is read.
        let expected = (0..48).map(|at| if at < 40 { 7 * at } else { 0 });
        assert!(found.iter().map(|it| it[0]).eq(expected), "{found:?}");

        let rows: Vec<u32> = (0..12).collect();
        let rows = PitchedBuffer::from_host(&stream, (6, 2), &rows).unwrap();
        let rows = Texture::new(&Arc::new(rows), &Sampler::new()).unwrap();
        let plane = look(&fixture, "look_2d_int");
        let args = (&rows, &at, &mut out, 6_u32);
        let launch = stream.launch_safe(&plane, config, args).unwrap();
        assert!(!launch.is_checked());
        launch.wait().unwrap();
        let found = out.to_vec().unwrap();
        // The coordinate 0.0 is in the first element, 1.0 in the second.
        assert!(found[..6].iter().map(|it| it[0]).eq(0..6), "{found:?}");
        // A texture of rows has two dimensions, and one of linear memory is read by integers.
        let args = (&table, &at, &mut out, 6_u32);
        let reason = refusal(stream.launch_safe(&plane, config, args));
        assert!(reason.contains("is a texture of linear memory"), "{reason}");
        let args = (&rows, &at, &mut out, 6_u32);
        let reason = refusal(stream.launch_safe(&fetch, config, args));
        assert!(
            reason.contains("needs a texture of linear memory"),
            "{reason}"
        );
    }
}

#[test]
fn other_arguments_are_no_objects() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let look = look(&fixture, "look_2d");
        let shape = ArrayShape::two_d(4, 4);
        let image = counted(&stream, &shape, ArrayFlags::SURFACE);
        let texture = Texture::new(&image, &Sampler::new()).unwrap();
        let at = DeviceBuffer::<[f32; 4]>::zeroed(&stream, 4).unwrap();
        let mut out = DeviceBuffer::<[f32; 4]>::zeroed(&stream, 4).unwrap();
        let config = LaunchConfig::new(1, 4);
        // After a proven launch with the texture, its number is refused.
        for _ in 0..3 {
            let args = (&texture, &at, &mut out, 4_u32);
            stream.launch_safe(&look, config, args).unwrap();
            let args = (texture.as_raw(), &at, &mut out, 4_u32);
            let reason = refusal(stream.launch_safe(&look, config, args));
            assert!(reason.contains("is not a texture or a surface"), "{reason}");
        }
        let args = (&image.surface().unwrap(), &at, &mut out, 4_u32);
        let reason = refusal(stream.launch_safe(&look, config, args));
        assert!(reason.contains("is a read-only surface of two"), "{reason}");
        let args = (&at, &at, &mut out, 4_u32);
        let reason = refusal(stream.launch_safe(&look, config, args));
        assert!(reason.contains("is not a texture or a surface"), "{reason}");
        stream.synchronize().unwrap();
    }
}

#[test]
fn objects_that_do_not_fit_the_kernel_are_refused() {
    fn one<T: Texel>(stream: &Stream, shape: &ArrayShape) -> Array<T> {
        Array::zeroed(stream, shape, ArrayFlags::SURFACE).unwrap()
    }
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mark = kernel(&fixture, MARK, "mark");
        let at = DeviceBuffer::<[i32; 2]>::zeroed(&stream, 1).unwrap();
        let config = LaunchConfig::new(1, 1);
        let plane = ArrayShape::two_d(4, 4);
        let mut good = one::<u32>(&stream, &plane);
        let args = (good.surface_mut().unwrap(), &at, 1_u32);
        stream.launch_safe(&mark, config, args).unwrap();
        let args = (good.surface().unwrap(), &at, 1_u32);
        let reason = refusal(stream.launch_safe(&mark, config, args));
        assert!(reason.contains("needs a writable surface"), "{reason}");
        assert!(reason.contains("is a read-only surface"), "{reason}");
        let mut bytes = one::<[u8; 2]>(&stream, &plane);
        let args = (bytes.surface_mut().unwrap(), &at, 1_u32);
        let reason = refusal(stream.launch_safe(&mark, config, args));
        assert!(reason.contains("with elements of 2 bytes"), "{reason}");
        for shape in [
            ArrayShape::one_d(4),
            ArrayShape::three_d(4, 4, 4),
            ArrayShape::two_d_layered(4, 4, 4),
        ] {
            let mut other = one::<u32>(&stream, &shape);
            let args = (other.surface_mut().unwrap(), &at, 1_u32);
            let reason = refusal(stream.launch_safe(&mark, config, args));
            assert!(
                reason.contains("needs a writable surface of two"),
                "{reason}"
            );
        }
        let strict = mark.with_unproven(Unproven::Reject);
        let args = (good.surface_mut().unwrap(), &at, 1_u32);
        let reason = refusal(stream.launch_safe(&strict, config, args));
        assert!(reason.contains("boundary mode `.trap`"), "{reason}");

        let gather = look(&fixture, "gather_2d");
        let at = DeviceBuffer::<[f32; 4]>::zeroed(&stream, 1).unwrap();
        let mut out = DeviceBuffer::<[f32; 4]>::zeroed(&stream, 1).unwrap();
        for (flags, is_right) in [(ArrayFlags::GATHER, true), (ArrayFlags::SURFACE, false)] {
            let image = Array::<f32>::zeroed(&stream, &plane, flags).unwrap();
            let texture = Texture::new(&image, &Sampler::new()).unwrap();
            let args = (&texture, &at, &mut out, 1_u32);
            let launch = stream.launch_safe(&gather, config, args);
            assert_eq!(launch.is_ok(), is_right, "{launch:?}");
        }
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_handle_from_memory_is_refused() {
    let text = ".visible .entry loaded(.param .u64 from, .param .u64 to) {
    .reg .f32 %f<6>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [from]; ld.param.u64 %d2, [to];
    ld.global.u64 %d3, [%d1]; mov.f32 %f1, 0f00000000;
    tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%d3, {%f1, %f1}];
    st.global.f32 [%d2], %f2;
    ret;
}
";
    for fixture in everywhere() {
        let stream = fixture.stream();
        let loaded = kernel(&fixture, text, "loaded");
        let image = counted(&stream, &ArrayShape::two_d(4, 4), ArrayFlags::empty());
        let texture = Texture::new(&image, &Sampler::new()).unwrap();
        let from = DeviceBuffer::from_host(&stream, &[texture.as_raw()]).unwrap();
        let mut to = DeviceBuffer::<f32>::zeroed(&stream, 1).unwrap();
        let launch = stream.launch_safe(&loaded, LaunchConfig::new(1, 1), (&from, &mut to));
        let reason = refusal(launch);
        assert!(reason.contains("PTX line 8"), "{reason}");
        assert!(
            reason.contains("not the value of one parameter"),
            "{reason}"
        );
    }
    // A reference of the module is refused when the kernel is looked up.
    let text = ".global .texref image;
.visible .entry old(.param .u64 to) {
    .reg .f32 %f<6>; .reg .b64 %d<4>;
    mov.f32 %f1, 0f00000000;
    tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [image, {%f1, %f1}];
    ret;
}
";
    for fixture in everywhere() {
        // The software device does not have references, and refuses the module.
        if let Err(Error::SafeLaunch(error)) = try_kernel(&fixture, text, "old") {
            let message = error.to_string();
            assert!(message.contains("only handles in parameters"), "{message}");
        }
    }
}

#[test]
fn a_handle_is_no_address() {
    let text = ".visible .entry follow(.param .u64 t, .param .u64 to) {
    .reg .b32 %r<4>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [t]; ld.param.u64 %d2, [to];
    st.global.u64 [%d2], %d1;
    ld.global.u32 %r1, [%d1];
    st.global.u32 [%d1], %r1;
    st.global.u32 [%d2+8], %r1;
    ret;
}
";
    for fixture in everywhere() {
        let stream = fixture.stream();
        let follow = kernel(&fixture, text, "follow");
        let image = counted(&stream, &ArrayShape::two_d(4, 4), ArrayFlags::SURFACE);
        let texture = Texture::new(&image, &Sampler::new()).unwrap();
        let mut to = DeviceBuffer::filled(&stream, 2, u64::MAX).unwrap();
        let config = LaunchConfig::new(1, 1);
        let launch = stream.launch_safe(&follow, config, (&texture, &mut to));
        let violation = violation(launch.unwrap().wait());
        assert_eq!(violation.address, texture.as_raw());
        let expected = [texture.as_raw(), 0xffff_ffff << 32];
        assert_eq!(to.to_vec().unwrap(), expected, "{}", fixture.name);
    }
}

#[test]
fn a_graph_with_a_texture_keeps_it() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let look = look(&fixture, "look_2d_int");
        let image = counted(&stream, &ArrayShape::two_d(4, 1), ArrayFlags::empty());
        let texture = Texture::new(&image, &Sampler::new()).unwrap();
        let at: Vec<[f32; 4]> = (0..4).map(|i| [i as f32 + 0.5, 0.5, 0.0, 0.0]).collect();
        let at = DeviceBuffer::from_host(&stream, &at).unwrap();
        let mut out = DeviceBuffer::<[u32; 4]>::zeroed(&stream, 4).unwrap();
        let config = LaunchConfig::new(1, 4);
        let graph = Graph::capture(&fixture.context, |scope| {
            let args = (&texture, &at, &mut out, 4_u32);
            look.launch(scope, config, args).map(drop)
        });
        drop((texture, image));
        let exec = graph.unwrap().instantiate().unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        let found = out.to_vec().unwrap();
        assert!(found.iter().map(|it| it[0]).eq(0..4), "{found:?}");
    }
}
