use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Fresh, collect};
use crate::cache::Refusal;
use crate::cache::request::Request;

fn collect_in(dir: &Path, source: &str, options: &[&str]) -> Result<Fresh, Refusal> {
    let dir = dir.to_str().unwrap();
    let arguments: Vec<CString> = options
        .iter()
        .map(|option| CString::new(option.replace('@', dir)).unwrap())
        .collect();
    let name = format!("{dir}/p.cu");
    collect(&Request::new(
        source.as_bytes(),
        &name,
        &[],
        &[],
        &arguments,
    )?)
}

/// A folder without symbolic links in its path.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().canonicalize().unwrap();
    (temp, path)
}

fn names<'a>(dir: &Path, paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<String> {
    let name = |path: &PathBuf| path.strip_prefix(dir).unwrap().display().to_string();
    let mut names: Vec<String> = paths.into_iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn the_first_file_is_read_and_those_before_it_are_absent() {
    let (_temp, dir) = folder();
    for (path, text) in [("j/a.h", "#include \"b.h\""), ("j/b.h", ""), ("k/a.h", "")] {
        fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        fs::write(dir.join(path), text).unwrap();
    }
    let options = ["-I@/i", "-I", "@/j", "--include-path=@/k"];
    let fresh = collect_in(&dir, "#include \"a.h\"\n#include <c.h>", &options).unwrap();
    let closure = &fresh.closure;
    let files = closure.files.iter().map(|(path, _)| path);
    assert_eq!(names(&dir, files), ["j/a.h", "j/b.h"]);
    let absent = ["a.h", "i/a.h", "i/c.h", "j/c.h", "k/c.h"];
    assert_eq!(names(&dir, &closure.absent), absent);
    assert!(closure.is_current(false) && closure.is_current(true) && fresh.is_unchanged());
}

#[test]
fn any_change_since_is_noticed() {
    let (_temp, dir) = folder();
    let header = dir.join("a.h");
    let changes: [&dyn Fn(); 4] = [
        &|| fs::write(&header, "/*B*/").unwrap(),
        &|| fs::remove_file(&header).unwrap(),
        &|| fs::write(dir.join("b.h"), "").unwrap(),
        &|| {
            fs::remove_file(&header).unwrap();
            fs::create_dir(&header).unwrap();
        },
    ];
    for (index, change) in changes.iter().enumerate() {
        fs::write(&header, "/*A*/").unwrap();
        let fresh = collect_in(&dir, "#include \"a.h\"\n#include \"b.h\"", &[]).unwrap();
        assert!(
            fresh.is_unchanged() && fresh.closure.is_current(false),
            "{index}"
        );
        change();
        assert!(!fresh.is_unchanged(), "{index}");
        assert!(!fresh.closure.is_current(false), "{index}");
        let _ = fs::remove_file(dir.join("b.h"));
    }
    // The file was changed and changed back: its content is the same, but the compiler may have
    // read other content.
    let _ = fs::remove_dir(&header);
    fs::write(&header, "/*A*/").unwrap();
    let fresh = collect_in(&dir, "#include \"a.h\"", &[]).unwrap();
    fs::write(&header, "/*B*/").unwrap();
    fs::write(&header, "/*A*/").unwrap();
    assert!(!fresh.is_unchanged());
    assert!(fresh.closure.is_current(false));
}

#[test]
fn mutual_includes_by_long_names_terminate() {
    let (_temp, dir) = folder();
    for (path, text) in [
        ("x/a.h", "#include \"../y/b.h\""),
        ("y/b.h", "#include \"../x/a.h\""),
    ] {
        fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        fs::write(dir.join(path), text).unwrap();
    }
    let fresh = collect_in(&dir, "#include \"x/a.h\"", &[]).unwrap();
    let files = fresh.closure.files.iter().map(|(path, _)| path);
    assert_eq!(names(&dir, files), ["x/a.h", "y/b.h"]);
    assert_eq!(names(&dir, &fresh.closure.folders), ["x", "y"]);
    // A folder is replaced by a link to another folder, so the names now refer to other files.
    fs::rename(dir.join("x"), dir.join("z")).unwrap();
    std::os::unix::fs::symlink(dir.join("z"), dir.join("x")).unwrap();
    assert!(!fresh.closure.is_current(false));
}

#[test]
fn a_name_through_a_link_is_left_as_it_is() {
    let (_temp, dir) = folder();
    fs::create_dir_all(dir.join("real/inner")).unwrap();
    fs::write(dir.join("real/a.h"), "").unwrap();
    std::os::unix::fs::symlink(dir.join("real/inner"), dir.join("link")).unwrap();
    let fresh = collect_in(&dir, "#include \"link/../a.h\"", &[]).unwrap();
    let files = fresh.closure.files.iter().map(|(path, _)| path);
    assert_eq!(names(&dir, files), ["link/../a.h"]);
    assert!(fresh.closure.folders.is_empty());
}

#[test]
fn special_files_and_unsupported_options_are_refused() {
    let (_temp, dir) = folder();
    let source = "#include \"/dev/zero\"";
    assert_eq!(
        collect_in(&dir, source, &[]).unwrap_err(),
        Refusal::Unreadable
    );
    for (options, refusal) in [
        (&["-DA=__DATE__"][..], Refusal::TimeMacro),
        (&["--time=-"], Refusal::TimeReport),
        (&["-Xptxas", "--options-file=x"], Refusal::Option),
        (
            &["--ptxas-options=--verbose,--options-file=x"],
            Refusal::Option,
        ),
        (&["-pch"], Refusal::PrecompiledHeaders),
        (&["-I"], Refusal::Option),
    ] {
        assert_eq!(
            collect_in(&dir, "", options).unwrap_err(),
            refusal,
            "{options:?}"
        );
    }
    assert!(collect_in(&dir, "", &["-DTIME=options-file", "-lineinfo"]).is_ok());
}
