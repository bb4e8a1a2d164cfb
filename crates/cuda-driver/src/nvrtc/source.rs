//! One-step compilation: from the text of a kernel to a loaded module.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cuda_nvrtc::{Cache, CudaHeaders, Nvrtc, Options, Program};

use super::error::CompileError;
use super::load::Job;
use crate::context::Context;
use crate::module::Module;

/// CUDA C++ source for [`Module::from_source`] and [`SafeModule::from_source`], with its name
/// expressions and options.
///
/// A `&str` or a `String` is a source without options. A template needs a name expression, by which
/// the module then finds the kernel:
///
/// ```no_run
/// use cuda_driver::nvrtc::Source;
/// use cuda_driver::prelude::*;
///
/// # fn f(context: &Context) -> Result<(), cuda_driver::nvrtc::CompileError> {
/// let source = Source::new(
///     "template <typename T> __global__ void scale(T *x, T a) { x[threadIdx.x] *= a; }",
/// )
/// .name_expression("scale<float>")
/// .name_expression("scale<double>");
/// let module = Module::from_source(context, source)?;
/// let scale = module.function("scale<float>")?;
/// # Ok(())
/// # }
/// ```
///
/// [`SafeModule::from_source`]: crate::safe::SafeModule::from_source
#[derive(Clone, Debug)]
#[must_use]
pub struct Source {
    text: Vec<u8>,
    name: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    name_expressions: Vec<String>,
    include_dirs: Vec<PathBuf>,
    options: Options,
    nvrtc: Option<Nvrtc>,
    cache: Option<Cache>,
}

impl Source {
    /// Creates a source from its text.
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Self {
            text: text.into(),
            name: None,
            headers: Vec::new(),
            name_expressions: Vec::new(),
            include_dirs: Vec::new(),
            options: Options::new(),
            nvrtc: None,
            cache: None,
        }
    }

    /// Adds a kernel, function or variable by which the module can find it, such as `scale<float>`.
    /// A template named in this way is instantiated. Kernels declared `extern "C"` need no name
    /// expression.
    pub fn name_expression(mut self, expression: impl Into<String>) -> Self {
        self.name_expressions.push(expression.into());
        self
    }

    /// Sets the options of the compiler. The architecture is always that of the device.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Adds a folder in which `#include` looks for headers, before the folders of CUDA's headers.
    pub fn include_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.include_dirs.push(dir.as_ref().to_owned());
        self
    }

    /// Adds a header in memory. `#include` finds it under `name` before it looks in any folder.
    pub fn header(mut self, name: impl Into<String>, text: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), text.into()));
        self
    }

    /// Sets the name of the source, which diagnostics print. If the name is a path, `#include "…"`
    /// also looks in its folder.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the cache. The default is [`Cache::system`]; a cache in the mode
    /// [`CacheMode::Off`](cuda_nvrtc::CacheMode::Off) compiles every time.
    pub fn cache(mut self, cache: &Cache) -> Self {
        self.cache = Some(cache.clone());
        self
    }

    /// Sets the compiler. The default is [`Nvrtc::load`].
    pub fn nvrtc(mut self, nvrtc: &Nvrtc) -> Self {
        self.nvrtc = Some(nvrtc.clone());
        self
    }

    /// Calls `load` with the program, for the device of `context`.
    pub(super) fn load_with<M>(
        self,
        context: &Context,
        load: impl FnOnce(&Job<'_>) -> Result<M, CompileError>,
    ) -> Result<M, CompileError> {
        let includes = self.includes();
        let nvrtc = match &self.nvrtc {
            Some(nvrtc) => nvrtc.clone(),
            None => Nvrtc::load()?,
        };
        let mut program = Program::new(&nvrtc, self.text);
        if let Some(name) = self.name {
            program = program.name(name);
        }
        for (name, text) in self.headers {
            program = program.header(name, text);
        }
        for expression in self.name_expressions {
            program = program.name_expression(expression);
        }
        let mut options = self.options;
        for dir in &self.include_dirs {
            options = options.include_dir(dir);
        }
        let mut not_found = None;
        if includes {
            match cuda_headers(&nvrtc, self.nvrtc.is_none()) {
                Ok(headers) => options = options.cuda_headers(&headers),
                // The program may include other headers only.
                Err(error) => not_found = Some(error),
            }
        }
        let cache = self.cache.unwrap_or_else(system_cache);
        let module = load(&Job::new(context, &program, &options, Some(&cache))?);
        match (module, not_found) {
            (Err(CompileError::Nvrtc(compile)), Some(headers))
                if compile.missing_header().is_some() =>
            {
                Err(CompileError::NoCudaHeaders {
                    compile: Box::new(compile),
                    headers: Box::new(headers),
                })
            }
            (module, _) => module,
        }
    }

    /// Returns whether a text may include a header. Only in that case CUDA's headers are searched
    /// for.
    fn includes(&self) -> bool {
        let texts = self.headers.iter().map(|(_, text)| text);
        let mut texts = texts.chain([&self.text]);
        texts.any(|text| text.windows(7).any(|word| word == b"include"))
            || self
                .options
                .to_strings()
                .iter()
                .any(|option| option.contains("include"))
    }
}

impl From<&str> for Source {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Source {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&String> for Source {
    fn from(text: &String) -> Self {
        Self::new(text.as_str())
    }
}

/// Available with the feature `nvrtc`.
impl Module {
    /// Compiles CUDA C++ for the device of `context` and loads it.
    ///
    /// ```no_run
    /// # use cuda_driver::prelude::*;
    /// # fn f(context: &Context) -> Result<(), Box<dyn std::error::Error>> {
    /// let source = r#"extern "C" __global__ void scale(float *x, float a, unsigned n) {
    ///     unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    ///     if (i < n) x[i] *= a;
    /// }"#;
    /// let scale = Module::from_source(context, source)?.function("scale")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// This finds NVRTC once per process ([`Nvrtc::load`]), selects the architecture as
    /// [`compile`](Self::compile) does, adds the folders of [CUDA's headers](CudaHeaders::find) if
    /// the source includes any header, and uses the disk cache of this user ([`Cache::system`]). A
    /// [`Source`] can replace each of these, and adds options and name expressions.
    ///
    /// [`SafeModule::from_source`](crate::safe::SafeModule::from_source) loads kernels that are
    /// launched without `unsafe`.
    ///
    /// # Errors
    ///
    /// [`CompileError::Nvrtc`] if NVRTC was not found or the source does not compile,
    /// [`CompileError::NoCudaHeaders`] if a header and CUDA's headers were not found, and
    /// [`CompileError::Driver`] if the driver does not load the module. A failure of the cache is
    /// not an error.
    pub fn from_source(context: &Context, source: impl Into<Source>) -> Result<Self, CompileError> {
        source.into().load_with(context, |job| job.load())
    }
}

/// Returns CUDA's headers for `nvrtc`. Those of the system's NVRTC are searched for until they are
/// found, and then remembered.
fn cuda_headers(nvrtc: &Nvrtc, is_system: bool) -> Result<CudaHeaders, cuda_nvrtc::Error> {
    static HEADERS: OnceLock<CudaHeaders> = OnceLock::new();
    if !is_system {
        return CudaHeaders::find(nvrtc);
    }
    if let Some(headers) = HEADERS.get() {
        return Ok(headers.clone());
    }
    let found = CudaHeaders::find(nvrtc)?;
    Ok(HEADERS.get_or_init(|| found).clone())
}

/// Returns the cache of this user, which is opened once per process.
fn system_cache() -> Cache {
    static CACHE: OnceLock<Cache> = OnceLock::new();
    CACHE.get_or_init(Cache::system).clone()
}
