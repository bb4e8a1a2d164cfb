//! A context on a GPU or on the software device, and the execution of one kernel.

use std::ffi::c_void;

use cuda_driver::prelude::*;
use cuda_driver::{Error, Result};
use cuda_sim::{Builder, Simulator};

use crate::inputs::{Inputs, Outputs};
use crate::item::{Item, Plan};
use crate::kernel::record;
use crate::values::BLOCK;

pub(crate) struct Device {
    context: Context,
    stream: Stream,
    /// The major and the minor compute capability.
    pub(crate) capability: (u32, u32),
    _simulator: Option<Simulator>,
}

/// The bytes around the parameter that an instruction loads: before it, itself, and behind it.
pub(crate) type Parameter = [[u8; 64]; 3];

impl Device {
    pub(crate) fn new(is_software: bool) -> Result<Self> {
        let (simulator, driver) = match is_software {
            false => (None, Driver::load()?),
            true => {
                let builder = Builder::new().compute_capability(9, 0);
                let simulator = builder.build().expect("a software device");
                let library = simulator.library().expect("the software driver");
                (Some(simulator), Driver::new(library)?)
            }
        };
        let device = driver.device(0)?;
        let capability = device.compute_capability()?;
        let context = device.primary_context()?;
        Ok(Self {
            stream: Stream::new(&context, StreamFlags::NON_BLOCKING, 0)?,
            context,
            capability: (capability.major, capability.minor),
            _simulator: simulator,
        })
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(crate) fn load(&self, text: &str) -> Result<Module> {
        Module::load(&self.context, &Ptx::new(text)?)
    }

    /// Executes a kernel. With `parameters`, each thread is a launch of its own with one of them.
    pub(crate) fn run(
        &self,
        module: &Module,
        name: &str,
        item: &Item,
        inputs: &Inputs,
        parameters: &[Parameter],
    ) -> Result<Outputs> {
        let stream = &self.stream;
        let function = module.function(name)?;
        let buffer = |bytes: &[u8]| match bytes {
            [] => DeviceBuffer::from_host(stream, &[0_u8; 16]),
            _ => DeviceBuffer::from_host(stream, bytes),
        };
        let words = inputs.threads * record(&item.results).max(1);
        let records = DeviceBuffer::from_host(stream, &inputs.records)?;
        let results = DeviceBuffer::<u64>::zeroed(stream, words)?;
        let (areas, fills) = (buffer(&inputs.areas)?, buffer(&inputs.fills)?);
        let dump = buffer(&inputs.fills)?;
        if let Some(constants) = &inputs.constants {
            let mut variable = module.global::<u8>("zconst", stream)?;
            let mut all = vec![0; variable.len()];
            all[..constants.len()].copy_from_slice(constants);
            variable.copy_from_host(&all)?;
        }
        let launch = |at: u64, config: LaunchConfig, parameter: &Parameter| {
            let mut numbers = [
                records.as_raw(),
                results.as_raw(),
                areas.as_raw(),
                fills.as_raw(),
                dump.as_raw(),
                at,
            ];
            let mut parameter = *parameter;
            let mut params: Vec<*mut c_void> = Vec::new();
            params.extend(numbers.iter_mut().map(|it| (&raw mut *it).cast::<c_void>()));
            params.extend(
                parameter
                    .iter_mut()
                    .map(|it| (&raw mut *it).cast::<c_void>()),
            );
            // SAFETY: the values must fit the parameters, and the kernel must stay in its memory ←
            // all kernels of `kernel` have these parameters. Whether the instruction in it stays in
            // its area is what this program tests, with memory of the process only.
            unsafe { stream.launch_raw(&function, config, None, &mut params, ()) }
        };
        if item.plan == Plan::Param {
            for (at, parameter) in parameters.iter().enumerate() {
                launch(at as u64, LaunchConfig::new(1, 1), parameter)?;
            }
        } else {
            let blocks = inputs.threads.div_ceil(BLOCK) as u32;
            let parameter = parameters.first().unwrap_or(&[[0; 64]; 3]);
            launch(0, LaunchConfig::new(blocks, BLOCK as u32), parameter)?;
        }
        stream.synchronize()?;
        Ok(Outputs::new(
            item,
            results.to_vec()?,
            areas.to_vec()?,
            dump.to_vec()?,
        ))
    }
}

/// Returns whether the error says that the process can no longer use the device.
pub(crate) fn is_loss(error: &Error) -> bool {
    let is_sticky = error.driver_error().is_some_and(|error| error.is_sticky());
    is_sticky || error.loss().is_some()
}
