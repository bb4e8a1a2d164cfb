//! Scenarios that change executable graphs.

use std::sync::Arc;

use cuda_driver::Version;
use cuda_driver::graph::node_kind;
use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;
use cuda_driver::stream::{ValueBatch, WaitCondition};

use super::{Fixture, N, Result, Scenario, config, expect, filled, one};
use crate::support::MIX;

pub(super) const ALL: &[Scenario] = &[
    one("graph parameters", parameters),
    one("graph parameters of other nodes", others),
    one("graph update", update),
    one("enabled nodes", enabled),
];

type Kernel = cuda_driver::graph::Node<node_kind::Kernel>;

/// Returns a graph with one kernel node that computes `x = 2 * x + y`.
fn mixing(
    fixture: &Fixture,
    mix: &Function,
    x: &mut DeviceBuffer<u32>,
    y: &DeviceBuffer<u32>,
) -> Result<(Graph, Kernel)> {
    let mut graph = Graph::new(&fixture.context)?;
    // SAFETY: the kernel touches N words of each; each has N.
    let node = unsafe { graph.add_kernel(&[], mix, config(), (x, y, N)) }?;
    Ok((graph, node))
}

fn parameters(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, y) = (filled(&stream, 1)?, filled(&stream, 2)?);
    let (mut other, mut copied) = (filled(&stream, 3)?, filled(&stream, 0)?);
    let (mut graph, kernel) = mixing(fixture, &mix, &mut x, &y)?;
    let copy = graph.add_copy(&[], &mut copied, &x)?;
    let fill = graph.add_fill(&[], &mut x, 1_u32)?;
    let exec = graph.instantiate()?;
    drop(graph);
    exec.launch(&stream)?;
    expect(&copied, 4)?;
    // SAFETY: the kernel touches N words of each; each has N.
    unsafe { exec.set_kernel(kernel, &mix, config(), (&mut other, &y, N)) }?;
    exec.set_copy(copy, &mut copied, &y)?;
    exec.set_fill(fill, &mut x, 9_u32)?;
    exec.launch(&stream)?;
    expect(&other, 8)?;
    expect(&copied, 2)?;
    expect(&x, 9)
}

fn others(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mut flags = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 2)?;
    flags.copy_from_host(&[0, 0])?;
    let event = || -> Result<_> {
        let event = Event::new(&fixture.context, EventFlags::DISABLE_TIMING)?;
        event.record(&stream)?;
        Ok(Arc::new(event))
    };
    let (one, two) = (event()?, event()?);
    let batch_of = |value: u32| {
        ValueBatch::new()
            .write(&flags, 0, value)?
            .wait(&flags, 0, WaitCondition::EQUAL, value)
    };
    let (mut x, y) = (filled(&stream, 1)?, filled(&stream, 2)?);
    let mix = fixture.kernel(MIX, "mix")?;
    let (child, _) = mixing(fixture, &mix, &mut x, &y)?;
    let (other_child, _) = mixing(fixture, &mix, &mut x, &y)?;
    let mut graph = Graph::new(&fixture.context)?;
    let waited = graph.add_event_wait(&[], &one)?;
    let called = graph.add_host(&[waited.edge()], || ())?;
    let batch = graph.add_batch(&[called.edge()], batch_of(1)?)?;
    let inner = graph.add_child(&[batch.edge()], &child)?;
    let recorded = graph.add_event_record(&[inner.edge()], &one)?;
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    exec.set_event_wait(waited, &two)?;
    exec.set_event_record(recorded, &two)?;
    exec.set_host(called, || ())?;
    exec.set_batch(batch, batch_of(2)?)?;
    exec.set_child(inner, &other_child)?;
    exec.launch(&stream)?;
    expect(&x, 10)?;
    assert_eq!(flags.to_vec()?, [2, 0]);
    graph.set_event_wait(waited, &two)?;
    graph.set_event_record(recorded, &two)?;
    graph.set_batch(batch, batch_of(3)?)?;
    if fixture.driver.version() >= Version::new(12_020) {
        graph.set_child(inner, &other_child)?;
    }
    graph.instantiate()?.launch(&stream)?;
    assert_eq!(flags.to_vec()?, [3, 0]);
    Ok(())
}

fn update(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, mut y) = (filled(&stream, 1)?, filled(&stream, 2)?);
    let exec: GraphExec = mixing(fixture, &mix, &mut x, &y)?.0.instantiate()?;
    exec.launch(&stream)?;
    let (new, _) = mixing(fixture, &mix, &mut y, &x)?;
    exec.update(&new)?;
    exec.launch(&other)?;
    expect(&y, 8)?;
    drop((x, y, new));
    exec.close()
}

fn enabled(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, y) = (filled(&stream, 1)?, filled(&stream, 2)?);
    let (graph, kernel) = mixing(fixture, &mix, &mut x, &y)?;
    let exec = graph.instantiate()?;
    exec.set_enabled(kernel, false)?;
    assert!(!exec.is_enabled(kernel)?);
    exec.launch(&stream)?;
    expect(&x, 1)?;
    exec.set_enabled(kernel, true)?;
    exec.launch(&stream)?;
    expect(&x, 4)
}
