//! Safe launches with surfaces: values, and accesses outside of a surface.

use cuda_driver::Error;
use cuda_driver::prelude::*;
use cuda_driver::safe::ViolationKind;
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape, MipmappedArray};

use super::{kernel, violation, violations};
use crate::support::everywhere;

/// Copies the element at (x, y, z) of the surface `in` to `out`, for a thread of each element. Each
/// kernel has the coordinates of one shape.
fn copies() -> String {
    let mut text = String::new();
    for (name, mode, at) in [
        ("line", "1d.b32.trap", "{%x}"),
        ("plane", "2d.b32.trap", "{%x, %y}"),
        ("space", "3d.b32.trap", "{%x, %y, %z, %z}"),
        ("lines", "a1d.b32.trap", "{%z, %x}"),
        ("planes", "a2d.b32.trap", "{%z, %x, %y, %y}"),
        ("zero", "2d.b32.zero", "{%x, %y}"),
        ("clamp", "2d.b32.clamp", "{%x, %y}"),
    ] {
        text += &format!(
            ".visible .entry copy_{name}(.param .u64 in, .param .u64 out, .param .u32 scale) {{
    .reg .b64 %s, %o; .reg .b32 %x, %y, %z, %v, %c;
    ld.param.u64 %s, [in]; ld.param.u64 %o, [out]; ld.param.u32 %c, [scale];
    mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %z, %tid.z;
    mul.lo.u32 %x, %x, %c;
    suld.b.{mode} {{%v}}, [%s, {at}];
    sust.b.{mode} [%o, {at}], {{%v}};
    ret;
}}
"
        );
    }
    text
}

/// `out[x, y] = i + 1` for points of two numbers in `at`, in bytes and rows; `n` threads.
pub(super) const MARK: &str =
    ".visible .entry mark(.param .u64 out, .param .u64 at, .param .u32 n) {
    .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<5>;
    ld.param.u64 %d1, [out]; ld.param.u64 %d2, [at]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    mul.wide.u32 %d3, %r2, 8;
    add.s64 %d3, %d2, %d3;
    @%p ret;
    ld.global.v2.u32 {%r3, %r4}, [%d3];
    add.u32 %r2, %r2, 1;
    sust.b.2d.b32.trap [%d1, {%r3, %r4}], %r2;
    ret;
}
";

/// An array with the elements 0, 1, 2 and so on.
pub(super) fn counted(stream: &Stream, shape: &ArrayShape, flags: ArrayFlags) -> Array<u32> {
    let words: Vec<u32> = (0..shape.extent().width * shape.extent().height * shape.extent().depth)
        .map(|at| at as u32)
        .collect();
    Array::from_host_with(stream, shape, flags, &words).unwrap()
}

fn zeros(stream: &Stream, shape: &ArrayShape) -> Array<u32> {
    Array::zeroed(stream, shape, ArrayFlags::SURFACE).unwrap()
}

#[test]
fn surfaces_of_every_shape_are_copied() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        for (name, shape) in [
            ("line", ArrayShape::one_d(8)),
            ("plane", ArrayShape::two_d(8, 3)),
            ("space", ArrayShape::three_d(4, 3, 2)),
            ("lines", ArrayShape::one_d_layered(8, 3)),
            ("planes", ArrayShape::two_d_layered(4, 2, 3)),
            ("planes", ArrayShape::cube(3)),
            ("zero", ArrayShape::two_d(8, 3)),
            ("clamp", ArrayShape::two_d(8, 3)),
        ] {
            let kernel = kernel(&fixture, &copies(), &format!("copy_{name}"));
            let from = counted(&stream, &shape, ArrayFlags::SURFACE);
            let mut to = zeros(&stream, &shape);
            let extent = shape.extent();
            let sizes = [extent.width, extent.height, extent.depth].map(|size| size as u32);
            let config = LaunchConfig::new(1, (sizes[0], sizes[1], sizes[2]));
            let args = (from.surface().unwrap(), to.surface_mut().unwrap(), 4_u32);
            let launch = stream.launch_safe(&kernel, config, args).unwrap();
            let is_checked = !matches!(name, "zero" | "clamp");
            assert_eq!(launch.is_checked(), is_checked, "{name}");
            launch.wait().unwrap();
            assert_eq!(to.to_vec().unwrap(), from.to_vec().unwrap(), "{name}");
        }
    }
}

#[test]
fn trap_mode_accesses_out_of_range_are_reported() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mark = kernel(&fixture, MARK, "mark");
        let shape = ArrayShape::two_d(5, 3);
        for (point, text) in [
            ([20, 0], "at byte 20, row 0, plane or layer 0 of"),
            ([-4, 1], "at byte -4, row 1,"),
            ([0, 3], ", row 3,"),
            ([8, -1], ", row -1,"),
            ([i32::MAX - 3, 0], "at byte 2147483644"),
            ([i32::MIN, i32::MIN], "at byte -2147483648"),
            ([6, 1], "byte 6 is not a multiple of 4"),
        ] {
            let mut array = zeros(&stream, &shape);
            // The second thread is the one with a violation.
            let at = [[16, 2], point, [4, 1]];
            let at = DeviceBuffer::from_host(&stream, &at).unwrap();
            let args = (array.surface_mut().unwrap(), &at, 3_u32);
            let launch = stream
                .launch_safe(&mark, LaunchConfig::new(1, 32), args)
                .unwrap();
            assert!(launch.is_checked());
            let violation = violation(launch.wait());
            assert_eq!(violation.kind, ViolationKind::Write);
            assert_eq!((violation.thread, violation.threads), ([1, 0, 0], 1));
            assert_eq!((violation.argument, violation.bytes), (Some(1), 4));
            let surface = violation.surface.unwrap();
            assert_eq!(surface.coordinates, [point[0], point[1], 0]);
            assert_eq!(surface.extents, [20, 3, 1]);
            let message = violation.to_string();
            assert!(message.contains(text), "{message}");
            assert!(
                message
                    .contains("argument 1, whose size is 20 bytes x 3 rows x 1 planes or layers")
            );
            let mut expected = [0; 15];
            expected[14] = 1;
            expected[6] = 3;
            assert_eq!(array.to_vec().unwrap(), expected, "{point:?}");
            // The context is alive.
            stream.synchronize().unwrap();
        }
    }
}

#[test]
fn loads_out_of_range_return_zero() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let shape = ArrayShape::two_d(4, 2);
        let from = counted(&stream, &shape, ArrayFlags::SURFACE);
        // The target is wider, so only the source is left.
        let mut to = Array::from_host_with(
            &stream,
            &ArrayShape::two_d(6, 2),
            ArrayFlags::SURFACE,
            &[9_u32; 12],
        )
        .unwrap();
        let copy = kernel(&fixture, &copies(), "copy_plane");
        let args = (from.surface().unwrap(), to.surface_mut().unwrap(), 4_u32);
        let launch = stream.launch_safe(&copy, LaunchConfig::new(1, (6, 2)), args);
        let violation = violation(launch.unwrap().wait());
        assert_eq!(
            (violation.kind, violation.threads),
            (ViolationKind::Read, 4)
        );
        let surface = violation.surface.unwrap();
        assert!(surface.coordinates[0] >= 16, "{violation}");
        let expected = [0, 1, 2, 3, 0, 0, 4, 5, 6, 7, 0, 0];
        assert_eq!(to.to_vec().unwrap(), expected, "{}", fixture.name);
    }
}

#[test]
fn misaligned_coordinates_are_reported_in_every_mode() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        for name in ["plane", "zero", "clamp"] {
            let copy = kernel(&fixture, &copies(), &format!("copy_{name}"));
            let from = counted(&stream, &ArrayShape::two_d(4, 1), ArrayFlags::SURFACE);
            let mut to = zeros(&stream, &ArrayShape::two_d(4, 1));
            // The threads access the bytes 0, 2, 4, 6.
            let args = (from.surface().unwrap(), to.surface_mut().unwrap(), 2_u32);
            let launch = stream.launch_safe(&copy, LaunchConfig::new(1, 4), args);
            let violation = violation(launch.unwrap().wait());
            assert_eq!(violation.threads, 2, "{name}: {violation}");
            assert_eq!(to.to_vec().unwrap(), [0, 1, 0, 0], "{name}");
        }
    }
}

#[test]
fn layers_that_do_not_exist_are_reported() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        for (name, shape, mode) in [
            ("lines", ArrayShape::one_d_layered(4, 2), "trap"),
            ("planes", ArrayShape::two_d_layered(4, 1, 2), "trap"),
            ("lines", ArrayShape::one_d_layered(4, 2), "zero"),
            ("planes", ArrayShape::two_d_layered(4, 1, 2), "clamp"),
        ] {
            let text = copies().replace("trap", mode);
            let copy = kernel(&fixture, &text, &format!("copy_{name}"));
            let from = counted(&stream, &shape, ArrayFlags::SURFACE);
            let mut to = zeros(&stream, &shape);
            let args = (from.surface().unwrap(), to.surface_mut().unwrap(), 4_u32);
            let launch = stream.launch_safe(&copy, LaunchConfig::new(1, (4, 1, 3)), args);
            let violation = violation(launch.unwrap().wait());
            assert_eq!(violation.threads, 4);
            assert_eq!(violation.surface.unwrap().coordinates[2], 2, "{violation}");
            assert_eq!(to.to_vec().unwrap(), from.to_vec().unwrap(), "{name}");
        }
    }
}

#[test]
fn levels_of_a_mipmapped_array_have_their_own_extents() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mark = kernel(&fixture, MARK, "mark");
        let shape = ArrayShape::two_d(8, 8);
        let flags = ArrayFlags::SURFACE;
        let mut levels = MipmappedArray::<u32>::zeroed(&stream, &shape, 3, flags).unwrap();
        let at = [[8_i32, 1], [4, 2]];
        let at = DeviceBuffer::from_host(&stream, &at).unwrap();
        for (level, violations) in [(0, 0), (1, 0), (2, 2)] {
            let surface = levels.level_mut(level).unwrap().into_surface().unwrap();
            let launch = stream.launch_safe(&mark, LaunchConfig::new(1, 2), (surface, &at, 2_u32));
            let result = launch.unwrap().wait();
            match violations {
                0 => result.unwrap(),
                count => assert_eq!(violation(result).threads, count),
            }
        }
    }
}

#[test]
fn graphs_report_surface_accesses_of_each_replay() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mark = kernel(&fixture, MARK, "mark");
        let mut array = zeros(&stream, &ArrayShape::two_d(4, 1));
        let mut at = DeviceBuffer::from_host(&stream, &[[4_i32, 0], [8, 0]]).unwrap();
        let config = LaunchConfig::new(1, 2);
        let (mut graph, ()) = Graph::try_capture(&fixture.context, |scope| {
            let surface = array.surface_mut()?;
            scope.launch_safe(&mark, config, (surface, &at, 2_u32))?;
            Ok::<(), Error>(())
        })
        .unwrap();
        let args = (array.surface_mut().unwrap(), &at, 2_u32);
        graph.add_kernel_safe(&[], &mark, config, args).unwrap();
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(array.to_vec().unwrap(), [0, 1, 2, 0]);
        at.copy_from_host(&[[16_i32, 0], [12, 0]]).unwrap();
        exec.launch(&stream).unwrap();
        // One for each node.
        let both = violations(stream.synchronize());
        let places = both.iter().map(|it| it.surface.unwrap().coordinates);
        assert_eq!(places.collect::<Vec<_>>(), [[16, 0, 0]; 2]);
        stream.synchronize().unwrap();
        assert_eq!(array.to_vec().unwrap(), [0, 1, 2, 2]);
    }
}
