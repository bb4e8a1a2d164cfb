//! Textures, surfaces and mipmapped arrays.

use std::ptr::{from_ref, null, null_mut};

use cuda_sys::{
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC,
    CUaddress_mode, CUarray, CUarray_format, CUfilter_mode, CUmipmappedArray, CUresourceViewFormat,
    CUresourcetype, CUresult,
};

use crate::fixture::{Fixture, SIZE, cases, made};

const FLOAT: CUarray_format = CUarray_format(0x20);
const WORD: CUarray_format = CUarray_format(3);
const INTEGER: u32 = 1;
const SEAMLESS: u32 = 0x40;

/// A descriptor of an array of 8 × 8 elements.
fn plane(format: CUarray_format, flags: u32) -> CUDA_ARRAY3D_DESCRIPTOR {
    made(|desc: &mut CUDA_ARRAY3D_DESCRIPTOR| {
        (desc.Width, desc.Height, desc.Flags) = (8, 8, flags);
        (desc.Format, desc.NumChannels) = (format, 1);
    })
}

/// Creates an array and calls `work` with it.
fn with_array(
    g: &Fixture<'_>,
    desc: &CUDA_ARRAY3D_DESCRIPTOR,
    work: impl FnOnce(CUarray) -> CUresult,
) -> CUresult {
    let mut array = null_mut();
    unsafe {
        let status = g.d.cuArray3DCreate_v2(&raw mut array, desc);
        assert_eq!(status, CUresult::CUDA_SUCCESS);
        let status = work(array);
        g.d.cuArrayDestroy(array);
        status
    }
}

/// Creates a mipmapped array of three levels of floats and calls `work` with it.
fn with_levels(g: &Fixture<'_>, work: impl FnOnce(CUmipmappedArray) -> CUresult) -> CUresult {
    let mut array = null_mut();
    unsafe {
        let status =
            g.d.cuMipmappedArrayCreate(&raw mut array, &plane(FLOAT, 0), 3);
        assert_eq!(status, CUresult::CUDA_SUCCESS);
        let status = work(array);
        g.d.cuMipmappedArrayDestroy(array);
        status
    }
}

fn of_array(array: CUarray) -> CUDA_RESOURCE_DESC {
    made(|desc: &mut CUDA_RESOURCE_DESC| {
        desc.resType = CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
        desc.res.array.hArray = array;
    })
}

/// Creates a texture, and destroys it if there is one.
fn texture(
    g: &Fixture<'_>,
    resource: &CUDA_RESOURCE_DESC,
    texture: &CUDA_TEXTURE_DESC,
    view: Option<&CUDA_RESOURCE_VIEW_DESC>,
) -> CUresult {
    let mut object = 0;
    let view = view.map_or(null(), from_ref);
    unsafe {
        let status =
            g.d.cuTexObjectCreate(&raw mut object, resource, texture, view);
        if status == CUresult::CUDA_SUCCESS {
            g.d.cuTexObjectDestroy(object);
        }
        status
    }
}

/// Creates a texture of a plane of elements of the given format, changed by `set`.
fn of_plane(
    g: &Fixture<'_>,
    format: CUarray_format,
    set: impl FnOnce(&mut CUDA_RESOURCE_DESC, &mut CUDA_TEXTURE_DESC),
) -> CUresult {
    with_array(g, &plane(format, 0), |array| {
        let (mut resource, mut desc) = (of_array(array), made(|_: &mut CUDA_TEXTURE_DESC| {}));
        set(&mut resource, &mut desc);
        texture(g, &resource, &desc, None)
    })
}

/// Creates a texture of a plane of floats with a resource view, changed by `set`.
fn of_view(g: &Fixture<'_>, set: impl FnOnce(&mut CUDA_RESOURCE_VIEW_DESC)) -> CUresult {
    with_array(g, &plane(FLOAT, 0), |array| {
        let view = made(|view: &mut CUDA_RESOURCE_VIEW_DESC| {
            view.format = CUresourceViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X32;
            (view.width, view.height) = (8, 8);
            set(view);
        });
        let desc = made(|_: &mut CUDA_TEXTURE_DESC| {});
        texture(g, &of_array(array), &desc, Some(&view))
    })
}

/// Creates a texture of linear memory, as one row of floats, changed by `set`.
fn of_memory(g: &Fixture<'_>, set: impl FnOnce(&mut CUDA_RESOURCE_DESC)) -> CUresult {
    let resource = made(|desc: &mut CUDA_RESOURCE_DESC| {
        desc.resType = CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
        desc.res.linear.devPtr = g.memory;
        desc.res.linear.format = FLOAT;
        desc.res.linear.numChannels = 1;
        desc.res.linear.sizeInBytes = SIZE;
        set(desc);
    });
    texture(g, &resource, &made(|_: &mut CUDA_TEXTURE_DESC| {}), None)
}

/// Creates a texture of pitched memory, as rows of floats, changed by `set`.
fn of_rows(g: &Fixture<'_>, set: impl FnOnce(&mut CUDA_RESOURCE_DESC)) -> CUresult {
    let resource = made(|desc: &mut CUDA_RESOURCE_DESC| {
        desc.resType = CUresourcetype::CU_RESOURCE_TYPE_PITCH2D;
        desc.res.pitch2D.devPtr = g.memory;
        desc.res.pitch2D.format = FLOAT;
        desc.res.pitch2D.numChannels = 1;
        (desc.res.pitch2D.width, desc.res.pitch2D.height) = (16, 8);
        desc.res.pitch2D.pitchInBytes = 512;
        set(desc);
    });
    texture(g, &resource, &made(|_: &mut CUDA_TEXTURE_DESC| {}), None)
}

/// Creates a surface of a resource, and destroys it if there is one.
fn surface(g: &Fixture<'_>, resource: &CUDA_RESOURCE_DESC) -> CUresult {
    let mut object = 0;
    unsafe {
        let status = g.d.cuSurfObjectCreate(&raw mut object, resource);
        if status == CUresult::CUDA_SUCCESS {
            g.d.cuSurfObjectDestroy(object);
        }
        status
    }
}

cases! { g:
    "a_texture_to_nowhere" => with_array(g, &plane(FLOAT, 0), |array| unsafe {
        let desc = made(|_: &mut CUDA_TEXTURE_DESC| {});
        g.d.cuTexObjectCreate(null_mut(), &of_array(array), &desc, null())
    });
    "a_texture_of_no_resource" => {
        let mut object = 0;
        g.d.cuTexObjectCreate(&raw mut object, null(), &made(|_: &mut CUDA_TEXTURE_DESC| {}), null())
    };
    "a_texture_read_in_no_way" => with_array(g, &plane(FLOAT, 0), |array| unsafe {
        let mut object = 0;
        g.d.cuTexObjectCreate(&raw mut object, &of_array(array), null(), null())
    });
    "a_texture_of_a_null_array" => texture(g, &of_array(null_mut()), &made(|_: &mut CUDA_TEXTURE_DESC| {}), None);
    "a_texture_of_an_unknown_resource" =>
        of_plane(g, FLOAT, |resource, _| resource.resType = CUresourcetype(9));
    "a_texture_of_a_resource_with_flags" => of_plane(g, FLOAT, |resource, _| resource.flags = 1);
    "a_texture_with_unknown_flags" => of_plane(g, FLOAT, |_, desc| desc.flags = 0x8000);
    "a_texture_of_an_unknown_address_mode" =>
        of_plane(g, FLOAT, |_, desc| desc.addressMode[0] = CUaddress_mode(9));
    "a_texture_of_an_unknown_filter" => of_plane(g, FLOAT, |_, desc| desc.filterMode = CUfilter_mode(9));
    "a_texture_of_an_unknown_filter_of_levels" =>
        of_plane(g, FLOAT, |_, desc| desc.mipmapFilterMode = CUfilter_mode(9));
    "a_texture_that_filters_integers" => of_plane(g, WORD, |_, desc| {
        (desc.filterMode, desc.flags) = (CUfilter_mode::CU_TR_FILTER_MODE_LINEAR, INTEGER);
    });
    "a_texture_that_filters_words" => of_plane(g, WORD, |_, desc| {
        desc.filterMode = CUfilter_mode::CU_TR_FILTER_MODE_LINEAR;
    });
    "a_texture_of_a_seamless_plane" => of_plane(g, FLOAT, |_, desc| desc.flags = SEAMLESS);
    "a_texture_of_levels_by_element" => with_levels(g, |array| {
        let resource = made(|desc: &mut CUDA_RESOURCE_DESC| {
            desc.resType = CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
            desc.res.mipmap.hMipmappedArray = array;
        });
        texture(g, &resource, &made(|_: &mut CUDA_TEXTURE_DESC| {}), None)
    });
    "a_texture_of_memory_at_null" => of_memory(g, |desc| desc.res.linear.devPtr = 0);
    "a_texture_of_memory_at_an_odd_address" => of_memory(g, |desc| desc.res.linear.devPtr = g.memory + 4);
    "a_texture_of_no_memory" => of_memory(g, |desc| desc.res.linear.sizeInBytes = 0);
    "a_texture_of_far_too_much_memory" => of_memory(g, |desc| desc.res.linear.sizeInBytes = 1 << 40);
    "a_texture_of_three_channels" => of_memory(g, |desc| desc.res.linear.numChannels = 3);
    "a_texture_of_memory_of_an_unknown_format" =>
        of_memory(g, |desc| desc.res.linear.format = CUarray_format(0x77));
    "a_texture_of_rows_at_an_odd_address" => of_rows(g, |desc| desc.res.pitch2D.devPtr = g.memory + 4);
    "a_texture_of_rows_of_an_odd_pitch" => of_rows(g, |desc| desc.res.pitch2D.pitchInBytes = 100);
    "a_texture_of_rows_of_a_short_pitch" => of_rows(g, |desc| desc.res.pitch2D.pitchInBytes = 32);
    "a_texture_of_rows_of_no_width" => of_rows(g, |desc| desc.res.pitch2D.width = 0);
    "a_texture_of_no_rows" => of_rows(g, |desc| desc.res.pitch2D.height = 0);
    "a_texture_of_rows_far_too_wide" => of_rows(g, |desc| {
        (desc.res.pitch2D.width, desc.res.pitch2D.pitchInBytes) = (1 << 20, 4 << 20);
    });
    "a_view_of_memory" => {
        let resource = made(|desc: &mut CUDA_RESOURCE_DESC| {
            desc.resType = CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
            desc.res.linear.devPtr = g.memory;
            desc.res.linear.format = FLOAT;
            desc.res.linear.numChannels = 1;
            desc.res.linear.sizeInBytes = SIZE;
        });
        let view = made(|view: &mut CUDA_RESOURCE_VIEW_DESC| {
            view.format = CUresourceViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X32;
            view.width = SIZE / 4;
        });
        texture(g, &resource, &made(|_: &mut CUDA_TEXTURE_DESC| {}), Some(&view))
    };
    "a_view_of_an_unknown_format" => of_view(g, |view| view.format = CUresourceViewFormat(99));
    "a_view_of_larger_elements" => of_view(g, |view| {
        view.format = CUresourceViewFormat::CU_RES_VIEW_FORMAT_FLOAT_2X32;
    });
    "a_view_of_another_width" => of_view(g, |view| view.width = 4);
    "a_view_of_another_height" => of_view(g, |view| view.height = 4);
    "a_view_of_levels_that_are_not_there" => of_view(g, |view| view.lastMipmapLevel = 3);
    "a_view_of_layers_that_are_not_there" => of_view(g, |view| view.lastLayer = 3);
    "a_view_that_is_not_there_asked_for" => with_array(g, &plane(FLOAT, 0), |array| {
        let (mut object, desc) = (0, made(|_: &mut CUDA_TEXTURE_DESC| {}));
        let mut view = made(|_: &mut CUDA_RESOURCE_VIEW_DESC| {});
        unsafe {
            g.d.cuTexObjectCreate(&raw mut object, &of_array(array), &desc, null());
            let status = g.d.cuTexObjectGetResourceViewDesc(&raw mut view, object);
            g.d.cuTexObjectDestroy(object);
            status
        }
    });
    "a_texture_described_to_nowhere" => with_array(g, &plane(FLOAT, 0), |array| {
        let (mut object, desc) = (0, made(|_: &mut CUDA_TEXTURE_DESC| {}));
        unsafe {
            g.d.cuTexObjectCreate(&raw mut object, &of_array(array), &desc, null());
            let status = g.d.cuTexObjectGetTextureDesc(null_mut(), object);
            g.d.cuTexObjectDestroy(object);
            status
        }
    });
    "a_texture_destroyed_that_is_none" => g.d.cuTexObjectDestroy(0);
    "a_surface_to_nowhere" => with_array(g, &plane(FLOAT, 2), |array| unsafe {
        g.d.cuSurfObjectCreate(null_mut(), &of_array(array))
    });
    "a_surface_of_an_array_not_made_for_it" =>
        with_array(g, &plane(FLOAT, 0), |array| surface(g, &of_array(array)));
    "a_surface_of_memory" => surface(g, &made(|desc: &mut CUDA_RESOURCE_DESC| {
        desc.resType = CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
        desc.res.linear.devPtr = g.memory;
        desc.res.linear.format = FLOAT;
        desc.res.linear.numChannels = 1;
        desc.res.linear.sizeInBytes = SIZE;
    }));
    "a_surface_of_a_null_array" => surface(g, &of_array(null_mut()));
    "a_surface_with_flags" => with_array(g, &plane(FLOAT, 2), |array| {
        let mut resource = of_array(array);
        resource.flags = 1;
        surface(g, &resource)
    });
    "a_surface_destroyed_that_is_none" => g.d.cuSurfObjectDestroy(0);
    "a_mipmapped_array_to_nowhere" => g.d.cuMipmappedArrayCreate(null_mut(), &plane(FLOAT, 0), 2);
    "a_mipmapped_array_of_no_description" => {
        let mut array = null_mut();
        g.d.cuMipmappedArrayCreate(&raw mut array, null(), 2)
    };
    "a_mipmapped_array_of_three_channels" => {
        let (mut array, mut desc) = (null_mut(), plane(FLOAT, 0));
        desc.NumChannels = 3;
        g.d.cuMipmappedArrayCreate(&raw mut array, &desc, 2)
    };
    "a_level_that_is_not_there" => with_levels(g, |array| {
        let mut level = null_mut();
        unsafe { g.d.cuMipmappedArrayGetLevel(&raw mut level, array, 3) }
    });
    "a_level_to_nowhere" =>
        with_levels(g, |array| unsafe { g.d.cuMipmappedArrayGetLevel(null_mut(), array, 0) });
    "a_gathered_array_of_layers" => {
        let (mut array, mut desc) = (null_mut(), plane(FLOAT, 1 | 8));
        desc.Depth = 2;
        g.d.cuArray3DCreate_v2(&raw mut array, &desc)
    };
}
