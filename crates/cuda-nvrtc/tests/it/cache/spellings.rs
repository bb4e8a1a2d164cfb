//! Every spelling of an option that names a folder or a header: a changed header is never missed.

use std::fs;
use std::path::Path;

use cuda_nvrtc::{Cache, Options, Outcome, Program, Ptx};

use super::Folder;
use crate::at_hand::every_nvrtc;

const KERNEL: &str = "\nextern \"C\" __global__ void k(int *x) { *x = V; }";

/// Spellings of an option for the folder `@`, and whether the compilation is cached.
const FOLDERS: [(&[&str], bool); 24] = [
    (&["-I@"], true),
    (&["-I @"], true),
    (&["-I  @"], true),
    (&["-I=@"], true),
    (&["-I", "@"], true),
    (&["-I", " @"], true),
    (&["-I", "\x0b@"], true),
    (&["--include-path=@"], true),
    (&["--include-path", "@"], true),
    (&["\x0b-I@"], true),
    (&["\x0c-I @"], true),
    (&["\x0b-I", "@"], true),
    (&[" \t-I@\x0b"], true),
    (&["\x0b--include-path=@"], true),
    (&["-I@\x0b"], true),
    (&["-D", "X", "-I@"], true),
    (&["-Xptxas", "-v", "-I@"], true),
    (&["--maxrregcount", "32", "-I@"], true),
    // NVRTC reads these as other folders, whose parent is not the current folder.
    (&["-I= @", "-I@"], false),
    (&["-I =@", "-I@"], false),
    (&["-I\x0b@", "-I@"], false),
    (&["-I\t@", "-I@"], false),
    (&["-I\"@\"", "-I@"], false),
    (&["--include-path= @", "-I@"], false),
];

/// Spellings of the option that includes the header `@/h.h` before the source.
const PRE_INCLUDES: [(&[&str], bool); 7] = [
    (&["-include", "@/h.h"], true),
    (&["-include=@/h.h"], true),
    (&["--pre-include=@/h.h"], true),
    (&["--pre-include", "@/h.h"], true),
    (&["\x0b-include", "\x0b@/h.h"], true),
    (&["\x0b--pre-include=@/h.h\x0b"], true),
    (&["-DH=<h.h>", "--pre-include", "@/h.h"], true),
];

/// Spellings of an option that defines the macro which the source includes.
const MACROS: [&[&str]; 5] = [
    &["-DH=\"@/h.h\""],
    &["-D H=\"@/h.h\""],
    &["\x0b-DH=\"@/h.h\""],
    &["-D", "\x0bH=\"@/h.h\""],
    &["--define-macro=H=\"@/h.h\""],
];

#[test]
fn a_changed_header_is_seen_with_every_spelling() {
    for nvrtc in every_nvrtc() {
        let folders = FOLDERS
            .iter()
            .map(|&(options, cached)| ("#include <h.h>", options, cached));
        let pre_includes = PRE_INCLUDES
            .iter()
            .map(|&(options, cached)| ("", options, cached));
        let macros = MACROS.iter().map(|&options| ("#include H", options, true));
        for (include, spelling, cached) in folders.chain(pre_includes).chain(macros) {
            let folder = Folder::new();
            let cache = folder.open();
            let dir = folder.0.path().canonicalize().unwrap().join("a");
            fs::create_dir(&dir).unwrap();
            let program = Program::new(&nvrtc, format!("{include}{KERNEL}"));
            let mut options = Options::new();
            for option in spelling {
                options = options.raw(option.replace('@', dir.to_str().unwrap()));
            }
            for value in [1234, 5678] {
                fs::write(dir.join("h.h"), format!("#define V {value}\n")).unwrap();
                for again in [false, true] {
                    let made = compile(&cache, &program, &options, &dir);
                    let text = format!("{spelling:?}, {value}, again: {again}");
                    assert!(made.0.contains(&value.to_string()), "{text}: {}", made.0);
                    assert_eq!(
                        made.1 == Outcome::Hit,
                        again && cached,
                        "{text}: {:?}",
                        made.1
                    );
                }
            }
        }
    }
}

fn compile(cache: &Cache, program: &Program, options: &Options, dir: &Path) -> (String, Outcome) {
    let made = cache.compile::<Ptx>(program, options);
    let made = made.unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    (made.image.to_text(), made.outcome)
}
