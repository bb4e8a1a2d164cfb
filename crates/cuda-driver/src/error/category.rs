//! The category of each status code, and advice on what to try. C has no counterpart.
//!
//! The tables are constants, so they need no driver.

use std::fmt;

use cuda_sys::CUresult;

/// The part of CUDA that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Category {
    /// Loading or initializing the driver.
    Initialization,
    /// Finding or using a device.
    Device,
    /// The current context, or a context that has ended.
    Context,
    /// Allocating, mapping or copying memory, and access between devices.
    Memory,
    /// Images of device code: their format, their version, and their compilation.
    Compile,
    /// The request for a launch.
    Launch,
    /// A fault of a kernel while it ran.
    Kernel,
    /// Graphs and the capture of streams.
    Graph,
    /// An argument, a handle or a name of a call.
    Argument,
    /// The state of an object, for example work that is not complete yet.
    State,
    /// An operation that the device, the driver or the system does not allow or support.
    Support,
    /// The operating system, files and shared libraries.
    System,
    /// The Multi-Process Service.
    Mps,
    /// Hardware that failed.
    Hardware,
    /// The profiler.
    Profiler,
    /// Closures of the program that the driver calls.
    HostFunction,
    /// No other category.
    Other,
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initialization => "initialization",
            Self::Device => "device",
            Self::Context => "context",
            Self::Memory => "memory",
            Self::Compile => "compile",
            Self::Launch => "launch",
            Self::Kernel => "kernel",
            Self::Graph => "graph",
            Self::Argument => "argument",
            Self::State => "state",
            Self::Support => "support",
            Self::System => "system",
            Self::Mps => "MPS",
            Self::Hardware => "hardware",
            Self::Profiler => "profiler",
            Self::HostFunction => "host function",
            Self::Other => "other",
        })
    }
}

/// A row of the table: the code, its category, whether the process can no longer use the device
/// after it, and the advice (empty if a program can do nothing).
type Row = (u32, Category, bool, &'static str);

const OK: bool = false;
const STICKY: bool = true;

pub(super) const INSTALL: &str =
    "install NVIDIA's driver, or use the software device of the crate cuda-sim";
const UPDATE_DRIVER: &str = "update NVIDIA's driver, or compile for an older CUDA version";
const OBJECT_ENDED: &str =
    "check that the object is alive, belongs to this context, and was created by the same driver";
const FIND_FAULT: &str = "start a new process; run the program on the software device with \
                          CUDA_SIM=check=all, or under compute-sanitizer, to find the access";
const MPS: &str = "check that the MPS control daemon runs, and read its log";
const CAPTURE: &str = "end the capture first, or make the call on a stream that is not captured";
const REPLACE: &str = "start a new process; if the error occurs again, run the diagnostics of the device (dcgmi diag)";

/// The table, ordered by code.
#[rustfmt::skip]
const ROWS: &[Row] = {
    use Category as C;
    &[
        (0, C::Other, OK, ""),
        (1, C::Argument, OK, "compare the arguments with the limits of the device and the call"),
        (2, C::Memory, OK, "free memory, use smaller batches, or ask `Context::memory_info` how much is free"),
        (3, C::Initialization, OK, "call `Driver::load` before any other call"),
        (4, C::Initialization, OK, "drop the objects of CUDA before the process ends"),
        (5, C::Profiler, OK, "run the program without another profiler"),
        (6, C::Profiler, OK, "start the profiler without initializing it; CUDA 5.0 made that unnecessary"),
        (7, C::Profiler, OK, ""),
        (8, C::Profiler, OK, ""),
        (34, C::Initialization, OK, "remove the folder of stubs from the library path, so that the driver of the system is loaded"),
        (36, C::Initialization, OK, UPDATE_DRIVER),
        (46, C::Device, OK, "check with nvidia-smi whether another process uses the device in exclusive mode"),
        (47, C::Memory, OK, "release multicast objects that are no longer used"),
        (100, C::Device, OK, "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use the software device of the crate cuda-sim"),
        (101, C::Device, OK, "use an ordinal below `Device::count`"),
        (102, C::Device, OK, "check the licence of the virtual GPU"),
        (200, C::Compile, OK, "check that the image is PTX, a cubin or a fatbin, and was not truncated"),
        (201, C::Context, OK, "create a context on this thread, or check that it was not destroyed"),
        (202, C::Context, OK, ""),
        (205, C::Memory, OK, ""),
        (206, C::Memory, OK, ""),
        (207, C::Memory, OK, "unmap the array first"),
        (208, C::Memory, OK, "unmap the resource first"),
        (209, C::Compile, OK, "compile for the compute capability of this device, or include PTX in the image"),
        (210, C::Memory, OK, "release the resource first"),
        (211, C::Memory, OK, "map the resource first"),
        (212, C::Memory, OK, "map the resource as an array"),
        (213, C::Memory, OK, "map the resource as a pointer"),
        (214, C::Hardware, STICKY, REPLACE),
        (215, C::Support, OK, "leave this limit at its default"),
        (216, C::Context, OK, "use the context on one thread at a time"),
        (217, C::Memory, OK, "ask `Device::can_access_peer` first, and copy through the host otherwise"),
        (218, C::Compile, OK, "read the log of the compiler in the error"),
        (219, C::Context, OK, "make the graphics context current on this thread"),
        (220, C::Hardware, STICKY, REPLACE),
        (221, C::Compile, OK, "install the PTX compiler of the driver (libnvidia-ptxjitcompiler), or load a cubin"),
        (222, C::Compile, OK, "update NVIDIA's driver, compile with an older toolkit, or load a cubin"),
        (223, C::Compile, OK, "unset CUDA_DISABLE_PTX_JIT, or load a cubin"),
        (224, C::Support, OK, ""),
        (225, C::Compile, OK, "remove cudaDeviceSynchronize from device code"),
        (226, C::Kernel, OK, "destroy the context and create another one"),
        (227, C::Compile, OK, UPDATE_DRIVER),
        (300, C::Compile, OK, "read the log of the compiler"),
        (301, C::System, OK, "check the path"),
        (302, C::System, OK, "check that the library has the version that the program expects"),
        (303, C::System, OK, "check the dependencies of the library"),
        (304, C::System, OK, "check the limits of the process, such as memory, threads and open files"),
        (400, C::Argument, OK, OBJECT_ENDED),
        (401, C::State, OK, "check the order of the calls: a capture, for example, must have begun before it ends"),
        (402, C::State, OK, "call the newer revision of this function, such as `_v2`, which returns all data"),
        (500, C::Argument, OK, "check the spelling; C++ mangles names that are not `extern \"C\"`"),
        (600, C::State, OK, "wait for the work first, for example with `Stream::synchronize`"),
        (700, C::Kernel, STICKY, FIND_FAULT),
        (701, C::Launch, OK, "launch smaller blocks, use less shared memory, or limit the registers of the kernel"),
        (702, C::Kernel, STICKY, "split the kernel into shorter launches, or use a device without a display"),
        (703, C::Launch, OK, ""),
        (704, C::Memory, OK, "continue: the access is enabled"),
        (705, C::Memory, OK, "enable the access between the devices first"),
        (708, C::Context, OK, "set the flags before the primary context is retained"),
        (709, C::Context, OK, "create the context again, and all objects in it"),
        (710, C::Kernel, STICKY, "start a new process; the kernel printed the assertion to stderr"),
        (711, C::Memory, OK, "disable the access to devices that are not used"),
        (712, C::Memory, OK, "unregister the memory first"),
        (713, C::Memory, OK, "register the memory first"),
        (714, C::Kernel, STICKY, "start a new process; raise the limit of the stack, or check for deep recursion"),
        (715, C::Kernel, STICKY, "start a new process; compile for the compute capability of this device"),
        (716, C::Kernel, STICKY, FIND_FAULT),
        (717, C::Kernel, STICKY, FIND_FAULT),
        (718, C::Kernel, STICKY, FIND_FAULT),
        (719, C::Kernel, STICKY, FIND_FAULT),
        (720, C::Launch, OK, "ask `Function::max_active_blocks` how many blocks fit, and launch at most that many"),
        (721, C::Kernel, STICKY, "start a new process; free the tensor memory before the kernel ends"),
        (800, C::Support, OK, "check the rights of the process; a host function must not call the driver"),
        (801, C::Support, OK, "query the attribute of the device that states whether it supports the operation"),
        (802, C::Initialization, OK, "wait until the fabric manager and the driver have started"),
        (803, C::Initialization, OK, "restart the machine after an update of the driver"),
        (804, C::Initialization, OK, "remove the compatibility package of CUDA from the library path"),
        (805, C::Mps, OK, MPS),
        (806, C::Mps, OK, MPS),
        (807, C::Mps, OK, "try again when the MPS server has started"),
        (808, C::Mps, OK, "end another client of the MPS server"),
        (809, C::Mps, OK, "close connections to the MPS server"),
        (810, C::Mps, OK, "start a new process; another client of the MPS server has failed"),
        (811, C::Support, OK, "launch the kernel from the host instead"),
        (812, C::Compile, OK, "compile all device code with one toolkit"),
        (900, C::Graph, OK, CAPTURE),
        (901, C::Graph, OK, "end the capture and start again; an earlier error says why it became invalid"),
        (902, C::Graph, OK, "wait only for events of the same capture"),
        (903, C::Graph, OK, "end the capture on the stream on which it began"),
        (904, C::Graph, OK, "make the first stream wait for all forked streams before the capture ends"),
        (905, C::Graph, OK, "wait only for events that were recorded in the capture"),
        (906, C::Graph, OK, "use a non-blocking stream instead of the legacy stream"),
        (907, C::Graph, OK, "record the event again outside of the capture"),
        (908, C::Graph, OK, "end the capture on the thread that began it, or begin it in relaxed mode"),
        (909, C::State, OK, "raise the time limit, or check what the operation waits for"),
        (910, C::Graph, OK, "instantiate the graph again"),
        (911, C::Hardware, OK, ""),
        (912, C::Launch, OK, "ask `Function::max_cluster_size` for the largest cluster"),
        (913, C::Compile, OK, "load the function, or disable lazy loading with CUDA_MODULE_LOADING=EAGER"),
        (914, C::Argument, OK, ""),
        (915, C::Argument, OK, ""),
        (916, C::State, OK, "try again later"),
        (917, C::State, OK, "create another stream"),
        (918, C::Graph, OK, "capture the same work in the same order, or instantiate a new graph"),
        (919, C::Initialization, OK, "wait until the fabric manager has configured the fabric"),
        (999, C::Other, OK, "update NVIDIA's driver, and check the log of the kernel (dmesg) for Xid messages"),
    ]
};

const fn row(status: CUresult) -> Option<&'static Row> {
    let mut at = 0;
    while at < ROWS.len() {
        if ROWS[at].0 == status.0 {
            return Some(&ROWS[at]);
        }
        at += 1;
    }
    None
}

impl Category {
    /// Returns the category of a status code; `None` for a code that these bindings do not know.
    ///
    /// ```
    /// use cuda_driver::error::{Category, Status, advice};
    ///
    /// const CATEGORY: Option<Category> = Category::of(Status::CUDA_ERROR_NO_DEVICE);
    /// assert_eq!(CATEGORY, Some(Category::Device));
    /// assert!(advice(Status::CUDA_ERROR_NO_DEVICE).unwrap().contains("nvidia-smi"));
    /// ```
    #[must_use]
    pub const fn of(status: CUresult) -> Option<Self> {
        match row(status) {
            Some(row) => Some(row.1),
            None => None,
        }
    }
}

/// Returns what a user can try after a call returned `status`. Returns `None` if a program can do
/// nothing about it, and for a code that these bindings do not know.
#[must_use]
pub const fn advice(status: CUresult) -> Option<&'static str> {
    match row(status) {
        Some(row) if !row.3.is_empty() => Some(row.3),
        _ => None,
    }
}

/// Returns whether the process can no longer use the device after a call returned `status`.
pub(super) const fn is_sticky(status: CUresult) -> bool {
    match row(status) {
        Some(row) => row.2,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    use cuda_sys::CUresult;

    use super::{Category, ROWS, advice};

    /// Returns the status codes of a header, with their names.
    fn codes_of(header: &str) -> Vec<(&str, u32)> {
        let (_, list) = header.split_once("typedef enum cudaError_enum").unwrap();
        let (list, _) = list.split_once('}').unwrap();
        let codes = list.lines().filter_map(|line| {
            let (name, value) = line.trim().split_once('=')?;
            let value = value.split([',', '/']).next()?;
            Some((name.trim(), value.trim().parse().ok()?))
        });
        codes.collect()
    }

    /// Returns the names of the codes of a header that have no category.
    fn without_category(header: &str) -> Vec<&str> {
        let codes = codes_of(header).into_iter();
        let missing = codes.filter(|(_, code)| Category::of(CUresult(*code)).is_none());
        missing.map(|(name, _)| name).collect()
    }

    /// Returns the headers of this machine: those that `cargo xtask setup` has downloaded, and that
    /// of a toolkit.
    fn headers() -> Vec<PathBuf> {
        let setup = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda-setup");
        let releases = fs::read_dir(setup.join("headers")).into_iter().flatten();
        let mut folders: Vec<_> = releases.flatten().map(|it| it.path()).collect();
        folders.push(setup.join("include"));
        folders.extend(env::var_os("CUDA_SYS_HEADERS").map(PathBuf::from));
        folders.extend(env::var_os("CUDA_PATH").map(|it| PathBuf::from(it).join("include")));
        let files = folders.iter().map(|folder| folder.join("cuda.h"));
        files.filter(|file| file.is_file()).collect()
    }

    /// Unlike the test of the bindings, this one also finds a code in a header from which no
    /// bindings were generated.
    #[test]
    fn every_code_of_every_header_has_a_category() {
        let headers = headers();
        if headers.is_empty() {
            return test_needs::skip("no CUDA header was found");
        }
        for path in headers {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            let count = codes_of(&text).len();
            assert!(count > 90, "{}: {count} codes", path.display());
            let missing = without_category(&text);
            assert!(missing.is_empty(), "{}: {missing:?}", path.display());
            println!("{count} codes in {}", path.display());

            let newer = text.replacen("CUDA_SUCCESS ", "CUDA_ERROR_NEW = 998,\nCUDA_SUCCESS ", 1);
            assert_eq!(without_category(&newer), ["CUDA_ERROR_NEW"]);
        }
    }

    #[test]
    fn every_status_code_has_a_category() {
        let missing: Vec<_> = (0..100_000)
            .map(CUresult)
            .filter(|status| status.name().is_some() != Category::of(*status).is_some())
            .collect();
        assert!(missing.is_empty(), "not in ROWS, or unknown: {missing:?}");
        assert!(ROWS.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn advice_is_one_sentence_without_a_full_stop() {
        for status in ROWS.iter().map(|row| CUresult(row.0)) {
            let Some(advice) = advice(status) else {
                continue;
            };
            let is_lower = advice.starts_with(|first: char| first.is_lowercase());
            assert!(is_lower && !advice.ends_with('.'), "{status}: {advice}");
        }
    }

    #[test]
    fn faults_of_kernels_are_sticky() {
        for row in ROWS {
            // 226 is limited to its context.
            let is_fault = row.1 == Category::Kernel && row.0 != 226;
            let is_hardware = row.1 == Category::Hardware && row.0 != 911;
            assert_eq!(row.2, is_fault || is_hardware, "{}", row.0);
        }
    }
}
