//! Scenarios of graphs that are built node by node.

use cuda_driver::memory::Unpooled;
use std::sync::Arc;

use cuda_driver::error::Status;
use cuda_driver::graph::{DotFlags, GraphHostBuffer, NodeKind};
use cuda_driver::prelude::*;
use cuda_driver::stream::{ValueBatch, WaitCondition};
use cuda_sim::Rule;

use super::{Fixture, N, Result, Scenario, config, expect, filled, on, one};
use crate::support::{COPY, MIX};

pub(super) const ALL: &[Scenario] = &[
    one("graph of kernels", kernels),
    one("graph of other nodes", others),
    one("graph memory", memory),
    one("child graphs", children),
    one("conditional nodes", conditional),
    one("graph lists", lists),
    on("graph lists on 12.0", |it| it.version(12000), old_lists),
    one("undone node", undone),
    one("removed nodes", removed),
    one("changed nodes", changed),
    one("kernel node attributes", attributes),
    one("programmatic edges", programmatic),
];

const CONDITIONAL: &str = include_str!("../../kernels/conditional.ptx");

fn kernels(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, mut y) = (filled(&stream, 0)?, filled(&other, 0)?);
    let mut graph = Graph::new(&fixture.context)?;
    let first = graph.add_fill(&[], &mut x, 3_u32)?;
    let second = graph.add_fill(&[], &mut y, 5_u32)?;
    graph.add_edge(first.edge(), second)?;
    // SAFETY: the kernel touches N words of each; each has N.
    unsafe { graph.add_kernel(&[], &mix, config(), (&mut x, &y, N)) }?;
    let exec = graph.instantiate()?;
    drop((graph, mix));
    exec.upload(&stream)?;
    exec.flags()?;
    exec.launch(&stream)?;
    exec.launch(&other)?;
    expect(&x, 11)?;
    exec.launch(&other)?;
    // The buffer is freed after the launch has run.
    drop(y);
    expect(&x, 11)?;
    exec.close()
}

/// Nodes that get other parameters in the graph.
fn changed(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, mut y, z) = (
        filled(&stream, 0)?,
        filled(&stream, 0)?,
        filled(&stream, 1)?,
    );
    let mut graph = Graph::new(&fixture.context)?;
    let fill = graph.add_fill(&[], &mut x, 3_u32)?;
    let copy = graph.add_copy(&[], &mut y, &x)?;
    // SAFETY: the kernel touches N words of each; each has N.
    let kernel = unsafe { graph.add_kernel(&[], &mix, config(), (&mut x, &y, N)) }?;
    let host = graph.add_host(&[], || ())?;
    graph.set_fill(fill, &mut x, 4_u32)?;
    graph.set_copy(copy, &mut y, &z)?;
    // SAFETY: as above.
    unsafe { graph.set_kernel(kernel, &mix, config(), (&mut x, &z, N)) }?;
    graph.set_host(host, || ())?;
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    expect(&x, 9)?;
    expect(&y, 1)?;
    exec.close()
}

fn others(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let (mut x, mut y) = (filled(&stream, 0)?, filled(&stream, 0)?);
    let host = GraphHostBuffer::new(PinnedBuffer::from_host(
        &fixture.context,
        &[4_u32; N as usize],
        PinnedFlags::empty(),
    )?)?;
    let mut flags = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 2)?;
    flags.copy_from_host(&[0, 0])?;
    let event = Arc::new(Event::new(&fixture.context, EventFlags::DISABLE_TIMING)?);
    event.record(&other)?;
    let mut graph = Graph::new(&fixture.context)?;
    let waited = graph.add_event_wait(&[], &event)?;
    let loaded = graph.add_copy(&[waited.edge()], &mut x, &host)?;
    let called = graph.add_host(&[loaded.edge()], || ())?;
    graph.add_copy(&[called.edge()], &mut y, &x)?;
    let nothing = graph.add_empty(&[called.edge()])?;
    let batch =
        ValueBatch::new()
            .write(&flags, 0, 1_u32)?
            .wait(&flags, 0, WaitCondition::EQUAL, 1_u32)?;
    graph.add_batch(&[nothing.edge()], batch)?;
    graph.add_event_record(&[nothing.edge()], &event)?;
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    exec.check_host()?;
    expect(&y, 4)?;
    assert_eq!(host.read()?[..], [4; N as usize]);
    host.write()?.fill(6);
    exec.launch(&other)?;
    expect(&y, 6)?;
    exec.close()
}

fn memory(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let copy = fixture.kernel(COPY, "copy")?;
    let (source, mut target) = (filled(&stream, 9)?, filled(&stream, 0)?);
    let mut graph = Graph::new(&fixture.context)?;
    let mut own = graph.add_alloc_zeroed::<u32>(&[], N as usize)?;
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    unsafe { graph.add_kernel(&[], &copy, config(), (&source, &mut own, N)) }?;
    graph.add_copy(&[], &mut target, &own)?;
    graph.add_free(&[], own)?;
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    expect(&target, 9)?;
    let device = fixture.context.device();
    assert!(device.graph_memory()?.most_used > 0);
    drop((graph, exec));
    device.reset_graph_memory_peaks()?;
    device.trim_graph_memory()
}

fn children(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, y) = (filled(&stream, 1)?, filled(&stream, 2)?);
    let mut child = Graph::new(&fixture.context)?;
    // SAFETY: the kernel touches N words of each; each has N.
    let node = unsafe { child.add_kernel(&[], &mix, config(), (&mut x, &y, N)) }?;
    let clone = child.try_clone()?;
    let other = clone.find_clone(node)?;
    assert_ne!(other.id(), node.id());
    let mut graph = Graph::new(&fixture.context)?;
    graph.add_child(&[], &child)?;
    graph.add_child(&[], &clone)?;
    drop((child, clone));
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    expect(&x, 2 * (2 + 2) + 2)
}

fn conditional(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let count_down = fixture.kernel(CONDITIONAL, "count_down")?;
    let mix = fixture.kernel(MIX, "mix")?;
    let (mut x, y) = (filled(&stream, 0)?, filled(&stream, 1)?);
    let mut counter = DeviceBuffer::from_host(&stream, &[3_u32])?;
    let mut graph = Graph::new(&fixture.context)?;
    let condition = graph.conditional_handle(Some(1))?;
    graph.add_fill(&[], &mut x, 0_u32)?;
    let (_, mut body) = graph.add_while(&[], condition)?;
    // SAFETY: the kernel touches N words of each; each has N.
    unsafe { body.add_kernel(&[], &mix, config(), (&mut x, &y, N)) }?;
    let args = (&mut counter, condition.as_raw());
    // SAFETY: the kernel decrements one word and sets the condition of this graph.
    unsafe { body.add_kernel(&[], &count_down, LaunchConfig::new(1, 1), args) }?;
    let exec = graph.instantiate()?;
    drop((graph, body));
    exec.launch(&stream)?;
    expect(&x, 7)
}

fn lists(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mut x = filled(&stream, 0)?;
    let mut graph = Graph::new(&fixture.context)?;
    let first = graph.add_fill(&[], &mut x, 1_u32)?;
    let second = graph.add_fill(&[], &mut x, 2_u32)?;
    let nodes = graph.nodes()?;
    assert_eq!(nodes.len(), 2);
    assert!(nodes.iter().all(|(_, kind)| *kind == NodeKind::Memset));
    assert_eq!(graph.edges()?, [(first.edge(), second.id())]);
    let name = format!("cuda-faults-{:?}.dot", std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    let written = graph.write_dot(&path, DotFlags::empty());
    let _ = std::fs::remove_file(&path);
    written?;
    graph.close()
}

fn old_lists(fixture: &Fixture) -> Result<()> {
    let mut x = filled(&fixture.stream()?, 0)?;
    let mut graph = Graph::new(&fixture.context)?;
    let first = graph.add_fill(&[], &mut x, 1_u32)?;
    let second = graph.add_fill(&[], &mut x, 2_u32)?;
    assert_eq!(graph.edges()?, [(first.edge(), second.id())]);
    Ok(())
}

/// A node whose edge cannot be added is removed again.
fn undone(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let copy = fixture.kernel(COPY, "copy")?;
    let x = filled(&stream, 5)?;
    let (mut y, mut z) = (filled(&stream, 0)?, filled(&stream, 0)?);
    let mut graph = Graph::new(&fixture.context)?;
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    let first = unsafe { graph.add_kernel(&[], &copy, config(), (&x, &mut y, N)) }?;
    let status = Status::CUDA_ERROR_NOT_PERMITTED;
    let no_edge = Rule::new(status).function("cuGraphAddDependencies_v2");
    fixture.simulator.add_rule(no_edge.nth(1));
    let after = [first.programmatic_edge()];
    // SAFETY: as above; the two kernels share only memory that both read.
    let added = unsafe { graph.add_kernel(&after, &copy, config(), (&x, &mut z, N)) };
    match added {
        Err(error) if error.status() == Some(status) => {}
        added => return added.map(|_| panic!("the node was added")),
    }
    drop(graph);
    expect(&y, 0)
}

fn removed(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let copy = fixture.kernel(COPY, "copy")?;
    let x = filled(&stream, 5)?;
    let (mut y, mut z) = (filled(&stream, 0)?, filled(&stream, 0)?);
    let mut graph = Graph::new(&fixture.context)?;
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    let first = unsafe { graph.add_kernel(&[], &copy, config(), (&x, &mut y, N)) }?;
    let after = [first.programmatic_edge()];
    // SAFETY: as above; the two kernels share only memory that both read.
    let second = unsafe { graph.add_kernel(&after, &copy, config(), (&x, &mut z, N)) }?;
    graph.remove_edge(after[0], second)?;
    let nothing = graph.add_empty(&[first.edge()])?;
    graph.remove_edge(first.edge(), nothing)?;
    graph.remove(nothing)?;
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    expect(&y, 5)?;
    expect(&z, 5)
}

fn attributes(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let copy = fixture.kernel(COPY, "copy")?;
    let (x, mut y) = (filled(&stream, 5)?, filled(&stream, 0)?);
    let mut graph = Graph::new(&fixture.context)?;
    let given = LaunchAttributes::new().cooperative();
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    let node = unsafe { graph.add_kernel_with(&[], &copy, config(), &given, (&x, &mut y, N)) }?;
    // SAFETY: as above.
    unsafe { graph.set_kernel_attributes(node, &LaunchAttributes::new().priority(0)) }?;
    assert!(graph.kernel_attributes(node)?.is_cooperative);
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    expect(&y, 5)
}

fn programmatic(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let copy = fixture.kernel(COPY, "copy")?;
    let x = filled(&stream, 5)?;
    let (mut y, mut z) = (filled(&stream, 0)?, filled(&stream, 0)?);
    let mut graph = Graph::new(&fixture.context)?;
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    let first = unsafe { graph.add_kernel(&[], &copy, config(), (&x, &mut y, N)) }?;
    let after = [first.programmatic_edge()];
    // SAFETY: as above; the two kernels share only memory that both read.
    let second = unsafe { graph.add_kernel(&after, &copy, config(), (&x, &mut z, N)) }?;
    assert_eq!(graph.edges()?, [(first.programmatic_edge(), second.id())]);
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    expect(&y, 5)?;
    expect(&z, 5)
}
