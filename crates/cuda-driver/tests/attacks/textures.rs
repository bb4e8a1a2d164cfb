//! Textures and surfaces of arrays that other threads write, replace and drop.

use std::thread;

use cuda_driver::prelude::*;
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape, Sampler, SurfaceMut, Texture};

use crate::set_up::load;
use crate::support::{Attack, Case};

const TEXTURE: &str = include_str!("../it/kernels/texture.ptx");

const WIDTH: u32 = 16;
const N: u32 = WIDTH * 16;

type Mix = Kernel<(Texture, SurfaceMut<'static>, u32, u32, u32)>;

fn mix_kernel(case: &Case) -> Mix {
    let module = load(&case.context, TEXTURE);
    module.function("mix").unwrap().typed().unwrap()
}

fn plane(stream: &Stream, value: u32) -> Array<u32> {
    let shape = ArrayShape::two_d(WIDTH as usize, 16);
    let words = [value; N as usize];
    Array::from_host_with(stream, &shape, ArrayFlags::SURFACE, &words).unwrap()
}

/// Queues `to = 2 * from + add`.
fn mix<Q: Queue>(
    kernel: &Mix,
    queue: &Q,
    from: &Texture,
    to: &mut Array<u32>,
    add: u32,
) -> cuda_driver::Result<()> {
    let args = (from, to.surface_mut()?, WIDTH, N, add);
    // SAFETY: the kernel reads and writes N words of planes with N.
    unsafe { kernel.launch(queue, LaunchConfig::for_num_elems(N)?, args) }.map(drop)
}

/// Claim: a launch reads an array through a texture either before or after a write that another
/// thread queues at the same time, and never during the write.
#[test]
fn textures_are_not_read_during_a_write() {
    Attack::new().run(|case| {
        let kernel = mix_kernel(case);
        let mut from = plane(&case.stream(), 0);
        let texture = Texture::new(&from, &Sampler::new()).unwrap();
        thread::scope(|scope| {
            for _ in 0..case.threads {
                scope.spawn(|| {
                    let stream = case.stream();
                    let mut to = plane(&stream, 0);
                    for _ in 0..4 {
                        case.hold_up(&stream);
                        mix(&kernel, &stream, &texture, &mut to, 1).unwrap();
                        let words = to.to_vec().unwrap();
                        case.expect_words(&words, words[0]);
                        assert_eq!(words[0] % 2, 1, "{}", case.title);
                    }
                });
            }
            let writer = case.stream();
            for value in 1..6 {
                case.hold_up(&writer);
                let words = [value; N as usize];
                from.as_mut_slice()
                    .copy_from_host_on(&words, &writer)
                    .unwrap();
            }
        });
        case.expect_words(&from.to_vec().unwrap(), 5);
    });
}

/// Claim: a texture and its array outlive the launches that were queued with them, and the graphs
/// that contain them, whichever thread drops the last handle.
#[test]
fn textures_outlive_their_launches() {
    Attack::new().run(|case| {
        let kernel = mix_kernel(case);
        let stream = case.stream();
        let mut results: Vec<Array<u32>> = (0..case.threads)
            .map(|_| plane(&case.stream(), 0))
            .collect();
        case.hold_up(&stream);
        thread::scope(|scope| {
            for (result, value) in results.iter_mut().zip(0..) {
                let (stream, kernel) = (&stream, &kernel);
                scope.spawn(move || {
                    let from = plane(&case.stream(), value);
                    let texture = Texture::new(&from, &Sampler::new()).unwrap();
                    let graph = Graph::capture(&case.context, |scope| {
                        mix(kernel, scope, &texture, result, 100)
                    });
                    let exec = graph.unwrap().instantiate().unwrap();
                    drop(from);
                    case.hold_up(stream);
                    exec.launch(stream).unwrap();
                    drop(exec);
                    mix(kernel, stream, &texture, result, 7).unwrap();
                    drop(texture);
                    // Memory that is released too early would be used by this array.
                    drop(plane(&case.stream(), 999));
                });
            }
        });
        for (result, value) in results.iter().zip(0..) {
            case.expect_words(&result.to_vec().unwrap(), 2 * value + 7);
        }
    });
}

/// Claim: an array is not released while a copy from it is queued on another stream.
#[test]
fn arrays_outlive_queued_copies() {
    Attack::new().run(|case| {
        let (one, two) = (case.stream(), case.stream());
        let mut target = plane(&two, 0);
        for value in 0..4 {
            let source = plane(&one, value);
            case.hold_up(&two);
            target.as_mut_slice().copy_from_on(&source, &two).unwrap();
            drop(source);
            drop(plane(&one, 999));
            case.expect_words(&target.to_vec().unwrap(), value);
        }
    });
}
