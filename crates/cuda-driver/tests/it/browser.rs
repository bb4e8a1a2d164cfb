//! The page and the timeline of the profiler, in a browser without a screen.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use cuda_driver::prelude::*;
use cuda_driver::profile::{Operation, Profile, Profiler};
use cuda_driver::stream::WorkKind;
use cuda_sim::Builder;

use crate::profile::work;
use crate::support::{Fixture, block, gpu, skip, software};
use crate::trace_check;

/// A kernel that runs for a time that its argument determines.
const SPIN: &str = include_str!("kernels/spin.ptx");
/// The variable with the folder of speedscope's page, which `cargo xtask full traces` sets.
const SPEEDSCOPE: &str = "CUDA_TEST_SPEEDSCOPE";
/// The variable with the folder to which the timeline of two streams is written.
const PAGES: &str = "CUDA_TEST_PAGES";

/// A browser that runs without a screen.
struct Browser(&'static str);

impl Browser {
    /// Returns the browser of this machine. Without one, reports the test as skipped.
    #[track_caller]
    fn find() -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        let found = names.into_iter().find(is_there);
        if found.is_none() {
            skip("no browser can show the page");
        }
        found.map(Self)
    }

    /// Opens `address`, and returns what the browser prints with the option `what`.
    fn open(&self, folder: &Path, address: &str, what: &str) -> String {
        let output = Command::new(self.0)
            .args(["--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--window-size=1280,720", "--virtual-time-budget=3000"])
            .arg(format!("--user-data-dir={}", folder.join("user").display()))
            .args([what, address])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// A new folder, which is removed when the value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("cuda-driver-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file and returns its address.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        format!("file://{}", path.display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn profile_of_all_work() -> Profile {
    let fixture = software(Builder::new());
    let profiler = Profiler::start(&fixture.context).unwrap();
    let stream = fixture.stream();
    profiler.range("<range>", || work(&fixture, &stream));
    profiler.finish().unwrap()
}

#[test]
fn the_page_is_drawn_by_a_browser() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let profile = profile_of_all_work();
    let folder = Folder::new("page");
    let page = folder.write("profile.html", &profile.html());
    let text = browser.open(&folder.0, &page, "--dump-dom");
    // The script sets this at its end.
    let drawn = format!("data-drawn=\"{}\"", profile.operations().len());
    assert!(text.contains(&drawn), "{drawn} is not in: {text}");
    assert!(
        text.contains("<td>a graph (copy)</td>"),
        "the table is missing: {text}"
    );
}

/// Opens a trace in speedscope. Returns the document, with warnings and errors in an attribute of
/// its body.
fn in_speedscope(browser: &Browser, page: &Path, trace: &str) -> String {
    let folder = Folder::new("speedscope");
    let text = serde_json::to_string(trace).unwrap();
    // speedscope runs the script that its address names, which passes the trace to it.
    let script = format!(
        r#"
const problems = [];
const note = text => {{
  problems.push(text);
  document.body.dataset.problems = problems.join("; ");
}};
for (const level of ["warn", "error"]) {{
  console[level] = (...texts) => note(texts.join(" "));
}}
window.alert = note;
addEventListener("error", event => note(event.message));
addEventListener("unhandledrejection", event => note(String(event.reason)));
document.body.dataset.problems = "none";
const bytes = Array.from(new TextEncoder().encode({text}), byte => String.fromCharCode(byte));
speedscope.loadFileFromBase64("profile.json", btoa(bytes.join("")));
"#
    );
    let script = folder.write("load.js", &script);
    let path = script.trim_start_matches("file://");
    let address = format!("file://{}#localProfilePath={path}", page.display());
    browser.open(&folder.0, &address, "--dump-dom")
}

#[test]
fn speedscope_loads_the_trace_without_errors() {
    let Some(folder) = env::var_os(SPEEDSCOPE) else {
        return skip(&format!("{SPEEDSCOPE} is not set: cargo xtask full traces"));
    };
    let Some(browser) = Browser::find() else {
        return;
    };
    let page = PathBuf::from(folder).join("index.html");
    let profile = profile_of_all_work();
    let trace = profile.trace();
    let text = in_speedscope(&browser, &page, &trace);
    assert!(text.contains("data-problems=\"none\""), "{text}");
    // It lists the rows: the threads of the host, and the streams.
    let thread = format!("Host (pid 1), {} (tid 0)", profile.threads()[0]);
    let stream = format!("{} (pid 2), stream 0 (tid 0)", profile.device());
    for row in [thread, stream] {
        assert!(text.contains(&row), "{row} is not in: {text}");
    }

    // A call that ends after the range around it: the test sees what speedscope reports.
    let (_, of_call) = trace.split_once("\"cat\":\"call\"").unwrap();
    let (_, time) = of_call.split_once("\"dur\":").unwrap();
    let (before, after) = trace.split_at(trace.len() - time.len());
    let after = after.trim_start_matches(|it| "0123456789.".contains(it));
    let bad = format!("{before}99999999{after}");
    let text = in_speedscope(&browser, &page, &bad);
    assert!(text.contains("data-problems=\"ts="), "{text}");
}

/// Profiles kernels on two streams, a copy beside a kernel, and a graph at the end.
fn profile_of_two_streams(fixture: &Fixture) -> Profile {
    /// The size of the copy, 16 MiB.
    const BATCH: usize = 16 << 20;
    let [forward, backward, augment, update] = ["forward", "backward", "augment", "update"]
        .map(|name| fixture.kernel(&SPIN.replace("spin", name), name));
    let [one, two] = [fixture.stream(), fixture.stream()];
    let mut words = [&one, &two, &one, &one].map(|it| DeviceBuffer::<u32>::zeroed(it, 1).unwrap());
    let pinned = PinnedBuffer::<u8>::zeroed(&fixture.context, BATCH, PinnedFlags::empty()).unwrap();
    let steps = if fixture.simulator.is_some() {
        50_000
    } else {
        250_000_u32
    };
    let config = LaunchConfig::new(1, 1);
    let [a, b, c, d] = &mut words;
    let mut graph = Graph::new(&fixture.context).unwrap();
    // SAFETY: the kernel writes one word, and the buffer has one.
    unsafe { graph.add_kernel(&[], &update, config, (c, 2 * steps)) }.unwrap();
    // SAFETY: as above.
    unsafe { graph.add_kernel(&[], &update, config, (d, 2 * steps)) }.unwrap();
    let graph = graph.instantiate().unwrap();
    let launch = |kernel: &Function, stream: &Stream, word: &mut DeviceBuffer<u32>, parts: u32| {
        // SAFETY: the kernel writes one word, and the buffer has one.
        unsafe { stream.launch(kernel, config, (word, parts * steps)) }.unwrap();
    };
    fixture.context.synchronize().unwrap();

    // Both streams begin when everything is queued, however busy the machine is.
    let gates = [block(&one), block(&two)];
    let profiler = Profiler::start(&fixture.context).unwrap();
    profiler.range("step", || {
        profiler.range("compute", || {
            launch(&forward, &one, a, 4);
            launch(&backward, &one, a, 8);
        });
        let (batch, copy) = profiler.range("next batch", || {
            // SAFETY: the copy writes all of it.
            let mut batch = unsafe { DeviceBuffer::<u8>::uninit(&two, BATCH) }.unwrap();
            let copy = batch.copy_from_pinned_async(pinned, &two).unwrap();
            launch(&augment, &two, b, 6);
            (batch, copy)
        });
        profiler.range("update", || {
            graph.launch(&one).unwrap();
            drop(gates);
            copy.wait().unwrap();
            fixture.context.synchronize().unwrap();
        });
        drop(batch);
    });
    profiler.finish().unwrap()
}

/// The stream, the start and the duration of an operation.
type Run = (usize, Duration, Duration);

/// Returns the work of one kind.
fn runs(profile: &Profile, kind: WorkKind) -> Vec<Run> {
    let run = |it: &Operation| (it.stream(), it.start().unwrap(), it.duration().unwrap());
    let operations = profile.operations().iter();
    operations.filter(|it| it.kind() == kind).map(run).collect()
}

/// Returns whether a kernel runs while one of another stream does.
fn streams_overlap(kernels: &[Run]) -> bool {
    let overlap = |one: &Run, other: &Run| {
        one.0 != other.0 && one.1 < other.1 + other.2 && other.1 < one.1 + one.2
    };
    kernels
        .iter()
        .any(|one| kernels.iter().any(|other| overlap(one, other)))
}

#[test]
fn the_timeline_shows_two_streams_that_overlap() {
    // Late software devices run one stream after another.
    for fixture in [Some(software(Builder::new())), gpu()]
        .into_iter()
        .flatten()
    {
        // The threads of a software device run at the same time only if the machine has idle cores.
        let (profile, kernels) = (0..10)
            .map(|_| {
                // The timeline shows the name of the thread.
                let thread = thread::Builder::new().name("main".to_owned());
                let profile = thread::scope(|scope| {
                    let thread = thread.spawn_scoped(scope, || profile_of_two_streams(&fixture));
                    thread.unwrap().join().unwrap()
                });
                let kernels = runs(&profile, WorkKind::Kernel);
                (profile, kernels)
            })
            .find(|(_, kernels)| streams_overlap(kernels))
            .unwrap_or_else(|| panic!("{}: no kernels overlap", fixture.name));
        let of = |kind| runs(&profile, kind);
        assert_eq!(kernels.len(), 3, "{}", fixture.name);
        let first = kernels[0].0;
        let of_one = kernels.iter().filter(|it| it.0 == first);
        let [graph] = of(WorkKind::Graph)[..] else {
            panic!("{profile:?}")
        };
        // The graph follows the kernels of its stream.
        let is_after = |it: &Run| it.1 + it.2 <= graph.1;
        assert!(
            graph.0 == first && of_one.copied().all(|it| is_after(&it)),
            "{kernels:?} {graph:?}"
        );
        assert_eq!(of(WorkKind::CopyToDevice).len(), 1);
        trace_check::check(&profile.trace()).unwrap();
        if let Some(folder) = env::var_os(PAGES) {
            let name = if fixture.simulator.is_some() {
                "overlap"
            } else {
                "overlap-gpu"
            };
            let path = PathBuf::from(folder).join(format!("{name}.html"));
            fs::write(&path, profile.html()).unwrap();
            println!("wrote {}", path.display());
        }
    }
}
