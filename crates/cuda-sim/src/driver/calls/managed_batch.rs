//! Prefetching and discarding ranges of managed memory in batches.
//!
//! A discard poisons the bytes at its position in the stream, as their contents are undefined from
//! there on.

use std::ffi::{c_int, c_ulonglong};

use cuda_sys::{CUdeviceptr, CUmemLocation, CUstream_st, calls};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuMemPrefetchBatchAsync | cuMemPrefetchBatchAsync_ptsz |
    cuMemDiscardAndPrefetchBatchAsync | cuMemDiscardAndPrefetchBatchAsync_ptsz
        => mem_prefetch_batch;
    cuMemDiscardBatchAsync | cuMemDiscardBatchAsync_ptsz => mem_discard_batch;
}

/// The arguments of a batch, and what it does.
struct Batch {
    starts: Out<CUdeviceptr>,
    sizes: Out<usize>,
    count: usize,
    /// The locations, the first range of each, and their number.
    places: Option<(Out<CUmemLocation>, Out<usize>, usize)>,
    discards: bool,
}

impl Batch {
    /// Returns the location index of each range.
    fn runs(&self) -> Status<Vec<usize>> {
        let Some((_, starts, number)) = self.places else {
            return Ok(Vec::new());
        };
        if number == 0 || number > self.count {
            return Err(INVALID_VALUE);
        }
        let mut runs = Vec::with_capacity(self.count);
        for index in 0..number {
            let start = starts.get_at(index)?;
            let end = if index + 1 < number {
                starts.get_at(index + 1)?
            } else {
                self.count
            };
            if start != runs.len() || end <= start || end > self.count {
                return Err(INVALID_VALUE);
            }
            runs.resize(end, index);
        }
        Ok(runs)
    }
}

impl Call {
    fn managed_batch(&self, batch: &Batch, flags: c_ulonglong, stream: Out<CUstream_st>) -> Status {
        let stream = self.stream(stream.handle())?;
        if batch.count == 0 || flags != 0 || stream.is_legacy() {
            return Err(INVALID_VALUE);
        }
        self.uncapturable(&stream)?;
        let runs = batch.runs()?;
        let mut ranges = Vec::new();
        for index in 0..batch.count {
            let (start, size) = (batch.starts.get_at(index)?, batch.sizes.get_at(index)?);
            let place: Option<c_int> = match (&batch.places, runs.get(index)) {
                (Some((locations, ..)), Some(&run)) => Some(self.place(&locations.get_at(run)?)?),
                _ => None,
            };
            if let Some(place) = place {
                self.expect_concurrent(&stream, place)?;
            }
            self.with_pages(start, size, |_, _| ())?;
            ranges.push((start, size, place));
        }
        for &(start, size, place) in &ranges {
            if let Some(place) = place {
                self.with_pages(start, size, |pages, offset| {
                    pages.prefetch(offset, size as u64, place);
                })?;
            }
        }
        let discards = batch.discards;
        let device = stream.context.device.clone();
        self.enqueue(&stream, &[], move || {
            for (start, size, _) in ranges {
                if discards {
                    // Memory that was freed meanwhile has no contents.
                    let _ = device.map().poison(start, size as u64);
                }
            }
            Ok(())
        });
        Ok(())
    }

    /// Prefetches the ranges, and first discards them if the function says so.
    #[allow(clippy::too_many_arguments, reason = "as many as C's")]
    fn mem_prefetch_batch(
        &self,
        starts: Out<CUdeviceptr>,
        sizes: Out<usize>,
        count: usize,
        locations: Out<CUmemLocation>,
        firsts: Out<usize>,
        number: usize,
        flags: c_ulonglong,
        stream: Out<CUstream_st>,
    ) -> Status {
        let batch = Batch {
            starts,
            sizes,
            count,
            places: Some((locations, firsts, number)),
            discards: self.function.base == calls::cuMemDiscardAndPrefetchBatchAsync.base,
        };
        self.managed_batch(&batch, flags, stream)
    }

    fn mem_discard_batch(
        &self,
        starts: Out<CUdeviceptr>,
        sizes: Out<usize>,
        count: usize,
        flags: c_ulonglong,
        stream: Out<CUstream_st>,
    ) -> Status {
        let batch = Batch {
            starts,
            sizes,
            count,
            places: None,
            discards: true,
        };
        self.managed_batch(&batch, flags, stream)
    }
}
