//! Textures and surfaces: the order of their uses, and the lifetime of their memory.

use std::sync::Arc;

use cuda_driver::error::{ArrayError, Error};
use cuda_driver::graph::{EagerCapture, GraphHostBuffer};
use cuda_driver::launch::ArgList;
use cuda_driver::memory::PitchedBuffer;
use cuda_driver::prelude::*;
use cuda_driver::texture::{
    Array, ArrayFlags, ArrayShape, MipmappedArray, ResourceView, Sampler, Surface, SurfaceMut,
    Texture,
};
use cuda_sim::Builder;

use crate::support::{Fixture, block, everywhere, late, software};

pub(crate) const TEXTURE: &str = include_str!("kernels/texture.ptx");

pub(crate) const WIDTH: u32 = 8;
pub(crate) const N: u32 = WIDTH * 4;
pub(crate) const PLANE: ArrayShape = ArrayShape::two_d(WIDTH as usize, 4);

type Mix = Kernel<(Texture, SurfaceMut<'static>, u32, u32, u32)>;
type Update = Kernel<(SurfaceMut<'static>, u32, u32, u32)>;
type Store = Kernel<(Surface<'static>, Writes<u32>, u32, u32)>;

/// The kernels of a device.
pub(crate) struct Kernels {
    pub(crate) mix: Mix,
    pub(crate) update: Update,
    pub(crate) store: Store,
}

impl Kernels {
    pub(crate) fn new(context: &Context) -> Self {
        let module = Module::load(context, &Ptx::new(TEXTURE).unwrap()).unwrap();
        Self {
            mix: module.function("mix").unwrap().typed().unwrap(),
            update: module.function("update").unwrap().typed().unwrap(),
            store: module.function("store").unwrap().typed().unwrap(),
        }
    }

    /// Queues `to = 2 * from + add`.
    pub(crate) fn mix<Q: Queue>(
        &self,
        queue: &Q,
        from: &Texture,
        to: &mut Array<u32>,
        add: u32,
    ) -> cuda_driver::Result<()> {
        let surface = to.surface_mut()?;
        // SAFETY: the kernel reads and writes N words of planes with N.
        unsafe {
            self.mix
                .launch(queue, config(), (from, surface, WIDTH, N, add))
        }
        .map(drop)
    }

    /// Queues `array = 2 * array + add`.
    pub(crate) fn update<Q: Queue>(
        &self,
        queue: &Q,
        array: &mut Array<u32>,
        add: u32,
    ) -> cuda_driver::Result<()> {
        let mut surface = array.surface_mut()?;
        // SAFETY: the kernel reads and writes N words of a plane with N.
        unsafe {
            self.update
                .launch(queue, config(), (&mut surface, WIDTH, N, add))
        }
        .map(drop)
    }

    /// Queues a copy of the array to `out` through a surface.
    pub(crate) fn store<Q: Queue>(
        &self,
        queue: &Q,
        array: &Array<u32>,
        out: &mut DeviceBuffer<u32>,
    ) -> cuda_driver::Result<()> {
        let surface = array.surface()?;
        // SAFETY: the kernel reads N words of a plane with N, and writes as many of the buffer.
        unsafe {
            self.store
                .launch(queue, config(), (&surface, out, WIDTH, N))
        }
        .map(drop)
    }
}

pub(crate) fn config() -> LaunchConfig {
    LaunchConfig::for_num_elems(N).unwrap()
}

pub(crate) fn plane(stream: &Stream, value: u32) -> Array<u32> {
    let words = [value; N as usize];
    Array::from_host_with(stream, &PLANE, ArrayFlags::SURFACE, &words).unwrap()
}

pub(crate) fn plain(array: &Array<u32>) -> Texture {
    Texture::new(array, &Sampler::new()).unwrap()
}

#[track_caller]
fn expect(array: &Array<u32>, value: u32, fixture: &Fixture) {
    assert_eq!(
        array.to_vec().unwrap(),
        [value; N as usize],
        "{}",
        fixture.name
    );
}

#[test]
fn launches_wait_for_writes_of_their_texture() {
    for fixture in everywhere() {
        let (one, two, kernels) = (
            fixture.stream(),
            fixture.stream(),
            Kernels::new(&fixture.context),
        );
        let (mut from, mut to) = (plane(&one, 1), plane(&two, 0));
        let texture = plain(&from);
        // The write of `from` waits; the launches on the other stream wait for it.
        let gate = block(&one);
        let source = DeviceBuffer::filled(&two, N as usize, 5_u32).unwrap();
        two.synchronize().unwrap();
        from.as_mut_slice().copy_from_on(&source, &one).unwrap();
        kernels.mix(&two, &texture, &mut to, 1).unwrap();
        // This write waits for the launch that reads.
        kernels.update(&one, &mut from, 100).unwrap();
        let mut out = DeviceBuffer::<u32>::zeroed(&two, N as usize).unwrap();
        kernels.store(&two, &from, &mut out).unwrap();
        drop(gate);
        expect(&to, 11, &fixture);
        expect(&from, 110, &fixture);
        assert_eq!(out.to_vec().unwrap(), [110; N as usize]);
    }
}

#[test]
fn a_launch_that_reads_and_writes_an_array_is_refused() {
    for fixture in everywhere() {
        let (stream, kernels) = (fixture.stream(), Kernels::new(&fixture.context));
        let mut array = plane(&stream, 3);
        let texture = plain(&array);
        let expect_refused = |result: cuda_driver::Result<()>| {
            let error = result.unwrap_err();
            assert_eq!(
                error,
                Error::from(ArrayError::Conflict {
                    written: 2,
                    other: 1
                }),
                "{}",
                fixture.name
            );
            assert_eq!(
                error.to_string(),
                "argument 2 writes an array that argument 1 uses; copy the array, or launch two \
                 kernels"
            );
        };
        expect_refused(kernels.mix(&stream, &texture, &mut array, 0));
        let captured = Graph::capture(&fixture.context, |scope| {
            kernels.mix(scope, &texture, &mut array, 0)
        });
        expect_refused(captured.map(drop));
        let eager = EagerCapture::begin(&stream).unwrap();
        expect_refused(kernels.mix(&stream, &texture, &mut array, 0));
        drop(eager);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let function = fixture.kernel(TEXTURE, "mix");
        let surface = array.surface_mut().unwrap();
        let args = (&texture, surface, WIDTH, N, 0_u32);
        // SAFETY: the kernel reads and writes N words of planes with N.
        let added = unsafe { graph.add_kernel(&[], &function, config(), args) };
        expect_refused(added.map(drop));
        let mut list = ArgList::new();
        list.push(&texture).push(array.surface_mut().unwrap());
        list.push(WIDTH).push(N).push(0_u32);
        // SAFETY: as above.
        expect_refused(unsafe { stream.launch(&function, config(), &list) });
        drop(list);
        // Without the texture the array is read and written by one surface.
        drop(texture);
        kernels.update(&stream, &mut array, 0).unwrap();
        expect(&array, 6, &fixture);
    }
}

#[test]
fn textures_and_graphs_keep_the_memory() {
    for fixture in everywhere() {
        let (one, two, kernels) = (
            fixture.stream(),
            fixture.stream(),
            Kernels::new(&fixture.context),
        );
        let mut to = plane(&two, 0);
        let from = plane(&one, 4);
        let texture = plain(&from);
        let again = texture.clone();
        assert_eq!(texture.as_raw(), again.as_raw());
        assert_eq!(texture.context(), &fixture.context);
        drop((from, texture));
        let gate = block(&two);
        kernels.mix(&two, &again, &mut to, 2).unwrap();
        let graph = Graph::capture(&fixture.context, |scope| {
            kernels.mix(scope, &again, &mut to, 3)?;
            kernels.update(scope, &mut to, 1)
        })
        .unwrap();
        drop(gate);
        // Only the graph has the texture and its array.
        drop(again);
        expect(&to, 10, &fixture);
        let exec = graph.instantiate().unwrap();
        drop(graph);
        let gate = block(&one);
        exec.launch(&one).unwrap();
        drop(exec);
        drop(gate);
        expect(&to, 23, &fixture);
    }
}

#[test]
fn graphs_copy_arrays_in_all_directions() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let (mut one, mut two) = (plane(&stream, 1), plane(&stream, 2));
        let mut rows =
            PitchedBuffer::from_host(&stream, (WIDTH as usize, 4), &[7_u32; N as usize]).unwrap();
        let mut graph = Graph::new(&fixture.context).unwrap();
        // The order follows from the accesses: there are no edges.
        graph.add_copy(&[], &mut one, &rows).unwrap();
        graph.add_copy(&[], &mut two, &one).unwrap();
        let half = two.region(.., ..2, ..).unwrap();
        let lower = rows.region_mut(.., 2.., ..).unwrap();
        graph.add_copy(&[], lower, half).unwrap();
        let target = one.region_mut(.., ..1, ..).unwrap();
        let source = two.region(.., 3.., ..).unwrap();
        let last = graph.add_copy(&[], target, source).unwrap();
        let fill = graph.add_fill(&[], &mut one, 0_u32).unwrap_err();
        assert!(
            fill.to_string().contains("a fill node for an array"),
            "{fill}"
        );
        assert_eq!(graph.edges().unwrap().len(), 3, "{}", fixture.name);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        rows.as_mut_slice()
            .copy_from_host(&[9; N as usize])
            .unwrap();
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        expect(&one, 9, &fixture);
        expect(&two, 9, &fixture);
        // A node can be changed to another box.
        let target = one.region_mut(.., 1..2, ..).unwrap();
        let source = two.region(.., 2..3, ..).unwrap();
        graph.set_copy(last, target, source).unwrap();
        drop(exec);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        expect(&one, 9, &fixture);
    }
}

#[test]
fn eager_captures_record_textures_and_copies() {
    for fixture in everywhere() {
        let (stream, kernels) = (fixture.stream(), Kernels::new(&fixture.context));
        let (mut one, mut two) = (plane(&stream, 1), plane(&stream, 0));
        let graph = {
            let texture = plain(&one);
            Graph::capture_eager(&stream, |_| {
                kernels.mix(&stream, &texture, &mut two, 1)?;
                one.copy_from(&two)
            })
            .unwrap()
        };
        expect(&one, 1, &fixture);
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        exec.launch(&stream).unwrap();
        expect(&one, 7, &fixture);
        let eager = EagerCapture::begin(&stream).unwrap();
        assert!(matches!(
            Array::<u32>::zeroed(&stream, &PLANE, ArrayFlags::empty()),
            Err(Error::EagerCapture { .. })
        ));
        drop(eager);
    }
}

/// A kernel may read one level through a texture and write the next one through a surface.
#[test]
fn levels_of_one_array_do_not_conflict() {
    for fixture in everywhere() {
        let (stream, kernels) = (fixture.stream(), Kernels::new(&fixture.context));
        let shape = ArrayShape::two_d(2 * WIDTH as usize, 8);
        let flags = ArrayFlags::SURFACE;
        let mut pyramid = MipmappedArray::<u32>::zeroed(&stream, &shape, 3, flags).unwrap();
        let words = vec![6; 4 * N as usize];
        pyramid
            .level_mut(0)
            .unwrap()
            .copy_from_host(&words)
            .unwrap();
        let sampler = Sampler::new().normalized_coordinates();
        let view = ResourceView::new().levels(0..=0);
        let first = Texture::with_view(&pyramid, &sampler, &view).unwrap();
        let all = Texture::new(&pyramid, &sampler).unwrap();
        let mut launch = |texture: &Texture| {
            let surface = pyramid.level_mut(1).unwrap().into_surface().unwrap();
            let args = (texture, surface, WIDTH, N, 1);
            // SAFETY: the kernel reads the nearest elements, and writes N words of a plane with N.
            unsafe { kernels.mix.launch(&stream, config(), args) }
        };
        launch(&first).unwrap();
        assert!(matches!(launch(&all), Err(Error::Array(_))));
        let level = pyramid.level(1).unwrap().to_vec().unwrap();
        assert_eq!(level, [13; N as usize], "{}", fixture.name);
        assert!(pyramid.level(1).unwrap().surface().unwrap().as_raw() != 0);
        assert!(
            pyramid
                .level_mut(2)
                .unwrap()
                .reborrow()
                .into_surface()
                .unwrap()
                .as_raw()
                != 0
        );
    }
}

/// A texture of a pitched buffer is ordered with the copy that made it, and keeps the buffer.
#[test]
fn textures_of_buffers_keep_them() {
    for seed in 0..6 {
        let fixture = software(late(seed));
        let (one, two, kernels) = (
            fixture.stream(),
            fixture.stream(),
            Kernels::new(&fixture.context),
        );
        let words = [4_u32; N as usize];
        let rows = PitchedBuffer::from_host(&one, (WIDTH as usize, 4), &words).unwrap();
        let texture = Texture::new(&Arc::new(rows), &Sampler::new()).unwrap();
        let mut to = plane(&two, 0);
        kernels.mix(&two, &texture, &mut to, 1).unwrap();
        drop(texture);
        expect(&to, 9, &fixture);
    }
}

#[test]
fn graphs_copy_between_arrays_and_the_host() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let flags = PinnedFlags::default();
        let pinned = PinnedBuffer::<u32>::zeroed(&fixture.context, N as usize, flags).unwrap();
        let host = GraphHostBuffer::new(pinned).unwrap();
        let words: Vec<u32> = (0..N).collect();
        host.write().unwrap().copy_from_slice(&words);
        let mut array = plane(&stream, 9);
        let mut graph = Graph::new(&fixture.context).unwrap();
        graph.add_copy(&[], &mut array, &host).unwrap();
        // The last row becomes the first one.
        let mut other = plane(&stream, 8);
        let first = other.region_mut(.., ..1, ..).unwrap();
        let last = array.region(.., 3.., ..).unwrap();
        graph.add_copy(&[], first, last).unwrap();
        graph.add_copy(&[], &host, &other).unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        let mut expected = vec![8; N as usize];
        expected[..WIDTH as usize].copy_from_slice(&words[3 * WIDTH as usize..]);
        assert_eq!(*host.read().unwrap(), expected[..], "{}", fixture.name);
        assert_eq!(array.to_vec().unwrap(), words, "{}", fixture.name);
    }
}

#[test]
fn a_texture_of_another_context_is_refused() {
    let one = software(Builder::new().devices(2));
    let two = one.context.driver().device(1).unwrap();
    let other = two.primary_context().unwrap().default_stream().unwrap();
    let kernels = Kernels::new(&one.context);
    let stream = one.stream();
    let (array, mut to) = (plane(&other, 1), plane(&stream, 2));
    let texture = plain(&array);
    let launched = kernels.mix(&stream, &texture, &mut to, 0);
    assert!(matches!(launched, Err(Error::OtherContext { .. })));
    let captured = Graph::capture(&one.context, |scope| {
        kernels.mix(scope, &texture, &mut to, 0)
    });
    assert!(matches!(captured, Err(Error::OtherContext { .. })));
    expect(&to, 2, &one);
}
