//! The settings of a cache.

use std::path::PathBuf;
use std::sync::Arc;

use super::stats::Counters;
use super::store::Store;
use super::{Cache, Shared, VARIABLE};

/// How a cache uses its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CacheMode {
    /// Looks entries up and stores what is compiled.
    #[default]
    On,
    /// Looks entries up, and changes nothing in the folder.
    ReadOnly,
    /// Always compiles.
    Off,
}

/// The settings with which to open a [`Cache`].
#[derive(Clone, Debug)]
#[must_use]
pub struct CacheBuilder {
    pub(super) dir: Option<PathBuf>,
    pub(super) mode: CacheMode,
    pub(super) limit: u64,
    pub(super) always_digest: bool,
    /// Whether `dir` is the value of the environment variable.
    pub(super) is_from_variable: bool,
}

impl CacheBuilder {
    /// Sets how the cache uses its folder. The default is [`CacheMode::On`].
    pub fn mode(mut self, mode: CacheMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the limit of the total size of the entries in bytes. The default is 1 GiB. The least
    /// recently used entries are evicted first.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Sets whether every hit reads every header, even if its metadata is unchanged. The default is
    /// off.
    pub fn always_digest(mut self, on: bool) -> Self {
        self.always_digest = on;
        self
    }

    /// Opens the cache. This never fails; [`Cache::problem`] reports an unusable folder.
    #[must_use]
    pub fn open(self) -> Cache {
        let counters = Counters::default();
        let opened = match (self.mode, &self.dir) {
            (CacheMode::Off, _) => Err(None),
            (_, None) => Err(Some("no cache folder: set XDG_CACHE_HOME".to_owned())),
            (_, Some(dir)) if self.is_from_variable && !dir.is_absolute() => Err(Some(format!(
                "{VARIABLE} is set to {}, which is neither on, off, read-only nor the full path of a \
                 folder; correct or unset it",
                dir.display()
            ))),
            (mode, Some(dir)) => Store::open(dir, mode == CacheMode::On).map_err(|problem| {
                Some(if self.is_from_variable {
                    let value = dir.display();
                    format!(
                        "{VARIABLE} is set to {value}, which cannot be used: {problem}; correct or \
                         unset {VARIABLE}"
                    )
                } else {
                    problem
                })
            }),
        };
        let (store, mode) = match opened {
            Ok(store) => (Some(store), self.mode),
            Err(problem) => {
                if let Some(problem) = problem {
                    counters.set_problem(problem);
                }
                (None, CacheMode::Off)
            }
        };
        let shared = Shared {
            store,
            mode,
            limit: self.limit,
            always_digest: self.always_digest,
            counters,
        };
        Cache {
            shared: Arc::new(shared),
        }
    }
}
