//! The time of an all-reduce.

use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;

use crate::Result;
use crate::ranks::Rank;

/// The number of operations before the first timed one.
const WARM_UP: usize = 5;

/// Times all-reduces of `mib` MiB, and checks a last one. Rank 0 prints the median.
pub(crate) fn run(rank: &mut Rank, mib: usize, rounds: usize) -> Result<()> {
    let bytes = mib << 20;
    let stream = rank.stream.clone();
    let mut buffer = DeviceBuffer::<f32>::zeroed_in(&Unpooled, &stream, bytes / size_of::<f32>())?;
    for _ in 0..WARM_UP {
        rank.communicator.all_reduce(&stream, &mut buffer)?;
    }
    rank.communicator.wait(&stream)?;
    let mut events = vec![record(&stream)?];
    for _ in 0..rounds {
        rank.communicator.all_reduce(&stream, &mut buffer)?;
        events.push(record(&stream)?);
    }
    rank.communicator.wait(&stream)?;
    let mut times = Vec::with_capacity(rounds);
    for pair in events.windows(2) {
        times.push(pair[1].milliseconds_since(&pair[0])?);
    }
    times.sort_by(f32::total_cmp);
    let median = times[times.len() / 2];

    buffer.fill((rank.rank + 1) as f32)?;
    rank.communicator.all_reduce(&stream, &mut buffer)?;
    rank.communicator.wait(&stream)?;
    let want = (rank.ranks * (rank.ranks + 1) / 2) as f32;
    for start in [0, buffer.len() / 2, buffer.len() - 1024] {
        let words = buffer.slice(start..start + 1024)?.to_vec()?;
        if let Some(wrong) = words.iter().find(|word| **word != want) {
            return Err(format!("an element is {wrong}, expected {want}").into());
        }
    }
    let ranks = rank.ranks;
    // The bytes that each device sends, as NVIDIA's benchmark `nccl-tests` counts them.
    let bus = bytes as f64 * 2.0 * (ranks - 1) as f64 / ranks as f64;
    let speed = bus / f64::from(median) / 1e6;
    rank.print_once(&format!(
        "all-reduce: {mib} MiB, {ranks} ranks: {median:.4} ms, {speed:.1} GB/s, verified"
    ));
    Ok(())
}

fn record(stream: &Stream) -> Result<Event> {
    let event = Event::new(stream.context(), EventFlags::empty())?;
    event.record(stream)?;
    Ok(event)
}
