//! A ledger of the live device allocations of a context, by the call site that made them. C has no
//! counterpart.
//!
//! A ledger that is off costs one relaxed load per allocation and per free.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::CUdeviceptr;

use crate::lock::{Mutex, rank};

/// The device memory of a context that is allocated: see
/// [`Context::track_memory`](crate::Context::track_memory).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    sites: Vec<MemorySite>,
    streams: Vec<(u64, usize)>,
    pools: Vec<MemoryOrigin>,
    live: usize,
    peak: usize,
}

/// The live allocations of one kind that one call site made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySite {
    location: &'static Location<'static>,
    kind: MemoryKind,
    count: usize,
    bytes: usize,
}

/// The live allocations that come from one pool, or from no pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOrigin {
    kind: MemoryKind,
    pool: u64,
    count: usize,
    bytes: usize,
}

/// The kind of the origin of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MemoryKind {
    /// The current pool of the device, in the order of a stream (`cuMemAllocAsync`).
    StreamOrdered,
    /// Memory outside of any pool (`cuMemAlloc`).
    Unpooled,
    /// Managed memory (`cuMemAllocManaged`).
    Managed,
    /// Physical memory at a reserved address (`cuMemMap`).
    Mapped,
    /// A memory pool that the program named (`cuMemAllocFromPoolAsync`).
    Pool,
    /// A caching pool.
    CachingPool,
    /// An array (`cuArray3DCreate`, `cuMipmappedArrayCreate`).
    Array,
    /// Other code.
    Owned,
}

impl MemoryReport {
    /// Returns the call sites that made the live allocations, those with the most bytes first.
    #[must_use]
    pub fn sites(&self) -> &[MemorySite] {
        &self.sites
    }

    /// The bytes of each owning stream, by its raw handle, largest first.
    #[must_use]
    pub fn streams(&self) -> &[(u64, usize)] {
        &self.streams
    }

    /// The pools and the other origins of the memory, those with the most bytes first.
    #[must_use]
    pub fn pools(&self) -> &[MemoryOrigin] {
        &self.pools
    }

    /// The number of live allocations.
    #[must_use]
    pub fn count(&self) -> usize {
        self.sites.iter().map(|site| site.count).sum()
    }

    /// The bytes that are allocated now.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live
    }

    /// The most bytes that were allocated at the same time since tracking began.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.peak
    }
}

impl MemorySite {
    /// The call site that created the buffers.
    #[must_use]
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }

    /// The origin of the memory.
    #[must_use]
    pub fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// The number of live allocations.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Their size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl MemoryOrigin {
    /// The kind of the origin.
    #[must_use]
    pub fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// The raw handle of a [memory pool](MemoryKind::Pool), or a number for each caching pool. The
    /// other kinds have 0.
    #[must_use]
    pub fn pool(&self) -> u64 {
        self.pool
    }

    /// The number of live allocations.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Their size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StreamOrdered => "stream-ordered",
            Self::Unpooled => "unpooled",
            Self::Managed => "managed",
            Self::Mapped => "mapped",
            Self::Pool => "memory pool",
            Self::CachingPool => "caching pool",
            Self::Array => "array",
            Self::Owned => "owned by other code",
        })
    }
}

/// Lists the call sites, then the streams and the pools, one per line.
impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes in {} allocations; at most {} bytes at the same time",
            self.live,
            self.count(),
            self.peak
        )?;
        for site in &self.sites {
            let MemorySite {
                location,
                kind,
                count,
                bytes,
            } = site;
            write!(f, "\n{bytes:>14} bytes in {count} from {location} ({kind})")?;
        }
        for (stream, bytes) in &self.streams {
            write!(f, "\n{bytes:>14} bytes of Stream({stream:#x})")?;
        }
        for origin in &self.pools {
            let MemoryOrigin {
                kind,
                pool,
                count,
                bytes,
            } = origin;
            write!(f, "\n{bytes:>14} bytes in {count}: {kind}")?;
            if *pool != 0 {
                write!(f, " {pool:#x}")?;
            }
        }
        Ok(())
    }
}

/// The live allocations of a context.
#[derive(Default)]
pub(crate) struct MemoryLedger {
    is_on: AtomicBool,
    inner: Mutex<Inner, { rank::MEMORY_LEDGER }>,
}

#[derive(Default)]
struct Inner {
    /// By address. The driver returns no address twice while it is allocated.
    live: HashMap<CUdeviceptr, Entry>,
    bytes: usize,
    peak: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) bytes: usize,
    pub(crate) location: &'static Location<'static>,
    pub(crate) kind: MemoryKind,
    /// The handle of the pool, or 0.
    pub(crate) pool: u64,
    /// The address of the owning stream.
    pub(crate) stream: u64,
}

impl MemoryLedger {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Starts with an empty list, or stops and clears it.
    pub(crate) fn set_on(&self, is_on: bool) {
        let mut inner = self.inner.lock();
        self.is_on.store(is_on, Ordering::Relaxed);
        let former = std::mem::take(&mut *inner);
        drop(inner);
        drop(former);
    }

    #[cold]
    pub(crate) fn add(&self, address: CUdeviceptr, entry: Entry) {
        let mut inner = self.inner.lock();
        let former = inner.live.insert(address, entry);
        inner.bytes += entry.bytes;
        inner.bytes -= former.map_or(0, |former| former.bytes);
        inner.peak = inner.peak.max(inner.bytes);
    }

    #[cold]
    pub(crate) fn remove(&self, address: CUdeviceptr) {
        let mut inner = self.inner.lock();
        let former = inner.live.remove(&address);
        inner.bytes -= former.map_or(0, |former| former.bytes);
    }

    pub(crate) fn report(&self) -> MemoryReport {
        let inner = self.inner.lock();
        let entries: Vec<Entry> = inner.live.values().copied().collect();
        let (live, peak) = (inner.bytes, inner.peak);
        drop(inner);
        let mut sites: HashMap<_, MemorySite> = HashMap::new();
        let mut streams: HashMap<u64, usize> = HashMap::new();
        let mut pools: HashMap<_, MemoryOrigin> = HashMap::new();
        for entry in entries {
            let origin = MemoryOrigin {
                kind: entry.kind,
                pool: entry.pool,
                count: 0,
                bytes: 0,
            };
            let origin = pools.entry((entry.kind, entry.pool)).or_insert(origin);
            origin.count += 1;
            origin.bytes += entry.bytes;
            *streams.entry(entry.stream).or_default() += entry.bytes;
            let site = MemorySite {
                location: entry.location,
                kind: entry.kind,
                count: 0,
                bytes: 0,
            };
            let site = sites.entry((entry.location, entry.kind)).or_insert(site);
            site.count += 1;
            site.bytes += entry.bytes;
        }
        let mut sites: Vec<_> = sites.into_values().collect();
        sites.sort_by_key(|site| {
            let place = (site.location.file(), site.location.line(), site.kind);
            (std::cmp::Reverse(site.bytes), place)
        });
        let mut streams: Vec<_> = streams.into_iter().collect();
        streams.sort_by_key(|(stream, bytes)| (std::cmp::Reverse(*bytes), *stream));
        let mut pools: Vec<_> = pools.into_values().collect();
        pools.sort_by_key(|it| (std::cmp::Reverse(it.bytes), it.kind, it.pool));
        MemoryReport {
            sites,
            streams,
            pools,
            live,
            peak,
        }
    }
}
