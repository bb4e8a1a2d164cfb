//! Notes: small results other than compilations, such as those of a tuner, stored in the same
//! folder.

use super::key::Key;
use super::stats::count;
use super::store::Kind;
use super::{Cache, CacheMode, Outcome, entry};

impl Cache {
    /// Returns the bytes last stored for these words with [`note`](Self::note), if they are intact.
    ///
    /// The words must include everything on which the note depends; nothing else is compared.
    #[must_use]
    pub fn noted(&self, words: &[&[u8]]) -> Option<Vec<u8>> {
        let store = self.shared.store.as_ref()?;
        let key = key(words);
        let bytes = store.read(Kind::Entry, &key, self.shared.mode == CacheMode::On)?;
        let note = entry::unseal(&key, &bytes);
        if note.is_none() {
            count(&self.shared.counters.corrupt, 1);
        }
        note.map(<[u8]>::to_vec)
    }

    /// Stores bytes for these words, and returns whether they were stored. As with compilations,
    /// failure to store is not an error.
    pub fn note(&self, words: &[&[u8]], note: &[u8]) -> bool {
        let shared = &self.shared;
        let (Some(store), CacheMode::On) = (&shared.store, shared.mode) else {
            return false;
        };
        let key = key(words);
        shared.write(store, &key, &entry::seal(&key, note)) == Outcome::Kept
    }
}

fn key(words: &[&[u8]]) -> super::Digest {
    let mut key = Key::new();
    key.field("note", &(words.len() as u64).to_le_bytes());
    for word in words {
        key.field("word", word);
    }
    key.finish()
}
