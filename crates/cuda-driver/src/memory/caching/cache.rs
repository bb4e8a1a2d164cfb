//! The blocks that wait to be used again, by size and by the stream on which they were used, and
//! the account of all.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::classes::{CLASSES, bytes_of_class};
use super::statistics::Statistics;
use crate::error::{Error, Result};
use crate::lock::{Mutex, MutexGuard, rank};

/// Blocks of one kind. Each class has a lock of its own, and a block that comes back or goes out
/// again takes no other, nor touches what the classes share.
pub(crate) struct Cache<B> {
    classes: Box<[Mutex<Class<B>, { rank::CACHE_CLASS }>]>,
    /// The most bytes in blocks, waiting or out.
    limit: AtomicUsize,
    /// Bytes in blocks, waiting or out.
    reserved: AtomicUsize,
    /// The most that `reserved` ever was.
    most_reserved: AtomicUsize,
}

struct Class<B> {
    /// None twice of a stream. Those that are empty keep their room for the next.
    shelves: Vec<Shelf<B>>,
    /// How many blocks are out.
    out: usize,
    hits: u64,
    misses: u64,
    /// Whether blocks that come back are kept.
    is_open: bool,
}

/// The blocks of a class that were used on one stream last.
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

    /// Takes a block that was used on this stream last.
    #[inline]
    pub(super) fn take(&self, class: usize, stream: u64) -> Option<B> {
        let mut guard = self.class(class);
        let shelf = guard.shelves.iter_mut().find(|it| it.stream == stream)?;
        let block = shelf.blocks.pop()?;
        guard.hits += 1;
        guard.out += 1;
        Some(block)
    }

    /// Takes a block of any stream for which `is_fit` holds; looks at one of each stream.
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

    /// Takes a block back that was out; answers it if it is not to be kept.
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

    /// Counts a new block of this class as out, if the limit allows it.
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

    /// Counts a block of this class as out no more, and not waiting either.
    pub(super) fn lost(&self, class: usize) {
        self.class(class).out -= 1;
        self.reserved
            .fetch_sub(bytes_of_class(class), Ordering::Relaxed);
    }

    /// Takes out waiting blocks, the largest first, until they have so many bytes or none waits.
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

    /// From now on nothing is kept. Answers what is.
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

    /// By how many bytes there are more than `bytes` in blocks.
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
    /// The shelf of this stream, or an empty one.
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
