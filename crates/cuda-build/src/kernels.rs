//! The builder, which compiles one source file and writes the generated code.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use cuda_nvrtc::{Arch, LoadError, Nvrtc, Options};

use crate::Error;
use crate::committed::{self, Committed};
use crate::compile::Job;
use crate::generate::{self, Image};
use crate::signature::Entry;
use crate::types::Types;

/// The environment variable that makes builds write the committed PTX.
const UPDATE: &str = "CUDA_BUILD_UPDATE";

/// The variables that decide which NVRTC and which headers are found.
const VARIABLES: [&str; 6] = [
    UPDATE,
    "CUDA_NVRTC_LIBRARY",
    "CUDA_PATH",
    "CUDA_HOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
];

/// The kernels of one CUDA C++ file, to be compiled in a build script.
///
/// ```no_run
/// fn main() -> Result<(), cuda_build::Error> {
///     cuda_build::Kernels::new("kernels/scale.cu").generate()
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Kernels {
    pub(crate) source: PathBuf,
    pub(crate) archs: Vec<Arch>,
    pub(crate) options: Options,
    pub(crate) include_dirs: Vec<PathBuf>,
    pub(crate) expressions: Vec<String>,
    untyped: Vec<String>,
    rust_names: BTreeMap<String, String>,
    types: Types,
    committed: Option<PathBuf>,
    out_dir: Option<PathBuf>,
    cargo_metadata: bool,
}

impl Kernels {
    /// Creates a builder for the kernels of the file `source`. Relative paths refer to the folder
    /// of the package.
    pub fn new(source: impl AsRef<Path>) -> Self {
        Self {
            source: source.as_ref().to_owned(),
            archs: Vec::new(),
            options: Options::new(),
            include_dirs: Vec::new(),
            expressions: Vec::new(),
            untyped: Vec::new(),
            rust_names: BTreeMap::new(),
            types: Types::default(),
            committed: None,
            out_dir: None,
            cargo_metadata: true,
        }
    }

    /// Compiles the file and writes `<name of the file>.rs` and the images to the output folder.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or written, if NVRTC is not found and no PTX is committed, if
    /// the source does not compile, or if a kernel has a parameter of an unknown type. Return the
    /// error from `main` of the build script: cargo then prints it.
    pub fn generate(&self) -> Result<(), Error> {
        let root = match env::var_os("CARGO_MANIFEST_DIR") {
            Some(dir) => PathBuf::from(dir),
            None => PathBuf::new(),
        };
        let out_dir = match &self.out_dir {
            Some(dir) => dir.clone(),
            None => PathBuf::from(
                env::var_os("OUT_DIR").ok_or(Error::NotInBuildScript { name: "OUT_DIR" })?,
            ),
        };
        let path = root.join(&self.source);
        self.depend_on([path.as_path()]);
        for variable in VARIABLES {
            self.print_instruction(format_args!("rerun-if-env-changed={variable}"));
        }
        let text = fs::read(&path).map_err(|source| Error::File {
            action: "read",
            path: path.clone(),
            source,
        })?;
        let committed = self.committed.as_ref().map(|path| root.join(path));
        self.depend_on(committed.as_deref().filter(|path| path.is_file()));
        let (images, entries) = match (Nvrtc::load(), &committed) {
            (Ok(nvrtc), _) => {
                let job = Job::new(self, &nvrtc, &root, &path, text)?;
                let compiled = job.compile_all()?;
                if let Some(path) = committed.filter(|_| wants_update()) {
                    write(&path, &job.to_commit()?)?;
                }
                compiled
            }
            (Err(error), _) if !is_absent(&error) => return Err(error.into()),
            (Err(_), Some(path)) if path.is_file() => self.read_committed(path, &text)?,
            (Err(error), _) => {
                return Err(Error::NoNvrtc {
                    file: self.file(),
                    source: error,
                });
            }
        };
        let methods = self.methods(&entries)?;
        let stem = self.source.file_stem().unwrap_or_default();
        let stem = stem.to_string_lossy();
        for image in &images {
            write(&out_dir.join(image.file_name(&stem)), image.bytes())?;
        }
        // Committed PTX does not count, so that a build with NVRTC generates the same types.
        let has_text = self.archs.is_empty() || self.archs.iter().any(|arch| !arch.is_real());
        let rust = generate::rust(&self.file(), &stem, &images, &methods, has_text);
        write(&out_dir.join(format!("{stem}.rs")), rust.as_bytes())
    }

    /// Adds an architecture. A virtual one (`Arch::compute(7, 5)`) adds PTX, which the driver
    /// compiles for its device and every newer one; a real one (`Arch::sm(9, 0)`) adds machine
    /// code, which loads faster. The loader selects the image that fits the device.
    ///
    /// Without this, PTX for the oldest architecture that NVRTC supports is compiled.
    pub fn arch(mut self, arch: Arch) -> Self {
        if !self.archs.contains(&arch) {
            self.archs.push(arch);
        }
        self
    }

    /// Adds a folder in which `#include` looks for headers. CUDA's own headers are found without
    /// it, as is the folder of the source for names in quotes.
    pub fn include(mut self, dir: impl AsRef<Path>) -> Self {
        self.include_dirs.push(dir.as_ref().to_owned());
        self
    }

    /// Defines a macro with a value.
    pub fn define(mut self, name: &str, value: impl ToString) -> Self {
        self.options = self.options.define(name, value);
        self
    }

    /// Sets the options of the compiler. This replaces all earlier [`define`](Self::define)s; the
    /// architecture is ignored.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Adds an instance of a template, such as `scale<float>`. Kernels that are not templates are
    /// found without this.
    pub fn kernel(mut self, expression: impl Into<String>) -> Self {
        self.expressions.push(expression.into());
        self
    }

    /// Names the Rust type of a C++ struct, enum or other type, such as `("Params",
    /// "crate::Params")`. The type must implement `DeviceRepr` of cuda-driver. A namespace is part
    /// of the C++ name.
    pub fn rust_type(mut self, cpp: impl Into<String>, rust: impl Into<String>) -> Self {
        self.types.named.insert(cpp.into(), rust.into());
        self
    }

    /// Names the method for a kernel. The default is the name of the kernel, in which every
    /// character that Rust does not allow is replaced: `scale_float` for `scale<float>`.
    pub fn rust_name(mut self, kernel: impl Into<String>, rust: impl Into<String>) -> Self {
        self.rust_names.insert(kernel.into(), rust.into());
        self
    }

    /// Leaves a kernel without a signature: its method returns a `Function` of cuda-driver.
    pub fn untyped(mut self, kernel: impl Into<String>) -> Self {
        self.untyped.push(kernel.into());
        self
    }

    /// Names a file with PTX that is used if the build machine has no NVRTC. A build with the
    /// environment variable `CUDA_BUILD_UPDATE=1` and NVRTC writes the file, for the oldest of the
    /// architectures.
    ///
    /// If the source has changed since then, a build without NVRTC prints a warning.
    pub fn committed_ptx(mut self, path: impl AsRef<Path>) -> Self {
        self.committed = Some(path.as_ref().to_owned());
        self
    }

    /// Sets the output folder. The default is `OUT_DIR`, which cargo sets.
    pub fn out_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.out_dir = Some(dir.as_ref().to_owned());
        self
    }

    /// Sets whether lines for cargo are printed (the default): the files and environment variables
    /// of which a change runs the build script again.
    pub fn cargo_metadata(mut self, on: bool) -> Self {
        self.cargo_metadata = on;
        self
    }

    /// Returns the source file for messages and comments.
    pub(crate) fn file(&self) -> String {
        self.source.display().to_string()
    }

    pub(crate) fn is_untyped(&self, kernel: &str) -> bool {
        self.untyped.iter().any(|untyped| untyped == kernel)
    }

    fn print_instruction(&self, line: std::fmt::Arguments<'_>) {
        if self.cargo_metadata {
            println!("cargo::{line}");
        }
    }

    pub(crate) fn depend_on<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) {
        for path in paths {
            self.print_instruction(format_args!("rerun-if-changed={}", path.display()));
        }
    }

    fn read_committed(
        &self,
        path: &Path,
        source: &[u8],
    ) -> Result<(Vec<Image>, Vec<Entry>), Error> {
        let text = fs::read_to_string(path).map_err(|source| Error::File {
            action: "read",
            path: path.to_owned(),
            source,
        })?;
        let committed = Committed::parse(&text).ok_or_else(|| Error::CommittedPtx {
            path: path.to_owned(),
        })?;
        if committed.source != committed::digest(source) {
            self.print_instruction(format_args!(
                "warning={} has changed since {} was written; build with {UPDATE}=1 on a machine \
                 with NVRTC",
                self.file(),
                path.display()
            ));
        }
        let Committed { arch, entries, .. } = committed;
        Ok((vec![Image::of_text(arch, text)], entries))
    }

    /// Returns the methods of the generated type.
    fn methods(&self, entries: &[Entry]) -> Result<Vec<generate::Method>, Error> {
        let file = self.file();
        let names: Vec<String> = entries.iter().map(Entry::name).collect();
        let expected = self.expressions.iter().map(|name| (name, "kernel"));
        let renamed = self.rust_names.keys().map(|name| (name, "rust_name"));
        let untyped = self.untyped.iter().map(|name| (name, "untyped"));
        let mut named = expected.chain(renamed).chain(untyped);
        if let Some((kernel, option)) = named.find(|(name, _)| !names.contains(name)) {
            return Err(Error::NoSuchKernel {
                file,
                kernel: kernel.clone(),
                option,
                kernels: names,
            });
        }
        if entries.is_empty() {
            return Err(Error::NoKernels { file });
        }
        let mut methods: Vec<generate::Method> = Vec::new();
        for (entry, kernel) in entries.iter().zip(names) {
            let name = match self.rust_names.get(&kernel) {
                Some(name) => name.clone(),
                None => generate::method_name(&kernel),
            };
            let is_taken = methods.iter().any(|method| method.name == name);
            if is_taken || generate::OWN_METHODS.contains(&name.as_str()) {
                return Err(Error::NameTaken { file, kernel, name });
            }
            let signature = match self.is_untyped(&kernel) {
                true => None,
                false => Some(entry.signature(&file, &self.types)?),
            };
            methods.push(generate::Method {
                name,
                kernel,
                symbol: entry.symbol.clone(),
                signature,
            });
        }
        Ok(methods)
    }
}

/// Returns whether this machine has no NVRTC, as opposed to one that cannot be used.
fn is_absent(error: &cuda_nvrtc::Error) -> bool {
    let cuda_nvrtc::Error::Load(error) = error else {
        return false;
    };
    matches!(
        error,
        LoadError::NotFound { .. } | LoadError::UnsupportedPlatform { .. }
    )
}

fn wants_update() -> bool {
    env::var_os(UPDATE).is_some_and(|value| !value.is_empty() && value != "0")
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    // An unchanged file keeps its time, so that nothing that depends on it is built again.
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).map_err(|source| Error::File {
        action: "write",
        path: path.to_owned(),
        source,
    })
}
