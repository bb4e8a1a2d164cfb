//! The settings of textures: views, samplers, conversions, and errors about contradicting settings.

use std::sync::Arc;

use cuda_driver::error::{ArrayError, Category, Error, Status};
use cuda_driver::memory::{PitchedBuffer, SharedSlice};
use cuda_driver::prelude::*;
use cuda_driver::texture::{
    AddressMode, Array, ArrayFlags, ArrayShape, Filter, MipmappedArray, ReadMode, ResourceView,
    Sampler, Texture, ViewFormat,
};
use cuda_sim::Builder;

use crate::support::{Fixture, everywhere, gpu, software};
use crate::texture::{N, PLANE, TEXTURE};

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
        assert!((r - 0.5029).abs() < 1.0 / 256.0, "{r} on {}", fixture.name);
        if fixture.simulator.is_some() {
            assert_eq!(r, 0.503_906_25, "the value of an H100");
        }
        assert!(
            g == 0.0 && b == 1.0 && (a - 0.2).abs() < 1e-6,
            "{g} {b} {a}"
        );
        let texture = Texture::new(&image, &sampler).unwrap();
        let border = look(&fixture, &texture, "look_2d", [-5.0, 0.0, 0.0, 0.0]);
        // The colour becomes bytes, as the elements are.
        for (found, exact) in border.into_iter().zip([0.25, 0.5, 0.75, 1.0]) {
            let error = (found - exact).abs();
            assert!(error <= 0.51 / 255.0, "{found} on {}", fixture.name);
        }
        if fixture.simulator.is_some() {
            assert_eq!(border[0], 64.0 / 255.0, "the value of an H100");
        }
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
    assert_eq!(
        text,
        "the largest anisotropic ratio of a texture is 17; 0 to 16 is allowed; lower \
         Sampler::max_anisotropy"
    );
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
        "the view selects the levels 1 to 2; the array has 2: 0 to 1"
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
        text.starts_with("the number of elements of a texture of linear memory is 0; 1 to "),
        "{text}"
    );
    assert!(text.ends_with(" is allowed; use at least 1"), "{text}");
    let text = rule(Texture::with_view(&table, &new(), &ResourceView::new()));
    assert!(text.contains("a view needs an array"), "{text}");
    let planes = Arc::new(PitchedBuffer::<f32>::zeroed(&stream, (4, 4, 2)).unwrap());
    let text = rule(Texture::new(&planes, &new()));
    assert!(text.contains("one plane"), "{text}");
}

/// The flag that returns integers as they are follows the format of the view, not of the array.
#[test]
fn views_read_bits_between_floats_and_integers() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let shape = ArrayShape::two_d(2, 1);
        let floats = Array::from_host(&stream, &shape, &[1.5_f32, -2.0]).unwrap();
        let as_words = ResourceView::new().format(ViewFormat::CU_RES_VIEW_FORMAT_UINT_1X32);
        let as_bytes = ResourceView::new().format(ViewFormat::CU_RES_VIEW_FORMAT_UINT_4X8);
        let at = [1.0, 0.0, 0.0, 0.0];
        let words = Texture::with_view(&floats, &Sampler::new(), &as_words).unwrap();
        let found = look(&fixture, &words, "look_2d_int", at)[0].to_bits();
        assert_eq!(found, (-2.0_f32).to_bits(), "{}", fixture.name);
        let bytes = Texture::with_view(&floats, &Sampler::new(), &as_bytes).unwrap();
        let found = look(&fixture, &bytes, "look_2d_int", at).map(f32::to_bits);
        assert_eq!(found, [0, 0, 0, 0xC0], "{}", fixture.name);

        let bits = [1.5_f32.to_bits(), 4.5_f32.to_bits()];
        let words = Array::from_host(&stream, &shape, &bits).unwrap();
        let as_floats = ResourceView::new().format(ViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X32);
        let smooth = Sampler::new().filter(Filter::Linear);
        let texture = Texture::with_view(&words, &smooth, &as_floats).unwrap();
        let found = look(&fixture, &texture, "look_2d", at)[0];
        assert_eq!(found, 3.0, "{}", fixture.name);
        // Integers are not filtered, whatever the array contains.
        let refused = Texture::with_view(&floats, &smooth, &as_words);
        assert!(matches!(refused, Err(Error::Array(_))));
    }
}

#[test]
fn gathers_read_one_channel_of_four_neighbours() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let pixels: Vec<[f32; 2]> = (0..12_u8).map(|i| [f32::from(i), 99.0]).collect();
        let (shape, flags) = (ArrayShape::two_d(4, 3), ArrayFlags::GATHER);
        let image = Array::from_host_with(&stream, &shape, flags, &pixels).unwrap();
        let texture = Texture::new(&image, &Sampler::new()).unwrap();
        // From the lower left one, counterclockwise.
        let found = look(&fixture, &texture, "gather_2d", [2.0, 1.0, 0.0, 0.0]);
        assert_eq!(found, [5.0, 6.0, 2.0, 1.0], "{}", fixture.name);
    }
}

#[test]
fn the_software_device_refuses_what_it_lacks_by_name() {
    type V = ViewFormat;
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let expect_refused = |refused: cuda_driver::Result<Texture>, named: &str| {
        let error = refused.unwrap_err();
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_NOT_SUPPORTED));
        assert_eq!(error.category(), Category::Support);
        let Error::Array(array) = &error else {
            panic!("{error:?}");
        };
        assert!(matches!(**array, ArrayError::NotSupported { .. }));
        assert_eq!(array.driver_error(), error.driver_error());
        let start = format!("this device does not support {named}; ");
        assert!(error.to_string().starts_with(&start), "{error}");
    };
    let narrow = Array::from_host(&stream, &PLANE, &[[0_u32; 2]; N as usize]).unwrap();
    let wide = Array::from_host(&stream, &PLANE, &[[0_u32; 4]; N as usize]).unwrap();
    let sampler = Sampler::new().filter(Filter::Linear);
    for format in [
        V::CU_RES_VIEW_FORMAT_UNSIGNED_BC1,
        V::CU_RES_VIEW_FORMAT_UNSIGNED_BC4,
        V::CU_RES_VIEW_FORMAT_SIGNED_BC4,
    ] {
        let view = ResourceView::new().format(format);
        let texture = Texture::with_view(&narrow, &sampler, &view);
        expect_refused(texture, "block-compressed views");
    }
    for format in [
        V::CU_RES_VIEW_FORMAT_UNSIGNED_BC2,
        V::CU_RES_VIEW_FORMAT_UNSIGNED_BC3,
        V::CU_RES_VIEW_FORMAT_UNSIGNED_BC5,
        V::CU_RES_VIEW_FORMAT_SIGNED_BC5,
        V::CU_RES_VIEW_FORMAT_UNSIGNED_BC6H,
        V::CU_RES_VIEW_FORMAT_SIGNED_BC6H,
        V::CU_RES_VIEW_FORMAT_UNSIGNED_BC7,
    ] {
        let view = ResourceView::new().format(format);
        let texture = Texture::with_view(&wide, &sampler, &view);
        expect_refused(texture, "block-compressed views");
    }
    let image = Array::from_host(&stream, &PLANE, &[1.0_f32; N as usize]).unwrap();
    let anisotropic = Sampler::new().max_anisotropy(4).full_trilinear();
    expect_refused(Texture::new(&image, &anisotropic), "anisotropic filters");
    let srgb = Sampler::new().srgb();
    expect_refused(Texture::new(&image, &srgb), "sRGB for these elements");
    let cube = Array::from_host(&stream, &ArrayShape::cube(2), &[1.0_f32; 24]).unwrap();
    let seamless = sampler.seamless().normalized_coordinates();
    expect_refused(
        Texture::new(&cube, &seamless),
        "filters across the edges of cubes",
    );
}

/// A GPU has the features that the software device refuses.
#[test]
fn a_gpu_reads_blocks_cubes_and_sparse_arrays() {
    let Some(fixture) = gpu() else { return };
    let stream = fixture.stream();
    // Two BC1 blocks of 4 x 4 elements: red, and blue. The first color is above the second one, and
    // all elements have the first.
    let blocks = [[0xF800_u32, 0], [0x001F, 0]];
    let blocks = Array::from_host(&stream, &ArrayShape::two_d(2, 1), &blocks).unwrap();
    let view = ResourceView::new().format(ViewFormat::CU_RES_VIEW_FORMAT_UNSIGNED_BC1);
    let texture = Texture::with_view(&blocks, &Sampler::new(), &view).unwrap();
    let at = |x| look(&fixture, &texture, "look_2d", [x, 3.5, 0.0, 0.0]);
    assert_eq!(at(3.5), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(at(4.5), [0.0, 0.0, 1.0, 1.0]);

    // The corner of a cube, where three faces meet.
    let faces: Vec<f32> = (0..24_u8).map(|at| f32::from(at / 4)).collect();
    let cube = Array::from_host(&stream, &ArrayShape::cube(2), &faces).unwrap();
    let smooth = Sampler::new()
        .filter(Filter::Linear)
        .normalized_coordinates();
    let seamless = Texture::new(&cube, &smooth.seamless()).unwrap();
    let corner = look(&fixture, &seamless, "look_cube", [1.0, 1.0, 1.0, 0.0])[0];
    // The mean of the faces +x, +y and +z: 0, 2 and 4.
    assert!((corner - 2.0).abs() < 0.1, "{corner}");

    let anisotropic = Sampler::new().max_anisotropy(4).full_trilinear();
    Texture::new(&cube, &anisotropic.normalized_coordinates()).unwrap();

    let shape = ArrayShape::two_d(256, 256);
    // SAFETY: the array is not used.
    let sparse = unsafe { Array::<u32>::uninit(&stream, &shape, ArrayFlags::SPARSE) }.unwrap();
    assert_eq!(sparse.flags(), ArrayFlags::SPARSE);
}
