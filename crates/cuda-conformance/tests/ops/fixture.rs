//! Devices on which the operations run.

use std::env;

use cuda_driver::prelude::*;
use cuda_sim::{Builder, Simulator};

use crate::kernel::{BLOCK, Dialect, OUT, module};
use crate::operation::{Operation, Results, cut};
use test_drivers::{gpu_driver, simulator};

/// The number of operations in a module.
const BATCH: usize = 16;

/// A device, and the PTX dialect for it.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) is_gpu: bool,
    pub(crate) dialect: Dialect,
    arch: u32,
    context: Context,
    stream: Stream,
    _simulator: Option<Simulator>,
}

/// Whether the test runs with the large number of threads.
pub(crate) fn is_full() -> bool {
    env::var("CUDA_FULL").is_ok_and(|value| value == "1")
}

/// Software devices of two generations, each with its dialect, and the GPU with both dialects.
#[track_caller]
pub(crate) fn fixtures() -> Vec<Fixture> {
    let mut fixtures = vec![
        software((9, 0), Dialect::Typed),
        software((10, 0), Dialect::Bits),
    ];
    if is_full() {
        fixtures.push(software((7, 5), Dialect::Typed));
        fixtures.push(software((8, 0), Dialect::Bits));
    }
    if let Some(driver) = gpu_driver() {
        for dialect in [Dialect::Typed, Dialect::Bits] {
            fixtures.push(Fixture::of(&driver, None, dialect));
        }
    }
    fixtures
}

fn software((major, minor): (u32, u32), dialect: Dialect) -> Fixture {
    let builder = Builder::new()
        .compute_capability(major, minor)
        .strict_ptx(true);
    let simulator = simulator(&builder);
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    Fixture::of(&driver, Some(simulator), dialect)
}

impl Fixture {
    fn of(driver: &Driver, simulator: Option<Simulator>, dialect: Dialect) -> Self {
        let device = driver.device(0).unwrap();
        let capability = device.compute_capability().unwrap();
        let own = capability.major * 10 + capability.minor;
        // Generations for which only one architecture is tested, whichever one the device reports.
        let arch = match own {
            100.. if simulator.is_none() => 90,
            own => own,
        };
        let context = device.primary_context().unwrap();
        let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
        Self {
            name: format!("{} for sm_{arch}, {dialect:?}", driver.origin()),
            is_gpu: simulator.is_none(),
            dialect,
            arch,
            context,
            stream,
            _simulator: simulator,
        }
    }

    pub(crate) fn has(&self, operation: &Operation) -> bool {
        operation.since <= self.arch
    }

    /// Runs each operation on its sources. Returns its results, or the reason why it cannot run.
    pub(crate) fn run(
        &self,
        operations: &[(&Operation, &[Vec<u64>])],
    ) -> Vec<Result<Vec<Results>, String>> {
        let mut results = Vec::new();
        for batch in operations.chunks(BATCH) {
            match self.batch(batch) {
                Ok(batch) => results.extend(batch.into_iter().map(Ok)),
                // An operation that is rejected must not fail the others in its module.
                Err(_) => results.extend(
                    batch
                        .iter()
                        .map(|&one| self.batch(&[one]).map(|mut one| one.remove(0))),
                ),
            }
        }
        results
    }

    fn batch(&self, batch: &[(&Operation, &[Vec<u64>])]) -> Result<Vec<Vec<Results>>, String> {
        let text = module(
            batch.iter().map(|(operation, _)| *operation),
            self.dialect,
            self.arch,
        );
        let ptx = Ptx::new(text).map_err(|error| error.to_string())?;
        let module = Module::load(&self.context, &ptx).map_err(|error| error.to_string())?;
        let mut results = Vec::new();
        for (index, (operation, sources)) in batch.iter().enumerate() {
            let kernel = module
                .function(&format!("op{index}"))
                .map_err(|error| error.to_string())?;
            results.push(self.launch(&kernel, operation, sources)?);
        }
        Ok(results)
    }

    fn launch(
        &self,
        kernel: &Function,
        operation: &Operation,
        sources: &[Vec<u64>],
    ) -> Result<Vec<Results>, String> {
        assert_eq!(sources.len() % BLOCK, 0, "whole blocks");
        let flat = sources.concat();
        let say = |error: cuda_driver::Error| error.to_string();
        let input = DeviceBuffer::from_host(&self.stream, &flat).map_err(say)?;
        let words = OUT / 8;
        let mut output =
            DeviceBuffer::<u64>::zeroed(&self.stream, sources.len() * words).map_err(say)?;
        let blocks = u32::try_from(sources.len() / BLOCK).unwrap();
        let config = LaunchConfig::new(blocks, u32::try_from(BLOCK).unwrap());
        // SAFETY: for each thread the kernel reads one word per source and writes three words.
        unsafe { self.stream.launch(kernel, config, (&input, &mut output)) }.map_err(say)?;
        let output = output.to_vec().map_err(say)?;
        let read = |thread: &[u64]| {
            let mut results = [0; 2];
            for (k, &ty) in operation.to.iter().enumerate() {
                assert_eq!(
                    cut(ty, thread[k]),
                    thread[k],
                    "the kernel stored more bits than the type has"
                );
                results[k] = thread[k];
            }
            results
        };
        Ok(output.chunks(words).map(read).collect())
    }
}
