//! Notes: small results other than compilations, such as those of a tuner, stored in the same
//! folder.

use super::key::Key;
use super::stats::count;
use super::store::Kind;
use super::{Cache, CacheMode, Outcome, entry};

impl Cache {
    /// Returns the bytes that [`put_note`](Self::put_note) stored last under this key, if they are
    /// intact.
    ///
    /// The key is a list of byte strings. It must include everything on which the note depends;
    /// nothing else is compared.
    #[must_use]
    pub fn get_note(&self, key: &[&[u8]]) -> Option<Vec<u8>> {
        let store = self.shared.store.as_ref()?;
        let key = digest(key);
        let bytes = store.read(Kind::Entry, &key, self.shared.mode == CacheMode::On)?;
        let note = entry::unseal(&key, &bytes);
        if note.is_none() {
            count(&self.shared.counters.corrupt, 1);
        }
        note.map(<[u8]>::to_vec)
    }

    /// Stores bytes under this key, and returns whether they were stored. As with compilations,
    /// failure to store is not an error.
    pub fn put_note(&self, key: &[&[u8]], note: &[u8]) -> bool {
        let shared = &self.shared;
        let (Some(store), CacheMode::On) = (&shared.store, shared.mode) else {
            return false;
        };
        let key = digest(key);
        shared.write(store, &key, &entry::seal(&key, note)) == Outcome::Stored
    }
}

/// Returns the digest of a key, under which the note is stored.
fn digest(key: &[&[u8]]) -> super::Digest {
    let mut digest = Key::new();
    digest.field("note", &(key.len() as u64).to_le_bytes());
    for part in key {
        digest.field("word", part);
    }
    digest.finish()
}
