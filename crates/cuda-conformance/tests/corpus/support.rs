//! The devices on which kernels run, and their compiler.

use std::collections::HashMap;
use std::env;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use cuda_driver::prelude::*;
use cuda_nvrtc::{Arch, Compiled, CudaHeaders, Nvrtc, Options, Program};
use cuda_sim::{Builder, Simulator};

use test_drivers::{gpu_driver, simulator};
use test_needs::found;

/// CUDA C++ source, and what it requires of the compiler.
pub(crate) struct Source {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// Whether the source includes CUDA's headers.
    pub(crate) headers: bool,
    /// Whether the source uses 128-bit integers.
    pub(crate) int128: bool,
    /// Whether products and sums are compiled without contraction.
    pub(crate) uncontracted: bool,
    /// Whether the code has line information.
    pub(crate) lines: bool,
    /// The name expressions of kernels that are not `extern "C"`.
    pub(crate) expressions: &'static [&'static str],
}

impl Source {
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Self {
            name,
            text,
            headers: false,
            int128: false,
            uncontracted: false,
            lines: false,
            expressions: &[],
        }
    }

    pub(crate) const fn with_headers(mut self) -> Self {
        self.headers = true;
        self
    }

    pub(crate) const fn with_int128(mut self) -> Self {
        self.int128 = true;
        self
    }

    pub(crate) const fn without_contraction(mut self) -> Self {
        self.uncontracted = true;
        self
    }

    pub(crate) const fn with_lines(mut self) -> Self {
        self.lines = true;
        self
    }

    pub(crate) const fn with_expressions(mut self, expressions: &'static [&'static str]) -> Self {
        self.expressions = expressions;
        self
    }

    fn program(&self, nvrtc: &Nvrtc) -> Program {
        self.expressions.iter().fold(
            Program::new(nvrtc, self.text).name(self.name),
            |program, expression| program.name_expression(*expression),
        )
    }

    fn options(&self, nvrtc: &Nvrtc) -> Options {
        let options = Options::new().int128(self.int128).line_info(self.lines);
        let options = if self.uncontracted {
            options.fmad(false)
        } else {
            options
        };
        if !self.headers {
            return options;
        }
        let headers = match env::var_os("CUDA_TEST_HEADERS") {
            Some(dir) => CudaHeaders::of(Path::new(&dir)),
            None => CudaHeaders::find(nvrtc).unwrap(),
        };
        // The lambdas of libcu++ are device code, which NVRTC 12.0 does not assume without this
        // option.
        options.cuda_headers(&headers).default_device(true)
    }

    /// The PTX for a virtual architecture, compiled once for all tests.
    fn ptx(&self, nvrtc: &Nvrtc, arch: Arch) -> Arc<Compiled<Ptx>> {
        type Cell = Arc<OnceLock<Arc<Compiled<Ptx>>>>;
        static COMPILED: Mutex<Option<HashMap<(&str, Arch), Cell>>> = Mutex::new(None);
        let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = compiled.get_or_insert_default().entry((self.name, arch));
        let cell = Cell::clone(cell.or_default());
        drop(compiled);
        let ptx = cell.get_or_init(|| {
            let options = self.options(nvrtc).arch(arch);
            Arc::new(self.program(nvrtc).compile_ptx(&options).unwrap())
        });
        Arc::clone(ptx)
    }
}

/// A new device with its default context, and its kind.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) context: Context,
    pub(crate) stream: Stream,
    /// The software driver, unless the device is a GPU.
    pub(crate) simulator: Option<Simulator>,
    nvrtc: Nvrtc,
}

impl Fixture {
    fn of(driver: &Driver, simulator: Option<Simulator>, nvrtc: &Nvrtc) -> Self {
        let device = driver.device(0).unwrap();
        let context = device.primary_context().unwrap();
        let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
        let arch = device.virtual_arch().unwrap();
        Self {
            name: format!("{} for {arch}", driver.origin()),
            context,
            stream,
            simulator,
            nvrtc: nvrtc.clone(),
        }
    }

    /// Loads the kernel `name` of `source`: from PTX on a software device, from a cubin on a GPU.
    pub(crate) fn kernel(&self, source: &Source, name: &str) -> Function {
        let device = self.context.device();
        let is_expression = source.expressions.contains(&name);
        if self.simulator.is_some() {
            let compiled = source.ptx(&self.nvrtc, device.virtual_arch().unwrap());
            let module = Module::load(&self.context, &compiled.image).unwrap();
            let lowered = compiled.lowered_name(name).unwrap_or(name);
            return module.function(lowered).unwrap();
        }
        let (program, options) = (source.program(&self.nvrtc), source.options(&self.nvrtc));
        if !is_expression {
            let module = Module::compile(&self.context, &program, &options).unwrap();
            return module.function(name).unwrap();
        }
        let options = options.arch(device.arch().unwrap());
        let compiled = program.compile_cubin(&options).unwrap();
        let module = Module::load(&self.context, &compiled.image).unwrap();
        module
            .function(compiled.lowered_name(name).unwrap())
            .unwrap()
    }

    /// Loads all of `source` from PTX for `arch`, on every device.
    pub(crate) fn module_of_ptx(&self, source: &Source, arch: Arch) -> Module {
        let compiled = source.ptx(&self.nvrtc, arch);
        Module::load(&self.context, &compiled.image).unwrap()
    }

    pub(crate) fn upload<T: DeviceRepr>(&self, source: &[T]) -> DeviceBuffer<T> {
        DeviceBuffer::from_host(&self.stream, source).unwrap()
    }

    pub(crate) fn zeroed<T: DeviceRepr>(&self, len: usize) -> DeviceBuffer<T> {
        DeviceBuffer::zeroed(&self.stream, len).unwrap()
    }

    /// Runs a kernel that writes one element for each element of `input`.
    ///
    /// # Safety
    ///
    /// The kernel must be `(const I *in, O *out, unsigned n)`, and must read and write only
    /// elements below `n`.
    pub(crate) unsafe fn map<I: DeviceRepr, O: DeviceRepr>(
        &self,
        source: &Source,
        name: &str,
        input: &[I],
    ) -> Vec<O> {
        let kernel = self.kernel(source, name);
        let n = u32::try_from(input.len()).unwrap();
        let config = LaunchConfig::new(n.div_ceil(128), 128);
        let input = self.upload(input);
        let mut output = self.zeroed::<O>(input.len());
        // SAFETY: the kernel has this signature ← the caller's contract; both buffers have `n`
        // elements.
        unsafe {
            self.stream
                .launch(&kernel, config, (&input, &mut output, n))
        }
        .unwrap();
        self.values(&output, name)
    }

    /// The contents of a buffer after the launches. Panics with the fault if there was one.
    pub(crate) fn values<T: DeviceRepr>(&self, buffer: &DeviceBuffer<T>, what: &str) -> Vec<T> {
        buffer.to_vec().unwrap_or_else(|error| {
            let simulator = self.simulator.as_ref();
            let fault = simulator.and_then(|simulator| simulator.fault(0));
            panic!("{what} on {}: {error}: {fault:?}", self.name)
        })
    }
}

impl Drop for Fixture {
    /// Fails the test if the software device reported anything that the test did not take: either
    /// the kernel or the device is wrong.
    fn drop(&mut self) {
        if let Some(simulator) = &self.simulator
            && !thread::panicking()
        {
            let mut found = simulator.take_reports();
            found.retain(|report| report.status.is_none());
            assert_eq!(found, [], "on {}", self.name);
        }
    }
}

/// Makes a software device, with all of its checks on if `checks`.
fn software(nvrtc: &Nvrtc, (major, minor): (u32, u32), checks: bool) -> Fixture {
    let builder = Builder::new()
        .compute_capability(major, minor)
        .check_all(checks)
        .capture_output(true);
    let simulator = simulator(&builder);
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    Fixture::of(&driver, Some(simulator), nvrtc)
}

/// A new software device of each compute capability that the compiler supports, one at a time; none
/// if no compiler is installed.
///
/// Each one checks for mistakes of kernels that a GPU does not report; a report fails the test.
#[track_caller]
pub(crate) fn simulated() -> impl Iterator<Item = Fixture> {
    simulated_as(true)
}

/// The software devices of [`simulated`], without checks.
#[track_caller]
pub(crate) fn unchecked() -> impl Iterator<Item = Fixture> {
    simulated_as(false)
}

#[track_caller]
fn simulated_as(checks: bool) -> impl Iterator<Item = Fixture> {
    found("NVRTC", Nvrtc::load())
        .into_iter()
        .flat_map(move |nvrtc| {
            let known = nvrtc.supported_archs().unwrap();
            let mut capabilities = vec![(7, 5), (8, 0), (9, 0), (10, 0)];
            capabilities.retain(|&(major, minor)| known.contains(&Arch::compute(major, minor)));
            capabilities
                .into_iter()
                .map(move |capability| software(&nvrtc, capability, checks))
        })
}

/// The devices of [`simulated`], and the GPU if there is one.
#[track_caller]
pub(crate) fn everywhere() -> impl Iterator<Item = Fixture> {
    simulated().chain(gpu())
}

/// The GPU if there is one. Otherwise prints what was skipped.
#[track_caller]
pub(crate) fn gpu() -> Option<Fixture> {
    let nvrtc = found("NVRTC", Nvrtc::load())?;
    Some(Fixture::of(&gpu_driver()?, None, &nvrtc))
}

/// A generator of random numbers that are the same in each run.
pub(crate) fn numbers(seed: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed)
}
