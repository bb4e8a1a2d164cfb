//! A program, which is CUDA C++ source with its headers, and its compilation.

use std::ffi::CString;
use std::sync::Arc;

use cuda_sys::image::{Cubin, LtoIr, OptixIr, Ptx, TileIr};
use cuda_sys::nvrtc::nvrtcResult;

use crate::flow::Flow;
use crate::output::Output;
use crate::output::sealed::{self, TOKEN};
use crate::raw::{Getter, RawProgram};
use crate::{CompileError, Compiled, Error, Log, Nvrtc, Options, nesting, worker};

/// CUDA C++ source with its in-memory headers and the name expressions to look up in its output.
///
/// Unlike `nvrtcProgram`, a `Program` is a plain value: it can be cloned, shared between threads
/// and compiled any number of times; each compilation starts from scratch. Texts are bytes and need
/// not be UTF-8. A NUL byte in a text is an error at compilation.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # // Reports the skipped example, or fails if NVRTC is required.
/// # let nvrtc = test_needs::found("NVRTC", cuda_nvrtc::Nvrtc::load());
/// # let Some(nvrtc) = nvrtc else { return Ok(()) };
/// use cuda_nvrtc::{Options, Program};
///
/// let program = Program::new(&nvrtc, r#"
///     #include "scale.h"
///     template <typename T> __global__ void scale(T *x) { x[threadIdx.x] *= FACTOR; }
/// "#)
/// .name("scale.cu")
/// .header("scale.h", "#define FACTOR 3")
/// .name_expression("scale<float>");
///
/// let compiled = program.compile_ptx(&Options::new())?;
/// let name = compiled.lowered_name("scale<float>").unwrap();
/// assert!(compiled.image.to_text().contains(&format!(".entry {name}(")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Program {
    pub(crate) nvrtc: Nvrtc,
    pub(crate) source: Vec<u8>,
    pub(crate) name: String,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) name_expressions: Vec<String>,
}

/// The name that NVRTC gives to a program without a name.
const DEFAULT_NAME: &str = "default_program";

impl Program {
    /// Creates a program from its source.
    #[doc(alias = "nvrtcCreateProgram")]
    pub fn new(nvrtc: &Nvrtc, source: impl Into<Vec<u8>>) -> Self {
        Self {
            nvrtc: nvrtc.clone(),
            source: source.into(),
            name: DEFAULT_NAME.to_owned(),
            headers: Vec::new(),
            name_expressions: Vec::new(),
        }
    }

    /// Sets the name of the source, which diagnostics print. If the name is a path, `#include "…"`
    /// also looks in its folder.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a header in memory. `#include` finds it under `name` before it looks in any folder.
    pub fn header(mut self, name: impl Into<String>, text: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), text.into()));
        self
    }

    /// `nvrtcAddNameExpression`—Adds a kernel, function or variable whose name in the output is
    /// wanted, such as `scale<float>`. A template named in this way is instantiated.
    /// [`Compiled::lowered_name`] returns the name in the output.
    #[doc(alias = "nvrtcAddNameExpression")]
    pub fn name_expression(mut self, expression: impl Into<String>) -> Self {
        self.name_expressions.push(expression.into());
        self
    }

    /// Returns the source.
    #[must_use]
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// Returns the NVRTC library that compiles this program.
    #[must_use]
    pub fn nvrtc(&self) -> &Nvrtc {
        &self.nvrtc
    }

    /// Compiles to PTX, which any driver at least as new as this NVRTC can compile for its device.
    ///
    /// Select a virtual architecture, or none. With a real architecture NVRTC also generates the
    /// machine code, which is then discarded.
    ///
    /// # Errors
    ///
    /// Fails as [`compile`](Self::compile) does.
    #[doc(alias = "nvrtcGetPTX")]
    pub fn compile_ptx(&self, options: &Options) -> Result<Compiled<Ptx>, Error> {
        self.compile(options)
    }

    /// Compiles to machine code for the real architecture that `options` name.
    ///
    /// # Errors
    ///
    /// Fails as [`compile`](Self::compile) does, and with [`Error::NeedsRealArch`] if `options`
    /// name no real architecture.
    #[doc(alias = "nvrtcGetCUBIN")]
    pub fn compile_cubin(&self, options: &Options) -> Result<Compiled<Cubin>, Error> {
        self.compile(options)
    }

    /// Compiles to LTO-IR, for a linker that optimizes across files.
    ///
    /// # Errors
    ///
    /// Fails as [`compile`](Self::compile) does.
    #[doc(alias = "nvrtcGetLTOIR")]
    pub fn compile_lto_ir(&self, options: &Options) -> Result<Compiled<LtoIr>, Error> {
        self.compile(options)
    }

    /// Compiles to OptiX-IR, for the OptiX library.
    ///
    /// # Errors
    ///
    /// Fails as [`compile`](Self::compile) does.
    #[doc(alias = "nvrtcGetOptiXIR")]
    pub fn compile_optix_ir(&self, options: &Options) -> Result<Compiled<OptixIr>, Error> {
        self.compile(options)
    }

    /// Compiles tile kernels to Tile IR. Requires NVRTC 13.3.
    ///
    /// # Errors
    ///
    /// Fails as [`compile`](Self::compile) does.
    #[doc(alias = "nvrtcGetTileIR")]
    pub fn compile_tile_ir(&self, options: &Options) -> Result<Compiled<TileIr>, Error> {
        self.compile(options)
    }

    /// `nvrtcCompileProgram`—Compiles to the kind of output that `T` selects.
    ///
    /// NVRTC runs on a new thread with a large stack ([`Options::stack_size`]) while the calling
    /// thread waits.
    ///
    /// # Errors
    ///
    /// - [`Error::Compile`] with the compiler's diagnostics if the source does not compile.
    /// - [`Error::OptionTooNew`], [`Error::InvalidOption`] or [`Error::UnsupportedArch`] if NVRTC
    ///   does not accept an option.
    /// - [`Error::Nul`] if a text contains a NUL byte.
    /// - [`Error::TooDeep`] if a text is nested so deeply that it could overflow the parser's
    ///   stack.
    /// - [`Error::Cancelled`] or [`Error::TimedOut`] if the limits of `options` end the
    ///   compilation.
    /// - [`Error::MissingFunction`] if this NVRTC is too old for the kind of output or for a
    ///   time-out.
    #[doc(alias = "nvrtcCompileProgram")]
    pub fn compile<T: Output>(&self, options: &Options) -> Result<Compiled<T>, Error> {
        let flow = Flow::start(options);
        let getter = T::getter(&self.nvrtc, TOKEN)?;
        let prepared = T::prepare(options, TOKEN)?;
        let arguments = prepared.render(self.nvrtc.version())?;
        let texts = self.texts()?;
        nesting::check(&self.name, &self.source, options.stack())?;
        for (name, text) in &self.headers {
            nesting::check(name, text, options.stack())?;
        }
        for expression in &self.name_expressions {
            nesting::check("a name expression", expression.as_bytes(), options.stack())?;
        }
        if let Some(error) = flow.stopped() {
            return Err(error);
        }
        let (stack, version) = (options.stack(), self.nvrtc.version());
        let flow = Arc::new(flow);
        // The thread owns all of its data, because a compilation that does not end in time is
        // abandoned and keeps running.
        let job = (self.clone(), Arc::clone(&flow));
        worker::run(stack, version, &flow, move || {
            let (program, flow) = job;
            program.compile_here(&flow, &texts, &prepared, &arguments, getter)
        })?
    }

    /// Compiles on the current thread.
    fn compile_here<T: Output>(
        &self,
        flow: &Flow,
        texts: &Texts,
        options: &Options,
        arguments: &[CString],
        getter: Getter,
    ) -> Result<Compiled<T>, Error> {
        let (source, name) = (&texts.source, &texts.name);
        let raw = RawProgram::new(&self.nvrtc, flow, source, name, &texts.headers)?;
        for expression in &texts.name_expressions {
            raw.add_name_expression(expression)?;
        }
        let status = raw.compile(arguments)?;
        let log = raw.log()?;
        if status != nvrtcResult::NVRTC_SUCCESS {
            return Err(self.failure(status, log, flow, options));
        }
        let names = self.name_expressions.iter().zip(&texts.name_expressions);
        let lowered_names = names
            .map(|(name, expression)| Ok((name.clone(), raw.lowered_name(expression)?)))
            .collect::<Result<_, Error>>()?;
        let bytes = raw.read(getter)?;
        // SAFETY: NVRTC must have written all of `bytes` ← `raw.read` returned what `T`'s getter
        // wrote.
        let image = unsafe { T::from_nvrtc(bytes, TOKEN) }.ok_or_else(|| Error::NoOutput {
            output: T::NAME,
            program: self.name.clone(),
            found: self.nvrtc.version(),
        })?;
        let ptx = || {
            let getter = <Ptx as sealed::Output>::getter(&self.nvrtc, TOKEN).ok()?;
            let bytes = raw.read(getter).ok()?;
            // SAFETY: NVRTC must have written all of `bytes` ← `raw.read` returned what the getter
            // of PTX wrote.
            unsafe { <Ptx as sealed::Output>::from_nvrtc(bytes, TOKEN) }
        };
        // SAFETY: the PTX must be of the compilation that made `image` ← both were read from `raw`,
        // which was compiled once.
        let image = unsafe { image.complete(ptx, TOKEN) };
        Ok(Compiled {
            image,
            log,
            lowered_names,
            pch: raw.pch_status()?,
        })
    }

    /// Fails if NVRTC would reject the texts without a reason that a reader understands.
    fn check_texts(&self) -> Result<(), Error> {
        for (at, (name, text)) in self.headers.iter().enumerate() {
            if self.headers[..at].iter().any(|(other, _)| other == name) {
                return Err(Error::HeaderTwice { name: name.clone() });
            }
            expect_no_mark(text, || format!("the header {name:?}"))?;
        }
        expect_no_mark(&self.source, || format!("the source of {:?}", self.name))
    }

    fn texts(&self) -> Result<Texts, Error> {
        self.check_texts()?;
        let headers = self.headers.iter().map(|(name, text)| {
            let place = || format!("the header {name:?}");
            let bytes = text.as_slice();
            Ok((
                c_string(name, || "the name of a header".to_owned())?,
                c_string(bytes, place)?,
            ))
        });
        let name_expressions = self.name_expressions.iter().map(|expression| {
            c_string(expression, || format!("the name expression {expression:?}"))
        });
        Ok(Texts {
            source: c_string(self.source.as_slice(), || {
                format!("the source of {:?}", self.name)
            })?,
            name: c_string(&self.name, || "the name of the program".to_owned())?,
            headers: headers.collect::<Result<_, Error>>()?,
            name_expressions: name_expressions.collect::<Result<_, Error>>()?,
        })
    }

    fn failure(&self, status: nvrtcResult, log: Log, flow: &Flow, options: &Options) -> Error {
        let found = self.nvrtc.version();
        if status == nvrtcResult::NVRTC_ERROR_CANCELLED
            && let Some(error) = flow.stopped()
        {
            return error;
        }
        if status == nvrtcResult::NVRTC_ERROR_INVALID_OPTION {
            let about_arch = log.as_str().contains("--gpu-architecture");
            return match (options.target(), self.nvrtc.supported_archs()) {
                (Some(arch), Ok(supported)) if about_arch => Error::UnsupportedArch {
                    arch,
                    supported,
                    found,
                },
                _ => Error::InvalidOption {
                    log,
                    options: options.to_strings(),
                    found,
                },
            };
        }
        let mut diagnostics = log.diagnostics();
        for diagnostic in &mut diagnostics {
            diagnostic.add_snippet(&self.name, &self.source);
            for (name, text) in &self.headers {
                diagnostic.add_snippet(name, text);
            }
        }
        Error::Compile(Box::new(CompileError {
            program: self.name.clone(),
            found,
            status,
            log,
            diagnostics,
            searched: options.include_paths(),
        }))
    }
}

/// The texts of a program as NUL-terminated strings.
struct Texts {
    source: CString,
    name: CString,
    headers: Vec<(CString, CString)>,
    name_expressions: Vec<CString>,
}

/// Fails if a text begins with a UTF-8 byte order mark.
fn expect_no_mark(text: &[u8], place: impl FnOnce() -> String) -> Result<(), Error> {
    match text.starts_with(b"\xef\xbb\xbf") {
        true => Err(Error::ByteOrderMark { place: place() }),
        false => Ok(()),
    }
}

fn c_string(text: impl AsRef<[u8]>, place: impl FnOnce() -> String) -> Result<CString, Error> {
    CString::new(text.as_ref()).map_err(|nul| Error::Nul {
        place: place(),
        position: nul.nul_position(),
    })
}
