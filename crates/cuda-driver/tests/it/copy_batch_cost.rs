//! The time of the host and of the device for many small copies: single ones and batches, by raw
//! calls and by this crate.
//!
//! On a GPU the tests print 10,000 copies of 4 KiB. On the software device they only show that each
//! way copies the same bytes.

use std::time::{Duration, Instant};

use cuda_driver::memory::{CopyBatch, CopyScope};
use cuda_driver::prelude::*;
use cuda_sys::{
    CUmemLocation, CUmemLocation_st__bindgen_ty_1, CUmemLocationType, CUmemcpyAttributes,
    CUmemcpySrcAccessOrder, CUresult,
};

use crate::support::{Fixture, everywhere_since, gpu};

const PAGE: usize = 4096;
const ROUNDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    RawSingle,
    RawFirst,
    RawSecond,
    Single,
    Batch,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    OnDevice,
    ToDevice,
    ToHost,
}

/// The two sides of the copies. Page `n` is copied to page `count - 1 - n`.
struct Sides {
    count: usize,
    from: DeviceBuffer<u8>,
    to: DeviceBuffer<u8>,
    host_from: PinnedBuffer<u8>,
    host_to: PinnedBuffer<u8>,
}

impl Sides {
    fn new(stream: &Stream, count: usize) -> Self {
        let bytes: Vec<u8> = (0..count * PAGE)
            .map(|i| (i / PAGE * 7 + i) as u8)
            .collect();
        let (context, flags) = (stream.context(), PinnedFlags::DEFAULT);
        Self {
            count,
            from: DeviceBuffer::from_host(stream, &bytes).unwrap(),
            to: DeviceBuffer::zeroed(stream, bytes.len()).unwrap(),
            host_from: PinnedBuffer::from_host(context, &bytes, flags).unwrap(),
            host_to: PinnedBuffer::zeroed(context, bytes.len(), flags).unwrap(),
        }
    }

    /// The addresses of the first bytes of the destination and of the source.
    fn addresses(&self, direction: Direction) -> (u64, u64) {
        let host = |start: *const u8| start.expose_provenance() as u64;
        match direction {
            Direction::OnDevice => (self.to.as_raw(), self.from.as_raw()),
            Direction::ToDevice => (self.to.as_raw(), host(self.host_from.as_ptr())),
            Direction::ToHost => (host(self.host_to.as_ptr()), self.from.as_raw()),
        }
    }

    fn copy_raw(&self, stream: &Stream, way: Way, direction: Direction) {
        let (to, from) = self.addresses(direction);
        let start = |page: usize| (page * PAGE) as u64;
        let pages =
            (0..self.count).map(|page| (to + start(self.count - 1 - page), from + start(page)));
        if way == Way::RawSingle {
            let library = stream.context().driver().library();
            for (to, from) in pages {
                let raw = stream.as_raw();
                let status = match direction {
                    // SAFETY: both sides hold a page.
                    Direction::OnDevice => unsafe {
                        library.cuMemcpyDtoDAsync_v2(to, from, PAGE, raw)
                    },
                    Direction::ToDevice => {
                        let from = std::ptr::with_exposed_provenance(from as usize);
                        // SAFETY: as above.
                        unsafe { library.cuMemcpyHtoDAsync_v2(to, from, PAGE, raw) }
                    }
                    Direction::ToHost => {
                        let to = std::ptr::with_exposed_provenance_mut(to as usize);
                        // SAFETY: as above.
                        unsafe { library.cuMemcpyDtoHAsync_v2(to, from, PAGE, raw) }
                    }
                };
                assert!(status.is_success(), "{status}");
            }
            return;
        }
        let (to, from): (Vec<u64>, Vec<u64>) = pages.unzip();
        let status = raw_batch(stream, way, to, from);
        assert!(status.is_success(), "{way:?} {direction:?}: {status}");
    }

    fn copy(&mut self, stream: &Stream, way: Way, direction: Direction) {
        if !matches!(way, Way::Single | Way::Batch) {
            return self.copy_raw(stream, way, direction);
        }
        if direction == Direction::OnDevice {
            let targets = self.to.as_mut_slice().chunks_mut(PAGE).unwrap();
            let sources = self.from.as_slice().chunks(PAGE).unwrap();
            let mut targets: Vec<_> = targets.collect();
            if way == Way::Single {
                for from in sources {
                    targets.pop().unwrap().copy_from_on(from, stream).unwrap();
                }
                return;
            }
            let mut batch = CopyBatch::with_capacity(self.count);
            for from in sources {
                batch.copy(targets.pop().unwrap(), from).unwrap();
            }
            return batch.queue(stream).unwrap();
        }
        stream
            .copy_scope(|scope| self.copy_in(scope, way, direction))
            .unwrap();
    }

    fn copy_in<'a>(
        &'a mut self,
        scope: &'a CopyScope<'a, '_>,
        way: Way,
        direction: Direction,
    ) -> cuda_driver::Result<()> {
        let range = |page: usize| page * PAGE..(page + 1) * PAGE;
        let last = self.count - 1;
        if direction == Direction::ToDevice {
            let parts = self.to.as_mut_slice().chunks_mut(PAGE)?.enumerate();
            let mut parts = parts.map(|(page, part)| (part, range(last - page)));
            if way == Way::Single {
                return parts.try_for_each(|(part, range)| {
                    scope.copy_from_host_part(part, &self.host_from, range)
                });
            }
            let mut batch = scope.batch();
            batch.copy_parts_from_host(parts, &self.host_from)?;
            return batch.queue();
        }
        let parts = self.from.as_slice().chunks(PAGE)?.enumerate();
        let parts = parts.map(|(page, part)| (part, range(last - page)));
        // Single copies to parts of one buffer would borrow it several times.
        let mut batch = scope.batch();
        batch.copy_parts_to_host(parts, &mut self.host_to)?;
        batch.queue()
    }

    fn check(&mut self, direction: Direction, name: &str) {
        let (from, to) = match direction {
            Direction::OnDevice => (self.from.to_vec().unwrap(), self.to.to_vec().unwrap()),
            Direction::ToDevice => (self.host_from.to_vec(), self.to.to_vec().unwrap()),
            Direction::ToHost => (self.from.to_vec().unwrap(), self.host_to.to_vec()),
        };
        let want: Vec<u8> = from.chunks(PAGE).rev().flatten().copied().collect();
        assert!(to == want, "{name}: {direction:?} copied other bytes");
        self.to.set_zero().unwrap();
        self.host_to.fill(0);
    }
}

/// Queues a batch through the first or the second revision of the call.
fn raw_batch(stream: &Stream, way: Way, mut to: Vec<u64>, mut from: Vec<u64>) -> CUresult {
    let mut sizes = vec![PAGE; to.len()];
    let nowhere = CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_NONE,
        __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 { id: 0 },
    };
    let mut attributes = CUmemcpyAttributes {
        srcAccessOrder: CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
        srcLocHint: nowhere,
        dstLocHint: nowhere,
        flags: 0,
    };
    let (mut first, mut failed) = (0, usize::MAX);
    // Driver 580 refuses a batch while no context is current.
    let _current = stream.context().make_current().unwrap();
    let library = stream.context().driver().library();
    let (dsts, srcs, sizes) = (to.as_mut_ptr(), from.as_mut_ptr(), sizes.as_mut_ptr());
    let (attributes, first, raw) = (&raw mut attributes, &raw mut first, stream.as_raw());
    let count = to.len();
    if way == Way::RawFirst {
        let failed = &raw mut failed;
        // SAFETY: the arrays have `count` elements, and each side holds a page.
        unsafe {
            library.cuMemcpyBatchAsync(dsts, srcs, sizes, count, attributes, first, 1, failed, raw)
        }
    } else {
        // SAFETY: as above.
        unsafe {
            library.cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attributes, first, 1, raw)
        }
    }
}

const WAYS: [Way; 5] = [
    Way::RawSingle,
    Way::RawFirst,
    Way::RawSecond,
    Way::Single,
    Way::Batch,
];
const DIRECTIONS: [Direction; 3] = [Direction::OnDevice, Direction::ToDevice, Direction::ToHost];

#[test]
fn all_ways_copy_the_same_bytes() {
    for fixture in everywhere_since((13, 0)) {
        let stream = fixture.stream();
        let mut sides = Sides::new(&stream, 8);
        for (way, direction) in WAYS
            .into_iter()
            .flat_map(|way| DIRECTIONS.map(|it| (way, it)))
        {
            sides.copy(&stream, way, direction);
            stream.synchronize().unwrap();
            sides.check(direction, &format!("{} {way:?}", fixture.name));
        }
    }
}

/// Returns the shortest times of the host and of the device over some rounds.
fn times(sides: &mut Sides, stream: &Stream, way: Way, direction: Direction) -> [f64; 2] {
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        stream.synchronize().unwrap();
        let (start, done) = (stream.record_event().unwrap(), Instant::now());
        sides.copy(stream, way, direction);
        let host = done.elapsed();
        let end = stream.record_event().unwrap();
        end.synchronize().unwrap();
        let device = end.elapsed_since(&start).unwrap();
        best = [best[0].min(host), best[1].min(device)];
        sides.check(direction, "timing");
    }
    best.map(|time| time.as_secs_f64() * 1e6)
}

/// A copy scope waits for its copies, so the time of the host is that of the whole copy there.
#[test]
fn batch_cost_on_a_gpu() {
    let Some(fixture) = gpu() else { return };
    let (stream, count) = (fixture.stream(), 10_000);
    let mut sides = Sides::new(&stream, count);
    println!(
        "{}: {count} copies of {PAGE} bytes, microseconds",
        fixture.name
    );
    for direction in DIRECTIONS {
        for way in WAYS {
            if way == Way::Single && direction == Direction::ToHost {
                continue;
            }
            let [host, device] = times(&mut sides, &stream, way, direction);
            println!("{direction:?} {way:?}: host {host:.0}, device {device:.0}");
        }
    }
    refused_by_the_driver(&fixture);
}

/// Prints what the driver itself returns for batches that this crate refuses, or never makes.
fn refused_by_the_driver(fixture: &Fixture) {
    let stream = fixture.stream();
    let sides = Sides::new(&stream, 2);
    let legacy = fixture.context.legacy_stream();
    let _current = fixture.context.make_current().unwrap();
    let (to, from) = sides.addresses(Direction::OnDevice);
    for way in [Way::RawFirst, Way::RawSecond] {
        let status = raw_batch(&legacy, way, vec![to], vec![from]);
        println!("{way:?} on the legacy stream: {status}");
        let status = raw_batch(&stream, way, vec![], vec![]);
        println!("{way:?} without copies: {status}");
    }
    fixture.context.synchronize().unwrap();
}
