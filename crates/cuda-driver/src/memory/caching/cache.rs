//! The blocks that wait to be used again, by size and by the stream on which they were used, and the account of all.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::classes::{CLASSES, bytes_of_class};
use super::statistics::Statistics;
use crate::error::{Error, Result};

/// Blocks of one kind. Each class has a lock of its own, and a block that comes back or goes out again takes no other.
pub(crate) struct Cache<B> {
    classes: Box<[Mutex<Class<B>>]>,
    /// The most bytes in blocks, waiting or out.
    limit: AtomicUsize,
    /// Bytes in blocks, waiting or out.
    reserved: AtomicUsize,
    /// Bytes in blocks that are out.
    in_use: AtomicUsize,
    /// The most that `in_use` ever was.
    most_in_use: AtomicUsize,
    misses: AtomicU64,
    /// Whether blocks that come back are kept.
    is_open: AtomicBool,
}

struct Class<B> {
    /// None twice of a stream. Those that are empty keep their room for the next.
    shelves: Vec<Shelf<B>>,
    hits: u64,
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
            hits: 0,
        };
        Self {
            classes: (0..CLASSES).map(|_| Mutex::new(class())).collect(),
            limit: AtomicUsize::new(limit),
            reserved: AtomicUsize::new(0),
            in_use: AtomicUsize::new(0),
            most_in_use: AtomicUsize::new(0),
            misses: AtomicU64::new(0),
            is_open: AtomicBool::new(true),
        }
    }

    /// Takes a block that was used on this stream last.
    pub(super) fn take(&self, class: usize, stream: u64) -> Option<B> {
        let mut guard = self.class(class);
        let shelf = guard.shelves.iter_mut().find(|it| it.stream == stream)?;
        let block = shelf.blocks.pop()?;
        guard.hits += 1;
        drop(guard);
        self.goes_out(bytes_of_class(class));
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
        drop(guard);
        self.goes_out(bytes_of_class(class));
        Some(block)
    }

    /// Takes a block back that was out; answers it if it is not to be kept.
    pub(super) fn put(&self, class: usize, stream: u64, block: B) -> Option<B> {
        let bytes = bytes_of_class(class);
        let mut guard = self.class(class);
        // Under the lock, so that nothing comes in behind the last sweep.
        if !self.is_open.load(Ordering::Relaxed) {
            drop(guard);
            self.lost(bytes);
            return Some(block);
        }
        guard.shelf(stream).blocks.push(block);
        drop(guard);
        self.in_use.fetch_sub(bytes, Ordering::Relaxed);
        None
    }

    /// Counts a new block of this class, if the limit allows it.
    pub(super) fn reserve(&self, class: usize) -> Result<()> {
        let (bytes, limit) = (bytes_of_class(class), self.limit());
        let order = Ordering::Relaxed;
        let added = |reserved: usize| reserved.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.reserved.fetch_update(order, order, added) {
            Ok(_) => {
                self.misses.fetch_add(1, Ordering::Relaxed);
                self.goes_out(bytes);
                Ok(())
            }
            Err(reserved) => Err(Error::PoolLimit {
                bytes,
                limit,
                reserved,
            }),
        }
    }

    /// Counts a block of so many bytes as out no more, and not waiting either.
    pub(super) fn lost(&self, bytes: usize) {
        self.in_use.fetch_sub(bytes, Ordering::Relaxed);
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes out waiting blocks, the largest first, until as many bytes are left in blocks as `enough` allows.
    pub(super) fn sweep(&self, mut enough: impl FnMut(&Statistics) -> bool) -> Vec<B> {
        let mut swept = Vec::new();
        for (class, bytes) in (0..CLASSES)
            .rev()
            .map(|class| (class, bytes_of_class(class)))
        {
            let mut guard = self.class(class);
            while !enough(&self.account()) {
                let Some(block) = guard.shelves.iter_mut().find_map(|it| it.blocks.pop()) else {
                    break;
                };
                self.reserved.fetch_sub(bytes, Ordering::Relaxed);
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
        self.is_open.store(false, Ordering::Relaxed);
        self.sweep(|_| false)
    }

    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn statistics(&self) -> Statistics {
        let hits = (0..CLASSES).map(|class| self.class(class).hits).sum();
        Statistics {
            hits,
            ..self.account()
        }
    }

    /// The statistics without the hits.
    fn account(&self) -> Statistics {
        let in_use = self.in_use.load(Ordering::Relaxed);
        let reserved = self.reserved.load(Ordering::Relaxed);
        Statistics {
            hits: 0,
            misses: self.misses.load(Ordering::Relaxed),
            bytes_in_use: in_use,
            bytes_cached: reserved.saturating_sub(in_use),
            most_bytes_in_use: self.most_in_use.load(Ordering::Relaxed),
        }
    }

    fn goes_out(&self, bytes: usize) {
        let in_use = self.in_use.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if in_use > self.most_in_use.load(Ordering::Relaxed) {
            self.most_in_use.fetch_max(in_use, Ordering::Relaxed);
        }
    }

    fn class(&self, class: usize) -> MutexGuard<'_, Class<B>> {
        let class = &self.classes[class];
        class.lock().unwrap_or_else(PoisonError::into_inner)
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
