//! Shared and local memory, misaligned addresses, and addresses that come from memory.

use cuda_driver::memory::ManagedBuffer;
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use super::{STORE, kernel, violation};
use crate::support::{assert_all, everywhere, filled, software};

/// Stores and loads a word of a static array, of dynamic shared memory, or of a local array, at an
/// offset from memory. `which` selects the array.
const ARRAYS: &str = ".extern .shared .align 16 .b8 dynamic[];
.visible .entry arrays(.param .u64 out, .param .u64 at, .param .u32 which) {
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %d<6>;
    .shared .align 4 .b8 tile[64];
    .local .align 4 .b8 own[32];
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [at];
    ld.global.u32 %r1, [%d2];
    ld.param.u32 %r2, [which];
    setp.eq.u32 %p1, %r2, 1;
    @%p1 bra second;
    setp.eq.u32 %p1, %r2, 2;
    @%p1 bra third;
    mov.u32 %r3, tile;
    add.u32 %r3, %r3, %r1;
    st.shared.u32 [%r3], 7;
    ld.shared.u32 %r4, [%r3];
    bra done;
second:
    mov.u32 %r3, dynamic;
    add.u32 %r3, %r3, %r1;
    st.shared.u32 [%r3], 8;
    ld.shared.u32 %r4, [%r3];
    bra done;
third:
    mov.u64 %d3, own;
    cvt.s64.s32 %d4, %r1;
    add.s64 %d3, %d3, %d4;
    st.local.u32 [%d3], 9;
    ld.local.u32 %r4, [%d3];
done:
    st.global.u32 [%d1], %r4;
    ret;
}
";

#[test]
fn arrays_are_checked_to_the_byte() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let arrays = kernel(&fixture, ARRAYS, "arrays");
        let config = LaunchConfig::new(1, 1).with_shared_bytes(16);
        for (which, size, value) in [(0_u32, 64_i32, 7), (1, 16, 8), (2, 32, 9)] {
            for at in [0, size - 4, size - 3, size, -4, 1 << 20, i32::MIN, 2] {
                let mut out = filled(&stream, 1, 99);
                let offset = DeviceBuffer::from_host(&stream, &[at]).unwrap();
                let args = (&mut out, &offset, which);
                let launch = stream.launch_safe(&arrays, config, args).unwrap();
                assert!(launch.is_checked());
                let is_fine = at % 4 == 0 && (0..=size - 4).contains(&at);
                let case = format!("{}: array {which} at {at}", fixture.name);
                assert_eq!(launch.wait().is_ok(), is_fine, "{case}");
                assert_all(&out, if is_fine { value } else { 0 }, &case);
            }
        }
    }
}

/// Writes the address of `x` to `to`.
const SAVE: &str = ".visible .entry save(.param .u64 x, .param .u64 to) {
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [to];
    st.global.u64 [%d2], %d1;
    ret;
}
.visible .entry use(.param .u64 from, .param .u64 y) {
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [from];
    ld.global.u64 %d2, [%d1];
    st.u32 [%d2], 5;
    ret;
}
";

#[test]
fn an_address_from_memory_permits_only_arguments() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let (save, used) = (
            kernel(&fixture, SAVE, "save"),
            kernel(&fixture, SAVE, "use"),
        );
        let config = LaunchConfig::new(1, 1);
        let mut x = filled(&stream, 4, 9);
        let mut y = filled(&stream, 4, 9);
        let mut saved = DeviceBuffer::<u64>::zeroed(&stream, 1).unwrap();
        let launch = stream.launch_safe(&save, config, (&x, &mut saved));
        assert!(!launch.unwrap().is_checked());
        // `x` is not an argument of this launch.
        let launch = stream.launch_safe(&used, config, (&saved, &mut y)).unwrap();
        let found = violation(launch.wait());
        assert_eq!(found.address, x.as_raw());
        // Read-only arguments stay as they are.
        let launch = stream.launch_safe(&used, config, (&saved, &x)).unwrap();
        violation(launch.wait());
        assert_all(&x, 9, &fixture.name);
        let launch = stream.launch_safe(&used, config, (&saved, &mut x)).unwrap();
        launch.wait().unwrap();
        assert_eq!(x.to_vec().unwrap(), [5, 9, 9, 9]);
        assert_all(&y, 9, &fixture.name);
        // The address of freed memory.
        drop(x);
        let launch = stream.launch_safe(&used, config, (&saved, &mut y)).unwrap();
        let _ = launch.wait();
        stream.synchronize().unwrap();
    }
}

/// Loads 8 bytes at a generic address, and stores them.
const WIDE: &str = ".visible .entry wide(.param .u64 out, .param .u64 in, .param .u64 at) {
    .reg .b64 %d<6>;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [in];
    ld.param.u64 %d3, [at];
    add.s64 %d2, %d2, %d3;
    ld.u64 %d4, [%d2+8];
    st.global.u64 [%d1], %d4;
    ret;
}
";

#[test]
fn misaligned_accesses_are_violations() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let wide = kernel(&fixture, WIDE, "wide");
        let config = LaunchConfig::new(1, 1);
        let words: Vec<u32> = (0..16).collect();
        let input = DeviceBuffer::from_host(&stream, &words).unwrap();
        let mut out = DeviceBuffer::<u64>::zeroed(&stream, 1).unwrap();
        let pair = |low: u64| low | (low + 1) << 32;
        // A part that begins at an odd word.
        let part = input.slice(1..).unwrap();
        for (at, expected) in [
            (4_u64, Some(pair(4))),
            (0, None),
            (44, Some(pair(14))),
            (52, None),
        ] {
            let args = (&mut out, &part, at);
            let launch = stream.launch_safe(&wide, config, args).unwrap();
            assert_eq!(launch.wait().is_ok(), expected.is_some(), "{at}");
            let found = out.to_vec().unwrap()[0];
            assert_eq!(found, expected.unwrap_or(0), "{}: {at}", fixture.name);
        }
    }
}

/// Copies `size` of 16 bytes to shared memory, and from there to `out`.
const COPY: &str = ".version 7.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 out, .param .u64 in, .param .u64 at, .param .u64 size) {
    .reg .b32 %r<8>; .reg .b64 %d<8>;
    .shared .align 16 .b8 tile[16];
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [in];
    ld.param.u64 %d3, [at];
    ld.param.u64 %d4, [size];
    ld.global.u64 %d5, [%d3];
    ld.global.u32 %r1, [%d4];
    add.s64 %d2, %d2, %d5;
    mov.u32 %r2, tile;
    mov.u32 %r3, 7;
    st.shared.v4.u32 [%r2], {%r3, %r3, %r3, %r3};
    cp.async.ca.shared.global [%r2], [%d2], 16, %r1;
    cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r2];
    st.global.v4.u32 [%d1], {%r4, %r5, %r6, %r7};
    ret;
}
";

#[test]
fn asynchronous_copies_read_only_what_they_need() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let ptx = Ptx::new(COPY).unwrap();
        let module = cuda_driver::safe::SafeModule::load(&fixture.context, &ptx).unwrap();
        let copy = module.kernel("copy").unwrap();
        let input = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4, 5, 6]).unwrap();
        let cases = [
            (0_u64, 16_u32, Some([1, 2, 3, 4])),
            (16, 8, Some([5, 6, 0, 0])),
            (16, 12, None),
            (1 << 40, 0, Some([0; 4])),
            (1 << 40, 4, None),
            (0_u64.wrapping_sub(16), 16, None),
            (8, 8, None),
            (0, 20, None),
        ];
        for (at, size, expected) in cases {
            let mut out = filled(&stream, 4, 9);
            let at = DeviceBuffer::from_host(&stream, &[at]).unwrap();
            let size = DeviceBuffer::from_host(&stream, &[size]).unwrap();
            let args = (&mut out, &input, &at, &size);
            let launch = stream
                .launch_safe(&copy, LaunchConfig::new(1, 1), args)
                .unwrap();
            let case = format!("{}: {at:?}, {size:?}", fixture.name);
            assert_eq!(launch.wait().is_ok(), expected.is_some(), "{case}");
            assert_eq!(out.to_vec().unwrap(), expected.unwrap_or([0; 4]), "{case}");
        }
    }
}

/// Loads a word of a parameter that is an array, at an offset from memory.
const TABLE: &str = ".visible .entry table(
    .param .u64 out, .param .u64 at, .param .align 4 .b8 table[16]) {
    .reg .b32 %r<3>; .reg .b64 %d<6>;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [at];
    ld.global.u64 %d3, [%d2];
    mov.b64 %d4, table;
    add.s64 %d4, %d4, %d3;
    ld.param.u32 %r1, [%d4];
    st.global.u32 [%d1], %r1;
    ret;
}
";

#[test]
fn an_indexed_parameter_is_checked() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let table = kernel(&fixture, TABLE, "table");
        for (at, expected) in [(0_u64, Some(1)), (12, Some(4)), (16, None), (2, None)] {
            let mut out = filled(&stream, 1, 9);
            let offset = DeviceBuffer::from_host(&stream, &[at]).unwrap();
            let args = (&mut out, &offset, [1_u32, 2, 3, 4]);
            let launch = stream
                .launch_safe(&table, LaunchConfig::new(1, 1), args)
                .unwrap();
            assert_eq!(launch.wait().is_ok(), expected.is_some(), "{at}");
            assert_all(&out, expected.unwrap_or(0), &fixture.name);
        }
    }
}

#[test]
fn a_declared_alignment_is_not_a_promise() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    // The assembler gets no `.ptr`, so it cannot rely on it.
    let text = ".visible .entry k(.param .u64 .ptr .global .align 16 x) {
        .reg .b64 %d; ld.param.u64 %d, [x]; st.global.u32 [%d], 1; ret; }";
    let k = kernel(&fixture, text, "k");
    let mut x = filled(&stream, 8, 0);
    let config = LaunchConfig::new(1, 1);
    stream.launch_safe(&k, config, (&mut x,)).unwrap();
    let part = x.slice_mut(1..).unwrap();
    stream.launch_safe(&k, config, (part,)).unwrap();
    assert_eq!(x.to_vec().unwrap(), [1, 1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn managed_memory_ends_at_its_argument() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let store = kernel(&fixture, STORE, "store");
        let one = LaunchConfig::new(1, 1);
        let mut managed = ManagedBuffer::from_host(&stream, &[9_u32; 4]).unwrap();
        let args = (&mut managed, 12_u64, 1_u32);
        let launch = stream.launch_safe(&store, one, args).unwrap();
        assert!(!launch.is_checked(), "{}", fixture.name);
        assert_eq!(managed.host().unwrap(), [9, 9, 9, 1], "{}", fixture.name);
        for (at, offset) in [(16_u64, 16_i128), (u64::MAX - 3, -4)] {
            let args = (&mut managed, at, 2_u32);
            let launch = stream.launch_safe(&store, one, args).unwrap();
            let found = violation(launch.wait());
            assert_eq!((found.argument, found.offset), (Some(1), offset));
        }
        let launch = stream.launch_safe(&store, one, (&managed, 0_u64, 2_u32));
        let found = violation(launch.unwrap().wait());
        let text = found.to_string();
        assert!(text.contains("which was passed as `&`"), "{text}");
        assert_eq!(managed.host().unwrap(), [9, 9, 9, 1], "{}", fixture.name);
    }
}

/// Page-locked memory is no argument, and its device address is a number.
#[test]
fn the_address_of_page_locked_memory_permits_nothing() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let store = kernel(&fixture, STORE, "store");
        let flags = PinnedFlags::DEFAULT;
        let pinned = PinnedBuffer::from_host(&fixture.context, &[9_u32; 4], flags).unwrap();
        let address = pinned.device_address().unwrap();
        for at in [0_u64, 12, 16] {
            let args = (address, at, 2_u32);
            let launch = stream.launch_safe(&store, LaunchConfig::new(1, 1), args);
            let found = violation(launch.unwrap().wait());
            assert_eq!((found.argument, found.address), (None, address + at));
        }
        assert_eq!(pinned[..], [9; 4], "{}", fixture.name);
    }
}
