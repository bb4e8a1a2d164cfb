//! Texts and files that are not loaded.

use cuda_driver::jit::JitOptions;
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::cases::{MIX, Texts, fixture, text};

pub(crate) fn images() -> Texts {
    let fixture = fixture(Builder::new().version(12080));
    let context = &fixture.context;
    let load = |ptx: &str| text(Module::load(context, &Ptx::new(ptx).unwrap()));
    let file = |path: &str| {
        // SAFETY: neither file is an image.
        text(unsafe { Module::load_file(context, path, &JitOptions::new()) })
    };
    let nul = || Ok::<_, cuda_driver::Error>(Ptx::new(".version 7.0\0")?);
    vec![
        ("NUL in PTX", text(nul())),
        ("not PTX", load("int main() { return 0; }")),
        (
            "PTX that is too new",
            load(&MIX.replace(".version 7.0", ".version 9.9")),
        ),
        (
            "byte order mark in PTX",
            text(Module::load_text(context, b"\xef\xbb\xbf.version 7.0")),
        ),
        (
            "UTF-16 as PTX",
            text(Module::load_text(context, b".\0v\0e\0r\0s\0i\0o\0n\0")),
        ),
        (
            "compressed PTX",
            text(Module::load_text(context, b"\x1f\x8b\x08\x00")),
        ),
        (
            "fat binary as PTX",
            text(Module::load_text(context, b"\x50\xed\x55\xba\x01\x00")),
        ),
        (
            "PTX that crashes the compiler",
            load(&MIX.replace(".entry mix(", ".entry %laneid(")),
        ),
        ("missing file", file("no/such/file.ptx")),
        ("file without an image", file("Cargo.toml")),
    ]
}
