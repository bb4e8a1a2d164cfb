//! Scenarios of captured graphs.

use cuda_driver::Error;
use cuda_driver::graph::EagerCapture;
use cuda_driver::launch::Queue;
use cuda_driver::prelude::*;
use cuda_driver::stream::CaptureStatus;

use super::{Fixture, N, Result, Scenario, config, expect, filled, one};
use crate::support::MIX;

pub(super) const ALL: &[Scenario] = &[
    one("capture", capture),
    one("capture of lines", lines),
    one("capture into a graph", into),
    one("capture of programmatic edges", programmatic),
    one("capture of eager code", eager),
    one("capture of eager code with outputs", outputs),
];

fn capture(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, y) = (filled(&stream, 1)?, filled(&stream, 2)?);
    let mut copied = filled(&stream, 0)?;
    assert_eq!(stream.capture_status()?, CaptureStatus::Inactive);
    let graph = Graph::capture(&fixture.context, |scope| {
        assert!(scope.is_capturing()?);
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe { scope.launch(&mix, config(), (&mut x, &y, N)) }?;
        scope.copy(&mut copied, &x)?;
        scope.fill(&mut x, 1_u32)?;
        scope.add_node(|graph, after| graph.add_empty(after))?;
        assert_eq!(scope.after()?.len(), 1);
        Ok(())
    })?;
    let exec = graph.instantiate()?;
    drop(mix);
    exec.launch(&stream)?;
    expect(&copied, 4)?;
    expect(&x, 1)
}

fn lines(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, mut y) = (filled(&stream, 1)?, filled(&stream, 2)?);
    let z = filled(&stream, 5)?;
    let graph = Graph::capture(&fixture.context, |scope| {
        let other = scope.fork()?;
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe { scope.launch(&mix, config(), (&mut x, &z, N)) }?;
        // SAFETY: as above.
        unsafe { other.launch(&mix, config(), (&mut y, &z, N)) }?;
        scope.join(&other)?;
        // SAFETY: as above.
        unsafe { scope.launch(&mix, config(), (&mut x, &y, N)) }?;
        let _left_open = scope.fork()?;
        Ok(())
    })?;
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    expect(&x, 2 * 7 + 9)
}

fn into(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, y) = (filled(&stream, 0)?, filled(&stream, 2)?);
    let mut graph = Graph::new(&fixture.context)?;
    let first = graph.add_fill(&[], &mut x, 3_u32)?;
    graph.capture_into(&[first.edge()], |scope| {
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe { scope.launch(&mix, config(), (&mut x, &y, N)) }
    })?;
    assert_eq!(graph.len(), 2);
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    expect(&x, 8)
}

/// Programmatic edges, which only the newer revisions of the calls can report.
fn programmatic(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, mut y) = (filled(&stream, 0)?, filled(&stream, 1)?);
    let z = filled(&stream, 2)?;
    let mut graph = Graph::new(&fixture.context)?;
    // SAFETY: the kernel touches N words of each; each has N.
    let first = unsafe { graph.add_kernel(&[], &mix, config(), (&mut x, &z, N)) }?;
    graph.capture_into(&[first.programmatic_edge()], |scope| {
        // SAFETY: as above; the two kernels share only memory that both read.
        unsafe { scope.launch(&mix, config(), (&mut y, &z, N)) }
    })?;
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    expect(&x, 2)?;
    expect(&y, 4)
}

/// Calls on a stream of the program, with temporary buffers and work of other code.
fn eager(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, y) = (filled(&stream, 1)?, filled(&stream, 2)?);
    let capture = EagerCapture::begin(&stream)?;
    let mut temporary = DeviceBuffer::filled(&stream, N as usize, 3_u32)?;
    // SAFETY: the kernel touches N words of each; each has N.
    unsafe { stream.launch(&mix, config(), (&mut temporary, &y, N)) }?;
    drop(y);
    x.copy_from(&temporary)?;
    drop(temporary);
    let mut triples = capture.outside(|| DeviceBuffer::<[u32; 3]>::zeroed(&stream, 4))?;
    triples.fill([1, 2, 3])?;
    Queue::host(&stream, || ())?;
    // SAFETY: the closure queues nothing itself.
    unsafe { stream.using((&mut x,), |_| triples.fill([4, 5, 6])) }??;
    // SAFETY: the closure queues nothing.
    unsafe { capture.foreign(|_| ()) }?;
    let graph = capture.end()?;
    let exec = graph.instantiate()?;
    drop((graph, mix));
    exec.launch(&stream)?;
    exec.launch(&stream)?;
    expect(&x, 8)?;
    assert_eq!(triples.to_vec()?, [[4, 5, 6]; 4]);
    exec.close()
}

/// A buffer that is created in a capture and outlives it.
fn outputs(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let x = filled(&stream, 3)?;
    let (graph, mut result) = Graph::capture_eager_with(&stream, |capture| {
        let unused = capture.outputs(|| DeviceBuffer::<u32>::zeroed(&stream, N as usize))?;
        drop(unused);
        capture.outputs(|| x.try_clone())
    })?;
    let exec = graph.instantiate()?;
    drop((graph, x));
    assert_eq!(result.fill(1), Err(Error::NotYetWritten));
    exec.launch(&stream)?;
    expect(&result, 3)?;
    result.fill(1)?;
    expect(&result, 1)?;
    exec.close()
}
