//! Compiles a program and loads it as a module in one call, directly or through a disk cache.

use std::collections::HashMap;

use cuda_nvrtc::{Arch, Cache, Compiled, Cubin, Options, Output, Program, Ptx};
use cuda_sys::image::newest_ptx;

use super::error::CompileError;
use super::pointees;
use crate::context::Context;
use crate::error::Status;
use crate::module::Module;
use crate::module::Pointees;
use crate::safe::SafeModule;
use crate::subscriber::event;

/// Available with the feature `nvrtc`.
impl Module {
    /// Compiles `program` for the device of `context` and loads it.
    ///
    /// The program is compiled to a cubin, which loads without further compilation and
    /// independently of the versions of NVRTC and the driver. For a driver that does not accept
    /// cubins, such as the software device, the program is compiled to PTX. If NVRTC is older than
    /// the device, the program is compiled to PTX for the newest architecture that NVRTC supports.
    /// An architecture in `options` is replaced by that of the device.
    ///
    /// [`function`](Self::function) and [`global`](Self::global) of the module also accept the
    /// [name expressions](Program::name_expression) of the program, such as `scale<float>`.
    ///
    /// [`from_source`](Self::from_source) also finds NVRTC and CUDA's headers.
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
        Job::new(context, program, options, None)?.load()
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
        Job::new(context, program, options, Some(cache))?.load()
    }
}

/// A program to compile for a device.
pub(super) struct Job<'a> {
    context: &'a Context,
    program: &'a Program,
    /// The options, with the architecture of the device.
    options: Options,
    cache: Option<&'a Cache>,
}

impl<'a> Job<'a> {
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

    pub(super) fn load(&self) -> Result<Module, CompileError> {
        let device = self.context.device();
        let loaded = if self.context.driver().loads_machine_code() {
            self.cubin().and_then(|cubin| self.load_cubin(&cubin))
        } else {
            self.load_ptx(device.virtual_arch()?)
        };
        match loaded {
            Err(error) => match self.older_arch(&error)? {
                Some(arch) => self.load_ptx(arch),
                None => Err(error),
            },
            module => module,
        }
    }

    /// Compiles the program to machine code for the device.
    pub(super) fn cubin(&self) -> Result<Compiled<Cubin>, CompileError> {
        self.compile(&self.options)
    }

    /// Loads the machine code, or compiles and loads PTX if the driver does not accept the machine
    /// code.
    pub(super) fn load_cubin(&self, cubin: &Compiled<Cubin>) -> Result<Module, CompileError> {
        match Module::load(self.context, &cubin.image) {
            Err(error) if error.status() == Some(Status::CUDA_ERROR_NO_BINARY_FOR_GPU) => {
                self.context.driver().note_no_machine_code();
                self.load_ptx(self.context.device().virtual_arch()?)
            }
            module => Ok(self.named(module?, &cubin.lowered_names)),
        }
    }

    fn load_ptx(&self, arch: Arch) -> Result<Module, CompileError> {
        let ptx: Compiled<Ptx> = self.compile(&self.options.clone().arch(arch))?;
        let module = Module::load(self.context, &ptx.image)?;
        Ok(self.named(module, &ptx.lowered_names))
    }

    /// Adds what only the source knows.
    fn named(&self, module: Module, names: &[(String, String)]) -> Module {
        module.with_names(names).with_pointees(self.pointees())
    }

    fn pointees(&self) -> HashMap<String, Pointees> {
        pointees::of_source(self.program.source())
    }

    /// Compiles the program to PTX, and loads the PTX with the lines of the source.
    ///
    /// A driver does not load PTX of an NVRTC that is newer than itself. Most texts are valid in
    /// an older version of PTX as well: only the number in their first line differs.
    pub(super) fn load_safe(&self) -> Result<SafeModule, CompileError> {
        let options = self.options.clone().line_info(true);
        let compile = |arch| self.compile::<Ptx>(&options.clone().arch(arch));
        let context = self.context;
        let ptx = match compile(context.device().virtual_arch()?) {
            Err(error) => match self.older_arch(&error)? {
                Some(arch) => compile(arch)?,
                None => return Err(error),
            },
            Ok(ptx) => ptx,
        };
        let module = SafeModule::load(context, &ptx.image).or_else(|error| {
            let is_too_new = error.status() == Some(Status::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
            let newest = newest_ptx(context.driver().version()).filter(|_| is_too_new);
            let older = newest.and_then(|newest| with_version(&ptx.image, newest));
            // If the text needs its version, the first error has the better advice.
            older
                .and_then(|older| SafeModule::load(context, &older).ok())
                .ok_or(error)
        })?;
        let module = module.with_names(&ptx.lowered_names);
        Ok(module.with_pointees(self.pointees()))
    }

    /// Returns the newest virtual architecture that both NVRTC and the device support, if `error`
    /// is that NVRTC does not support the architecture of the device.
    fn older_arch(&self, error: &CompileError) -> crate::Result<Option<Arch>> {
        let CompileError::Nvrtc(cuda_nvrtc::Error::UnsupportedArch { supported, .. }) = error
        else {
            return Ok(None);
        };
        let device = self.context.device().virtual_arch()?;
        let number = |arch: &Arch| (arch.major(), arch.minor());
        let older = supported
            .iter()
            .filter(|arch| number(arch) <= number(&device));
        Ok(older.max_by_key(|arch| number(arch)).copied())
    }

    fn compile<T: Output>(&self, options: &Options) -> Result<Compiled<T>, CompileError> {
        #[cfg(feature = "tracing")]
        let _span = tracing::debug_span!(target: "cuda_driver", "compile").entered();
        Ok(match self.cache {
            Some(cache) => {
                let cached = cache.compile(self.program, options)?;
                event!(debug, outcome = ?cached.outcome, "compile through the cache");
                cached.compiled
            }
            None => self.program.compile(options)?,
        })
    }
}

/// Returns the text with another number in its `.version` directive.
fn with_version(ptx: &Ptx, (major, minor): (u32, u32)) -> Option<Ptx> {
    let text = ptx.to_text();
    let mut lines: Vec<&str> = text.lines().collect();
    let version = format!(".version {major}.{minor}");
    let mut found = lines.iter_mut();
    *found.find(|line| line.trim_start().starts_with(".version"))? = &version;
    Ptx::new(lines.join("\n")).ok()
}
