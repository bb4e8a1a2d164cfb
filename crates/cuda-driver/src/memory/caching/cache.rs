//! The free blocks of a caching pool, by size class and by the stream that used them last, and the
//! statistics of the pool.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::classes::{CLASSES, bytes_of_class};
use super::statistics::Statistics;
use crate::error::{Error, Result};
use crate::lock::{Mutex, MutexGuard, rank};

/// The blocks of one pool. Each class has its own lock. Returning a block and taking it again lock
/// only its class and touch no state that the classes share.
pub(crate) struct Cache<B> {
    classes: Box<[Mutex<Class<B>, { rank::CACHE_CLASS }>]>,
    /// The maximum number of bytes in blocks, cached or in use.
    limit: AtomicUsize,
    /// The number of bytes in blocks, cached or in use.
    reserved: AtomicUsize,
    /// The maximum that `reserved` ever reached.
    most_reserved: AtomicUsize,
}

struct Class<B> {
    /// At most one shelf for each stream. An empty shelf keeps its capacity for the next stream.
    shelves: Vec<Shelf<B>>,
    /// The number of blocks in use.
    out: usize,
    hits: u64,
    misses: u64,
    /// Whether returned blocks are kept.
    is_open: bool,
}

/// The cached blocks of a class that were last used on one stream.
struct Shelf<B> {
    stream: u64,
    blocks: Vec<B>,
}

impl<B> Cache<B> {
    pub(super) fn new(limit: usize) -> Self {
        let class = || Class {
            shelves: Vec::new(),
            out: 0,
            hits: 0,
            misses: 0,
            is_open: true,
        };
        Self {
            classes: (0..CLASSES).map(|_| Mutex::new(class())).collect(),
            limit: AtomicUsize::new(limit),
            reserved: AtomicUsize::new(0),
            most_reserved: AtomicUsize::new(0),
        }
    }

    /// Takes a block that was last used on `stream`.
    #[inline]
    pub(super) fn take(&self, class: usize, stream: u64) -> Option<B> {
        let mut guard = self.class(class);
        let shelf = guard.shelves.iter_mut().find(|it| it.stream == stream)?;
        let block = shelf.blocks.pop()?;
        guard.hits += 1;
        guard.out += 1;
        Some(block)
    }

    /// Takes a block of any stream for which `is_fit` returns `true`. Examines one block of each
    /// stream.
    pub(super) fn take_if(
        &self,
        class: usize,
        mut is_fit: impl FnMut(&mut B) -> bool,
    ) -> Option<B> {
        let mut guard = self.class(class);
        let fit = |shelf: &mut Shelf<B>| {
            let first = shelf.blocks.first_mut()?;
            is_fit(first).then(|| shelf.blocks.swap_remove(0))
        };
        let block = guard.shelves.iter_mut().find_map(fit)?;
        guard.hits += 1;
        guard.out += 1;
        Some(block)
    }

    /// Returns a block that was in use to the cache. If the cache is closed, the block is passed
    /// back to the caller, who must free it.
    #[inline]
    pub(super) fn put(&self, class: usize, stream: u64, block: B) -> Option<B> {
        let mut guard = self.class(class);
        guard.out -= 1;
        if guard.is_open {
            guard.shelf(stream).blocks.push(block);
            return None;
        }
        self.reserved
            .fetch_sub(bytes_of_class(class), Ordering::Relaxed);
        Some(block)
    }

    /// Counts a new block of this class as in use. Fails if the limit does not permit another
    /// block.
    pub(super) fn reserve(&self, class: usize) -> Result<()> {
        let (bytes, limit) = (bytes_of_class(class), self.limit());
        let order = Ordering::Relaxed;
        let added = |reserved: usize| reserved.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.reserved.fetch_update(order, order, added) {
            Ok(before) => {
                self.most_reserved
                    .fetch_max(before.saturating_add(bytes), order);
                let mut guard = self.class(class);
                guard.misses += 1;
                guard.out += 1;
                Ok(())
            }
            Err(reserved) => Err(Error::PoolLimit {
                bytes,
                limit,
                reserved,
            }),
        }
    }

    /// Removes a block of this class, which was in use, from the statistics.
    pub(super) fn lost(&self, class: usize) {
        self.class(class).out -= 1;
        self.reserved
            .fetch_sub(bytes_of_class(class), Ordering::Relaxed);
    }

    /// Removes cached blocks, the largest first, until they total at least `bytes` bytes or the
    /// cache is empty.
    pub(super) fn sweep(&self, bytes: usize) -> Vec<B> {
        let mut swept = Vec::new();
        let mut left = bytes;
        for class in (0..CLASSES).rev() {
            let mut guard = self.class(class);
            while left > 0
                && let Some(block) = guard.shelves.iter_mut().find_map(|it| it.blocks.pop())
            {
                let bytes = bytes_of_class(class);
                self.reserved.fetch_sub(bytes, Ordering::Relaxed);
                left = left.saturating_sub(bytes);
                swept.push(block);
            }
            if guard.shelves.iter().all(|shelf| shelf.blocks.is_empty()) {
                mem::take(&mut guard.shelves);
            }
        }
        swept
    }

    /// Closes the cache, so that returned blocks are no longer kept, and returns all cached blocks.
    pub(super) fn close(&self) -> Vec<B> {
        for class in 0..CLASSES {
            self.class(class).is_open = false;
        }
        self.sweep(usize::MAX)
    }

    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes by which the blocks exceed `bytes`, or 0.
    pub(super) fn reserved_beyond(&self, bytes: usize) -> usize {
        self.reserved.load(Ordering::Relaxed).saturating_sub(bytes)
    }

    pub(super) fn statistics(&self) -> Statistics {
        let mut sum = Statistics {
            most_bytes_reserved: self.most_reserved.load(Ordering::Relaxed),
            ..Statistics::default()
        };
        for (class, bytes) in (0..CLASSES).map(|class| (class, bytes_of_class(class))) {
            let guard = self.class(class);
            let waiting: usize = guard.shelves.iter().map(|it| it.blocks.len()).sum();
            sum.hits += guard.hits;
            sum.misses += guard.misses;
            sum.bytes_in_use += guard.out * bytes;
            sum.bytes_cached += waiting * bytes;
        }
        sum
    }

    #[inline]
    fn class(&self, class: usize) -> MutexGuard<'_, Class<B>> {
        let class = &self.classes[class];
        class.lock()
    }
}

impl<B> Class<B> {
    /// Returns the shelf of `stream`. If it has none, an empty shelf is reused or a new one is
    /// added.
    fn shelf(&mut self, stream: u64) -> &mut Shelf<B> {
        let own = self.shelves.iter().position(|it| it.stream == stream);
        let index = match own.or_else(|| self.shelves.iter().position(|it| it.blocks.is_empty())) {
            Some(index) => index,
            None => {
                self.shelves.push(Shelf {
                    stream,
                    blocks: Vec::new(),
                });
                self.shelves.len() - 1
            }
        };
        let shelf = &mut self.shelves[index];
        shelf.stream = stream;
        shelf
    }
}
