//! What others keep in the cache: findings about compilations that take long to find out again.

use super::key::Key;
use super::stamp::Digest;
use super::store::Kind;
use super::{Cache, CacheMode, entry};

/// Records: any bytes, kept as entries are: whole or not at all, for this user alone, thrown out when not used.
impl Cache {
    /// What was kept as `key` of `owner`, byte for byte; `None` if nothing was or it is not whole.
    ///
    /// `owner` tells the records of one program or crate from those of others. Whatever decides the content has to
    /// be in `key`: nothing else is looked at.
    #[must_use]
    pub fn record(&self, owner: &str, key: &[u8]) -> Option<Vec<u8>> {
        let store = self.shared.store.as_ref()?;
        let key = digest(owner, key);
        let bytes = store.read(Kind::Entry, &key, self.mode() == CacheMode::On)?;
        entry::unseal(&key, &bytes).map(<[u8]>::to_vec)
    }

    /// Keeps `bytes` as `key` of `owner`, in place of what was there. Whether it did: not if the cache is off, only
    /// reads, or cannot be written ([`problem`](Self::problem)).
    pub fn keep_record(&self, owner: &str, key: &[u8], bytes: &[u8]) -> bool {
        let (Some(store), CacheMode::On) = (&self.shared.store, self.mode()) else {
            return false;
        };
        let key = digest(owner, key);
        let sealed = entry::seal(&key, bytes);
        if sealed.len() as u64 > self.shared.limit {
            return false;
        }
        if let Err(error) = store.write(Kind::Entry, &key, &sealed) {
            let dir = store.dir().display();
            self.shared
                .counters
                .set_problem(format!("nothing can be kept in {dir}: {error}"));
            return false;
        }
        store.evict(self.shared.limit);
        true
    }
}

/// No key of a compilation: those have no such field.
fn digest(owner: &str, key: &[u8]) -> Digest {
    let mut digest = Key::new();
    digest.field("record", owner.as_bytes());
    digest.field("key", key);
    digest.finish()
}
