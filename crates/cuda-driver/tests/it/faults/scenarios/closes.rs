//! Every `close` method: it must report errors that a drop would swallow.

use cuda_driver::Library;
use cuda_driver::context::ContextFlags;
use cuda_driver::jit::JitOptions;
use cuda_driver::memory::Unpooled;
use cuda_driver::memory::{ManagedBuffer, MemoryPool, PitchedBuffer};
use cuda_driver::prelude::*;

use super::{Fixture, Result, Scenario, one};
use crate::support::MIX;

pub(super) const ALL: &[Scenario] = &[one("closes", closes)];

fn closes(fixture: &Fixture) -> Result<()> {
    let context = Context::new(fixture.context.device(), ContextFlags::empty())?;
    let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0)?;
    Event::new(&context, EventFlags::DISABLE_TIMING)?.close()?;
    DeviceBuffer::<u32>::zeroed(&stream, 8)?.close()?;
    DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 8)?.close()?;
    ManagedBuffer::<u32>::zeroed(&stream, 8)?.close()?;
    PitchedBuffer::<u32>::zeroed(&stream, (8, 2))?.close()?;
    PinnedBuffer::<u32>::zeroed(&context, 8, PinnedFlags::empty())?.close()?;
    RegisteredBuffer::from_vec(&context, vec![1_u32; 8], RegisterFlags::empty())?.close()?;
    let mut graph = Graph::new(&context)?;
    graph.add_empty(&[])?;
    let exec = graph.instantiate()?;
    exec.close()?;
    graph.close()?;
    Module::load(&context, &Ptx::new(MIX).unwrap())?.close()?;
    Library::load(&fixture.driver, &Ptx::new(MIX).unwrap(), &JitOptions::new())?.close()?;
    MemoryPool::new(context.device())?.close()?;
    stream.close()?;
    context.close()
}
