//! Records: what others keep in the cache.

use std::fs;

use cuda_nvrtc::{Cache, CacheMode, Options, Program, Ptx};

use super::Folder;
use crate::at_hand::nvrtc;

#[test]
fn a_record_is_found_by_owner_and_key_alone() {
    let folder = Folder::new();
    let cache = folder.open();
    assert_eq!(cache.record("me", b"key"), None);
    assert!(cache.keep_record("me", b"key", b"content"));
    assert!(cache.keep_record("me", b"", b""));
    assert_eq!(cache.record("me", b"key").unwrap(), b"content");
    assert_eq!(cache.record("me", b"").unwrap(), b"");
    assert_eq!(cache.record("mek", b"ey"), None);
    assert_eq!(cache.record("you", b"key"), None);
    // Another value, as another process has it.
    assert!(folder.open().keep_record("me", b"key", b"newer"));
    assert_eq!(cache.record("me", b"key").unwrap(), b"newer");
    assert_eq!(cache.stats().entries, 2);
    cache.clear().unwrap();
    assert_eq!(cache.record("me", b"key"), None);
}

#[test]
fn a_record_that_was_altered_or_cut_off_is_none() {
    let folder = Folder::new();
    let cache = folder.open();
    cache.keep_record("me", b"key", b"content");
    let path = folder.entries().remove(0);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, &bad).unwrap();
        assert_eq!(cache.record("me", b"key"), None, "byte {at}");
        fs::write(&path, &good[..at]).unwrap();
        assert_eq!(cache.record("me", b"key"), None, "{at} bytes");
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(cache.record("me", b"key").unwrap(), b"content");
}

#[test]
fn a_cache_that_is_off_or_only_reads_or_is_too_small_keeps_no_record() {
    let folder = Folder::new();
    folder.open().keep_record("me", b"key", b"content");
    let reading = Cache::builder(folder.path())
        .mode(CacheMode::ReadOnly)
        .open();
    assert!(!reading.keep_record("me", b"other", b"content"));
    assert_eq!(reading.record("me", b"key").unwrap(), b"content");
    let off = Cache::builder(folder.path()).mode(CacheMode::Off).open();
    assert!(!off.keep_record("me", b"other", b"content"));
    assert_eq!(off.record("me", b"key"), None);
    let small = Cache::builder(folder.path()).max_bytes(1000).open();
    assert!(!small.keep_record("me", b"large", &[0; 1000]));
    assert_eq!(small.record("me", b"key").unwrap(), b"content");
}

#[test]
fn records_and_compilations_do_not_meet() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let cache = folder.open();
    let program = Program::new(&nvrtc, "__global__ void k() {}");
    let compile = || cache.compile::<Ptx>(&program, &Options::new()).unwrap();
    assert!(!compile().is_hit());
    cache.keep_record("me", b"key", b"content");
    assert!(compile().is_hit());
    let stats = cache.stats();
    assert_eq!((stats.entries, stats.stores, stats.hits), (2, 1, 1));
}
