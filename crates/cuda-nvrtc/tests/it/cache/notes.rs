//! Notes: data that other crates store in the cache.

use std::fs;

use cuda_nvrtc::{Cache, CacheMode, Options, Program, Ptx};

use super::Folder;
use crate::at_hand::nvrtc;

const WORDS: [&[u8]; 2] = [b"tuner", b"saxpy"];

#[test]
fn a_note_is_found_by_its_words_alone() {
    let folder = Folder::new();
    let cache = folder.open();
    assert_eq!(cache.get_note(&WORDS), None);
    assert!(cache.put_note(&WORDS, b"256"));
    assert!(cache.put_note(&[b"tunersaxpy"], b"other"));
    assert!(cache.put_note(&[], b""));
    assert_eq!(folder.open().get_note(&WORDS).unwrap(), b"256");
    assert_eq!(cache.get_note(&[]).unwrap(), b"");
    assert_eq!(cache.get_note(&[b"tuners", b"axpy"]), None);
    assert_eq!(cache.get_note(&[b"saxpy", b"tuner"]), None);
    // Another value, as another process would write it.
    assert!(folder.open().put_note(&WORDS, b"128"));
    assert_eq!(cache.get_note(&WORDS).unwrap(), b"128");
    assert_eq!(cache.stats().entries, 3);
    cache.clear().unwrap();
    assert_eq!(cache.get_note(&WORDS), None);
}

#[test]
fn altered_or_truncated_notes_are_ignored() {
    let folder = Folder::new();
    let cache = folder.open();
    cache.put_note(&WORDS, b"content");
    let path = folder.entries().remove(0);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, &bad).unwrap();
        assert_eq!(cache.get_note(&WORDS), None, "byte {at}");
        fs::write(&path, &good[..at]).unwrap();
        assert_eq!(cache.get_note(&WORDS), None, "{at} bytes");
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(cache.get_note(&WORDS).unwrap(), b"content");
    assert_eq!(cache.stats().corrupt, 2 * good.len() as u64);
}

#[test]
fn unwritable_cache_keeps_no_note() {
    let folder = Folder::new();
    folder.open().put_note(&WORDS, b"content");
    let open = |mode| Cache::builder(folder.path()).mode(mode).open();
    let reading = open(CacheMode::ReadOnly);
    assert!(!reading.put_note(&[b"other"], b"content"));
    assert_eq!(reading.get_note(&WORDS).unwrap(), b"content");
    let off = open(CacheMode::Off);
    assert!(!off.put_note(&[b"other"], b"content"));
    assert_eq!(off.get_note(&WORDS), None);
    let small = Cache::builder(folder.path()).max_bytes(1000).open();
    assert!(!small.put_note(&[b"large"], &[0; 1000]));
    assert_eq!(small.get_note(&WORDS).unwrap(), b"content");
}

#[test]
fn notes_and_compilations_do_not_meet() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let cache = folder.open();
    let program = Program::new(&nvrtc, "__global__ void k() {}");
    let compile = || cache.compile::<Ptx>(&program, &Options::new()).unwrap();
    assert!(!compile().is_hit());
    cache.put_note(&WORDS, b"content");
    assert!(compile().is_hit());
    let stats = cache.stats();
    assert_eq!((stats.entries, stats.misses, stats.hits), (2, 1, 1));
}
