use std::convert::Infallible;
use std::fs::{self, File};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::super::stamp::{Digest, digest};
use super::{Kind, STALE, Store};

fn key(number: u32) -> Digest {
    digest(&number.to_le_bytes())
}

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("cache"), true).unwrap();
    (dir, store)
}

const PATIENT: Option<&dyn Fn() -> Option<Infallible>> = None;

#[test]
fn written_entries_are_read_and_no_other_file_remains() {
    let (_dir, store) = store();
    assert_eq!(store.read(Kind::Entry, &key(1), false), None);
    store.write(Kind::Entry, &key(1), b"one").unwrap();
    store.write(Kind::Entry, &key(1), b"another").unwrap();
    assert_eq!(store.read(Kind::Entry, &key(1), true).unwrap(), b"another");
    assert_eq!(store.read(Kind::Compiler, &key(1), true), None);
    assert_eq!(store.usage(), (1, 7));
    assert_eq!(
        fs::read_dir(store.dir().join("entries")).unwrap().count(),
        1
    );
    store.clear().unwrap();
    assert_eq!(store.usage(), (0, 0));
}

#[test]
fn the_least_recently_used_entry_is_evicted_first() {
    let (_dir, store) = store();
    for number in 0..5 {
        store.write(Kind::Entry, &key(number), &[0; 100]).unwrap();
        thread::sleep(Duration::from_millis(15));
    }
    store.read(Kind::Entry, &key(0), true);
    assert_eq!(store.evict(500), 0);
    assert_eq!(store.evict(299), 3);
    let left: Vec<u32> = (0..5)
        .filter(|&number| store.read(Kind::Entry, &key(number), false).is_some())
        .collect();
    assert_eq!(left, [0, 4]);
}

#[cfg(unix)]
#[test]
fn an_inner_folder_that_is_writable_or_a_link_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    for kind in [Kind::Entry, Kind::Compiler, Kind::Lock] {
        let (dir, store) = store();
        let root = dir.path().join("cache");
        let folder = store.dir().join(kind.folder());
        for (mode, good) in [
            (0o700, true),
            (0o755, true),
            (0o777, false),
            (0o1777, false),
        ] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            for create in [true, false] {
                let opened = Store::open(&root, create);
                assert_eq!(opened.is_ok(), good, "{kind:?} {mode:o} {create}");
            }
        }
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(&folder, &elsewhere).unwrap();
        // A store that is opened only for reading creates no folder.
        assert!(Store::open(&root, false).is_ok() && !folder.exists());
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&elsewhere, &folder).unwrap();
        for create in [true, false] {
            assert!(Store::open(&root, create).is_err(), "{kind:?} {create}");
        }
    }
}

#[test]
fn half_written_files_are_swept_when_old() {
    let (dir, store) = store();
    let entries = store.dir().join("entries");
    for (name, age) in [(".young", Duration::ZERO), (".old", STALE * 2)] {
        let file = File::create(entries.join(name)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }
    assert_eq!(store.usage(), (0, 0));
    Store::open(&dir.path().join("cache"), true).unwrap();
    assert!(entries.join(".young").exists());
    assert!(!entries.join(".old").exists());
}

#[test]
fn one_at_a_time_holds_a_lock_and_none_is_left() {
    let (_dir, store) = store();
    let store = Arc::new(store);
    let inside = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (store, inside) = (Arc::clone(&store), Arc::clone(&inside));
            thread::spawn(move || {
                for _ in 0..50 {
                    let lock = store
                        .lock(&key(1), PATIENT)
                        .unwrap_or_else(|never| match never {});
                    assert!(lock.is_some());
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    thread::yield_now();
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    if cfg!(unix) {
        assert_eq!(fs::read_dir(store.dir().join("locks")).unwrap().count(), 0);
    }
}

#[test]
fn waiting_for_a_lock_can_time_out() {
    let (_dir, store) = store();
    let held = store.lock(&key(1), PATIENT);
    let start = Instant::now();
    let give_up = || (start.elapsed() > Duration::from_millis(50)).then_some("enough");
    let refused = store.lock::<&str>(&key(1), Some(&give_up));
    assert_eq!(refused.unwrap_err(), "enough");
    assert!(
        store
            .lock::<&str>(&key(2), Some(&give_up))
            .unwrap()
            .is_some()
    );
    drop(held);
    assert!(
        store
            .lock::<&str>(&key(1), Some(&give_up))
            .unwrap()
            .is_some()
    );
}
