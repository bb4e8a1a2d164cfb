//! A double-buffered pipeline, host to device to host, that overlaps a kernel: by hand with raw
//! calls and events, and with the safe layer, which adds the dependencies. GPU only; prints the
//! ratio.

use std::error::Error;
use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use cuda_driver::prelude::*;
use cuda_sys::{CUevent, CUresult};

/// A kernel that iterates a recurrence on `x[i]`, `rounds` times, for `i` below `n`.
const PTX: &str = "
.version 7.0
.target sm_52
.address_size 64
.visible .entry work(.param .u64 x, .param .u32 n, .param .u32 rounds)
{
    .reg .pred %p;
    .reg .u32 %b, %t, %i, %n, %r, %u;
    .reg .u64 %x, %o;
    mov.u32 %b, %ctaid.x;
    mov.u32 %t, %ntid.x;
    mov.u32 %i, %tid.x;
    mad.lo.u32 %i, %b, %t, %i;
    ld.param.u32 %n, [n];
    setp.ge.u32 %p, %i, %n;
    @%p bra done;
    ld.param.u64 %x, [x];
    cvta.to.global.u64 %x, %x;
    mul.wide.u32 %o, %i, 4;
    add.u64 %x, %x, %o;
    ld.global.u32 %u, [%x];
    ld.param.u32 %r, [rounds];
again:
    mad.lo.u32 %u, %u, 1664525, 1013904223;
    sub.u32 %r, %r, 1;
    setp.ne.u32 %p, %r, 0;
    @%p bra again;
    st.global.u32 [%x], %u;
done:
    ret;
}
";

/// The number of words in a piece: 16 MiB.
const N: usize = 4 << 20;
const ROUNDS: u32 = 512;
const PIECES: usize = 64;
/// The number of runs of each way; the fastest counts.
const RUNS: usize = 7;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn expected(mut word: u32) -> u32 {
    for _ in 0..ROUNDS {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
    word
}

struct Pipeline {
    context: Context,
    work: Function,
    /// Two pieces are in flight, each with its own stream.
    streams: [Stream; 2],
    device: [DeviceBuffer<u32>; 2],
}

impl Pipeline {
    /// Runs the pipeline through the safe layer: a piece is copied to the device, processed and
    /// copied back on the stream of its turn; the two turns overlap.
    fn safe(
        &mut self,
        host: &mut [Option<(PinnedBuffer<u32>, PinnedBuffer<u32>)>; 2],
    ) -> Result<Duration> {
        let start = Instant::now();
        let mut under_way: [Option<(Transfer<_>, Transfer<_>)>; 2] = [None, None];
        for piece in 0..PIECES {
            let turn = piece % 2;
            if let Some((up, down)) = under_way[turn].take() {
                host[turn] = Some((up.wait()?, down.wait()?));
            }
            let (up, down) = host[turn]
                .take()
                .ok_or("the host memory was not put back")?;
            let (stream, device) = (&self.streams[turn], &mut self.device[turn]);
            let up = device.copy_from_pinned_async(up, stream)?;
            let config = LaunchConfig::for_num_elems(N as u32).unwrap();
            // SAFETY: the kernel reads and writes the N words of the buffer.
            unsafe { stream.launch(&self.work, config, (&mut *device, N as u32, ROUNDS)) }?;
            let down = device.copy_to_pinned_async(down, stream)?;
            under_way[turn] = Some((up, down));
        }
        for (turn, under_way) in under_way.into_iter().enumerate() {
            if let Some((up, down)) = under_way {
                host[turn] = Some((up.wait()?, down.wait()?));
            }
        }
        Ok(start.elapsed())
    }

    /// Runs the pipeline by raw calls, with one event for each turn, recorded after its copy to the
    /// host.
    fn by_hand(
        &mut self,
        host: &mut [(PinnedBuffer<u32>, PinnedBuffer<u32>); 2],
    ) -> Result<Duration> {
        let driver = self.context.driver().library().clone();
        let events = [
            Event::new(&self.context, EventFlags::DISABLE_TIMING)?,
            Event::new(&self.context, EventFlags::DISABLE_TIMING)?,
        ];
        let raw: [CUevent; 2] = [events[0].as_raw(), events[1].as_raw()];
        let check = |status: CUresult| {
            if status.is_success() {
                Ok(())
            } else {
                Err(format!("{status}"))
            }
        };
        let start = Instant::now();
        let bytes = N * 4;
        for piece in 0..PIECES {
            let turn = piece % 2;
            let (up, down) = &mut host[turn];
            let stream = self.streams[turn].as_raw();
            let mut address = self.device[turn].as_raw();
            let (mut n, mut rounds) = (N as u32, ROUNDS);
            let mut arguments: [*mut c_void; 3] = [
                (&raw mut address).cast(),
                (&raw mut n).cast(),
                (&raw mut rounds).cast(),
            ];
            if piece >= 2 {
                // SAFETY: the event is alive.
                check(unsafe { driver.cuEventSynchronize(raw[turn]) })?;
            }
            // SAFETY: both sides keep the bytes alive until the event after the copies is done.
            check(unsafe {
                driver.cuMemcpyHtoDAsync_v2(address, up.as_ptr().cast(), bytes, stream)
            })?;
            // SAFETY: the kernel reads and writes the N words of the buffer.
            check(unsafe {
                driver.cuLaunchKernel(
                    self.work.as_raw(),
                    (N as u32).div_ceil(256),
                    1,
                    1,
                    256,
                    1,
                    1,
                    0,
                    stream,
                    arguments.as_mut_ptr(),
                    ptr::null_mut(),
                )
            })?;
            // SAFETY: both sides keep the bytes alive until the event after the copies is done.
            check(unsafe {
                driver.cuMemcpyDtoHAsync_v2(down.as_mut_ptr().cast(), address, bytes, stream)
            })?;
            // SAFETY: the event and the stream are alive.
            check(unsafe { driver.cuEventRecord(raw[turn], stream) })?;
        }
        for stream in &self.streams {
            stream.synchronize()?;
        }
        Ok(start.elapsed())
    }
}

fn main() -> Result<()> {
    let driver = match Driver::load() {
        Ok(driver) => driver,
        Err(error) => {
            println!("skipped: a pipeline needs a GPU: {error}");
            return Ok(());
        }
    };
    let context = driver.device(0)?.primary_context()?;
    let stream = || Stream::new(&context, StreamFlags::NON_BLOCKING, 0);
    let streams = [stream()?, stream()?];
    let device = [
        DeviceBuffer::zeroed(&streams[0], N)?,
        DeviceBuffer::zeroed(&streams[1], N)?,
    ];
    let work = Module::load(&context, &Ptx::new(PTX)?)?.function("work")?;
    let source: Vec<u32> = (0..N as u32).collect();
    let host = || -> Result<_> {
        Ok((
            PinnedBuffer::from_host(&context, &source, PinnedFlags::empty())?,
            PinnedBuffer::zeroed(&context, N, PinnedFlags::empty())?,
        ))
    };
    let mut pipeline = Pipeline {
        context: context.clone(),
        work,
        streams,
        device,
    };
    let mut hand = [host()?, host()?];
    let mut safe = [Some(host()?), Some(host()?)];
    let mut best = [Duration::MAX; 2];
    // The runs alternate, so that a change of the machine's state affects both ways.
    for _ in 0..RUNS {
        best[0] = best[0].min(pipeline.by_hand(&mut hand)?);
        best[1] = best[1].min(pipeline.safe(&mut safe)?);
    }
    let want: Vec<u32> = source.iter().map(|&word| expected(word)).collect();
    for (_, down) in hand.iter().chain(safe.iter().flatten()) {
        assert!(
            **down == *want,
            "the words differ from those that the host computes"
        );
    }
    let ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
    println!("{PIECES} pieces of {} MiB", (N * 4) >> 20);
    println!(
        "by hand, raw calls and events: {:.2} ms",
        best[0].as_secs_f64() * 1e3
    );
    println!(
        "safe layer:                    {:.2} ms",
        best[1].as_secs_f64() * 1e3
    );
    println!("ratio: {ratio:.3}");
    assert!(ratio < 1.05, "overlap is lost");
    Ok(())
}
