//! Textures, surfaces and mipmapped arrays: created, described and rejected.

use std::ptr;

use cuda_sim::Builder;
use cuda_sys::{
    CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUaddress_mode,
    CUresourceViewFormat, CUresourcetype,
};

use crate::support::{ok, test_device};
use crate::texture_support::*;

#[test]
fn invalid_textures_are_refused() {
    let sim = test_device(Builder::new());
    let plane = sim.array_of(&desc([8, 4, 0], U8, 1, 0));
    let cube = sim.array_of(&desc([8, 8, 6], F32, 1, CUBEMAP));
    let mipmap = sim.mipmap_of(&desc([8, 8, 0], F32, 1, 0), 4);
    let memory = sim.alloc(4096);
    let freed = sim.alloc(4096);
    unsafe { ok(sim.cuMemFree_v2(freed)) };
    let row = |start, bytes| of_memory(start, bytes, F32, 1);
    let wrap = CUaddress_mode(9);
    let mut flagged = of_array(plane);
    flagged.flags = 1;
    let mut none = of_array(plane);
    none.resType = CUresourcetype(7);
    let cases = [
        ("a plane", of_array(plane), clamped(0), Ok(())),
        ("a cube", of_array(cube), filtered(NORMALIZED), Ok(())),
        ("levels", of_mipmap(mipmap), filtered(NORMALIZED), Ok(())),
        ("memory", row(memory, 4096), clamped(0), Ok(())),
        ("rows", of_rows(memory, [30, 8], 512), filtered(0), Ok(())),
        ("flags of a resource", flagged, clamped(0), Err(BAD)),
        ("no type", none, clamped(0), Err(BAD)),
        ("no array", of_array(ptr::null_mut()), clamped(0), Err(BAD)),
        (
            "another's handle",
            of_array(mipmap.cast()),
            clamped(0),
            Err(GONE),
        ),
        ("unknown flags", of_array(plane), clamped(4), Err(BAD)),
        ("unknown mode", of_array(plane), reading(wrap, 0), Err(BAD)),
        (
            "filtered integers",
            of_array(plane),
            filtered(INTEGER),
            Err(BAD),
        ),
        ("levels by element", of_mipmap(mipmap), clamped(0), Err(BAD)),
        (
            "a seamless plane",
            of_array(plane),
            clamped(SEAMLESS),
            Err(BAD),
        ),
        (
            "a seamless cube",
            of_array(cube),
            filtered(SEAMLESS),
            Err(UNSUPPORTED),
        ),
        (
            "one channel of sRGB",
            of_array(plane),
            clamped(SRGB),
            Err(UNSUPPORTED),
        ),
        (
            "memory in between",
            row(memory + 256, 256),
            clamped(0),
            Err(BAD),
        ),
        ("memory beyond", row(memory, 4100), clamped(0), Err(BAD)),
        ("freed memory", row(freed, 4096), clamped(0), Err(BAD)),
        ("no memory", row(memory, 3), clamped(0), Err(BAD)),
        (
            "three channels",
            of_memory(memory, 4096, F32, 3),
            clamped(0),
            Err(BAD),
        ),
        (
            "a pitch of 100",
            of_rows(memory, [16, 8], 100),
            clamped(0),
            Err(BAD),
        ),
        (
            "rows beyond",
            of_rows(memory, [128, 9], 512),
            clamped(0),
            Err(BAD),
        ),
        (
            "rows over a pitch",
            of_rows(memory, [129, 4], 512),
            clamped(0),
            Err(BAD),
        ),
    ];
    for (name, resource, texture, expected) in cases {
        let made = sim.make_texture(&resource, &texture, None);
        assert_eq!(made.map(|_| ()), expected, "{name}");
    }
    let mut anisotropic = clamped(0);
    anisotropic.maxAnisotropy = 4;
    let made = sim.make_texture(&of_array(plane), &anisotropic, None);
    assert_eq!(made, Err(UNSUPPORTED));
    assert_eq!(sim.simulator.live().textures, 5);
}

#[test]
fn surfaces_are_of_arrays_made_for_them() {
    let sim = test_device(Builder::new());
    let (array, surface) = sim.row();
    let plain = sim.array_of(&desc([16, 0, 0], U32, 1, 0));
    assert_eq!(sim.make_surface(&of_array(plain)), Err(BAD));
    let memory = of_memory(sim.alloc(512), 512, U32, 1);
    assert_eq!(sim.make_surface(&memory), Err(BAD));
    let mut back: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
    unsafe {
        ok(sim.cuSurfObjectGetResourceDesc(&raw mut back, surface));
        assert_eq!(back.resType, CUresourcetype::CU_RESOURCE_TYPE_ARRAY);
        assert_eq!(back.res.array.hArray, array);
        ok(sim.cuSurfObjectDestroy(surface));
        assert_eq!(sim.cuSurfObjectDestroy(surface), GONE);
        assert_eq!(
            sim.cuSurfObjectGetResourceDesc(&raw mut back, surface),
            GONE
        );
    }
    assert_eq!(sim.simulator.live().surfaces, 0);
}

#[test]
fn descriptors_are_returned_as_given() {
    let sim = test_device(Builder::new());
    let array = sim.array_of(&desc([8, 4, 6], U32, 1, LAYERED));
    let mut texture = reading(CUaddress_mode::CU_TR_ADDRESS_MODE_BORDER, INTEGER);
    texture.borderColor = [1.0, 2.0, 3.0, 4.0];
    let mut view: CUDA_RESOURCE_VIEW_DESC = unsafe { std::mem::zeroed() };
    view.format = CUresourceViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X32;
    (view.width, view.height, view.depth) = (8, 4, 6);
    (view.firstLayer, view.lastLayer) = (2, 3);
    let with = sim.make_texture(&of_array(array), &texture, Some(&view));
    let (with, without) = (
        with.unwrap(),
        sim.make_texture(&of_array(array), &texture, None).unwrap(),
    );
    let mut back: CUDA_TEXTURE_DESC = unsafe { std::mem::zeroed() };
    let mut part: CUDA_RESOURCE_VIEW_DESC = unsafe { std::mem::zeroed() };
    let mut resource: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
    unsafe {
        ok(sim.cuTexObjectGetTextureDesc(&raw mut back, with));
        ok(sim.cuTexObjectGetResourceViewDesc(&raw mut part, with));
        ok(sim.cuTexObjectGetResourceDesc(&raw mut resource, with));
        assert_eq!(resource.res.array.hArray, array);
        let status = sim.cuTexObjectGetResourceViewDesc(&raw mut part, without);
        assert_eq!(status, BAD);
    }
    assert_eq!(back.addressMode, texture.addressMode);
    assert_eq!(back.borderColor, texture.borderColor);
    assert_eq!((part.width, part.firstLayer, part.lastLayer), (8, 2, 3));
    // Views of something that does not exist.
    let wrong: [fn(&mut CUDA_RESOURCE_VIEW_DESC); 8] = [
        |view| view.width = 7,
        |view| view.height = 5,
        // A depth that is not the number of layers.
        |view| view.depth = 2,
        |view| view.format = CUresourceViewFormat::CU_RES_VIEW_FORMAT_NONE,
        |view| view.lastLayer = 6,
        |view| view.firstLayer = 4,
        |view| view.lastMipmapLevel = 1,
        |view| view.format = CUresourceViewFormat::CU_RES_VIEW_FORMAT_FLOAT_2X32,
    ];
    for (number, change) in wrong.into_iter().enumerate() {
        let mut view = view;
        change(&mut view);
        let made = sim.make_texture(&of_array(array), &texture, Some(&view));
        assert_eq!(made, Err(BAD), "{number}");
    }
    view.format = CUresourceViewFormat::CU_RES_VIEW_FORMAT_UNSIGNED_BC1;
    let made = sim.make_texture(&of_array(array), &texture, Some(&view));
    assert_eq!(made, Err(UNSUPPORTED));
    unsafe {
        ok(sim.cuTexObjectDestroy(with));
        assert_eq!(sim.cuTexObjectDestroy(with), GONE);
        assert_eq!(sim.cuTexObjectGetTextureDesc(&raw mut back, with), GONE);
    }
}

#[test]
fn mipmapped_arrays_have_the_expected_extents() {
    let sim = test_device(Builder::new());
    // The extent, the flags, the requested number of levels, and the extents of the levels that
    // result.
    type Case = ([usize; 3], u32, u32, &'static [[usize; 3]]);
    let cases: [Case; 5] = [
        (
            [12, 0, 0],
            0,
            9,
            &[[12, 0, 0], [6, 0, 0], [3, 0, 0], [1, 0, 0]],
        ),
        ([4, 8, 0], 0, 0, &[[4, 8, 0]]),
        (
            [4, 9, 0],
            0,
            4,
            &[[4, 9, 0], [2, 4, 0], [1, 2, 0], [1, 1, 0]],
        ),
        ([2, 2, 9], 0, 2, &[[2, 2, 9], [1, 1, 4]]),
        ([2, 2, 9], LAYERED, 8, &[[2, 2, 9], [1, 1, 9]]),
    ];
    for (extents, flags, levels, expected) in cases {
        let array = sim.mipmap_of(&desc(extents, F32, 2, flags), levels);
        let mut level = ptr::null_mut();
        for (number, extents) in expected.iter().enumerate() {
            unsafe {
                ok(sim.cuMipmappedArrayGetLevel(&raw mut level, array, number as u32));
                let mut back = desc([0; 3], U8, 1, 0);
                ok(sim.cuArray3DGetDescriptor_v2(&raw mut back, level));
                assert_eq!([back.Width, back.Height, back.Depth], *extents);
                assert_eq!((back.Format, back.NumChannels, back.Flags), (F32, 2, flags));
                assert_eq!(sim.cuArrayDestroy(level), GONE);
            }
        }
        let beyond = expected.len() as u32;
        unsafe {
            let status = sim.cuMipmappedArrayGetLevel(&raw mut level, array, beyond);
            assert_eq!(status, BAD);
            assert_eq!(sim.simulator.live().mipmapped_arrays, 1);
            assert_eq!(sim.simulator.live().arrays, 0);
            ok(sim.cuMipmappedArrayDestroy(array));
            assert_eq!(sim.cuMipmappedArrayDestroy(array), GONE);
            let mut back = desc([0; 3], U8, 1, 0);
            assert_eq!(sim.cuArray3DGetDescriptor_v2(&raw mut back, level), GONE);
        }
    }
    let mut array = ptr::null_mut();
    let none = desc([4, 0, 2], F32, 1, 0);
    let status = unsafe { sim.cuMipmappedArrayCreate(&raw mut array, &none, 1) };
    assert_eq!(status, BAD);
    let gathered = desc([4, 4, 2], F32, 1, LAYERED | GATHER);
    let status = unsafe { sim.cuArray3DCreate_v2((&raw mut array).cast(), &gathered) };
    assert_eq!(status, BAD);
}
