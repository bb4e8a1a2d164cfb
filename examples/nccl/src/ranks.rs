//! The ranks of a process: one thread for each GPU.

use std::error::Error;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::thread;

use cuda_driver::prelude::*;

use crate::{Arguments, Communicator, Failure, Group, Limits, Nccl, Result, World};

/// A rank: a GPU, a stream, and a communicator with the other ranks.
#[derive(Debug)]
pub(crate) struct Rank {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) stream: Stream,
    pub(crate) communicator: Communicator,
}

impl Rank {
    /// Prints a line in one of all ranks.
    pub(crate) fn print_once(&self, line: &str) {
        if self.rank == 0 {
            println!("{line}");
        }
    }
}

/// Runs `work` in each rank of this process.
pub(crate) fn run(
    arguments: &Arguments,
    load: impl FnOnce(&Driver) -> Result<Nccl>,
    work: impl Fn(&mut Rank) -> Result<()> + Sync,
) -> Result<()> {
    let limits = Limits::default();
    let world = World::from_env()?;
    let prepare = || {
        let contexts = contexts(&world, arguments.gpus)?;
        let nccl = load(contexts[0].driver())?;
        Ok::<_, Box<dyn Error + Send + Sync>>((contexts, nccl))
    };
    // Each process joins first: from then on, the others notice its end.
    let (group, (contexts, nccl)) = if world.process == 0 {
        let mut prepared = None;
        let group = Group::join(&world, arguments.gpus, limits, || {
            prepared.insert(prepare()?).1.unique_id()
        })?;
        (group, prepared.ok_or("process 0 has made no id")?)
    } else {
        let no_id = || Err("process 0 makes the id".into());
        let group = Group::join(&world, arguments.gpus, limits, no_id)?;
        let prepared = prepare().inspect_err(|error| group.fail(&error.to_string()))?;
        (group, prepared)
    };
    let failure = group.failure().clone();
    thread::spawn(move || {
        if let Err(error) = failure.wait() {
            // An abort takes less than a second, unless the driver or NCCL hangs.
            thread::sleep(limits.abort);
            eprintln!("nccl: {error}; the ranks of this process did not end");
            process::exit(1);
        }
    });
    thread::scope(|scope| {
        for (index, context) in contexts.iter().enumerate() {
            let (group, nccl, work) = (&group, &nccl, &work);
            scope.spawn(move || {
                let rank = group.first_rank + index;
                let run = || run_rank(context, nccl, rank, group, work);
                let result = catch_unwind(AssertUnwindSafe(run));
                match result {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => group.fail(&format!("rank {rank}: {error}")),
                    Err(_) => group.fail(&format!("rank {rank} panicked")),
                }
            });
        }
    });
    group.failure().check()?;
    group.leave()
}

fn run_rank(
    context: &Context,
    nccl: &Nccl,
    rank: usize,
    group: &Group,
    work: &(impl Fn(&mut Rank) -> Result<()> + Sync),
) -> Result<()> {
    let stream = Stream::new(context, StreamFlags::NON_BLOCKING, 0)?;
    let failure: &Failure = group.failure();
    let place = (rank, group.ranks);
    let mut rank = Rank {
        rank,
        ranks: group.ranks,
        stream,
        communicator: Communicator::new(nccl, context, group.id, place, failure)?,
    };
    // One call, because the lines of several processes must not mix.
    let line = format!(
        "rank {} of {}: process {}, {}, NCCL {}\n",
        rank.rank,
        rank.ranks,
        process::id(),
        context.device().name()?,
        nccl.version()
    );
    io::stderr().write_all(line.as_bytes())?;
    work(&mut rank)?;
    rank.communicator.wait(&rank.stream)?;
    rank.communicator.finish()
}

/// Returns the contexts of the GPUs of this process. Without a GPU, the process gets software
/// devices of its own.
fn contexts(world: &World, gpus: usize) -> Result<Vec<Context>> {
    let choice = cuda_sim::gpu_or_software()?;
    if world.process == 0 {
        println!("{choice}");
    }
    let is_software = choice.is_software();
    let driver = if is_software {
        Driver::new(cuda_sim::Builder::new().devices(gpus).build()?.library()?)?
    } else {
        Driver::new(choice.into_library())?
    };
    let count = driver.devices()?.len();
    // A launcher may show each process its own GPUs only (`CUDA_VISIBLE_DEVICES`).
    let first = if count == gpus {
        0
    } else {
        world.local_process * gpus
    };
    if first + gpus > count {
        return Err(format!(
            "process {} needs the GPUs {first} to {}, but this machine has {count}",
            world.process,
            first + gpus - 1
        )
        .into());
    }
    let contexts = (first..first + gpus).map(|ordinal| {
        let device = driver.device(u32::try_from(ordinal)?)?;
        Ok(device.primary_context()?)
    });
    contexts.collect()
}
