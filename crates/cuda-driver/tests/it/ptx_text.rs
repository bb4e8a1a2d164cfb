//! Texts that must not reach a compiler of NVIDIA: every way to load one refuses them.

use cuda_driver::Library;
use cuda_driver::error::{Category, Error, PtxError};
use cuda_driver::jit::{JitOptions, LinkFile, Linker};
use cuda_driver::prelude::*;
use cuda_driver::safe::SafeModule;
use cuda_sim::Builder;

use crate::support::{Fixture, MIX, count_calls, software};

const HEADER: &str = ".version 8.3\n.target sm_80\n.address_size 64\n";

/// One text for the parser's part of the check, and one for a kernel that it names.
fn defects() -> [(String, &'static str); 3] {
    [
        (
            format!(
                "{HEADER}.func f(.param .b32 a) {{ ret; }}\n.visible .entry k() {{\n{{ .param .b32 p;\n\
                 st.param.b32 [p+-64], 5;\ncall.uni f, (p); }}\nret; }}\n"
            ),
            "line 7 of the PTX text: an access to 4 bytes at offset -64 of parameter p, which has 4 bytes",
        ),
        (
            format!("{HEADER}.visible .entry %laneid() {{ ret; }}\n"),
            "line 4 of the PTX text: the name of the kernel %laneid begins with %",
        ),
        (
            format!("{HEADER}.unknown 5;\n.global .align 2147483648 .b8 g[4];\n"),
            "line 5 of the PTX text: the alignment 2147483648 is above 1048576",
        ),
    ]
}

/// Loads a text in every way that needs only a driver.
fn load_everywhere(fixture: &Fixture, ptx: &Ptx) -> Vec<Error> {
    let (context, options) = (&fixture.context, &JitOptions::new());
    let mut linker = Linker::new(context, options).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), ptx.as_c_str().to_bytes()).unwrap();
    // SAFETY: machine code must be complete ← the file is text, which the call refuses.
    let linked = unsafe { linker.add_file(LinkFile::Ptx, file.path()) };
    let linked = linked.map(|_| ()).unwrap_err();
    vec![
        linked,
        linker.add(ptx, "a").map(|_| ()).unwrap_err(),
        Module::load(context, ptx).unwrap_err(),
        Library::load(context.driver(), ptx, options).unwrap_err(),
        SafeModule::load(context, ptx).map(|_| ()).unwrap_err(),
    ]
}

#[test]
fn every_loader_refuses_a_text_that_can_crash_the_compiler() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    for (text, message) in defects() {
        let errors = load_everywhere(&fixture, &Ptx::new(text).unwrap());
        for error in &errors {
            let Error::Ptx(reason) = error else {
                panic!("{error}");
            };
            assert!(matches!(**reason, PtxError::Defect { .. }), "{error}");
            assert!(error.to_string().contains(message), "{error}");
            assert_eq!(error.category(), Category::Compile);
        }
        assert_eq!(errors.len(), 5);
    }
    for call in [
        "cuModuleLoadDataEx",
        "cuLibraryLoadData",
        "cuLinkAddData_v2",
    ] {
        assert_eq!(count_calls(simulator, call), 0, "{call}");
    }
}

/// A driver recognizes machine code by its first bytes, and would read beyond the end of the text.
#[test]
fn machine_code_in_a_text_is_refused() {
    let fixture = software(Builder::new());
    for (bytes, found) in [
        (&b"\x7fELF\x02\x01\x01\x33\x07"[..], "a cubin (ELF)"),
        (b"\x50\xed\x55\xba\x01\xff\x10\xff", "a fat binary"),
        (
            b"\xb1\x43\x62\x46\x01\x01\x01\x01\x41\x41\x41\x41\x41\x41",
            "the wrapper of a fat binary",
        ),
        (b"\xed\x43\x4e\x7f\x01", "LTO-IR"),
        (b"!<arch>\n", "an archive of object files"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\xff\xfe.\x01", "UTF-16"),
        (
            b"\xef\xbb\xbf.version 8.0\n.target sm_80\n",
            "UTF-8 with a byte order mark",
        ),
    ] {
        for error in load_everywhere(&fixture, &Ptx::new(bytes).unwrap()) {
            let Error::Ptx(reason) = &error else {
                panic!("{error}");
            };
            assert!(
                matches!(**reason, PtxError::NotText { found: it, .. } if it == found),
                "{error}"
            );
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("the bytes are {found}, not PTX text; ")),
                "{text}"
            );
        }
    }
}

/// The check leaves errors of syntax, and other bytes in comments, to the driver.
#[test]
fn other_texts_reach_the_driver() {
    let fixture = software(Builder::new());
    let garbage = Ptx::new("garbage").unwrap();
    let error = Module::load(&fixture.context, &garbage).unwrap_err();
    assert!(matches!(error, Error::Jit(_)), "{error}");
    let text = [&b"// caf\xe9\n"[..], MIX.as_bytes()].concat();
    let module = Module::load(&fixture.context, &Ptx::new(text).unwrap());
    assert!(
        module.is_ok() || matches!(module, Err(Error::Jit(_))),
        "{module:?}"
    );
}

#[test]
fn a_padded_text_is_loaded_in_one_step() {
    let fixture = software(Builder::new());
    let context = &fixture.context;
    for padding in ["", "\0", "\n\0\0\0\0\0\0\0"] {
        let text = format!("{MIX}{padding}");
        assert!(
            Module::load_text(context, &text)
                .unwrap()
                .function("mix")
                .is_ok()
        );
        assert!(
            SafeModule::load_text(context, text.as_bytes())
                .unwrap()
                .kernel("mix")
                .is_ok()
        );
    }
    let error = Module::load_text(context, format!("{MIX}\0{MIX}")).unwrap_err();
    assert!(
        matches!(error, Error::NulByte { position, .. } if position == MIX.len()),
        "{error}"
    );
    let wide: Vec<u8> = MIX.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [
        wide.as_slice(),
        b"\x50\xed\x55\xba\x01\0\x10\0",
        b"\x7fELF\x02\0",
    ] {
        let error = Module::load_text(context, bytes).unwrap_err();
        assert!(matches!(error, Error::Ptx(_)), "{error}");
        let error = SafeModule::load_text(context, bytes).unwrap_err();
        assert!(matches!(error, Error::Ptx(_)), "{error}");
    }
}
