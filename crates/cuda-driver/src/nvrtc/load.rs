//! Compiles source and loads it as a module in one call, directly or through a disk cache.

use cuda_nvrtc::{Cache, Compiled, Cubin, Options, Output, Program, Ptx};

use super::CompileError;
use crate::Status;
use crate::context::Context;
use crate::module::Module;

/// Available with the feature `nvrtc`.
impl Module {
    /// Compiles `program` for the device of `context` and loads it.
    ///
    /// The program is compiled to a cubin, which loads without further compilation and
    /// independently of the versions of NVRTC and the driver. If the driver does not accept the
    /// cubin, the program is compiled to PTX. An architecture in `options` is replaced by that of
    /// the device.
    ///
    /// # Errors
    ///
    /// [`CompileError::Nvrtc`] if the program does not compile, [`CompileError::Driver`] if the
    /// driver does not load it.
    pub fn compile(
        context: &Context,
        program: &Program,
        options: &Options,
    ) -> Result<Self, CompileError> {
        Source::new(context, program, options, None)?.load()
    }

    /// Compiles and loads `program` like [`compile`](Self::compile), but through a disk cache: a
    /// program that any process has compiled before is loaded without calling the compiler.
    ///
    /// # Errors
    ///
    /// [`CompileError::Nvrtc`] if the program does not compile, [`CompileError::Driver`] if the
    /// driver does not load it. A failure of the cache is not an error: see [`Cache::problem`].
    pub fn compile_cached(
        context: &Context,
        program: &Program,
        options: &Options,
        cache: &Cache,
    ) -> Result<Self, CompileError> {
        Source::new(context, program, options, Some(cache))?.load()
    }
}

/// A program to compile for a device.
pub(super) struct Source<'a> {
    context: &'a Context,
    program: &'a Program,
    /// The options, with the architecture of the device.
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

    /// Compiles the program to machine code for the device.
    pub(super) fn cubin(&self) -> Result<Compiled<Cubin>, CompileError> {
        self.compile(&self.options)
    }

    /// Loads the machine code, or compiles and loads PTX if the driver does not accept the machine
    /// code.
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
