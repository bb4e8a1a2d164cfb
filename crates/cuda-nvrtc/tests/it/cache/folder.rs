//! The cache folder: its size limit, and its behaviour when it cannot be used.

use std::fs;
use std::thread;
use std::time::Duration;

use cuda_nvrtc::{Cache, CacheMode, Options, Outcome, Program, Ptx, Refusal};

use super::{Folder, scale};
use crate::at_hand::nvrtc;

#[test]
fn the_entry_used_longest_ago_is_evicted_first() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let program = |number: u32| {
        let source = format!("extern \"C\" __global__ void k(int *x) {{ *x = {number}; }}");
        Program::new(&nvrtc, source)
    };
    let compile = |cache: &Cache, number| {
        let cached = cache
            .compile::<Ptx>(&program(number), &Options::new())
            .unwrap();
        assert!(cached.image.to_text().contains(&number.to_string()));
        thread::sleep(Duration::from_millis(20));
        cached.outcome
    };
    assert_eq!(compile(&folder.open(), 1000), Outcome::Stored);
    let size = folder.open().stats().bytes;
    let cache = Cache::builder(folder.path())
        .max_bytes(3 * size + size / 2)
        .open();
    for number in [1001, 1002] {
        assert_eq!(compile(&cache, number), Outcome::Stored);
    }
    assert_eq!(compile(&cache, 1000), Outcome::Hit);
    assert_eq!(compile(&cache, 1003), Outcome::Stored);
    let stats = cache.stats();
    assert_eq!(
        (stats.evictions, stats.entries, stats.bytes),
        (1, 3, 3 * size)
    );
    for (number, outcome) in [
        (1000, Outcome::Hit),
        (1002, Outcome::Hit),
        (1003, Outcome::Hit),
        (1001, Outcome::Stored),
        (1000, Outcome::Stored),
        (1003, Outcome::Hit),
    ] {
        assert_eq!(compile(&cache, number), outcome, "{number}");
    }
    // An entry that exceeds the limit on its own is not stored, and evicts no other entry.
    let cache = Cache::builder(folder.path()).max_bytes(size - 1).open();
    assert_eq!(compile(&cache, 1004), Outcome::Refused(Refusal::TooLarge));
    assert_eq!(cache.stats().entries, 3);
}

#[test]
fn a_folder_that_cannot_be_is_a_warning() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let file = folder.0.path().join("file");
    fs::write(&file, "").unwrap();
    let expected = scale(&nvrtc).compile::<Ptx>(&Options::new()).unwrap();
    for dir in [file.clone(), file.join("below")] {
        let cache = Cache::open(&dir);
        let problem = cache.problem().unwrap();
        assert!(problem.contains(file.to_str().unwrap()), "{problem}");
        assert_eq!(cache.mode(), CacheMode::Off);
        for _ in 0..2 {
            let cached = cache
                .compile::<Ptx>(&scale(&nvrtc), &Options::new())
                .unwrap();
            assert_eq!(
                (&cached.compiled, cached.outcome),
                (&expected, Outcome::Off)
            );
        }
        assert_eq!(cache.stats().problem, Some(problem));
        assert!(cache.clear().is_ok() && !cache.put_note(&[b"a"], b"b"));
    }
}

#[test]
fn a_folder_that_vanishes_is_a_warning() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let cache = folder.open();
    fs::remove_dir_all(folder.path()).unwrap();
    let cached = cache
        .compile::<Ptx>(&scale(&nvrtc), &Options::new())
        .unwrap();
    assert_eq!(cached.outcome, Outcome::StoreFailed);
    assert_eq!(
        cached.compiled,
        scale(&nvrtc).compile(&Options::new()).unwrap()
    );
    assert!(cache.problem().is_some());
    assert_eq!(cache.stats().write_failures, 1);
}

#[cfg(unix)]
#[test]
fn a_folder_that_others_can_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    folder
        .open()
        .compile::<Ptx>(&scale(&nvrtc), &Options::new())
        .unwrap();
    let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let cache = folder.open();
    let problem = cache.problem().unwrap();
    assert!(problem.contains("is writable by other users"), "{problem}");
    let cached = cache
        .compile::<Ptx>(&scale(&nvrtc), &Options::new())
        .unwrap();
    assert_eq!(cached.outcome, Outcome::Off);
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_still_has_hits() {
    use std::os::unix::fs::PermissionsExt;
    let Some(nvrtc) = nvrtc() else { return };
    // SAFETY: nothing is required ← the call only returns a number.
    if unsafe { libc::geteuid() } == 0 {
        test_needs::skipped("refusals by file permissions: root may access every file");
        return;
    }
    let folder = Folder::new();
    folder
        .open()
        .compile::<Ptx>(&scale(&nvrtc), &Options::new())
        .unwrap();
    let entries = folder.path().join("entries");
    for dir in [&entries, &folder.path()] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o500)).unwrap();
    }
    let cache = folder.open();
    let hit = cache
        .compile::<Ptx>(&scale(&nvrtc), &Options::new())
        .unwrap();
    let other = Options::new().define("OTHER", 1);
    let miss = cache.compile::<Ptx>(&scale(&nvrtc), &other).unwrap();
    for dir in [&folder.path(), &entries] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert!(hit.is_hit());
    assert_eq!(miss.outcome, Outcome::StoreFailed);
}
