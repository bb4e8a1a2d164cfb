//! The files on disk that a compilation may read.

use std::collections::BTreeSet;
use std::fs;

use cuda_nvrtc::{Options, Program, Refusal};

use crate::at_hand::nvrtc;

#[cfg(unix)]
#[test]
fn included_files_are_followed_through_headers_and_folders() {
    let Some(nvrtc) = nvrtc() else { return };
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    fs::create_dir(dir.join("include")).unwrap();
    for (name, text) in [
        ("beside.h", "#include <far.h>\n#include \"memory.h\"\n"),
        ("include/far.h", "#if 0\n#include \"not_taken.h\"\n#endif\n"),
        ("include/not_taken.h", ""),
        ("include/unused.h", ""),
    ] {
        fs::write(dir.join(name), text).unwrap();
    }
    let program = Program::new(&nvrtc, "#include \"beside.h\"\n#include <absent.h>\n")
        .name(dir.join("k.cu").display().to_string())
        .header("memory.h", "");
    let options = Options::new().include_dir(dir.join("include"));
    let files: BTreeSet<_> = program
        .included_files(&options)
        .unwrap()
        .into_iter()
        .collect();
    let names = ["beside.h", "include/far.h", "include/not_taken.h"];
    assert_eq!(files, names.map(|name| dir.join(name)).into());

    // Without the folder only the header next to the source is found.
    let files = program.included_files(&Options::new()).unwrap();
    assert_eq!(files, [dir.join("beside.h")]);
}

#[test]
fn files_that_cannot_be_determined_are_refused() {
    let Some(nvrtc) = nvrtc() else { return };
    let program = Program::new(&nvrtc, "#include_next <a.h>\n");
    let refused = program.included_files(&Options::new());
    assert_eq!(refused, Err(Refusal::IncludeNext));
    let options = Options::new().raw("--options-file=a");
    let refused = Program::new(&nvrtc, "").included_files(&options);
    assert_eq!(refused, Err(Refusal::Option));
}
