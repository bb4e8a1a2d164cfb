//! The texts that are loaded as modules, and the names that are looked up in them.

use std::ffi::CStr;

use crate::maker::LONGEST_TEXT;

/// A text, and the names of its kernels and variables.
pub(crate) struct Image {
    pub(crate) text: &'static CStr,
    pub(crate) kernels: &'static [&'static CStr],
    pub(crate) variables: &'static [&'static CStr],
}

/// Texts that load. None of their kernels faults if its parameters fit.
pub(crate) const IMAGES: &[Image] = &[
    Image {
        text: cstr(concat!(
            include_str!("../../crates/cuda-sim/tests/it/kernels/add.ptx"),
            "\0"
        )),
        kernels: &[c"add", c"times_scale"],
        variables: &[c"scale", c"table"],
    },
    Image {
        text: cstr(concat!(
            include_str!("../../crates/cuda-sim/tests/it/kernels/graph.ptx"),
            "\0"
        )),
        kernels: &[c"affine", c"count", c"choose"],
        variables: &[],
    },
    Image {
        text: cstr(concat!(
            include_str!("../../crates/cuda-driver/tests/it/kernels/variables.ptx"),
            "\0"
        )),
        kernels: &[c"bump", c"scale"],
        variables: &[c"factors", c"counter", c"odd"],
    },
    Image {
        text: cstr(concat!(include_str!("../seeds/written/heap.ptx"), "\0")),
        kernels: &[c"heap"],
        variables: &[],
    },
    Image {
        text: cstr(concat!(
            include_str!("../seeds/written/linked_grid_barrier.ptx"),
            "\0"
        )),
        kernels: &[c"turns"],
        variables: &[],
    },
    Image {
        text: c".version 8.0\n.target sm_75\n.address_size 64\n\
            .visible .global .attribute(.managed) .align 8 .b64 shared[4];\n\
            .visible .func (.param .b32 out) twice(.param .b32 in)\n\
            { .reg .b32 %v; ld.param.b32 %v, [in]; shl.b32 %v, %v, 1; st.param.b32 [out], %v; ret; }\n\
            .visible .entry nothing() { ret; }\n",
        kernels: &[c"nothing"],
        variables: &[c"shared"],
    },
];

/// Texts that do not load, or whose kernels fault.
pub(crate) const TROUBLE: &[&CStr] = &[
    cstr(concat!(
        include_str!("../../crates/cuda-sim/tests/it/kernels/trouble.ptx"),
        "\0"
    )),
    cstr(concat!(
        include_str!("../seeds/written/in_place_of_machine_code.ptx"),
        "\0"
    )),
    // The limit of registers is not a number, and the text is cut off.
    c"// cuda-sim linked image\n// cuda-sim registers x\n// cuda-sim bytes 99\n.version 8.0",
    // The first bytes of a cubin, a fat binary, the wrapper of a fat binary, and an archive.
    c"\x7fELF\x02\x01\x01",
    c"\x50\xed\x55\xba\x01",
    c"\xb1\x43\x62\x46\x01",
    c"!<arch>\nmachine code",
    c"no PTX",
];

/// Names of kernels, variables, devices, functions of the driver, and files, valid and invalid.
pub(crate) const STRINGS: &[&CStr] = &[
    c"add",
    c"scale",
    c"twice",
    c"trapped",
    c"null_store",
    c"misaligned",
    c"spin",
    c"store",
    c"",
    c"0000:00:00.0",
    c"cuInit",
    c"cuMemAlloc",
    c"/nonexistent/file.ptx",
    c"libcudadevrt.a",
    c"/nonexistent/libcudadevrt.a",
];

/// Files with PTX.
pub(crate) const FILES: &[&CStr] = &[
    cstr(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/cuda-sim/tests/it/kernels/add.ptx\0"
    )),
    cstr(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/cuda-sim/tests/it/kernels/graph.ptx\0"
    )),
];

const fn cstr(text: &'static str) -> &'static CStr {
    assert!(
        text.len() <= LONGEST_TEXT,
        "a text does not fit into a slot"
    );
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a text contains a NUL"),
    }
}
