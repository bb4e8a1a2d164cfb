//! The log of launches (`CUDA_SIM_LAUNCHES`) and the folder of PTX texts (`CUDA_SIM_PTX`).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, fs};

use crate::support::ADD;

/// A folder that is deleted at the end.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("cuda-sim-{name}-{}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a test of this program with an environment variable for each path. Returns what the process
/// printed to stderr.
fn run(test: &str, variables: &[(&str, &Path)]) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let summary = String::from_utf8_lossy(&output.stdout);
    assert!(summary.contains(" 1 passed"), "{test}: {summary}");
    String::from_utf8(output.stderr).unwrap()
}

/// The file names in a folder and their texts, in order.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap();
            (name.to_owned(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    found
}

/// The names in `ptx=` of a line of the log.
fn texts_of(line: &str) -> Vec<String> {
    let mut words = line.split(' ');
    let names = words.find_map(|word| word.strip_prefix("ptx=")).unwrap();
    names.split(',').map(|name| format!("{name}.ptx")).collect()
}

#[test]
fn launches_are_recorded_once_with_their_text() {
    let folder = TempFolder::new("launches");
    let (log, ptx) = (folder.0.join("launches.txt"), folder.0.join("new/ptx"));
    let variables = [
        ("CUDA_SIM_LAUNCHES", log.as_path()),
        ("CUDA_SIM_PTX", ptx.as_path()),
    ];
    assert_eq!(run("launch::vectors_are_added", &variables), "");
    // The test loads `ADD` twice, and launches `add` twice with the same values.
    let texts = files(&ptx);
    let [(name, text)] = texts.as_slice() else {
        panic!("{texts:?}");
    };
    assert_eq!(text, ADD);
    let hash = name.strip_suffix(".ptx").unwrap();
    let program = env::current_exe().unwrap();
    let expected = format!(
        "add grid=40,1,1 block=256,1,1 shared=0 \
         arguments=[40000/256],[40000/256],[40000/256],10000:8 ptx={hash} kernels=add,times_scale \
         program={}\n",
        program.file_stem().unwrap().display()
    );
    assert_eq!(fs::read_to_string(&log).unwrap(), expected);
    // Another process appends launches, and keeps the file of an equal text.
    assert_eq!(run("launch::vectors_are_added", &variables), "");
    assert_eq!(fs::read_to_string(&log).unwrap(), expected.repeat(2));
    assert_eq!(files(&ptx), texts);
}

#[test]
fn a_linked_module_has_several_texts() {
    let folder = TempFolder::new("linked");
    let (log, ptx) = (folder.0.join("launches.txt"), folder.0.join("ptx"));
    let test = "link::local_variable_does_not_hide_a_visible_one";
    run(test, &[("CUDA_SIM_LAUNCHES", &log), ("CUDA_SIM_PTX", &ptx)]);
    let known = files(&ptx);
    let log = fs::read_to_string(&log).unwrap();
    let mut lines = 0;
    for line in log.lines() {
        let texts = texts_of(line);
        assert!(texts.len() > 1, "{line}");
        for name in texts {
            let named = known.iter().filter(|(it, _)| *it == name).count();
            assert_eq!(named, 1, "{line}");
        }
        lines += 1;
    }
    assert!(lines > 0);
}

#[test]
fn a_folder_that_cannot_be_created_is_reported_once() {
    let folder = TempFolder::new("no-folder");
    let file = folder.0.join("file");
    fs::write(&file, "").unwrap();
    let ptx = file.join("ptx");
    // The test loads two modules, and passes.
    let printed = run("launch::vectors_are_added", &[("CUDA_SIM_PTX", &ptx)]);
    let expected = format!(
        "cuda-sim: cannot create the folder {}, which CUDA_SIM_PTX names: ",
        ptx.display()
    );
    assert!(printed.starts_with(&expected), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

#[test]
fn a_log_that_cannot_be_opened_is_reported_once() {
    let folder = TempFolder::new("no-log");
    let printed = run(
        "launch::vectors_are_added",
        &[("CUDA_SIM_LAUNCHES", &folder.0)],
    );
    let expected = format!(
        "cuda-sim: cannot open {}, which CUDA_SIM_LAUNCHES names: ",
        folder.0.display()
    );
    assert!(printed.starts_with(&expected), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

/// Every write to `/dev/full` fails, as on a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_failed_write_is_reported() {
    let full = Path::new("/dev/full");
    let printed = run("launch::vectors_are_added", &[("CUDA_SIM_LAUNCHES", full)]);
    let expected = "cuda-sim: cannot write to the file that CUDA_SIM_LAUNCHES names, so launches \
                    are missing there: ";
    assert!(printed.starts_with(expected), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

#[cfg(unix)]
#[test]
fn a_text_that_cannot_be_written_is_reported() {
    let folder = TempFolder::new("no-text");
    // The process creates `<hash>.<its id>.new` first. A text whose name is a folder is not a file.
    let ptx = folder.0.join("ptx");
    run("launch::vectors_are_added", &[("CUDA_SIM_PTX", &ptx)]);
    let [(name, _)] = &files(&ptx)[..] else {
        panic!("one text");
    };
    let file = ptx.join(name);
    fs::remove_file(&file).unwrap();
    fs::create_dir_all(file.join("folder")).unwrap();
    let printed = run("launch::vectors_are_added", &[("CUDA_SIM_PTX", &ptx)]);
    let expected = format!(
        "cuda-sim: cannot write {} to the folder of CUDA_SIM_PTX: ",
        file.display()
    );
    assert!(printed.starts_with(&expected), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    // The partial file is removed.
    assert_eq!(fs::read_dir(&ptx).unwrap().count(), 1);
}
