//! Textures and surfaces: the order of their uses, the lifetime of their memory, and errors.

use std::sync::Arc;

use cuda_driver::error::{ArrayError, Error, Status};
use cuda_driver::graph::EagerCapture;
use cuda_driver::launch::ArgList;
use cuda_driver::memory::{PitchedBuffer, SharedSlice};
use cuda_driver::prelude::*;
use cuda_driver::texture::{
    AddressMode, Array, ArrayFlags, ArrayShape, Filter, MipmappedArray, ReadMode, ResourceView,
    Sampler, Surface, SurfaceMut, Texture, ViewFormat,
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
        eager.end().unwrap();
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
        eager.end().unwrap();
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

/// Reads one point of a texture.
fn look(fixture: &Fixture, texture: &Texture, kernel: &str, at: [f32; 4]) -> [f32; 4] {
    let (stream, kernel) = (fixture.stream(), fixture.kernel(TEXTURE, kernel));
    let at = DeviceBuffer::from_host(&stream, &[at]).unwrap();
    let mut out = DeviceBuffer::<[f32; 4]>::zeroed(&stream, 1).unwrap();
    let args = (texture, &at, &mut out, 1_u32);
    // SAFETY: the kernel reads a point and writes four words.
    unsafe { stream.launch(&kernel, LaunchConfig::new(1, 1), args) }.unwrap();
    out.to_vec().unwrap()[0]
}

#[test]
fn views_select_layers_levels_and_formats() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let shape = ArrayShape::two_d_layered(2, 1, 4);
        let words: Vec<u32> = (0..8).map(|i| 0x0102_0304 * i).collect();
        let layers = Array::from_host(&stream, &shape, &words).unwrap();
        let view = ResourceView::new()
            .format(ViewFormat::CU_RES_VIEW_FORMAT_UINT_4X8)
            .layers(2..=3);
        let sampler = Sampler::new().read(ReadMode::NormalizedFloat);
        // The array has 32-bit channels, which cannot be normalized; those of the view can be.
        assert!(Texture::new(&layers, &sampler).is_err());
        let texture = Texture::with_view(&layers, &sampler, &view).unwrap();
        let found = look(&fixture, &texture, "look_2d_layered", [1.0, 0.0, 0.0, 1.0]);
        let bytes = words[7].to_le_bytes().map(|byte| f32::from(byte) / 255.0);
        for (found, exact) in found.iter().zip(bytes) {
            assert!(
                (found - exact).abs() < 1e-6,
                "{found} {exact} on {}",
                fixture.name
            );
        }

        let shape = ArrayShape::two_d(4, 4);
        let flags = ArrayFlags::empty();
        let mut pyramid = MipmappedArray::<f32>::zeroed(&stream, &shape, 3, flags).unwrap();
        for level in 0..3_u8 {
            let len = 16 >> (2 * level);
            let mut view = pyramid.level_mut(level.into()).unwrap();
            view.copy_from_host(&vec![f32::from(level); len]).unwrap();
        }
        let sampler = Sampler::new()
            .normalized_coordinates()
            .filter(Filter::Linear)
            .level_filter(Filter::Linear);
        let texture = Texture::new(&pyramid, &sampler.levels(0.0, 2.0)).unwrap();
        let at = |lod| look(&fixture, &texture, "level_2d", [0.5, 0.5, 0.0, lod])[0];
        assert_eq!([at(0.0), at(0.5), at(1.0), at(9.0)], [0.0, 0.5, 1.0, 2.0]);
        let view = ResourceView::new().levels(1..=2);
        let texture = Texture::with_view(&pyramid, &sampler.levels(0.0, 1.0), &view).unwrap();
        assert_eq!(look(&fixture, &texture, "level_2d", [0.5; 4])[0], 1.5);
        let biased = Texture::new(&pyramid, &sampler.levels(0.0, 2.0).level_bias(1.0)).unwrap();
        assert_eq!(
            look(&fixture, &biased, "level_2d", [0.5, 0.5, 0.0, 0.0])[0],
            1.0
        );
    }
}

#[test]
fn samplers_convert_srgb_and_return_the_border() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let pixels = [[188_u8, 0, 255, 51]; 4];
        let image = Array::from_host(&stream, &ArrayShape::two_d(2, 2), &pixels).unwrap();
        let sampler = Sampler::new()
            .read(ReadMode::NormalizedFloat)
            .address_of_each([AddressMode::Border, AddressMode::Clamp, AddressMode::Clamp])
            .border([0.25, 0.5, 0.75, 1.0]);
        let texture = Texture::new(&image, &sampler.srgb()).unwrap();
        let [r, g, b, a] = look(&fixture, &texture, "look_2d", [0.5, 9.0, 0.0, 0.0]);
        // 188 / 255 in sRGB is 0.5029 of the light; alpha is not converted.
        assert!((r - 0.5029).abs() < 1e-3, "{r} on {}", fixture.name);
        assert!(
            g == 0.0 && b == 1.0 && (a - 0.2).abs() < 1e-6,
            "{g} {b} {a}"
        );
        let texture = Texture::new(&image, &sampler).unwrap();
        let border = look(&fixture, &texture, "look_2d", [-5.0, 0.0, 0.0, 0.0]);
        assert_eq!(border, [0.25, 0.5, 0.75, 1.0]);
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let words = Array::from_host(&stream, &PLANE, &[1_u32; N as usize]).unwrap();
    let floats = Array::from_host(&stream, &PLANE, &[1.0_f32; N as usize]).unwrap();
    let rule = |result: cuda_driver::Result<Texture>| match result {
        Err(Error::Array(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let new = Sampler::new;
    let text = rule(Texture::new(&words, &new().filter(Filter::Linear)));
    assert!(
        text.contains("Filter::Linear needs a texture that returns floats"),
        "{text}"
    );
    let text = rule(Texture::new(&words, &new().read(ReadMode::NormalizedFloat)));
    assert!(text.contains("needs elements of 8 or 16 bits"), "{text}");
    let text = rule(Texture::new(&floats, &new().address(AddressMode::Wrap)));
    assert!(
        text.contains("add Sampler::normalized_coordinates"),
        "{text}"
    );
    let text = rule(Texture::new(&floats, &new().seamless()));
    assert!(text.contains("needs a cube"), "{text}");
    let text = rule(Texture::new(&floats, &new().max_anisotropy(17)));
    assert!(text.contains("is 17; this device allows 0 to 16"), "{text}");
    let flags = ArrayFlags::empty();
    let pyramid = MipmappedArray::<f32>::zeroed(&stream, &PLANE, 2, flags).unwrap();
    let text = rule(Texture::new(&pyramid, &new()));
    assert!(
        text.contains("mipmapped array needs normalized coordinates"),
        "{text}"
    );
    let view = ResourceView::new().levels(1..=2);
    let sampler = new().normalized_coordinates();
    let text = rule(Texture::with_view(&pyramid, &sampler, &view));
    assert_eq!(
        text,
        "the view selects the levels 1 to 2 of an array with 2; select some of 0 to 1"
    );
    let text = rule(Texture::with_view(
        &floats,
        &new(),
        &ResourceView::new().layers(0..=0),
    ));
    assert!(text.contains("needs an array with layers"), "{text}");

    // Linear and pitched memory.
    let table = SharedSlice::from(DeviceBuffer::<f32>::zeroed(&stream, 1024).unwrap());
    let text = rule(Texture::new(&table, &new().normalized_coordinates()));
    assert!(text.contains("copy the elements to an array"), "{text}");
    let text = rule(Texture::new(&table.slice(1..).unwrap(), &new()));
    assert!(
        text.contains("is not a multiple of 512; start the view"),
        "{text}"
    );
    let text = rule(Texture::new(&table.slice(..0).unwrap(), &new()));
    assert!(
        text.contains("the number of elements of a texture of linear memory is 0"),
        "{text}"
    );
    let text = rule(Texture::with_view(&table, &new(), &ResourceView::new()));
    assert!(text.contains("a view needs an array"), "{text}");
    let planes = Arc::new(PitchedBuffer::<f32>::zeroed(&stream, (4, 4, 2)).unwrap());
    let text = rule(Texture::new(&planes, &new()));
    assert!(text.contains("one plane"), "{text}");
}

#[test]
fn the_software_device_refuses_what_it_lacks() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let blocks = Array::from_host(&stream, &PLANE, &[[0_u32; 2]; N as usize]).unwrap();
    let bc1 = ResourceView::new().format(ViewFormat::CU_RES_VIEW_FORMAT_UNSIGNED_BC1);
    let image = Array::from_host(&stream, &PLANE, &[1.0_f32; N as usize]).unwrap();
    let anisotropic = Sampler::new().max_anisotropy(4).full_trilinear();
    for refused in [
        Texture::with_view(
            &blocks,
            &Sampler::new().read(ReadMode::NormalizedFloat),
            &bc1,
        ),
        Texture::new(&image, &anisotropic),
        Texture::new(&image, &Sampler::new().srgb()),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(
            error.status(),
            Some(Status::CUDA_ERROR_NOT_SUPPORTED),
            "{error}"
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
