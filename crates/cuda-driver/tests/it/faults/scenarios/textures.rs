//! Scenarios of arrays, textures and surfaces.

use cuda_driver::prelude::*;
use cuda_driver::texture::{
    Array, ArrayFlags, ArrayShape, MipmappedArray, ResourceView, Sampler, Surface, SurfaceMut,
    Texture,
};

use super::{Fixture, Result, Scenario, one, two};

pub(super) const ALL: &[Scenario] = &[
    one("array copies", copies),
    one("textures and surfaces", kernels),
    one("mipmapped array", mipmapped),
    one("texture in a graph", in_graph),
    two("arrays of two devices", peers),
];

const TEXTURE: &str = include_str!("../../kernels/texture.ptx");

const WIDTH: u32 = 8;
const N: u32 = WIDTH * 4;
const PLANE: ArrayShape = ArrayShape::two_d(WIDTH as usize, 4);

fn plane(stream: &Stream, value: u32) -> Result<Array<u32>> {
    Array::from_host_with(stream, &PLANE, ArrayFlags::SURFACE, &[value; N as usize])
}

fn expect(array: &Array<u32>, value: u32) -> Result<()> {
    assert_eq!(array.to_vec()?, [value; N as usize], "wrong result");
    Ok(())
}

fn copies(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let mut one = Array::<u32>::zeroed(&stream, &PLANE, ArrayFlags::empty())?;
    let two = plane(&other, 5)?;
    one.copy_from(&two)?;
    drop(two);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&other, N as usize)?;
    one.as_slice().copy_to_on(&mut buffer, &other)?;
    assert_eq!(buffer.to_vec()?, [5; N as usize]);
    expect(&one, 5)
}

fn kernels(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let mix = fixture.kernel(TEXTURE, "mix")?;
    let mix: Kernel<(Texture, SurfaceMut<'static>, u32, u32, u32)> = mix.typed()?;
    let store = fixture.kernel(TEXTURE, "store")?;
    let store: Kernel<(Surface<'static>, Writes<u32>, u32, u32)> = store.typed()?;
    let config = LaunchConfig::for_num_elems(N)?;
    let (from, mut to) = (plane(&stream, 3)?, plane(&other, 0)?);
    let texture = Texture::new(&from, &Sampler::new())?;
    drop(from);
    let surface = to.surface_mut()?;
    // SAFETY: the kernel reads and writes N words of planes with N.
    unsafe { mix.launch(&other, config, (&texture, surface, WIDTH, N, 1)) }?;
    drop(texture);
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, N as usize)?;
    // SAFETY: the kernel reads N words of a plane with N, and writes as many of the buffer.
    unsafe { store.launch(&stream, config, (to.surface()?, &mut out, WIDTH, N)) }?;
    assert_eq!(out.to_vec()?, [7; N as usize], "wrong result");
    expect(&to, 7)
}

fn mipmapped(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let flags = ArrayFlags::SURFACE;
    let mut pyramid = MipmappedArray::<u32>::zeroed(&stream, &PLANE, 2, flags)?;
    pyramid.level_mut(1)?.copy_from_host(&[4; 8])?;
    let sampler = Sampler::new().normalized_coordinates();
    let view = ResourceView::new().levels(1..=1);
    drop(Texture::with_view(&pyramid, &sampler, &view)?);
    assert_eq!(pyramid.level(1)?.to_vec()?, [4; 8], "wrong result");
    Ok(())
}

fn in_graph(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mix = fixture.kernel(TEXTURE, "mix")?;
    let config = LaunchConfig::for_num_elems(N)?;
    let (from, mut to) = (plane(&stream, 3)?, plane(&stream, 0)?);
    let texture = Texture::new(&from, &Sampler::new())?;
    let graph = Graph::capture(&fixture.context, |scope| {
        let args = (&texture, to.surface_mut()?, WIDTH, N, 1_u32);
        // SAFETY: the kernel reads and writes N words of planes with N.
        unsafe { scope.launch(&mix, config, args) }.map(drop)
    })?;
    drop((texture, from));
    graph.instantiate()?.launch(&stream)?;
    expect(&to, 7)
}

fn peers(fixture: &Fixture) -> Result<()> {
    let other = fixture.driver.device(1)?.primary_context()?;
    let (owner, there) = (fixture.stream()?, other.default_stream()?);
    let image = plane(&owner, 3)?;
    let mut copy = Array::<u32>::zeroed(&there, &PLANE, ArrayFlags::empty())?;
    copy.as_mut_slice().copy_from_peer(&image.as_slice())?;
    drop(image);
    expect(&copy, 3)
}
