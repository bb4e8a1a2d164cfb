//! Scenarios of launches.

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_driver::tensor_map::{
    Im2col, Im2colWide, TensorDataType, TensorLayout, TensorMap, TensorSwizzle, WidePixels,
};

use super::{Fixture, N, Result, Scenario, config, expect, filled, on, one};
use crate::support::{COPY, MIX};

pub(super) const ALL: &[Scenario] = &[
    one("launches", launches),
    one("raw calls", raw_calls),
    one("launch attributes", attributes),
    one("shared memory", shared),
    one("tensor maps", tensor_maps),
    on(
        "wide tensor maps",
        |it| it.compute_capability(10, 0),
        wide_tensor_maps,
    ),
];

fn launches(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let mix = fixture.kernel(MIX, "mix")?;
    let typed: Kernel<(Writes<u32>, Reads<u32>, u32)> = mix.typed()?;
    let (mut x, y) = (filled(&stream, 1)?, filled(&other, 10)?);
    // SAFETY: the kernel touches N words of each; each has N.
    unsafe { typed.launch(&stream, config(), (&mut x, &y, N)) }?;
    let mut args = ArgList::new();
    args.push(&mut x).push(&y).push(N);
    // SAFETY: as above.
    unsafe { other.launch(&mix, config(), &args) }?;
    drop(args);
    expect(&x, 34)
}

/// Launches and copies with raw pointers.
fn raw_calls(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let kernel = fixture.kernel(COPY, "copy")?;
    let (source, mut target) = (filled(&stream, 5)?, filled(&stream, 0)?);
    let (mut from, mut to, mut len) = (source.as_raw(), target.as_raw(), N);
    let mut params = [
        (&raw mut from).cast(),
        (&raw mut to).cast(),
        (&raw mut len).cast(),
    ];
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    unsafe { other.launch_raw(&kernel, config(), None, &mut params, (&source, &mut target)) }?;
    expect(&target, 5)?;
    let mut last = filled(&other, 0)?;
    let (from, to, bytes) = (target.as_raw(), last.as_raw(), 4 * N as usize);
    // SAFETY: both buffers have N words.
    unsafe { stream.copy_raw(to, from, bytes, (&mut last, &target)) }?;
    expect(&last, 5)
}

fn attributes(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, y) = (filled(&stream, 1)?, filled(&stream, 10)?);
    let attributes = LaunchAttributes::new().cluster(2).priority(0);
    let wide = LaunchConfig::new(2, 32);
    // SAFETY: the kernel touches N words of each; each has N.
    unsafe { stream.launch_with(&mix, wide, &attributes, (&mut x, &y, N)) }?;
    let cooperative = LaunchAttributes::new().cooperative();
    // SAFETY: as above.
    unsafe { stream.launch_with(&mix, wide, &cooperative, (&mut x, &y, N)) }?;
    expect(&x, 34)
}

/// More shared memory than a kernel may use without raising its limit.
fn shared(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let kernel = fixture.kernel(COPY, "copy")?;
    let (source, mut target) = (filled(&stream, 5)?, filled(&stream, 0)?);
    let config = config().with_shared_bytes(64 << 10);
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    unsafe { stream.launch(&kernel, config, (&source, &mut target, N)) }?;
    expect(&target, 5)
}

fn tensor_maps(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let one = DeviceBuffer::<u8>::zeroed(&stream, 64 * 8 * 4 * 4)?;
    let two = one.try_clone()?;
    let layout = TensorLayout::new(TensorDataType::F32, &[64, 8, 4]);
    let mut map = TensorMap::tiled(&one.as_slice(), &layout, &[8, 8, 4])?;
    let before = map.as_raw().opaque;
    map.replace_address(&two.as_slice())?;
    assert_ne!(map.as_raw().opaque, before);
    let columns = Im2col {
        lower_corner: &[0],
        upper_corner: &[0],
        channels_per_pixel: 8,
        pixels_per_column: 8,
    };
    TensorMap::im2col(&two.as_slice(), &layout, &columns).map(drop)
}

fn wide_tensor_maps(fixture: &Fixture) -> Result<()> {
    let memory = DeviceBuffer::<u8>::zeroed(&fixture.stream()?, 64 * 8 * 4 * 4)?;
    let layout = TensorLayout::new(TensorDataType::F32, &[64, 8, 4]);
    let layout = layout.swizzle(TensorSwizzle::Bytes128);
    let wide = Im2colWide {
        lower_corner: 0,
        upper_corner: 0,
        channels_per_pixel: 8,
        pixels: WidePixels::Count(8),
    };
    made(TensorMap::im2col_wide(&memory.as_slice(), &layout, &wide))
}

/// Accepts the error for a kind of tensor map that the software device does not support.
fn made(map: Result<TensorMap>) -> Result<()> {
    match map {
        Err(Error::Driver(error))
            if error.status() == Status::CUDA_ERROR_NOT_SUPPORTED
                && error.call().name.starts_with("cuTensorMap") =>
        {
            Ok(())
        }
        map => map.map(drop),
    }
}
