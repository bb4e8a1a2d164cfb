//! Source to module in one call, straight or through a disk cache.

use cuda_nvrtc::{Cache, Compiled, Cubin, Options, Output, Program, Ptx};

use super::CompileError;
use crate::Status;
use crate::context::Context;
use crate::module::Module;

/// With the feature `nvrtc`.
impl Module {
    /// Compiles `program` for the device of `context` and loads it.
    ///
    /// To a cubin, which loads at once and whatever the versions of NVRTC and driver are; to PTX
    /// for a driver that takes no cubin. An architecture in `options` is replaced by the device's.
    ///
    /// # Errors
    ///
    /// What the compiler or the driver says.
    pub fn compile(
        context: &Context,
        program: &Program,
        options: &Options,
    ) -> Result<Self, CompileError> {
        Source::new(context, program, options, None)?.load()
    }

    /// The same through a disk cache: what was compiled before, by any process, is loaded without
    /// the compiler.
    ///
    /// # Errors
    ///
    /// What the compiler or the driver says. Trouble with the cache is none: see
    /// [`Cache::problem`].
    pub fn compile_cached(
        context: &Context,
        program: &Program,
        options: &Options,
        cache: &Cache,
    ) -> Result<Self, CompileError> {
        Source::new(context, program, options, Some(cache))?.load()
    }
}

/// A program on its way to a device.
pub(super) struct Source<'a> {
    context: &'a Context,
    program: &'a Program,
    /// With the device's architecture.
    options: Options,
    cache: Option<&'a Cache>,
}

impl<'a> Source<'a> {
    pub(super) fn new(
        context: &'a Context,
        program: &'a Program,
        options: &Options,
        cache: Option<&'a Cache>,
    ) -> crate::Result<Self> {
        let options = options.clone().arch(context.device().arch()?);
        Ok(Self {
            context,
            program,
            options,
            cache,
        })
    }

    fn load(&self) -> Result<Module, CompileError> {
        self.load_cubin(&self.cubin()?.image)
    }

    /// The machine code for the device.
    pub(super) fn cubin(&self) -> Result<Compiled<Cubin>, CompileError> {
        self.compile(&self.options)
    }

    /// Loads the machine code, or PTX if the driver takes none.
    pub(super) fn load_cubin(&self, cubin: &Cubin) -> Result<Module, CompileError> {
        match Module::load(self.context, cubin) {
            Err(error) if error.status() == Some(Status::CUDA_ERROR_NO_BINARY_FOR_GPU) => {
                let arch = self.context.device().virtual_arch()?;
                let ptx: Compiled<Ptx> = self.compile(&self.options.clone().arch(arch))?;
                Ok(Module::load(self.context, &ptx.image)?)
            }
            result => Ok(result?),
        }
    }

    fn compile<T: Output>(&self, options: &Options) -> Result<Compiled<T>, CompileError> {
        Ok(match self.cache {
            Some(cache) => cache.compile(self.program, options)?.compiled,
            None => self.program.compile(options)?,
        })
    }
}
