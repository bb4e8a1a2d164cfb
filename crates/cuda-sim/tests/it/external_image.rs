//! Images of another API, which are contiguous rows in a file here.

#![cfg(target_os = "linux")]

use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, CUDA_MEMCPY3D, CUarray_format, CUexternalMemory,
    CUmemorytype, CUmipmappedArray,
};

use crate::external::{BAD, N, PAGE, file, memory, words};
use crate::support::{TestDevice, ok, test_device};

/// Maps an image of `levels` levels of words.
fn map_image(
    sim: &TestDevice,
    memory: CUexternalMemory,
    offset: u64,
    [width, height]: [usize; 2],
    (levels, flags): (u32, u32),
) -> Result<CUmipmappedArray, R> {
    let mut desc: CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC = unsafe { std::mem::zeroed() };
    (desc.offset, desc.numLevels) = (offset, levels);
    (desc.arrayDesc.Width, desc.arrayDesc.Height) = (width, height);
    desc.arrayDesc.Format = CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32;
    (desc.arrayDesc.NumChannels, desc.arrayDesc.Flags) = (1, flags);
    let mut array = ptr::null_mut();
    let status =
        unsafe { sim.cuExternalMemoryGetMappedMipmappedArray(&raw mut array, memory, &desc) };
    if status == R::CUDA_SUCCESS {
        Ok(array)
    } else {
        Err(status)
    }
}

/// Copies words to the first row of a level.
fn write_row(sim: &TestDevice, array: CUmipmappedArray, level: u32, words: &[u32]) {
    let mut target = ptr::null_mut();
    unsafe { ok(sim.cuMipmappedArrayGetLevel(&raw mut target, array, level)) };
    let mut copy: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.srcHost = words.as_ptr().cast();
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
    copy.dstArray = target;
    (copy.WidthInBytes, copy.Height, copy.Depth) = (size_of_val(words), 1, 1);
    unsafe { ok(sim.cuMemcpy3D_v2(&copy)) };
}

#[test]
fn external_memory_is_mapped_as_an_image() {
    const COLOR_ATTACHMENT: u32 = 0x20;
    let sim = test_device(Builder::new());
    let file = file(2 * PAGE);
    let memory = memory(&sim, &file, PAGE);
    // Levels of 8 x 4, 4 x 2, 2 x 1 and 1 x 1 words.
    let array = map_image(&sim, memory, 64, [8, 4], (4, COLOR_ATTACHMENT)).unwrap();
    unsafe { ok(sim.cuDestroyExternalMemory(memory)) };
    write_row(&sim, array, 0, &[1; 8]);
    write_row(&sim, array, 2, &[3; 2]);
    write_row(&sim, array, 3, &[4]);
    let mut want = vec![0; N];
    want[..8].fill(1);
    want[40..43].copy_from_slice(&[3, 3, 4]);
    assert_eq!(words(&file, 64), want);
    assert_eq!(sim.simulator.live().mipmapped_arrays, 1);
    unsafe { ok(sim.cuMipmappedArrayDestroy(array)) };
    assert_eq!(sim.simulator.live().mipmapped_arrays, 0);
    assert_eq!(words(&file, 64), want, "the other API keeps the memory");
}

#[test]
fn wrong_images_in_external_memory_are_refused() {
    const SPARSE: u32 = 0x40;
    let sim = test_device(Builder::new());
    let file = file(2 * PAGE);
    let memory = memory(&sim, &file, PAGE);
    let refusals = [
        (0, [0, 4], (1, 0), BAD),
        (0, [8, 4], (0, 0), BAD),
        (0, [8, 4], (5, 0), BAD),
        (2, [8, 4], (1, 0), BAD),
        (PAGE, [8, 4], (1, 0), BAD),
        (PAGE - 124, [8, 4], (1, 0), BAD),
        (u64::MAX - 3, [8, 4], (1, 0), BAD),
        (0, [8, 4], (1, SPARSE), R::CUDA_ERROR_NOT_SUPPORTED),
    ];
    for (offset, extent, how, status) in refusals {
        let refused = map_image(&sim, memory, offset, extent, how);
        assert_eq!(refused, Err(status), "{offset} {extent:?} {how:?}");
    }
    let last = map_image(&sim, memory, PAGE - 128, [8, 4], (1, 0)).unwrap();
    unsafe { ok(sim.cuMipmappedArrayDestroy(last)) };
    unsafe { ok(sim.cuDestroyExternalMemory(memory)) };
    let gone = map_image(&sim, memory, 0, [8, 4], (1, 0));
    assert_eq!(gone, Err(R::CUDA_ERROR_INVALID_HANDLE));
    assert_eq!(sim.simulator.live().mipmapped_arrays, 0);
}
