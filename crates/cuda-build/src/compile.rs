//! The compilation of a source file with NVRTC, for each architecture.

use std::env;
use std::path::{Path, PathBuf};

use cuda_nvrtc::{Arch, CudaHeaders, Nvrtc, Options, Program};

use crate::committed::{self, Committed};
use crate::generate::Image;
use crate::signature::{self, Entry};
use crate::{Error, Kernels};

/// A source file with its options and architectures.
pub(crate) struct Job<'a> {
    kernels: &'a Kernels,
    nvrtc: &'a Nvrtc,
    /// The name of the source in diagnostics.
    name: String,
    text: Vec<u8>,
    options: Options,
    archs: Vec<Arch>,
}

impl<'a> Job<'a> {
    /// Prepares the compilation of `text`, the content of `path`, and prints its files for cargo.
    pub(crate) fn new(
        kernels: &'a Kernels,
        nvrtc: &'a Nvrtc,
        root: &Path,
        path: &Path,
        text: Vec<u8>,
    ) -> Result<Self, Error> {
        // NVRTC searches the folder of this name for headers. A build script runs in the folder of
        // the package, so that the name can be as short as the user wrote it.
        let is_here = env::current_dir().is_ok_and(|dir| dir == root);
        let name = if is_here { &kernels.source } else { path };
        let mut options = kernels.options.clone();
        for dir in &kernels.include_dirs {
            options = options.include_dir(root.join(dir));
        }
        if text.windows(7).any(|word| word == b"include")
            && let Ok(headers) = CudaHeaders::find(nvrtc)
        {
            options = options.cuda_headers(&headers);
        }
        let archs = match &kernels.archs[..] {
            [] => nvrtc.supported_archs()?.into_iter().take(1).collect(),
            archs => archs.to_vec(),
        };
        let job = Self {
            kernels,
            nvrtc,
            name: name.display().to_string(),
            text,
            options,
            archs,
        };
        job.depend_on_headers(root, path);
        Ok(job)
    }

    /// Makes cargo run the build script again when a header or NVRTC changes.
    fn depend_on_headers(&self, root: &Path, path: &Path) {
        let kernels = self.kernels;
        let origin = Path::new(self.nvrtc.origin());
        kernels.depend_on(Some(origin).filter(|origin| origin.is_absolute()));
        match self.program(&[]).included_files(&self.options) {
            Ok(files) => kernels.depend_on(files.iter().map(PathBuf::as_path)),
            // The headers are not known, so cargo watches the folders of the user's headers.
            Err(_) => {
                let dirs = kernels.include_dirs.iter().map(|dir| root.join(dir));
                let dirs: Vec<PathBuf> = dirs.chain(path.parent().map(Path::to_owned)).collect();
                kernels.depend_on(dirs.iter().map(PathBuf::as_path));
            }
        }
    }

    /// Compiles an image for each architecture, and finds the kernels with their types.
    pub(crate) fn compile_all(&self) -> Result<(Vec<Image>, Vec<Entry>), Error> {
        let mut images = Vec::new();
        let mut entries: Vec<Entry> = Vec::new();
        for &arch in &self.archs {
            let (image, found) = self.compile(arch)?;
            images.push(image);
            // A kernel may exist for some of the architectures only.
            for entry in found {
                if !entries.contains(&entry) {
                    entries.push(entry);
                }
            }
        }
        Ok((images, entries))
    }

    fn compile(&self, arch: Arch) -> Result<(Image, Vec<Entry>), Error> {
        let options = self.options.clone().arch(arch);
        let mut program = self.program(&[]);
        for expression in &self.kernels.expressions {
            program = program.name_expression(expression);
        }
        let (image, signatures, lowered) = if arch.is_real() {
            let compiled = program.compile_cubin(&options)?;
            let signatures = compiled.image.signatures().map(<[_]>::to_vec);
            let image = Image::of_cubin(arch, &compiled.image);
            (image, signatures, compiled.lowered_names)
        } else {
            let compiled = program.compile_ptx(&options)?;
            let signatures = compiled.image.signatures();
            let image = Image::of_ptx(arch, &compiled.image);
            (image, signatures, compiled.lowered_names)
        };
        let symbols = signatures.into_iter().flatten();
        let symbols = symbols.map(|signature| signature.kernel);
        let mut entries = signature::entries(symbols, &lowered);
        self.find_types(arch, &mut entries)?;
        Ok((image, entries))
    }

    /// Finds the types of the kernels whose names in the image do not contain them. This is a
    /// second compilation, because the helpers would be part of the image.
    fn find_types(&self, arch: Arch, entries: &mut [Entry]) -> Result<(), Error> {
        let is_wanted =
            |entry: &&mut Entry| entry.lacks_types() && !self.kernels.is_untyped(&entry.name());
        let mut wanted: Vec<&mut Entry> = entries.iter_mut().filter(is_wanted).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut program = self.program(signature::HELPER.as_bytes());
        for entry in &wanted {
            program = program.name_expression(entry.helper());
        }
        let options = self.options.clone().arch(arch.to_virtual());
        let compiled = program.compile_ptx(&options)?;
        for (entry, (_, mangled)) in wanted.iter_mut().zip(&compiled.lowered_names) {
            entry.types = Some(mangled.clone());
        }
        Ok(())
    }

    /// Returns the program, with `more` at its end.
    fn program(&self, more: &[u8]) -> Program {
        Program::new(self.nvrtc, [&self.text, more].concat()).name(&self.name)
    }

    /// Returns the PTX to commit, with the list of kernels.
    pub(crate) fn to_commit(&self) -> Result<Vec<u8>, Error> {
        let number = |arch: &&Arch| (arch.major(), arch.minor());
        let Some(arch) = self.archs.iter().min_by_key(number) else {
            return Err(Error::NoKernels {
                file: self.kernels.file(),
            });
        };
        let arch = arch.to_virtual();
        let (image, entries) = self.compile(arch)?;
        let header = Committed {
            arch,
            source: committed::digest(&self.text),
            entries,
        };
        let header = header.to_text(&self.kernels.file());
        Ok([header.as_bytes(), image.bytes()].concat())
    }
}
