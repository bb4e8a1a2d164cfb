//! Runs a program in its own process, on adversarial schedules, and checks for the effects of
//! a broken promise.

use std::any::type_name;
use std::env;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::ops::Deref;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::context::ContextFlags;
use cuda_driver::prelude::*;
use cuda_driver::{Error, Result, Version};
use cuda_sim::{Builder, Schedule, Simulator};
use test_needs::skipped;

use test_drivers::{gpu_driver, older, simulator};

use crate::set_up::{COPY, MIX, load};

/// The number of schedules.
const FULL: u64 = 24;
/// The number of schedules that run unless `CUDA_FULL` is 1.
const REDUCED: u64 = 3;
/// A schedule that runs longer than this counts as hanging.
const LIMIT: Duration = Duration::from_secs(30);
/// The time limit for freeing memory after its last owner was dropped: a thread checks ten times a
/// second.
const SETTLE: Duration = Duration::from_secs(10);
/// The environment variable that names the program which a child process runs.
const CHILD: &str = "CUDA_DRIVER_ATTACK";
/// The environment variable that names the file to which each program adds a line with the number
/// of its schedules.
const COUNT: &str = "CUDA_ATTACKS_COUNT";

/// An attack: where it runs, and the objects that it may leak.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Attack {
    two_contexts: bool,
    software_only: Option<&'static str>,
    since: Option<(u32, u32)>,
    leaks: bool,
    loses_device: bool,
    injects_failures: bool,
    memory: Option<u64>,
}

impl Attack {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Gives the program a second context, alternately on the same device and on another one.
    pub(crate) fn with_two_contexts(mut self) -> Self {
        self.two_contexts = true;
        self
    }

    /// Runs the program on the software device only.
    pub(crate) fn on_software(mut self, why: &'static str) -> Self {
        self.software_only = Some(why);
        self
    }

    /// Skips drivers that are older than this CUDA version.
    pub(crate) fn since(mut self, major: u32, minor: u32) -> Self {
        self.since = Some((major, minor));
        self
    }

    /// Declares that the program forgets owners, so that driver objects are leaked.
    pub(crate) fn leaks(mut self) -> Self {
        self.leaks = true;
        self
    }

    /// Declares that the program loses a device, so that a fault is recorded and objects are
    /// leaked.
    pub(crate) fn loses_device(mut self) -> Self {
        self.loses_device = true;
        self.on_software("it loses the device")
    }

    /// Declares that calls fail, including waits, so that copies of pageable memory must not run
    /// late.
    pub(crate) fn injects_failures(mut self) -> Self {
        self.injects_failures = true;
        self.on_software("it makes driver calls fail")
    }

    /// Sets the memory size of the software device in bytes.
    pub(crate) fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Runs `program` on each schedule, in a child process of the same test binary.
    ///
    /// # Panics
    ///
    /// If the program panics, crashes or hangs, if the simulator reports anything, or if memory is
    /// leaked.
    pub(crate) fn run<F: Fn(&Case)>(self, program: F) {
        // The path of the test function, as the test harness spells it.
        let path = type_name::<F>().trim_end_matches("::{{closure}}");
        let (_, name) = path.split_once("::").expect("a test is in a module");
        if env::var_os(CHILD).is_some_and(|child| child == name) {
            self.run_here(name, &program);
            return;
        }
        let (status, output) = child(name);
        let lines = |mark: &str| {
            let found = output.lines().filter(|line| line.starts_with(mark));
            found.map(|line| format!("{line}\n")).collect::<String>()
        };
        assert!(status.success(), "{name}: {status}\n{output}");
        assert!(
            !lines("attacks: ").is_empty() || !lines("skipped: ").is_empty(),
            "{name}: the child ran nothing\n{output}"
        );
        print!("{}{}", lines("attacks: "), lines("skipped: "));
    }

    fn run_here(&self, name: &str, program: &impl Fn(&Case)) {
        if let (Some((major, minor)), Some(version)) = (self.since, older())
            && version < Version::new(major * 1000 + minor * 10)
        {
            skipped(&format!(
                "{name}: it needs a driver of CUDA {major}.{minor}"
            ));
            return;
        }
        let full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
        let count = if full { FULL } else { REDUCED };
        let chosen = env::var("CUDA_SCHEDULE").ok();
        let chosen = chosen.map(|number| number.parse::<u64>().expect("CUDA_SCHEDULE is a number"));
        // The reduced set has an eager schedule, and late ones with and without reuse of memory.
        let numbers = chosen.map_or(0..count, |number| number..number + 1);
        let count = numbers.end - numbers.start;
        for number in numbers.clone() {
            self.one(name, number, None, program);
        }
        println!("attacks: {name}: {count} of {FULL} schedules");
        if let Some(path) = env::var_os(COUNT) {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let written =
                file.and_then(|mut file| file.write_all(format!("{name} {count}\n").as_bytes()));
            written.expect("the file that counts programs can be written");
        }
        if let Some(why) = self.software_only {
            println!("attacks: {name}: software device only: {why}");
            return;
        }
        let Some(driver) = gpu_driver() else {
            return;
        };
        if self.two_contexts && driver.devices().is_ok_and(|devices| devices.len() < 2) {
            skipped(&format!(
                "{name}: on one GPU, because the machine has no second one"
            ));
        }
        for number in numbers {
            self.one(name, number, Some(&driver), program);
        }
        println!(
            "attacks: {name}: {count} of {FULL} rounds on {}",
            driver.origin()
        );
    }

    fn one(&self, name: &str, number: u64, gpu: Option<&Driver>, program: &impl Fn(&Case)) {
        let place = gpu.map_or("the software device", |driver| driver.origin());
        let title = format!("{name}, schedule {number} on {place}");
        let _watched = watch(title.clone());
        let simulator = gpu.is_none().then(|| simulator(&self.builder(number)));
        let driver = gpu.cloned().unwrap_or_else(|| {
            let simulator = simulator
                .as_ref()
                .expect("every place without a GPU has a simulator");
            Driver::new(simulator.library().unwrap()).unwrap()
        });
        let case = Case::new(self, &driver, number, simulator.clone(), title.clone());
        drop(driver);
        program(&case);
        drop(case);
        if let Some(simulator) = simulator {
            self.expect_clean(&simulator, &title);
        }
    }

    fn builder(&self, number: u64) -> Builder {
        let schedule = match number {
            0 => Schedule::Eager,
            seed => Schedule::Late { seed },
        };
        let builder = Builder::new()
            .devices(if self.two_contexts { 2 } else { 1 })
            .schedule(schedule)
            .check_uninitialized(true)
            .check_freed(number % 2 == 1)
            .unmap_waits(number % 2 == 1)
            .late_pageable_copies(number % 3 == 2 && !self.injects_failures);
        match self.memory {
            Some(bytes) => builder.memory(bytes),
            None => builder,
        }
    }

    fn expect_clean(&self, simulator: &Simulator, title: &str) {
        if !self.loses_device {
            let faults: Vec<_> = (0..2).filter_map(|at| simulator.fault(at)).collect();
            assert!(faults.is_empty(), "{title}: {faults:?}");
        }
        let reports = simulator.take_reports();
        assert!(
            self.loses_device || reports.is_empty(),
            "{title}: {reports:?}"
        );
        let missed = simulator.unimplemented_calls();
        assert!(missed.is_empty(), "{title}: {missed:?} are not implemented");
        if self.leaks || self.loses_device {
            return;
        }
        let start = Instant::now();
        while !simulator.live().is_empty() {
            let live = simulator.live();
            assert!(start.elapsed() < SETTLE, "{title}: after the end, {live}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs the test `name` of this binary in a new process.
fn child(name: &str) -> (ExitStatus, String) {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        // Most panics are expected, and a backtrace of a debug build takes seconds.
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    let _ = write!(text, "{}", String::from_utf8_lossy(&output.stderr));
    (output.status, text)
}

/// Ends the process and prints `title`, unless the returned sender is dropped in time.
fn watch(title: String) -> mpsc::Sender<()> {
    let (end, ended) = mpsc::channel();
    let limit = env::var("CUDA_ATTACKS_LIMIT").map_or(LIMIT, |seconds| {
        Duration::from_secs(seconds.parse().expect("CUDA_ATTACKS_LIMIT is a number"))
    });
    thread::spawn(move || {
        if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{title}: hangs, stopped after {} s", limit.as_secs());
            process::abort();
        }
    });
    end
}

/// The environment of an attack.
pub(crate) struct Case {
    /// The program, the schedule and the driver.
    pub(crate) title: String,
    /// The source of the program's random choices.
    random: Mutex<fastrand::Rng>,
    /// The number of threads for programs that use several: 1 to 4.
    pub(crate) threads: usize,
    pub(crate) simulator: Option<Simulator>,
    one: Side,
    other: Option<Side>,
    is_late: bool,
}

/// A context, and the kernels in it.
pub(crate) struct Side {
    pub(crate) context: Context,
    /// The number of words in a buffer.
    pub(crate) n: usize,
    mix: Function,
    copy: Function,
}

impl Deref for Case {
    type Target = Side;

    fn deref(&self) -> &Side {
        &self.one
    }
}

impl Case {
    fn new(
        attack: &Attack,
        driver: &Driver,
        number: u64,
        simulator: Option<Simulator>,
        title: String,
    ) -> Self {
        let n = if simulator.is_some() { 512 } else { 1 << 18 };
        let device = driver.device(0).unwrap();
        let one = device.primary_context().unwrap();
        let other = attack.two_contexts.then(|| match driver.device(1) {
            Ok(second) if number % 3 != 1 => second.primary_context().unwrap(),
            _ => Context::new(&device, ContextFlags::empty()).unwrap(),
        });
        Self {
            title,
            random: Mutex::new(fastrand::Rng::with_seed(number)),
            threads: 1 + (number % 4) as usize,
            one: Side::new(&one, n),
            other: other.map(|context| Side::new(&context, n)),
            is_late: simulator.is_some() && number > 0,
            simulator,
        }
    }

    /// The second context.
    pub(crate) fn other(&self) -> &Side {
        self.other.as_ref().expect("the attack has two contexts")
    }

    /// Delays a stream, so that work which is queued after the delay runs late.
    pub(crate) fn hold_up(&self, stream: &Stream) {
        // The late software device runs everything as late as possible, so that a single call is
        // enough there.
        let millis = match &self.simulator {
            Some(_) if self.is_late => 0,
            Some(_) => 3,
            None => 20,
        };
        let sleep = move || thread::sleep(Duration::from_millis(millis));
        drop(stream.launch_host(sleep).unwrap());
    }

    /// A random number below `limit`.
    pub(crate) fn pick(&self, limit: usize) -> usize {
        self.random.lock().unwrap().usize(..limit)
    }

    /// Checks that all words of `buffer` are `value`.
    pub(crate) fn expect(&self, buffer: &DeviceBuffer<u32>, value: u32) {
        let words = buffer.to_vec().unwrap();
        self.expect_words(&words, value);
    }

    pub(crate) fn expect_words(&self, words: &[u32], value: u32) {
        let wrong = words.iter().position(|word| *word != value);
        let found = wrong.map(|at| (at, words[at]));
        assert_eq!(found, None, "{}: expected {value} everywhere", self.title);
    }

    /// Allocates from a pool, and waits while the pool is at its limit.
    pub(crate) fn when_free<T>(&self, take: impl Fn() -> cuda_driver::Result<T>) -> T {
        let start = Instant::now();
        loop {
            match take() {
                Err(Error::PoolLimit { .. }) if start.elapsed() < SETTLE => {
                    thread::sleep(Duration::from_millis(1));
                }
                taken => return taken.unwrap(),
            }
        }
    }

    /// Waits until `condition` holds.
    pub(crate) fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < SETTLE, "{}: never {what}", self.title);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Side {
    fn new(context: &Context, n: usize) -> Self {
        let kernel = |ptx, name| load(context, ptx).function(name).unwrap();
        Self {
            context: context.clone(),
            n,
            mix: kernel(MIX, "mix"),
            copy: kernel(COPY, "copy"),
        }
    }

    /// A buffer of `n` words that are all `value`.
    pub(crate) fn filled(&self, stream: &Stream, value: u32) -> DeviceBuffer<u32> {
        DeviceBuffer::from_host(stream, &vec![value; self.n]).unwrap()
    }

    pub(crate) fn pinned(&self, value: u32) -> PinnedBuffer<u32> {
        let words = vec![value; self.n];
        PinnedBuffer::from_host(&self.context, &words, PinnedFlags::default()).unwrap()
    }

    pub(crate) fn config(&self) -> LaunchConfig {
        LaunchConfig::for_num_elems(self.n as u32).unwrap()
    }

    /// The kernel that copies words: `(from, to, n)`.
    pub(crate) fn copy_kernel(&self) -> &Function {
        &self.copy
    }

    /// The kernel that computes `x = 2 * x + y`: `(x, y, n)`.
    pub(crate) fn mix_kernel(&self) -> &Function {
        &self.mix
    }

    /// Launches a kernel that copies `from` to `to`.
    pub(crate) fn copy(
        &self,
        stream: &Stream,
        to: DeviceSliceMut<'_, u32>,
        from: DeviceSlice<'_, u32>,
    ) -> Result<()> {
        assert_eq!(to.len(), from.len());
        let n = to.len() as u32;
        // SAFETY: the kernel reads n words of `from` and writes n words of `to` ← both have n
        // words.
        unsafe {
            stream.launch(
                &self.copy,
                LaunchConfig::for_num_elems(n).unwrap(),
                (from, to, n),
            )
        }
    }

    /// Launches a kernel that computes `x = 2 * x + y`.
    pub(crate) fn mix(
        &self,
        stream: &Stream,
        x: DeviceSliceMut<'_, u32>,
        y: DeviceSlice<'_, u32>,
    ) -> Result<()> {
        assert_eq!(x.len(), y.len());
        let n = x.len() as u32;
        // SAFETY: the kernel reads n words of `y`, and reads and writes n words of `x` ← both have
        // n words.
        unsafe {
            stream.launch(
                &self.mix,
                LaunchConfig::for_num_elems(n).unwrap(),
                (x, y, n),
            )
        }
    }
}

/// Whether a panic's message contains `text`.
pub(crate) fn says(panic: &(dyn std::any::Any + Send), text: &str) -> bool {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    message.is_some_and(|message| message.contains(text))
}

/// Runs `f`, which must panic with `text`.
pub(crate) fn panics(text: &str, f: impl FnOnce()) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    let panic = result.expect_err("it panics");
    assert!(says(&*panic, text), "the panic has another message");
}

/// Whether an operation failed because the host holds a guard of the memory.
pub(crate) fn is_borrowed<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::HostGuardExists { .. }))
}
