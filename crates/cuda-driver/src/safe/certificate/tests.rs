//! Launches with a proof in the form that is compared without a lock, and launches without one.

use cuda_sim::Builder;
use cuda_sys::image::Ptx;

use crate::driver::Driver;
use crate::launch::{ArgList, KernelArgs, LaunchConfig, Using};
#[cfg(debug_assertions)]
use crate::lock::locked;
use crate::memory::{DeviceBuffer, DevicePtr};
use crate::safe::{SafeKernel, SafeModule, Unproven};
use crate::stream::{Stream, StreamFlags};
use crate::types::Dim3;

/// `fill`: `x[i] = y[i] + value` for `i` below `n` and below the word 2 of `limits`. `mark` writes
/// a word for each thread of the grid.
const TEXT: &str = "
.version 7.0\n.target sm_75\n.address_size 64
.visible .entry fill(.param .u64 x, .param .u64 y, .param .u32 n, .param .u32 value,
.param .align 4 .b8 limits[16]) {
.reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %d<6>;
ld.param.u64 %d1, [x];
ld.param.u64 %d2, [y];
ld.param.u32 %r1, [n];
ld.param.u32 %r2, [value];
ld.param.u32 %r3, [limits+8];
mov.u32 %r4, %tid.x;
setp.ge.u32 %p1, %r4, %r1;
@%p1 bra end;
setp.ge.u32 %p2, %r4, %r3;
@%p2 bra end;
mul.wide.u32 %d3, %r4, 4;
add.s64 %d4, %d1, %d3;
add.s64 %d5, %d2, %d3;
ld.global.u32 %r5, [%d5];
add.u32 %r5, %r5, %r2;
st.global.u32 [%d4], %r5;
end:
ret;
}
.visible .entry stop(.param .u32 n) {
.reg .pred %p; .reg .b32 %r;
ld.param.u32 %r, [n];
setp.eq.u32 %p, %r, 0;
@%p trap;
ret;
}
.visible .entry mark(.param .u64 x) {
.reg .b32 %r<5>; .reg .b64 %d<4>;
ld.param.u64 %d1, [x];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.x;
mad.lo.s32 %r4, %r1, %r2, %r3;
mul.wide.s32 %d2, %r4, 4;
add.s64 %d3, %d1, %d2;
st.global.u32 [%d3], %r2;
ret;
}
.global .u32 counter;
.visible .entry count() {
.reg .b32 %r; .reg .b64 %d;
mov.u64 %d, counter;
mov.u32 %r, 1;
st.global.u32 [%d], %r;
ret;
}
";

const CONFIG: LaunchConfig = LaunchConfig {
    grid: Dim3 { x: 1, y: 1, z: 1 },
    block: Dim3 { x: 64, y: 1, z: 1 },
    shared_bytes: 0,
};
const LIMITS: [u32; 4] = [1, 2, 60, 4];

fn stream_and_module() -> (Stream, SafeModule) {
    let simulator = Builder::new().build().unwrap();
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
    let module = SafeModule::load(&context, &Ptx::new(TEXT).unwrap()).unwrap();
    (stream, module)
}

fn buffer(stream: &Stream, words: usize) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(stream, words).unwrap()
}

fn is_hit(kernel: &SafeKernel, config: LaunchConfig, args: impl KernelArgs) -> bool {
    kernel.is_certified(&config, &args)
}

#[test]
fn a_shape_that_differs_in_one_field_is_not_a_hit() {
    let (stream, module) = stream_and_module();
    let fill = module.kernel("fill").unwrap();
    let (mut x, mut y) = (buffer(&stream, 64), buffer(&stream, 64));
    assert!(!is_hit(&fill, CONFIG, (&mut x, &y, 64_u32, 7_u32, LIMITS)));
    let launch = stream.launch_safe(&fill, CONFIG, (&mut x, &y, 64_u32, 7_u32, LIMITS));
    assert!(!launch.unwrap().is_checked());
    assert!(is_hit(&fill, CONFIG, (&mut x, &y, 64_u32, 7_u32, LIMITS)));

    let configs: [fn(&mut LaunchConfig) -> &mut u32; 7] = [
        |config| &mut config.grid.x,
        |config| &mut config.grid.y,
        |config| &mut config.grid.z,
        |config| &mut config.block.x,
        |config| &mut config.block.y,
        |config| &mut config.block.z,
        |config| &mut config.shared_bytes,
    ];
    for (number, field) in configs.into_iter().enumerate() {
        let mut config = CONFIG;
        *field(&mut config) += 1;
        let args = (&mut x, &y, 64_u32, 7_u32, LIMITS);
        assert!(!is_hit(&fill, config, args), "field {number}");
    }
    // Numbers that the proof depends on.
    assert!(!is_hit(&fill, CONFIG, (&mut x, &y, 63_u32, 7_u32, LIMITS)));
    let more = [1, 2, 61, 4];
    assert!(!is_hit(&fill, CONFIG, (&mut x, &y, 64_u32, 7_u32, more)));
    // Memory that is too small, or only read.
    let short = buffer(&stream, 59);
    assert!(!is_hit(
        &fill,
        CONFIG,
        (&mut x, &short, 64_u32, 7_u32, LIMITS)
    ));
    let short = x.slice_mut(..59).unwrap();
    assert!(!is_hit(&fill, CONFIG, (short, &y, 64_u32, 7_u32, LIMITS)));
    assert!(!is_hit(&fill, CONFIG, (&x, &y, 64_u32, 7_u32, LIMITS)));
    // Other alignments, smaller and larger.
    let shifted = y.slice(1..61).unwrap();
    assert!(!is_hit(
        &fill,
        CONFIG,
        (&mut x, shifted, 64_u32, 7_u32, LIMITS)
    ));
    let mut large = buffer(&stream, 100);
    let high = large.slice_mut(32..).unwrap();
    assert!(!is_hit(&fill, CONFIG, (high, &y, 64_u32, 7_u32, LIMITS)));
    // An address without memory, and the null pointer.
    let address = y.device_ptr();
    assert!(!is_hit(
        &fill,
        CONFIG,
        (&mut x, address, 64_u32, 7_u32, LIMITS)
    ));
    let null = DevicePtr::<u32>::NULL;
    assert!(!is_hit(
        &fill,
        CONFIG,
        (&mut x, null, 64_u32, 7_u32, LIMITS)
    ));
    // Other sizes and types.
    assert!(!is_hit(&fill, CONFIG, (&mut x, &y, 64_u64, 7_u32, LIMITS)));
    assert!(!is_hit(&fill, CONFIG, (&mut x, &y, 64_f32, 7_u32, LIMITS)));
    assert!(!is_hit(&fill, CONFIG, (&mut x, &y, 64_u32, 7_u32)));
    let all = fill.clone().with_unproven(Unproven::CheckAll);
    assert!(!is_hit(&all, CONFIG, (&mut x, &y, 64_u32, 7_u32, LIMITS)));

    // Each of these is a hit.
    let limits = [5, 6, 60, 7];
    assert!(is_hit(&fill, CONFIG, (&mut x, &y, 64_u32, 8_u32, limits)));
    assert!(is_hit(
        &fill,
        CONFIG,
        (&mut large, &x, 64_u32, 7_u32, LIMITS)
    ));
    let exact = x.slice_mut(..60).unwrap();
    assert!(is_hit(&fill, CONFIG, (exact, &y, 64_u32, 7_u32, LIMITS)));
    assert!(is_hit(&fill, CONFIG, (&mut y, &x, 64_u32, 7_u32, LIMITS)));
}

#[test]
fn a_null_pointer_is_part_of_the_shape() {
    let (stream, module) = stream_and_module();
    let fill = module.kernel("fill").unwrap();
    let (mut x, y) = (buffer(&stream, 64), buffer(&stream, 64));
    // No thread uses the null pointer.
    let null = DevicePtr::<u32>::NULL;
    let launch = stream.launch_safe(&fill, CONFIG, (&mut x, null, 0_u32, 7_u32, LIMITS));
    assert!(!launch.unwrap().is_checked());
    assert!(is_hit(&fill, CONFIG, (&mut x, null, 0_u32, 7_u32, LIMITS)));
    assert!(!is_hit(&fill, CONFIG, (&mut x, &y, 0_u32, 7_u32, LIMITS)));
    let address = y.device_ptr();
    assert!(!is_hit(
        &fill,
        CONFIG,
        (&mut x, address, 0_u32, 7_u32, LIMITS)
    ));
}

#[test]
fn lists_have_the_same_certificates_as_tuples() {
    let (stream, module) = stream_and_module();
    let fill = module.kernel("fill").unwrap();
    let (mut x, y) = (buffer(&stream, 64), buffer(&stream, 64));
    let other = buffer(&stream, 1);
    let launch = stream.launch_safe(&fill, CONFIG, (&mut x, &y, 64_u32, 7_u32, LIMITS));
    assert!(!launch.unwrap().is_checked());
    let args = Using::new((&mut x, &y, 64_u32, 7_u32, LIMITS), (&other,));
    assert!(is_hit(&fill, CONFIG, args));
    let args = Using::new((&x, &y, 64_u32, 7_u32, LIMITS), (&other,));
    assert!(!is_hit(&fill, CONFIG, args));
    let mut list_is_hit = |n: u32, words: usize| {
        let mut list = ArgList::new();
        list.uses(&other);
        list.push(x.slice_mut(..words).unwrap());
        list.uses(&other);
        list.push(&y).push(n).push(7_u32).push(LIMITS);
        is_hit(&fill, CONFIG, &list)
    };
    assert!(list_is_hit(64, 60));
    assert!(!list_is_hit(64, 59));
    assert!(!list_is_hit(63, 60));
}

#[test]
fn the_first_four_shapes_are_certified() {
    let (stream, module) = stream_and_module();
    let fill = module.kernel("fill").unwrap();
    let (mut x, y) = (buffer(&stream, 64), buffer(&stream, 64));
    let mut config = CONFIG;
    for number in 1..=6 {
        config.block.x = number;
        for _ in 0..2 {
            let args = (&mut x, &y, 64_u32, 7_u32, LIMITS);
            assert!(
                !stream
                    .launch_safe(&fill, config, args)
                    .unwrap()
                    .is_checked()
            );
        }
    }
    for number in 1..=6 {
        config.block.x = number;
        let args = (&mut x, &y, 64_u32, 7_u32, LIMITS);
        assert_eq!(is_hit(&fill, config, args), number <= 4, "{number}");
    }
}

#[test]
fn kernels_with_traps_or_variables_have_no_certificates() {
    let (stream, module) = stream_and_module();
    let stop = module.kernel("stop").unwrap();
    stream.launch_safe(&stop, CONFIG, (1_u32,)).unwrap();
    assert!(!is_hit(&stop, CONFIG, (1_u32,)));
    let count = module.kernel("count").unwrap();
    assert!(count.contract(CONFIG, ()).unwrap().is_proven());
    assert!(!is_hit(&count, CONFIG, ()));
    assert!(stream.launch_safe(&count, CONFIG, ()).is_err());
}

#[cfg(debug_assertions)]
#[test]
fn a_hit_locks_no_mutex_that_an_unsafe_launch_does_not() {
    let (stream, module) = stream_and_module();
    let fill = module.kernel("fill").unwrap();
    let (mut x, y) = (buffer(&stream, 64), buffer(&stream, 64));
    let mut locks = |is_safe: bool| {
        let before = locked();
        let args = (&mut x, &y, 64_u32, 7_u32, LIMITS);
        if is_safe {
            stream.launch_safe(&fill, CONFIG, args).unwrap();
        } else {
            // SAFETY: the kernel accesses the first 60 words of both buffers, which have 64.
            unsafe { stream.launch(fill.function(), CONFIG, args) }.unwrap();
        }
        locked() - before
    };
    assert!(locks(true) > locks(true));
    assert_eq!(locks(true), locks(false));
}

#[test]
fn a_proof_for_a_range_covers_new_numbers() {
    let (stream, module) = stream_and_module();
    let fill = module.kernel("fill").unwrap();
    let (mut x, y) = (buffer(&stream, 64), buffer(&stream, 64));
    let mut is_proven = |n: u32| {
        let launch = stream.launch_safe(&fill, CONFIG, (&mut x, &y, n, 7_u32, LIMITS));
        !launch.unwrap().is_checked()
    };
    assert!(is_proven(10));
    assert!(is_proven(20));
    for n in 1..=64 {
        assert!(is_hit(&fill, CONFIG, (&mut x, &y, n, 7_u32, LIMITS)), "{n}");
        let exact = x.slice_mut(..n as usize).unwrap();
        assert!(is_hit(&fill, CONFIG, (exact, &y, n, 7_u32, LIMITS)), "{n}");
        let short = x.slice_mut(..n as usize - 1).unwrap();
        assert!(!is_hit(&fill, CONFIG, (short, &y, n, 7_u32, LIMITS)), "{n}");
        let short = y.slice(..n as usize - 1).unwrap();
        assert!(
            !is_hit(&fill, CONFIG, (&mut x, short, n, 7_u32, LIMITS)),
            "{n}"
        );
    }
    // Numbers outside of the range, read-only memory, and another shape.
    for n in [0, 65, 1 << 31, u32::MAX] {
        assert!(
            !is_hit(&fill, CONFIG, (&mut x, &y, n, 7_u32, LIMITS)),
            "{n}"
        );
    }
    assert!(!is_hit(&fill, CONFIG, (&x, &y, 30_u32, 7_u32, LIMITS)));
    let more = [1, 2, 61, 4];
    assert!(!is_hit(&fill, CONFIG, (&mut x, &y, 30_u32, 7_u32, more)));
    let mut config = CONFIG;
    config.block.x = 65;
    assert!(!is_hit(&fill, config, (&mut x, &y, 30_u32, 7_u32, LIMITS)));
    let high = x.slice_mut(1..).unwrap();
    assert!(!is_hit(&fill, CONFIG, (high, &y, 30_u32, 7_u32, LIMITS)));
}

#[test]
fn a_proof_for_a_range_covers_other_grids() {
    let (stream, module) = stream_and_module();
    let mark = module.kernel("mark").unwrap();
    let mut x = buffer(&stream, 4096);
    let grid = |grid: u32| LaunchConfig {
        grid: grid.into(),
        ..CONFIG
    };
    for blocks in [2, 5] {
        assert!(!is_hit(&mark, grid(blocks), (&mut x,)));
        let launch = stream.launch_safe(&mark, grid(blocks), (&mut x,));
        assert!(!launch.unwrap().is_checked());
    }
    for blocks in 1..=64 {
        let words = 64 * blocks as usize;
        let exact = x.slice_mut(..words).unwrap();
        assert!(is_hit(&mark, grid(blocks), (exact,)), "{blocks}");
        let short = x.slice_mut(..words - 1).unwrap();
        assert!(!is_hit(&mark, grid(blocks), (short,)), "{blocks}");
    }
    // A grid that needs more memory, one in which the index wraps, one without blocks, and other
    // dimensions.
    for blocks in [65, 1 << 26, u32::MAX, 0] {
        assert!(!is_hit(&mark, grid(blocks), (&mut x,)), "{blocks}");
    }
    let others: [fn(&mut LaunchConfig) -> &mut u32; 3] = [
        |config| &mut config.grid.y,
        |config| &mut config.grid.z,
        |config| &mut config.block.x,
    ];
    for (number, field) in others.into_iter().enumerate() {
        let mut config = grid(2);
        *field(&mut config) += 1;
        assert!(!is_hit(&mark, config, (&mut x,)), "field {number}");
    }
    assert!(!is_hit(&mark, grid(2), (&x,)));
}

#[test]
fn numbers_in_a_struct_have_no_range() {
    let (stream, module) = stream_and_module();
    let fill = module.kernel("fill").unwrap();
    let (mut x, y) = (buffer(&stream, 64), buffer(&stream, 64));
    for limit in [10, 20] {
        let args = (&mut x, &y, 64_u32, 7_u32, [0, 0, limit, 0]);
        assert!(
            !stream
                .launch_safe(&fill, CONFIG, args)
                .unwrap()
                .is_checked()
        );
    }
    for limit in [10_u32, 20, 15] {
        let args = (&mut x, &y, 64_u32, 7_u32, [0, 0, limit, 0]);
        assert_eq!(is_hit(&fill, CONFIG, args), limit != 15);
    }
}
